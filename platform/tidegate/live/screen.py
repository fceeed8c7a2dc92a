"""Live mode on a person's terminal: a table that moves, and above it a line for everything that happens."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tidegate.console.lines import describe_event
from tidegate.live.logs import ERROR, INFO, WARNING, level_of
from tidegate.plan.events import BatchCommitted, Event, SliceCommitted, TickFinished
from tidegate.project.reading.durations import format_duration
from tidegate.store.attention import first_of_all

if TYPE_CHECKING:
    from tidegate.store.status_values import ProjectStatus

_STYLES = {INFO: "", WARNING: "yellow", ERROR: "bold red"}
_STATES = {
    "running": "green",
    "starting": "yellow",
    "backing_off": "yellow",
    "failed": "red",
    "stopped": "dim",
}
_MOST_PARTITIONS = 24
#: Rows of a table at least, however small the terminal is.
_FEWEST = 4
_PER_SECOND = 4
#: After a picture that took a second to read, the next one is read after so many.
_SHARE = 10.0


class Screen:
    """Told of every event; draws what `read` (the committed state) and `health` say, twice a second, in a thread."""

    def __init__(
        self,
        read: Callable[[], ProjectStatus],
        health: Callable[[], dict[str, Any]],
        console: Console | None = None,
        seconds: float = 0.5,
    ) -> None:
        self._read, self._health, self._seconds = read, health, seconds
        self._console = console or Console(highlight=False)
        self._live = Live(console=self._console, refresh_per_second=_PER_SECOND, transient=False)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._draw, daemon=True)
        self._rates: dict[str, float] = {}

    def start(self) -> None:
        """Take the terminal."""
        self._live.start()
        self._thread.start()

    def close(self) -> None:
        """Leave the last picture, and give the terminal back."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(5.0)
        self._live.update(self._picture(), refresh=True)
        self._live.stop()

    def __call__(self, group: str | None, event: Event | str) -> None:
        if isinstance(event, BatchCommitted):
            self._rates[event.source] = event.rows / event.seconds if event.seconds else 0.0
        # The table shows what these say, all the time.
        if isinstance(event, BatchCommitted | SliceCommitted | TickFinished):
            return
        said = event if isinstance(event, str) else describe_event(event)
        # (What a process of several groups prints is of none of them.)
        text = f"{group}: {said}" if isinstance(event, str) and group is not None else said
        text = text.encode(errors="backslashreplace").decode()
        style = "dim" if isinstance(event, str) else _STYLES.get(level_of(event), "")
        stamp = time.strftime("%H:%M:%S")
        self._console.print(Text.assemble((f"{stamp} ", "dim"), (text, style)), soft_wrap=True)

    def _draw(self) -> None:
        pause = self._seconds
        while not self._over.wait(pause):
            started = time.monotonic()
            self._live.update(self._picture())
            # Many objects take long to read: the table must not take the cores from those who work.
            pause = max(self._seconds, _SHARE * (time.monotonic() - started))

    def _picture(self) -> Group:
        try:
            status = first_of_all(self._read())
        except Exception as error:
            return Group(Text(f"can't read the state: {error}", style="red"))
        groups = self._health()["groups"]
        made = [self._partitions, self._views, self._workers]
        tables = [make for make, there in zip(made, (True, status.views, True), strict=True) if there]
        room = max(_FEWEST, self._console.size.height // len(tables) - 2)
        return Group(*[make(status, groups, room) for make in tables])

    def _partitions(self, status: ProjectStatus, groups: dict[str, Any], room: int) -> Table:
        names = ("source", "partition", "state", "on time", "late", "rejected", "waiting", "watermark")
        rows: list[tuple[Any, ...]] = []
        for relation in (r for r in status.relations if r.kind != "table" or r.ran):
            shown = relation.partitions[:_MOST_PARTITIONS]
            for partition in shown:
                waits = "" if partition.lag_rows is None else f"{partition.lag_rows:,}"
                holds = " ◂" if partition.partition in relation.holds_back else ""
                state = Text(
                    partition.state or "", style="green" if partition.state == "active" else "yellow"
                )
                counts = [f"{n:,}" for n in (partition.on_time, partition.late, partition.rejected)]
                mark = f"{partition.watermark_text}{holds}"
                rows.append((relation.name, partition.partition, state, *counts, waits, mark))
            if len(shown) < len(relation.partitions):
                rows.append((relation.name, f"… {len(relation.partitions) - len(shown):,} more"))
            rate = f"{self._rates[relation.name]:,.0f} rows/s" if relation.name in self._rates else ""
            counts = [f"{n:,}" for n in (relation.on_time, relation.late, relation.rejected)]
            total = (relation.name, "all", rate, *counts, "", relation.watermark_text)
            rows.append(tuple(Text(text, style="bold") for text in total))
        return _table(names, rows, room)

    def _views(self, status: ProjectStatus, groups: dict[str, Any], room: int) -> Table:
        rows = []
        for view in status.views:
            behind = "" if view.behind is None else format_duration(view.behind)
            rows.append((view.name, view.frontier_text, f"{view.groups:,}", f"{view.open:,}", behind))
        return _table(("view", "final up to", "final rows", "open rows", "behind"), rows, room)

    def _workers(self, status: ProjectStatus, groups: dict[str, Any], room: int) -> Table:
        rows = []
        for name, one in sorted(groups.items(), key=lambda group: _is_well(group[1])):
            age, failing = one["last_tick_age_seconds"], ", ".join(one["failing"])
            if one["state"] != "running":
                failing = failing or (one["last_error"] or {}).get("message", "")[:60]
            state = Text(one["state"].replace("_", " "), style=_STATES.get(one["state"], ""))
            rows.append(
                (name, state, str(one["restarts"]), "" if age is None else f"{age:.0f} s ago", failing)
            )
        return _table(("group", "worker", "restarts", "last tick", "failing"), rows, room)


def _is_well(group: dict[str, Any]) -> bool:
    """Whether nobody has to look at a group: those that are not stand above the others."""
    return group["state"] in ("running", "stopped") and not group["failing"]


def _table(columns: Sequence[str], rows: Sequence[tuple[Any, ...]], room: int) -> Table:
    """As many of the rows as there is `room` for, from the first one on, and how many are missing."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    numbers = {"on time", "late", "rejected", "waiting", "final rows", "open rows", "restarts"}
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left", no_wrap=True)
    shown = rows if len(rows) <= room else rows[: room - 1]
    for row in shown:
        table.add_row(*row)
    if len(shown) < len(rows):
        table.add_row(Text(f"… {len(rows) - len(shown):,} more", style="dim"))
    return table
