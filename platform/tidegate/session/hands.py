"""Who does the work of a live driver, and brings it its messages."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Protocol


class Hands(Protocol):
    """What does the work of a driver: threads, in a process; one after the other, in tests."""

    def start(self, work: Callable[[], None]) -> None:
        """Have it done."""

    def tell(self, message: object) -> None:
        """Put a message into the driver's queue. Safe in any thread and signal handler."""

    def hear(self, seconds: float | None) -> object | None:
        """The next message, or None once so many seconds have passed (None: however long it takes)."""

    def now(self) -> float:
        """Seconds of a clock that nobody sets."""


class Threads:
    """Threads of this process. How many work at the same time is the rota's decision. None of them keeps the process
    from ending: one may be waiting for something that never comes."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._queue: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self.now = clock

    def start(self, work: Callable[[], None]) -> None:
        self._work.put(work)
        if not self._idle.acquire(blocking=False):
            threading.Thread(target=self._serve, name="tidegate-group", daemon=True).start()

    def _serve(self) -> None:
        while True:
            self._work.get()()
            self._idle.release()

    def tell(self, message: object) -> None:
        self._queue.put(message)

    def hear(self, seconds: float | None) -> object | None:
        try:
            return self._queue.get(timeout=seconds)
        except queue.Empty:
            return None
