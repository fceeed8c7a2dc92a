"""What many may ask for, and takes a while to find out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from tidegate.errors import TidegateError

Answer = TypeVar("Answer")

#: How many wait for an answer at the same time, and for how many seconds. All others are told at once that it takes
#: long: who waits has one of the few places of the HTTP server, which probes need, too.
_WAITING, _PATIENCE = 12, 5.0


class KeptAnswer(Generic[Answer]):
    """What `read` answers or raises, asked at most every `fresh` seconds of the `clock`, by one thread at a time.
    Raises TG620 where the thread that asks gets no answer for long."""

    def __init__(self, read: Callable[[], Answer], fresh: float, clock: Callable[[], float]) -> None:
        self._read, self._fresh, self._clock = read, fresh, clock
        self._places, self._reading = threading.BoundedSemaphore(_WAITING), threading.Lock()
        self._known: tuple[float, Answer | None, Exception | None] | None = None
        self._since: float | None = None

    def __call__(self) -> Answer:
        known = self._known
        if known is not None and self._is_fresh(known[0]):
            return self._told(known)
        if not self._places.acquire(blocking=False):
            raise self._slow()
        try:
            if not self._reading.acquire(timeout=_PATIENCE):
                raise self._slow()
            try:
                return self._answer()
            finally:
                self._reading.release()
        finally:
            self._places.release()

    def _answer(self) -> Answer:
        if self._known is None or not self._is_fresh(self._known[0]):
            self._since = self._clock()
            answer, failed = None, None
            try:
                answer = self._read()
            except Exception as error:
                # Whatever a catalog's client raises: it is asked once in a while, too, and not by everybody.
                failed = error
            self._known, self._since = (self._clock(), answer, failed), None
        return self._told(self._known)

    def _is_fresh(self, at: float) -> bool:
        return self._clock() - at < self._fresh

    def _told(self, known: tuple[float, Answer | None, Exception | None]) -> Answer:
        _, answer, failed = known
        if failed is not None:
            raise failed
        return answer  # type: ignore[return-value]  # it is None where `read` has answered None

    def _slow(self) -> TidegateError:
        since = self._since
        waited = "" if since is None else f": it has been asked for {self._clock() - since:.0f} seconds"
        return TidegateError("TG620", f"the catalog, the warehouse or a broker does not answer yet{waited}")
