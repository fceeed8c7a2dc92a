"""Live mode on a person's terminal: a table that moves, and above it a line for everything that happens."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tidegate.console.lines import describe_event
from tidegate.live.logs import ERROR, INFO, WARNING, level_of
from tidegate.plan.events import BatchCommitted, Event, SliceCommitted, TickFinished
from tidegate.project.reading.durations import format_duration

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
_PER_SECOND = 4


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
        while not self._over.wait(self._seconds):
            self._live.update(self._picture())

    def _picture(self) -> Group:
        try:
            status = self._read()
        except Exception as error:
            return Group(Text(f"can't read the state: {error}", style="red"))
        health = self._health()["groups"]
        parts: list[Any] = [self._partitions(status)]
        if status.views:
            parts.append(self._views(status))
        parts.append(_workers(health))
        return Group(*parts)

    def _partitions(self, status: ProjectStatus) -> Table:
        table = _table("source", "partition", "state", "on time", "late", "rejected", "waiting", "watermark")
        for relation in (r for r in status.relations if r.kind != "table" or r.ran):
            rows = relation.partitions
            for partition in rows[:_MOST_PARTITIONS]:
                waits = "" if partition.lag_rows is None else f"{partition.lag_rows:,}"
                holds = " ◂" if partition.partition in relation.holds_back else ""
                table.add_row(
                    relation.name,
                    partition.partition,
                    Text(partition.state or "", style="green" if partition.state == "active" else "yellow"),
                    f"{partition.on_time:,}",
                    f"{partition.late:,}",
                    f"{partition.rejected:,}",
                    waits,
                    f"{partition.watermark_text}{holds}",
                )
            if len(rows) > _MOST_PARTITIONS:
                table.add_row(relation.name, f"… {len(rows) - _MOST_PARTITIONS:,} more")
            rate = f"{self._rates[relation.name]:,.0f} rows/s" if relation.name in self._rates else ""
            counts = [f"{n:,}" for n in (relation.on_time, relation.late, relation.rejected)]
            table.add_row(relation.name, "all", rate, *counts, "", relation.watermark_text, style="bold")
        return table

    def _views(self, status: ProjectStatus) -> Table:
        table = _table("view", "final up to", "final rows", "open rows", "behind")
        for view in status.views:
            behind = "" if view.behind is None else format_duration(view.behind)
            table.add_row(view.name, view.frontier_text, f"{view.groups:,}", f"{view.open:,}", behind)
        return table


def _workers(groups: dict[str, Any]) -> Table:
    table = _table("group", "worker", "restarts", "last tick", "failing")
    for name, one in groups.items():
        age = one["last_tick_age_seconds"]
        table.add_row(
            name,
            Text(one["state"].replace("_", " "), style=_STATES.get(one["state"], "")),
            str(one["restarts"]),
            "" if age is None else f"{age:.0f} s ago",
            ", ".join(one["failing"]) or (one["last_error"] or {}).get("message", "")[:60]
            if one["state"] != "running"
            else ", ".join(one["failing"]),
        )
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    numbers = {"on time", "late", "rejected", "waiting", "final rows", "open rows", "restarts"}
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left", no_wrap=True)
    return table
