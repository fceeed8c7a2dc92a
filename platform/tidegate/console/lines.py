"""Plain lines, for logs, CI and pipes: one line per event, tables as they are."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, TextIO

from tidegate.console.drawing import draw
from tidegate.console.port import Shape, Table
from tidegate.errors import TidegateError, text_of
from tidegate.plan import events
from tidegate.plan.columns.undeclared import undeclared_text
from tidegate.plan.events import Event
from tidegate.plan.lost_totals import lost_totals_text
from tidegate.wording import counted


class LinesConsole:
    """Events, tables and answers on `out`, notes and errors on `err`. `width`: None for pipes, never cut."""

    def __init__(
        self, out: TextIO | None = None, err: TextIO | None = None, width: int | None = None
    ) -> None:
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self._width = width
        self._lock = threading.Lock()

    @property
    def shape(self) -> Shape:
        return Shape(width=self._width)

    def event(self, event: Event) -> None:
        self._write(self._out, describe_event(event))

    def table(self, table: Table) -> None:
        self._write(self._out, draw(table, self._width))

    def written(self, text: str) -> None:
        self._write(self._out, text)

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


def _run_finished(event: events.RunFinished) -> str:
    parts = [f"run: finished in {event.seconds:.1f} s"]
    parts += [f"failed: {', '.join(event.failed)}"] if event.failed else []
    parts += [f"skipped: {', '.join(event.skipped)}"] if event.skipped else []
    return "; ".join(parts)


def _source_started(event: events.SourceStarted) -> str:
    waits = []
    if event.pending_files is not None:
        waits.append(counted(event.pending_files, "file"))
    if event.pending_rows is not None:
        waits.append(counted(event.pending_rows, "row"))
    return f"{event.source}: reading" + (f", {' with '.join(waits)} waiting" if waits else "")


def _batch_committed(event: events.BatchCommitted) -> str:
    judged = counts(event.on_time, event.late, event.rejected)
    unread = f"; {undeclared_text(event.undeclared)}" if event.undeclared else ""
    return (
        f"{event.source}: batch {event.epoch} committed, {judged}; {event.total_rows:,} rows in the log, "
        f"watermark {event.watermark} ({event.seconds:.1f} s, {rate(event.rows, event.seconds)}){unread}"
    )


def _source_finished(event: events.SourceFinished) -> str:
    total = event.on_time + event.late + event.rejected
    judged = counts(event.on_time, event.late, event.rejected)
    return f"{event.source}: up to date, {total:,} rows = {judged}; watermark {event.watermark}"


def _slice_committed(event: events.SliceCommitted) -> str:
    lost = f"; {lost_totals_text(event.lost_totals)}" if event.lost_totals else ""
    return f"{_view(event)} ({event.seconds:.1f} s){lost}"


def _view_finished(event: events.ViewFinished) -> str:
    return f"{event.view}: up to date, {_view(event).partition(': ')[2]}"


def _view(event: events.SliceCommitted | events.ViewFinished) -> str:
    still = f", {counted(event.open, 'row')} of open windows" if event.open else ""
    final = counted(event.groups, "final row")
    return f"{event.view}: {final}{still}, final up to {event.frontier}"


def _rows_delivered(event: events.RowsDelivered) -> str:
    """The one event of several lines: it is what somebody asked to see."""
    drawn = draw(Table(event.columns, event.rows, title=f"{event.sink}:", unit=None))
    return f"{drawn}\n… and {event.more:,} more" if event.more else drawn


def _tick_finished(event: events.TickFinished) -> str:
    waits = "more rows wait" if event.backlog else "no rows wait"
    failing = f"; failing: {', '.join(event.failing)}" if event.failing else ""
    return f"{event.group}: tick {event.tick:,}, {counted(event.rows, 'row')}, {waits} ({event.seconds:.1f} s){failing}"


def _member_failed(event: events.MemberFailed) -> str:
    code = f"{event.code}: " if event.code else ""
    again = f"next try in {event.retry_seconds:.0f} s (try {event.attempt + 1})"
    failed = f"failed, {again}" if event.retry_seconds else "continues without the inputs that failed"
    return f"{event.name}: {event.kind} {failed}: {code}{event.message}"


def _worker_failed(event: events.WorkerFailed) -> str:
    code = f"{event.code}: " if event.code else ""
    hint = f"; hint: {event.hint}" if event.hint else ""
    return f"{event.group}: worker failed: {code}{event.message}{hint}"


def _worker_exited(event: events.WorkerExited) -> str:
    then = "" if event.restart_seconds is None else f"; the next one starts in {event.restart_seconds:.1f} s"
    return f"{event.group}: {event.why}{then}"


def _delivered(event: events.SinkDelivered) -> str:
    """What a sink has delivered: new rows, and windows that were amended after they had been."""
    windows = f"{counted(event.amended, 'amended window')} again"
    new = f"{counted(event.rows, 'row')} delivered"
    return f"{new}, {windows}" if event.amended else new


def _definitions_loaded(event: events.DefinitionsLoaded) -> str:
    parts = [f"{', '.join(event.began)} begins with them after its commit"] if event.began else []
    parts += [f"{', '.join(event.ended)} ends"] if event.ended else []
    parts += [f"{counted(event.unchanged, 'group')} unchanged"]
    return f"live: the new definitions are taken up: {'; '.join(parts)}"


_LINES: dict[type[Event], Callable[[Any], str]] = {
    events.RunStarted: lambda e: f"run: {', '.join(e.names) or 'nothing to do'}",
    events.SourceStarted: _source_started,
    events.DefinitionChanged: lambda e: f"{e.source}: changed in place as batch {e.epoch}: {e.change}",
    events.BatchCommitted: _batch_committed,
    events.SourceFinished: _source_finished,
    events.SliceCommitted: _slice_committed,
    events.ViewFinished: _view_finished,
    events.RowsDelivered: _rows_delivered,
    events.SinkDelivered: lambda e: f"{e.sink}: {_delivered(e)}, connector {e.connector} ({e.seconds:.1f} s)",
    events.StepFailed: lambda e: f"{e.name}: {e.kind} failed: {text_of(e.error)}",
    events.StepSkipped: lambda e: f"{e.name}: {e.kind} skipped: {e.why}",
    events.RunFinished: _run_finished,
    events.WorkerStarted: lambda e: f"{e.group}: worker {e.pid} keeps {', '.join(e.names)} up to date",
    events.TickFinished: _tick_finished,
    events.MemberFailed: _member_failed,
    events.WorkHangs: lambda e: f"{e.name}: {e.kind} hangs ({e.seconds:.0f} s): {e.code}: {e.message}",
    events.MemberRecovered: lambda e: f"{e.name}: works again after {counted(e.attempts, 'failure')}",
    events.UpkeepFinished: lambda e: f"{e.name}: upkeep ({e.seconds:.1f} s): {'; '.join(e.why)}",
    events.WorkerStopping: lambda e: f"{e.group}: worker stops after {e.ticks:,} ticks: {e.why}",
    events.WorkerFailed: _worker_failed,
    events.LiveStandsBy: lambda e: (
        f"live: stands by for {', '.join(e.groups)}{'' if e.url is None else f'; {e.url}/healthz'}: {e.why}"
    ),
    events.LiveStarted: lambda e: (
        f"live: {', '.join(e.groups)}" + (f"; health and metrics on {e.url}" if e.url else "")
    ),
    events.WorkerSpawned: lambda e: (
        f"{e.group}: worker {e.pid} starts" + (f" (restart {e.restarts})" if e.restarts else "")
    ),
    events.WorkerExited: _worker_exited,
    events.DefinitionsLoaded: _definitions_loaded,
    events.DefinitionsRefused: lambda e: (
        "live: the definitions have changed and are not taken up; all groups continue with the earlier ones: "
        f"{text_of(e.error)}"
    ),
    events.LiveStopped: lambda e: (
        f"live: stopped after {e.seconds:.1f} s" + (f"; given up: {', '.join(e.failed)}" if e.failed else "")
    ),
}
