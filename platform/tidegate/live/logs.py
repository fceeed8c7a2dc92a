"""Structured logs: one JSON object per line, for files, journals and log collectors."""

from __future__ import annotations

import json
import logging
import logging.handlers
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from tidegate.plan.events import (
    DefinitionsRefused,
    Event,
    MemberFailed,
    TickFinished,
    WorkerExited,
    WorkerFailed,
    WorkHangs,
)
from tidegate.project.disk import private_folder

DEBUG, INFO, WARNING, ERROR = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR
_NAMES = {DEBUG: "debug", INFO: "info", WARNING: "warning", ERROR: "error"}


def level_of(event: Event | str) -> int:
    """How much it matters. A tick without a row is for those who look closely: each failure is told by itself."""
    if isinstance(event, TickFinished):
        return INFO if event.rows else DEBUG
    if isinstance(event, WorkerFailed):
        return ERROR
    if isinstance(event, MemberFailed | WorkHangs | DefinitionsRefused):
        return WARNING
    if isinstance(event, WorkerExited):
        return WARNING if event.restart_seconds is not None else ERROR if event.exit_code else INFO
    return INFO


def record(group: str | None, event: Event | str, now: datetime) -> dict[str, Any]:
    """`timestamp` (ISO, UTC), `level`, `group`, `event`, and what the event has. Text that a worker printed is
    `worker_output`."""
    content = {"event": "worker_output", "text": event} if isinstance(event, str) else event.to_dict()
    at = now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"timestamp": at, "level": _NAMES[level_of(event)], "group": group, **content}


def _line(group: str | None, event: Event | str, now: datetime) -> str:
    """A record as text that can be written as UTF-8: a file's name, in an error's text, need not be."""
    text = json.dumps(record(group, event, now), ensure_ascii=False, default=str)
    return text.encode(errors="backslashreplace").decode()


class JsonLog:
    """Writes records from `least` on to a stream."""

    def __init__(
        self, out: TextIO, least: int = INFO, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._out, self._least, self._now = out, least, now
        self._lock = threading.Lock()

    def __call__(self, group: str | None, event: Event | str) -> None:
        if level_of(event) >= self._least:
            line = _line(group, event, self._now())
            # A log that nothing reads any more, or whose disk is full, stops no stream.
            with self._lock, suppress(OSError):
                self._out.write(line + "\n")
                self._out.flush()


class FileLog:
    """As `JsonLog`, into a file of at most `max_bytes`; `keep` older ones stay beside it as `.1`, `.2`, …"""

    def __init__(
        self,
        path: Path,
        max_bytes: int = 50 << 20,
        keep: int = 5,
        least: int = INFO,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        private_folder(path.parent)
        self._handler = logging.handlers.RotatingFileHandler(
            path, maxBytes=max_bytes, backupCount=keep, encoding="utf-8"
        )
        self._least, self._now = least, now

    def __call__(self, group: str | None, event: Event | str) -> None:
        level = level_of(event)
        if level >= self._least:
            line = _line(group, event, self._now())
            self._handler.emit(logging.LogRecord("tidegate", level, "", 0, line, None, None))

    def close(self) -> None:
        """Nothing is written any more."""
        self._handler.close()
