"""Definitions that change while live mode runs: read again when somebody asks for it, or when files have changed (E7).

In a thread of its own: reading and checking them takes seconds, and groups are started and stopped meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Reloader:
    """Calls `look` once for each time that somebody asks, after the one before has ended; two that ask at once get one
    look. `fingerprint`: of the files, watched every so many seconds; None: they are not. A change is taken up when it
    has stood still from one look at the fingerprint to the next: editors and git write one file after the other."""

    def __init__(
        self,
        look: Callable[[], None],
        fingerprint: Callable[[], object] | None = None,
        every: float = 2.0,
    ) -> None:
        self._look, self._fingerprint, self._every = look, fingerprint, every
        self._wanted, self._over = threading.Event(), False
        self._seen = None if fingerprint is None else fingerprint()
        self._thread = threading.Thread(target=self._run, name="tidegate-reload", daemon=True)

    def ask(self) -> None:
        """Have the definitions read again. Safe in a signal handler."""
        self._wanted.set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self._wanted.set()

    def _run(self) -> None:
        while not self._over:
            asked = self._wanted.wait(None if self._fingerprint is None else self._every)
            self._wanted.clear()
            if not self._over and (asked or self._stood_still()):
                self._look()

    def _stood_still(self) -> bool:
        """Whether the files have changed since the last look, and do not change any more."""
        assert self._fingerprint is not None
        now = self._fingerprint()
        if now == self._seen:
            return False
        following = None
        while not self._over and (following := self._after_a_while()) != now:
            now = following
        self._seen = now
        return not self._over

    def _after_a_while(self) -> object:
        assert self._fingerprint is not None
        # Somebody who asks meanwhile gets this look.
        self._wanted.wait(self._every)
        return self._fingerprint()
