"""A sink of a group: where it can, it delivers beside the group's ticks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidegate.session.members.member import GroupMember, Listener
from tidegate.sinks.beside import Deliveries, OpenBeside
from tidegate.sinks.deliver import begin, deliver

if TYPE_CHECKING:
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import Sink

#: Seconds between two looks of a sink for amendments, where nothing else makes it look.
_AMENDMENTS_EVERY = 30.0


class SinkMember(GroupMember):
    """A sink. `beside`: for deliveries that no tick waits for; None: each is made within a step."""

    kind = "sink"

    def __init__(
        self, context: Context, sink: Sink, clock: Callable[[], float], beside: OpenBeside | None = None
    ) -> None:
        super().__init__(context, sink, [sink.upstream])
        self.sink, self._clock, self._looked = sink, clock, clock()
        self._has_begun = self._has_delivered = self._is_long = False
        self._beside = beside
        self._deliveries: Deliveries | None = None
        self._is_under_way = False

    @property
    def is_under_way(self) -> bool:
        return self._is_under_way

    @property
    def is_beside(self) -> bool:
        return self._beside is not None

    @property
    def is_trying(self) -> bool:
        """Whether a delivery is under way that takes longer than a tick, or is the first one since it was opened."""
        return self._is_under_way and (self._is_long or not self._has_delivered)

    @property
    def watches(self) -> bool:
        """An amendment comes from another process, whether or not the view closes anything (B2)."""
        return self.sink.connector.upserts and self._clock() - self._looked >= _AMENDMENTS_EVERY

    def prepare(self) -> None:
        # One that wants only what is new wants what comes from here on.
        begin(self.context, self.sink)
        self._has_begun = True

    def step(self, notify: Listener) -> tuple[bool, bool]:
        self._looked = self._clock()
        if not self._has_begun:
            # What had failed then; one that has not begun would deliver everything.
            self.prepare()
        if self._beside is None:
            deliver(self.context, self.sink, notify)
        else:
            if self._deliveries is None:
                self._deliveries = Deliveries(self.sink, self.context, self._beside)
            self._deliveries.begin(notify)
            self._is_under_way, self._is_long = True, False
        return False, False

    def has_ended(self) -> bool:
        if not self._is_under_way:
            return False
        assert self._deliveries is not None
        if not self._deliveries.is_over:
            self._is_long = True
            return False
        self._is_under_way = False
        self._deliveries.result()
        self._has_delivered = True
        return True

    def close(self) -> None:
        if self._deliveries is not None:
            self._deliveries.stop()
        self._deliveries, self._is_under_way, self._has_delivered = None, False, False
