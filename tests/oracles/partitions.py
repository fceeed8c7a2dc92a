"""The partitions of a live broker, in plain Python (W6 to W9, R3): who takes part in G, who is idle, where one begins.
Slow, and obviously right. It imports nothing of tidegate.

What the clock and the broker decide is on record (W4): `batch` is given the clock of each batch, where the partitions
ended then, and up to where they were read, and says what follows from that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tests.oracles.oracle import Oracle, Row, larger


class Partitions(Oracle):
    """One source. Of each partition: `position`, the next offset; `quiet`, since when nothing has arrived; `absent`,
    why it takes no part; `newest`, its largest event time; `moved`, when its watermark last rose. All times in one
    unit; `advance`: G follows the clock while all are idle (W7)."""

    def __init__(
        self,
        strategy: Callable[[Row], int | None],
        idle_timeout: int,
        skew: int,
        stall_timeout: int,
        advance: bool = False,
    ) -> None:
        super().__init__(self._within(strategy, skew))
        self.idle_timeout, self.stall_timeout, self.advance = idle_timeout, stall_timeout, advance
        self.clock = 0
        self.position: dict[str, int] = {}
        self.quiet: dict[str, int] = {}
        self.moved: dict[str, int] = {}
        self.newest: dict[str, int | None] = {}
        self.absent: dict[str, str] = {}
        self.arrived: set[str] = set()
        self.ends: dict[str, int] = {}

    def _within(self, strategy: Callable[[Row], int | None], skew: int) -> Callable[[Row], int | None]:
        """W9: a row further ahead of the clock raises nothing."""

        def bounded(row: Row) -> int | None:
            assert row.event_time is not None
            return None if row.event_time > self.clock + skew else strategy(row)

        return bounded

    def batch(
        self,
        clock: int,
        ends: Mapping[str, int],
        starts: Mapping[str, int],
        until: Mapping[str, int],
        lost: Mapping[str, int],
        rows: Sequence[Row],
    ) -> None:
        """One batch. `ends`: of every partition that the broker has; `starts`: where the new ones begin; `until`: the
        next offset of each after it; `lost`: up to where it was gone before it was read. Then ask `idle` and `publish`.
        """
        self.clock, self.ends = clock, dict(ends)
        for partition, start in starts.items():
            # R3: it starts at G. Nothing is idle that was not seen before.
            self.wp[partition], self.position[partition] = self.g, start
            self.quiet[partition] = self.moved[partition] = clock
        self.position |= lost
        self.arrived = {partition for partition, after in until.items() if after > self.position[partition]}
        for partition in self.arrived & self.absent.keys():
            # W7: one that wakes up starts at max(Wp, G).
            self.wp[partition] = larger(self.wp[partition], self.g)
        before = dict(self.wp)
        for row in rows:
            self.read(row)
            if row.reject is None:
                self.newest[row.partition] = larger(self.newest.get(row.partition), row.event_time)
        for partition in self.arrived:
            self.position[partition], self.quiet[partition] = until[partition], clock
            if self.wp[partition] != before[partition]:
                self.moved[partition] = clock
        self.new, self.lost = set(starts), set(lost)

    def idle(self) -> set[str]:
        """W7: whose position is the end, and to whom nothing has come for so long; who was idle stays so until
        something comes."""
        return {
            partition
            for partition, end in self.ends.items()
            if end > 0
            and end == self.position[partition]
            and partition not in self.arrived | self.new | self.lost
            and (
                self.absent.get(partition) == "idle"
                or self.clock - self.quiet[partition] >= self.idle_timeout
            )
        }

    def publish(self, idle: set[str]) -> int | None:
        """The batch is committed, and these are idle: G (W6)."""
        gone = {partition: "gone" for partition in self.wp if partition not in self.ends}
        empty = {partition: "empty" for partition, end in self.ends.items() if end == 0}
        self.absent = gone | empty | dict.fromkeys(idle, "idle")
        taking_part = [mark for partition, mark in self.wp.items() if partition not in self.absent]
        known = [mark for mark in taking_part if mark is not None]
        if known and len(known) == len(taking_part):
            self.g = larger(self.g, min(known))
        elif self.advance and self.g is not None and idle and not taking_part and not self.arrived:
            self._follow(idle)
        return self.g

    def _follow(self, idle: set[str]) -> None:
        """W7, `idle_advance`: as far behind the clock as the newest row left it."""
        marks = [mark for partition in idle if (mark := self.wp[partition]) is not None]
        if marks:
            passed = self.clock - max(self.quiet[partition] for partition in idle)
            self.g = larger(self.g, max(marks) + passed)

    def state(self, partition: str) -> str:
        """W8, after `publish`."""
        if partition in self.absent:
            return self.absent[partition]
        newest = self.newest.get(partition)
        if newest is not None and newest > self.clock:
            return "future"
        waits = self.ends[partition] > self.position[partition]
        arrives = self.quiet[partition] == self.clock or waits
        if arrives and self.clock - self.moved[partition] > self.stall_timeout:
            return "stalled"
        if self.wp[partition] is not None:
            return "active"
        return "warming" if self.position[partition] else "empty"
