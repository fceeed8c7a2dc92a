"""Tables WITH TTL in plain Python, from rules T1–T4, W1, W2, W6 and W9 alone. Imports nothing of tidegate.

Times are integers. A change is judged when it is read; what it changes is decided then, too. Batches only decide
when `G` is published.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Change:
    """One row of a partition: what it does to the row of its key. `delete` has the event time of what it deletes."""

    partition: str
    offset: int
    key: Any
    time: int
    delete: bool = False
    value: Any = None

    @property
    def rank(self) -> tuple[int, str, int]:
        """T4."""
        return (self.time, self.partition, self.offset)


@dataclass
class Life:
    """A row of one key in one partition from the moment that there was none. `since`: the bar, max(Wp, G), of its first
    change; None while undefined. `last`: the change that the row is as of now."""

    since: int | None
    last: Change


@dataclass
class Table:
    """`delay`: the strategy is event time minus it."""

    delay: int
    wp: dict[str, int | None] = field(default_factory=dict)
    g: int | None = None
    late: list[tuple[Change, int]] = field(default_factory=list)
    lives: dict[Any, list[Life]] = field(default_factory=dict)

    def enumerate(self, partitions: Iterable[str]) -> None:
        for partition in partitions:
            self.wp.setdefault(partition, self.g)

    def read(self, change: Change) -> None:
        wp = self.wp[change.partition]
        bar = max((mark for mark in (wp, self.g) if mark is not None), default=None)
        if bar is not None and change.time <= bar:  # T1: at the watermark is expired
            self.late.append((change, bar))
            return
        self.wp[change.partition] = (
            max(change.time - self.delay, wp) if wp is not None else change.time - self.delay
        )
        own = [life for life in self.lives.get(change.key, []) if life.last.partition == change.partition]
        # T2: what has expired is absent. By the bar of the change, so that no cut into batches matters (W4).
        if own and (bar is None or own[-1].last.time > bar):
            own[-1].last = change
        else:
            self.lives.setdefault(change.key, []).append(Life(bar, change))

    def reset(self, to: int) -> None:
        """W9: no bar was ever above `to`. A life that had ended above it goes on as the next one of its partition."""
        self.wp = {name: None if wp is None else min(wp, to) for name, wp in self.wp.items()}
        self.g = None if self.g is None else min(self.g, to)
        for key, lives in self.lives.items():
            joined: list[Life] = []
            for life in lives:
                own = [k for k, known in enumerate(joined) if known.last.partition == life.last.partition]
                if own and joined[own[-1]].last.time > to:
                    joined[own[-1]].last = life.last
                else:
                    since = None if life.since is None else min(life.since, to)
                    joined.append(Life(since, life.last))
            self.lives[key] = joined

    def publish(self) -> None:
        """The end of a batch (W6)."""
        marks = list(self.wp.values())
        if all(mark is not None for mark in marks):
            lowest = min(mark for mark in marks if mark is not None)
            self.g = lowest if self.g is None else max(self.g, lowest)

    def rows(self) -> dict[Any, Change]:
        """What SELECT shows."""
        shown = {}
        for key, lives in self.lives.items():
            live = [life.last for life in lives if self.g is None or life.last.time > self.g]
            if live:
                best = max(live, key=lambda change: change.rank)
                if not best.delete:
                    shown[key] = best
        return shown

    def history(self) -> set[tuple[str, int]]:
        """What a view over all times counts, as (partition, offset): what was left of each life. Of several partitions
        the larger row counts (T4), unless the smaller one had expired, by the larger one's partition, before the larger
        one's life began."""
        kept = set()
        for lives in self.lives.values():
            for life in lives:
                replaced = any(
                    other.last.rank > life.last.rank and (other.since is None or other.since < life.last.time)
                    for other in lives
                )
                if not replaced and not life.last.delete:
                    kept.add((life.last.partition, life.last.offset))
        return kept
