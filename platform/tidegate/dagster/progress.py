"""The engine's events as lines of Dagster's run log."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from logging import Logger

from tidegate.errors import text_of
from tidegate.plan.events import (
    BatchCommitted,
    DefinitionChanged,
    Event,
    RowsDelivered,
    RunStarted,
    SinkDelivered,
    SliceCommitted,
    SourceFinished,
    SourceStarted,
    StepFailed,
    StepSkipped,
    ViewFinished,
)
from tidegate.wording import counted

#: Wall-clock seconds without an event after which the log says what is being waited for.
QUIET_SECONDS = 30.0


class ProgressLog:
    """Told of every event by the engine; writes one line each, and keeps what a quiet time should say.

    Where the source knows what waits, every batch says how far it is: `150,000 of 328,521 rows read`.
    """

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._waiting: int | None = None
        self._read = 0
        self._doing = "starting"
        self._since = time.monotonic()
        # Events come on the thread that runs the step, the reminder looks from its own.
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        """One event of the engine."""
        with self._lock:
            line = self._line(event)
            self._since = time.monotonic()
        if line:
            self._log.info(line)

    def doing(self, what: str) -> None:
        """Say what comes next (`auditing flights`) when it is not the engine that does it."""
        with self._lock:
            self._doing, self._since = what, time.monotonic()

    @contextmanager
    def reminding(self, every: float = QUIET_SECONDS) -> Iterator[ProgressLog]:
        """While the block runs, write a line whenever nothing was heard for `every` seconds of wall clock."""
        stop = threading.Event()

        def remind() -> None:
            while not stop.wait(every):
                with self._lock:
                    quiet, doing = time.monotonic() - self._since, self._doing
                if quiet >= every:
                    self._log.info(f"{doing}, for {quiet:.0f} s now")

        thread = threading.Thread(target=remind, name="tidegate-progress", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            stop.set()
            thread.join()

    def _line(self, event: Event) -> str | None:
        match event:
            case RunStarted(names=names):
                self._doing = f"checking {', '.join(names)}"
                return None
            case SourceStarted(source=source, pending_rows=rows, pending_files=files):
                self._waiting, self._read = rows, 0
                self._doing = f"{source}: reading the first batch"
                waiting = [f"{n:,} {what}" for n, what in ((rows, "rows"), (files, "files")) if n is not None]
                return f"{source}: {' in '.join(waiting) or 'an unknown number of rows'} waiting"
            case DefinitionChanged():
                return f"{event.source}: changed in place as epoch {event.epoch}: {event.change}"
            case BatchCommitted():
                self._read += event.rows
                of = "" if self._waiting is None else f" of {self._waiting:,}"
                so_far = f"{self._read:,}{of} rows read, {event.total_rows:,} in the log"
                self._doing = f"{event.source}: {so_far}; reading the next batch"
                return (
                    f"{event.source}: epoch {event.epoch}: {event.rows:,} rows in {event.seconds:.1f} s "
                    f"({event.on_time:,} on time, {event.late:,} late, {event.rejected:,} rejected); "
                    f"{so_far}; watermark {event.watermark}"
                )
            case SourceFinished():
                self._doing = f"{event.source}: done"
                return (
                    f"{event.source}: up to date after {counted(event.epochs, 'new epoch')}; in all {event.on_time:,} "
                    f"on time, {event.late:,} late, {event.rejected:,} rejected; watermark {event.watermark}"
                )
            case SliceCommitted():
                self._doing = f"{event.view}: closing windows"
                return (
                    f"{event.view}: slice of {event.seconds:.1f} s committed; {event.groups:,} result rows final, "
                    f"{event.open:,} open, frontier {event.frontier}"
                )
            case ViewFinished():
                self._doing = f"{event.view}: done"
                return (
                    f"{event.view}: up to date; {event.groups:,} result rows final, {event.open:,} open, "
                    f"frontier {event.frontier}"
                )
            case RowsDelivered():
                self._doing = f"{event.sink}: delivering"
                return event.text()
            case StepFailed():
                self._doing = f"{event.name}: failed"
                return f"{event.name}: {event.kind} failed: {event.error.get('traceback') or text_of(event.error)}"
            case StepSkipped():
                return f"{event.name}: {event.kind} skipped: {event.why}"
            case SinkDelivered():
                self._doing = f"{event.sink}: done"
                delivered = f"{counted(event.rows, 'row')} delivered"
                again = f", {counted(event.amended, 'amended window')} again" if event.amended else ""
                return f"{event.sink}: {delivered}{again} ({event.connector}) in {event.seconds:.1f} s"
        return None
