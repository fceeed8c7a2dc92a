"""Plain lines, for logs, CI and pipes: one line per event, tables as they are."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, TextIO

from tidegate.console.drawing import draw
from tidegate.console.port import Table
from tidegate.errors import TidegateError
from tidegate.plan import events
from tidegate.plan.events import Event


class LinesConsole:
    """Events, tables and answers on `out`, notes and errors on `err`. `width`: None for pipes, never cut."""

    def __init__(
        self, out: TextIO | None = None, err: TextIO | None = None, width: int | None = None
    ) -> None:
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self._width = width
        self._lock = threading.Lock()

    def event(self, event: Event) -> None:
        self._write(self._out, describe_event(event))

    def table(self, table: Table) -> None:
        self._write(self._out, draw(table, self._width))

    def document(self, data: Any, text: str) -> None:
        self._write(self._out, text)

    def note(self, text: str) -> None:
        self._write(self._err, text)

    def error(self, error: TidegateError | str) -> None:
        self._write(self._err, str(error))

    def close(self) -> None:
        self._out.flush()

    def _write(self, stream: TextIO, text: str) -> None:
        with self._lock:
            stream.write(text + "\n")
            stream.flush()


def describe_event(event: Event) -> str:
    """What happened, how much of it, how fast: one line, or the rows that were delivered to the console."""
    return _LINES[type(event)](event)


def counts(on_time: int, late: int, rejected: int) -> str:
    """`6,500 on time, 490 late, 10 rejected`."""
    return f"{on_time:,} on time, {late:,} late, {rejected:,} rejected"


def rate(rows: int, seconds: float) -> str:
    """`5,800 rows/s`."""
    return f"{rows / seconds:,.0f} rows/s" if seconds > 0 else "– rows/s"


def _source_started(event: events.SourceStarted) -> str:
    waits = []
    if event.pending_files is not None:
        waits.append(f"{event.pending_files:,} {'file' if event.pending_files == 1 else 'files'}")
    if event.pending_rows is not None:
        waits.append(_rows(event.pending_rows))
    return f"{event.source}: reading" + (f", {' with '.join(waits)} waiting" if waits else "")


def _batch_committed(event: events.BatchCommitted) -> str:
    judged = counts(event.on_time, event.late, event.rejected)
    return (
        f"{event.source}: batch {event.epoch} committed, {judged}; {event.total_rows:,} rows in the log, "
        f"watermark {event.watermark} ({event.seconds:.1f} s, {rate(event.rows, event.seconds)})"
    )


def _source_finished(event: events.SourceFinished) -> str:
    total = event.on_time + event.late + event.rejected
    judged = counts(event.on_time, event.late, event.rejected)
    return f"{event.source}: up to date, {total:,} rows = {judged}; watermark {event.watermark}"


def _slice_committed(event: events.SliceCommitted) -> str:
    return f"{_view(event)} ({event.seconds:.1f} s)"


def _view_finished(event: events.ViewFinished) -> str:
    return f"{event.view}: up to date, {_view(event).partition(': ')[2]}"


def _view(event: events.SliceCommitted | events.ViewFinished) -> str:
    still = f", {_rows(event.open)} of open windows" if event.open else ""
    final = f"{event.groups:,} final {'row' if event.groups == 1 else 'rows'}"
    return f"{event.view}: {final}{still}, final up to {event.frontier}"


def _rows_delivered(event: events.RowsDelivered) -> str:
    """The one event of several lines: it is what somebody asked to see."""
    drawn = draw(Table(event.columns, event.rows, title=f"{event.sink}:", unit=None))
    return f"{drawn}\n… and {event.more:,} more" if event.more else drawn


def _rows(count: int) -> str:
    return f"{count:,} {'row' if count == 1 else 'rows'}"


_LINES: dict[type[Event], Callable[[Any], str]] = {
    events.RunStarted: lambda e: f"run: {', '.join(e.names) or 'nothing to do'}",
    events.SourceStarted: _source_started,
    events.BatchCommitted: _batch_committed,
    events.SourceFinished: _source_finished,
    events.SliceCommitted: _slice_committed,
    events.ViewFinished: _view_finished,
    events.RowsDelivered: _rows_delivered,
    events.SinkDelivered: lambda e: (
        f"{e.sink}: {_rows(e.rows)} delivered, connector {e.connector} ({e.seconds:.1f} s)"
    ),
    events.RunFinished: lambda e: f"run: finished in {e.seconds:.1f} s",
}
