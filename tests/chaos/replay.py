"""The oracle of `make chaos`: judges the topic's rows anew, row by row, and says in what the log and the views differ.

Plain Python over `tests.oracles.oracle`; it imports nothing of tidegate. What depends on the clock (which partition was
idle, where one batch ended, the `G` that each batch was judged by) is taken from the recorded history (W4), and checked
to be legal by itself. Times are integers: event times in microseconds since 1970, wall clock in milliseconds.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from tests.oracles.oracle import Decision, Oracle, Row, View, larger

_EPOCH, _MICROSECOND = datetime(1970, 1, 1), timedelta(microseconds=1)
#: A row without a value: no rule names its reason, but it has one.
ANY_REASON = "any reason"
#: States that take no part in G (W6, W7).
EMPTY, IDLE = "empty", "idle"


class Stored(NamedTuple):
    """A row of the topic. `appended`: when the broker took it, ms."""

    offset: int
    appended: int
    value: bytes | None


class Judged(NamedTuple):
    """A row of `$raw`. `missed`: what it was compared with."""

    offset: int
    outcome: str
    missed: int | None
    reason: str | None
    epoch: int


class Delivered(NamedTuple):
    """A message of a sink's topic. `id`: what its header says."""

    id: str
    key: str | None
    value: bytes | None


@dataclass(frozen=True)
class Mark:
    """A row of `$watermarks`: one partition (or, with None, the source) after one epoch. `at`: wall clock, ms.
    `end`: the end offset as the batch was planned, None where the history does not say."""

    epoch: int
    at: int
    partition: str | None
    watermark: int | None
    published: int | None
    state: str
    next_offset: int
    on_time: int
    late: int
    rejected: int
    end: int | None = None


@dataclass(frozen=True)
class Rules:
    """What the project declares, in microseconds (`idle_timeout_ms`: ms). `slack_ms`: how far the recorded clock may be
    from the moment in which the broker was asked."""

    delay: int
    idle_timeout_ms: int
    future_skew: int = 86_400_000_000
    slack_ms: int = 10_000
    views: tuple[View, ...] = ()


@dataclass
class Verdict:
    """What was compared, and what differs: `differences` counts by kind, `examples` has the first few of each."""

    rows: int = 0
    outcomes: Counter = field(default_factory=Counter)
    epochs: int = 0
    windows: int = 0
    sorted_rows: int = 0
    messages: int = 0
    idle_decisions: int = 0
    wakings: int = 0
    late_after_waking: int = 0
    differences: Counter = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def differs(self, kind: str, what: str) -> None:
        """Note one difference."""
        self.differences[kind] += 1
        shown = self.examples.setdefault(kind, [])
        if len(shown) < 5:
            shown.append(what)

    def add(self, name: str, other: Verdict) -> None:
        """Take in what was found of the group `name`."""
        for key, value in vars(other).items():
            if isinstance(value, int):
                setattr(self, key, getattr(self, key) + value)
        self.outcomes += other.outcomes
        self.differences += other.differences
        for kind, shown in other.examples.items():
            self.examples.setdefault(kind, []).extend(f"{name}: {what}" for what in shown)

    @property
    def total(self) -> int:
        """Differences of every kind."""
        return sum(self.differences.values())

    def document(self) -> dict[str, Any]:
        """JSON-ready."""
        return vars(self) | {"outcomes": dict(self.outcomes), "differences": dict(self.differences)}


@dataclass
class Replayed:
    """What the rules make of the topic: decisions by partition in offset order, `wp` after every epoch, and the rows on
    time."""

    decisions: dict[str, list[Decision]] = field(default_factory=dict)
    watermarks: dict[tuple[int, str], int | None] = field(default_factory=dict)
    g: int | None = None

    def on_time(self) -> Iterable[Row]:
        """Rows on time, partition by partition."""
        for decisions in self.decisions.values():
            yield from (d.row for d in decisions if d.outcome == "on_time")


def parse(partition: str, stored: Stored) -> Row:
    """The row that a value is: its event time, and why it must be rejected (W5)."""
    reject, ts, fields = _read(stored.value)
    return Row(partition, stored.offset, ts, reject, fields)


def _read(value: bytes | None) -> tuple[str | None, int | None, dict[str, Any]]:
    if not value:
        return ANY_REASON, None, {}
    try:
        found = json.loads(value.decode("utf-8", errors="strict"))
    except UnicodeDecodeError:
        return "invalid_utf8", None, {}  # W5: a reason of its own, the bytes are kept in base64
    except ValueError:
        return "unparseable", None, {}
    if found is None:
        return ANY_REASON, None, {}
    if not isinstance(found, dict):
        return "unparseable", None, {}
    fields = {name: found.get(name) for name in ("id", "sensor", "amount")}
    types = {"id": int, "sensor": str, "amount": int}
    if any(v is not None and not isinstance(v, types[name]) for name, v in fields.items()):
        return "unparseable", None, {}
    written = found.get("ts")
    if written is None:
        return "null_event_time", None, fields
    try:
        return None, (datetime.fromisoformat(written) - _EPOCH) // _MICROSECOND, fields
    except (TypeError, ValueError):
        return "unparseable", None, {}


def replay(
    topic: Mapping[str, Sequence[Stored]],
    history: Sequence[Mark],
    rules: Rules,
    verdict: Verdict,
    read: Callable[[str, Stored], Row] = parse,
) -> Replayed:
    """Judge every row of the topic in the recorded batches. `read`: the row that a value in a partition is."""
    by_epoch: dict[int, dict[str, Mark]] = {}
    clocks: dict[int, int] = {}
    published: dict[int, int | None] = {}
    for mark in history:
        of_epoch = by_epoch.setdefault(mark.epoch, {})
        if mark.partition is None:
            clocks[mark.epoch], published[mark.epoch] = mark.at, mark.published
        else:
            of_epoch[mark.partition] = mark
    clock = 0

    def strategy(row: Row) -> int | None:
        # W9: a row too far ahead of the clock raises nothing.
        assert row.event_time is not None
        return None if row.event_time > clock * 1000 + rules.future_skew else row.event_time - rules.delay

    oracle, out = Oracle(strategy), Replayed()
    place: dict[str, int] = dict.fromkeys(topic, 0)
    before: dict[str, Mark] = {}
    for epoch in sorted(by_epoch):
        clock = clocks.get(epoch, clock)
        for name, mark in by_epoch[epoch].items():
            rows, at = topic.get(name, ()), place.get(name, 0)
            oracle.enumerate([name])
            if at == 0:
                # Without a row yet it starts at G, whatever G was as it was first seen (R3).
                oracle.wp[name] = oracle.g
            was_idle = name in before and before[name].state == IDLE
            reads = at < len(rows) and rows[at].offset < mark.next_offset
            waking = was_idle and (reads or mark.state != IDLE)
            found = out.decisions.setdefault(name, [])
            if waking:
                oracle.wp[name] = larger(oracle.wp[name], oracle.g)
                verdict.wakings += 1
            while at < len(rows) and rows[at].offset < mark.next_offset:
                decision = oracle.read(read(name, rows[at]))
                verdict.late_after_waking += waking and decision.outcome == "late"
                found.append(decision)
                at += 1
            oracle.decisions.clear()
            place[name] = at
            out.watermarks[epoch, name] = oracle.wp[name]
        before = by_epoch[epoch]
        oracle.g = published.get(epoch, oracle.g)
    out.g = oracle.g
    for name, rows in topic.items():
        if place[name] < len(rows):
            verdict.differs("unread", f"partition {name}: {len(rows) - place[name]} rows were never read")
    return out
