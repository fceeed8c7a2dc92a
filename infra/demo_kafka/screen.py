"""Draws the demo's pictures: rich on a terminal, lines everywhere else."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Protocol

from infra.demo_kafka.picture import Picture

if TYPE_CHECKING:
    from rich.table import Table

_EVERY = 5.0
_NUMBERS = ("sent", "on time", "late", "rejected", "lag")


class Screen(Protocol):
    """Where the demo is seen."""

    def note(self, text: str) -> None:
        """Something that happened."""

    def show(self, picture: Picture) -> None:
        """How things are now."""

    def close(self, last: Picture | None) -> None:
        """The end; `last` stays to be seen."""


class Lines:
    """A line every five seconds."""

    def __init__(self) -> None:
        self._shown = float("-inf")

    def note(self, text: str) -> None:
        print(text, flush=True)

    def show(self, picture: Picture) -> None:
        if time.monotonic() - self._shown >= _EVERY:
            self._shown = time.monotonic()
            self.note(picture.line())

    def close(self, last: Picture | None) -> None:
        if last is not None:
            self.note(last.line())


class Terminal:
    """One table, redrawn; notes scroll by above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(highlight=False), refresh_per_second=4)
        self._drawing = False

    def note(self, text: str) -> None:
        self._live.console.print(f"[dim]{time.strftime('%H:%M:%S')}[/dim] {text}", soft_wrap=True)

    def show(self, picture: Picture) -> None:
        if not self._drawing:
            self._live.start()
            self._drawing = True
        self._live.update(table(picture))

    def close(self, last: Picture | None) -> None:
        if self._drawing:
            if last is not None:
                self._live.update(table(last), refresh=True)
            self._live.stop()
            self._drawing = False


def table(picture: Picture) -> Table:
    """The moment as a table: partitions, then the source and the view."""
    from rich.table import Table
    from rich.text import Text

    columns = ("airport", "sender", *_NUMBERS, "state", "watermark")
    drawn = Table(box=None, pad_edge=False, header_style="dim", caption_justify="left", caption_style="")
    for column in columns:
        drawn.add_column(column, justify="right" if column in _NUMBERS else "left", no_wrap=True)
    for row in picture.rows:
        counts = (row.sent, row.on_time, row.late, row.rejected, row.waiting)
        drawn.add_row(
            row.airport,
            Text(row.doing, style="" if row.doing == "flowing" else "yellow"),
            *(f"{count:,}" for count in counts),
            Text(row.state, style="green" if row.state == "active" else "yellow"),
            row.watermark[5:16] + (" ◂" if row.holds_back else ""),
        )
    totals = [
        sum(getattr(row, name) for row in picture.rows)
        for name in ("sent", "on_time", "late", "rejected", "waiting")
    ]
    drawn.add_row("all", "", *(f"{count:,}" for count in totals), "", picture.watermark[5:16], style="bold")
    drawn.caption = Text(
        f"{picture.seconds:.0f} s, {picture.windows:,} windows closed up to {picture.frontier[:16]}, "
        f"{picture.open:,} open;  ◂ holds others back"
    )
    return drawn


def choose() -> Screen:
    """A table for people, lines for pipes."""
    return Terminal() if sys.stdout.isatty() else Lines()
