"""What must hold of a topic that a sink delivers into."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.inprocess.broker import Message
from tests.simulate.checks.wrong import Wrong
from tests.simulate.scripts.pipelines import seconds
from tests.simulate.scripts.views import View
from tests.simulate.world.broker import SINK_TOPIC, SimulatedBroker
from tests.simulate.world.outside import EXPIRED, STALE


@dataclass
class SinkTopic:
    """The topic that a sink delivers into, and what came."""

    broker: SimulatedBroker
    #: Whether two drivers were at work at once: one that was paused sends what the other has sent (docs/sinks.md).
    together: bool
    view: View
    #: By id what came; None: that there is no row of this key any more.
    rows: dict[str, tuple[Any, ...] | None] = field(default_factory=dict)
    #: What came last of each key.
    _newest: dict[tuple[int, bytes], tuple[Any, ...] | None] = field(default_factory=dict)
    #: By key, in the order of the topic: the ids of messages that came for the first time.
    _order: dict[tuple[int, bytes], list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.broker.create(SINK_TOPIC, 2)
        self.broker.note()

    def came(self, number: int, message: Message) -> None:
        """A message. Raises Wrong for one that may not come twice."""
        headers = dict(message.headers)
        name = (headers["tidegate-id"] or b"").decode()
        row = None if message.value is None else self._row(message.value)
        if message.key is not None:
            self._newest[number, message.key] = row
        if name in self.rows:
            if self.rows[name] != row:
                raise Wrong(f"B1: {name} was {self.rows[name]}, and is {row}")
            if not (self.may_repeat() or message.headers in self.broker.late):
                raise Wrong(f"B1: {row} was delivered twice, as {name}")
            return
        self.rows[name] = row
        if message.key is not None and message.headers not in self.broker.late:
            self._order.setdefault((number, message.key), []).append(name)

    def may_repeat(self) -> bool:
        """Where docs/sinks.md says "at least once": what a delivery has sent is not to be seen when it is resumed."""
        faults = {(fault.step, fault.kind) for fault in self.broker.outside.met}
        return self.together or bool(faults & {("ask sink", STALE), ("fetch sink", EXPIRED)})

    def _row(self, value: bytes) -> tuple[Any, ...]:
        values = json.loads(value)
        # (Sail leaves out what is NULL, whatever Spark would be told.)
        return tuple(_value(values.get(name)) for name in self.view.columns)

    def delivered(self) -> Counter[tuple[Any, ...]]:
        """The rows that a reader has who keeps the ids that it has handled."""
        return Counter(row for row in self.rows.values() if row is not None)

    def kept(self) -> Counter[tuple[Any, ...]] | None:
        """The rows that are left when the broker has kept the newest message of each key; None where an older one may
        have come again behind it (docs/sinks.md)."""
        if self.may_repeat() or self.broker.late:
            return None
        return Counter(row for row in self._newest.values() if row is not None)

    def in_order(self) -> None:
        """Messages of a key come in the order in which their rows became final. Raises Wrong."""
        for (_, key), names in self._order.items():
            ticks = [int(name.split("/")[1]) for name in names if name.split("/")[1].isdigit()]
            if ticks != sorted(ticks) and not self.may_repeat() and not self.broker.late:
                raise Wrong(f"C4: messages of {key!r} came in the order of commits {ticks}")


def _value(value: Any) -> Any:
    if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\dT", value):
        return seconds(datetime.fromisoformat(value))
    return value
