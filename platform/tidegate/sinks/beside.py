"""Deliveries of a sink beside the ticks of its group, which do not wait for them.

They have a thread and a session of their own, on the leases of the group, and read the view or log at one commit: they
do what a `run` of the sink does while live mode ticks.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import TYPE_CHECKING

from tidegate.sinks.deliver import deliver

if TYPE_CHECKING:
    from tidegate.plan.events import Event
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import Sink

#: Opens a session for another thread, of the same definitions. With it: what stops the jobs of that thread.
OpenBeside = Callable[[], AbstractContextManager[tuple["Context", Callable[[], None]]]]

#: Seconds between two tries to stop what is done beside ticks: it may be between two jobs of Spark.
STOPS_EVERY = 0.5


class Deliveries:
    """One after the other, each when it is asked for by `begin`. `leases`: who has the sink's lease until `stop`."""

    def __init__(self, sink: Sink, leases: Context, opens: OpenBeside) -> None:
        self._sink, self._leases, self._opens = sink, leases, opens
        self._asked: queue.SimpleQueue[Callable[[Event], None] | None] = queue.SimpleQueue()
        self._over = threading.Event()
        self._context: Context | None = None
        self._error: Exception | None = None
        self._stop: Callable[[], None] = lambda: None
        self._stopped = False
        # Whatever it waits for must not keep the process.
        self._thread = threading.Thread(target=self._run, name=f"tidegate-sink-{sink.name}", daemon=True)
        self._thread.start()

    def begin(self, notify: Callable[[Event], None]) -> None:
        """Deliver what there is. The one before is over."""
        self._over.clear()
        self._asked.put(notify)

    @property
    def is_over(self) -> bool:
        """Whether the delivery has ended, in whatever way."""
        return self._over.is_set()

    def result(self) -> None:
        """Of the delivery that is over: raise what it has failed with."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def stop(self) -> None:
        """End, wherever a delivery stands: the next one finishes it, as after a crash."""
        self._stopped = True
        self._asked.put(None)
        while self._thread.is_alive():
            if not self.is_over:
                self._stop()
            self._thread.join(STOPS_EVERY)

    def _run(self) -> None:
        # (Of a Spark that is gone, nothing is left to close.)
        with suppress(Exception), ExitStack() as opened:
            while (notify := self._asked.get()) is not None:
                try:
                    self._deliver(opened, notify)
                except Exception as error:
                    self._error = error
                finally:
                    self._over.set()

    def _deliver(self, opened: ExitStack, notify: Callable[[Event], None]) -> None:
        if self._context is None:
            self._context, self._stop = opened.enter_context(self._opens())
        if not self._stopped:
            with self._context.standing_in_for(self._leases):
                deliver(self._context, self._sink, notify)
