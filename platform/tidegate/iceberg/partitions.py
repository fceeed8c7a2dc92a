"""What is known of a source's partitions beside their watermarks: positions at the broker, who is idle, who is empty.

Everything here depends on the clock or on the broker, so a plan decides it, durably, before its batch is judged, and
the batch's commit records it (W4): a retry and a replay decide nothing anew.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from tidegate.watermark import GateState, SourceWatermark, Strategy

#: Why a partition takes no part in G (W6, W7); these are states of W8, too.
ABSENT = ("idle", "empty", "gone")


@dataclass(frozen=True)
class Sighting:
    """One partition as of a commit. Times are µs since the epoch, UTC.

    `first_offset`: where reading began. `end_offset`: the broker's next free offset when the batch was planned.
    `quiet_since`: when something last arrived, or when the partition was first seen. `moved_at`: when its watermark
    last rose. `absent`: why it takes no part in G: "idle" (W7), "empty" or "gone" (W6); None: it does.
    """

    first_offset: int = 0
    end_offset: int | None = None
    quiet_since: int | None = None
    moved_at: int | None = None
    absent: str | None = None


@dataclass(frozen=True)
class Decisions:
    """What one plan decides about partitions.

    `start`: of partitions seen for the first time, where reading begins. `until`: of those that are read, up to which
    offset (exclusive). `ends`: end offsets that have changed. `idle`, `empty`, `gone`: all that are so as of this
    batch. `lost`: offsets [from, to) that were gone before they could be read. `advance`: G at least, in the
    watermark's unit, where all are idle and the clock moves it (`idle_advance`). `topic_id`: which topic of this name.
    """

    start: dict[str, int] = field(default_factory=dict)
    until: dict[str, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    idle: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    lost: dict[str, tuple[int, int]] = field(default_factory=dict)
    advance: int | None = None
    topic_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Without what says nothing."""
        return {name: value for name, value in asdict(self).items() if value or value == 0}

    @classmethod
    def from_json(cls, values: dict[str, Any] | None) -> Decisions | None:
        """The inverse; None gives None."""
        if values is None:
            return None
        known = dict(values)
        for name in ABSENT:
            known[name] = tuple(known.get(name, ()))
        known["lost"] = {name: (a, b) for name, (a, b) in known.get("lost", {}).items()}
        return cls(**known)

    @property
    def absent(self) -> dict[str, str]:
        """Of every partition that takes no part in G: why."""
        return {name: why for why in ABSENT for name in getattr(self, why)}

    def note(self, partition: str) -> str | None:
        """What people should know of a partition in this commit: a gap that no silence may cover."""
        if partition not in self.lost:
            return None
        first, after = self.lost[partition]
        return f"offsets {first} to {after - 1} were gone before they were read"


def sighted(
    before: dict[str, Sighting],
    decisions: Decisions,
    was: dict[str, GateState],
    now: dict[str, GateState],
    at: int,
) -> dict[str, Sighting]:
    """The sightings after a batch. `was`, `now`: gate states before and after it; `at`: its clock, µs since 1970."""
    absent, after = decisions.absent, {}
    for name in before.keys() | decisions.start.keys():
        old = before.get(name) or Sighting(decisions.start[name], quiet_since=at, moved_at=at)
        moved = name in now and now[name].watermark != (was[name].watermark if name in was else None)
        after[name] = Sighting(
            first_offset=old.first_offset,
            end_offset=decisions.ends.get(name, old.end_offset),
            quiet_since=at if name in decisions.until else old.quiet_since,
            moved_at=at if moved else old.moved_at,
            absent=absent.get(name),
        )
    return after


def partition_state(
    state: GateState,
    strategy: Strategy | None,
    sighting: Sighting | None = None,
    clock: int | None = None,
    at: int | None = None,
    stall_timeout: float | None = None,
) -> str:
    """W8. `clock`: the batch's, in the unit of the time column; `at`: the same in µs since 1970; `stall_timeout`: s.

    `future` and `stalled` exist for live brokers only (where there is a `sighting`): nothing waits in a file.
    """
    if sighting is not None and sighting.absent is not None:
        return sighting.absent
    if sighting is not None:
        if clock is not None and state.max_event_time is not None and state.max_event_time > clock:
            return "future"
        quiet, moved = sighting.quiet_since, sighting.moved_at
        waits = sighting.end_offset is not None and sighting.end_offset > state.next_offset
        arrives = quiet == at or waits
        if (
            arrives
            and at is not None
            and moved is not None
            and stall_timeout is not None
            and at - moved > stall_timeout * 1e6
        ):
            return "stalled"
    if not state.next_offset:
        return "empty" if state.watermark is None else "active"
    if isinstance(strategy, SourceWatermark):
        rows = strategy.rows(state.memory)
        if rows < strategy.interval:
            return f"warming ({rows} of {strategy.interval})"
    return "active" if state.watermark is not None else "warming"
