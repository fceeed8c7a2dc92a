"""Definitions that change while live mode runs: read again when somebody asks for it, or when files have changed (E7).

In a thread of its own: reading and checking them takes seconds, and groups are started and stopped meanwhile.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

#: Seconds that the end waits for a look under way.
_PATIENCE = 5.0


class Reloader:
    """Calls `look` for whoever asks, after the look before has ended; those who ask meanwhile get one look.
    `fingerprint`: of the files, watched every so many seconds; None: they are not. A change is taken up when it has
    stood still from one look at the fingerprint to the next: editors and git write one file after the other. `again`:
    whether the last look is to be repeated after so many seconds although no file has changed."""

    def __init__(
        self,
        look: Callable[[], None],
        fingerprint: Callable[[], object] | None = None,
        every: float = 2.0,
        again: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._look, self._fingerprint, self._every, self._again = look, fingerprint, every, again
        # (A queue, and no event: a signal handler may interrupt another one.)
        self._asked: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._over = False
        self._seen = self._moving = None if fingerprint is None else fingerprint()
        self._thread = threading.Thread(target=self._run, name="tidegate-reload", daemon=True)

    def ask(self) -> None:
        """Have the definitions read again. Safe in a signal handler."""
        self._asked.put(True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self._asked.put(False)
        self._thread.join(_PATIENCE)

    def _run(self) -> None:
        looked = time.monotonic()
        while not self._over:
            asked = False
            with suppress(queue.Empty):
                asked = self._asked.get(timeout=None if self._fingerprint is None else self._every)
            if self._over or not (asked or self._has_changed() or self._is_due(looked)):
                continue
            self._drain()
            self._seen = self._moving = None if self._fingerprint is None else self._fingerprint()
            self._look()
            looked = time.monotonic()

    def _has_changed(self) -> bool:
        """Whether the files have changed since the last look, and do not change any more."""
        if self._fingerprint is None:
            return False
        now = self._fingerprint()
        stands, self._moving = now == self._moving, now
        return stands and now != self._seen

    def _is_due(self, looked: float) -> bool:
        after = None if self._fingerprint is None else self._again()
        return after is not None and time.monotonic() - looked >= after

    def _drain(self) -> None:
        with suppress(queue.Empty):
            while True:
                self._asked.get_nowait()
