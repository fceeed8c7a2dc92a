"""Processes that run live mode are asked to read the definitions again, and say what has become of them (E7)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from tidegate.errors import TidegateError
from tidegate.store.writers import LiveRecord, is_here, running

_LOOKS_EVERY = 0.1


def ask_to_reload(
    state_dir: Path, env: str, records: Sequence[LiveRecord], timeout: float
) -> list[LiveRecord]:
    """What each process has found in a look that began after it was asked. Raises TG710 for one that can't be reached,
    does not answer within so many seconds, or has ended."""
    asked_at = time.time()
    for record in records:
        _signal(record)
    return _answers(state_dir, env, records, asked_at, timeout)


def _signal(record: LiveRecord) -> None:
    why = "it runs in another container"
    if is_here(record):
        try:
            os.kill(record.pid, signal.SIGUSR1)
        except OSError as error:
            why = error.strerror or str(error)
        else:
            return
    raise TidegateError(
        "TG710",
        f"live mode, process {record.pid}, can't be reached from here: {why}",
        hint="run tidegate reload where it runs, as the same user; or send SIGHUP to it",
    )


def _answers(
    state_dir: Path, env: str, records: Sequence[LiveRecord], asked_at: float, timeout: float
) -> list[LiveRecord]:
    pids, end = {record.pid for record in records}, time.monotonic() + timeout
    while True:
        now = [one for one in running(state_dir, env) if one.pid in pids]
        late = [one.pid for one in now if one.looked_at < asked_at]
        if len(now) == len(pids) and not late:
            return now
        if gone := sorted(pids - {one.pid for one in now}):
            raise TidegateError(
                "TG710",
                f"live mode, process {gone[0]}, has ended before it answered",
                hint="start it again: it reads the definitions when it starts",
            )
        if time.monotonic() >= end:
            raise TidegateError(
                "TG710",
                f"live mode, process {late[0]}, has not answered within {timeout:g} s",
                hint="its log says what becomes of the definitions; --timeout waits longer",
            )
        time.sleep(_LOOKS_EVERY)
