"""What a delay does to rows, in plain Python (W1, W2, W6, W7, R3): slow, and obviously right. Imports nothing of
tidegate.

A log is a list of batches; a batch is the rows that it reads, (partition, event time), and who is idle as of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Row = tuple[str, int]


@dataclass
class Batch:
    """`idle`: partitions that take no part in G when it is published. `starts`: those that appear with this batch.
    `reset`: instead of reading rows, every Wp and G beyond this is taken back to it (W9). `clock`: of the batch, for
    `skew`."""

    rows: list[Row]
    idle: set[str] = field(default_factory=set)
    starts: set[str] = field(default_factory=set)
    reset: int | None = None
    clock: int = 0


def late_rows(batches: list[Batch], delay: int, skew: int | None = None, by_batch: bool = False) -> int:
    """Rows that are late if the strategy is `event time - delay`."""
    wp: dict[str, int | None] = {}
    g, late, absent = None, 0, set()
    for batch in batches:
        if batch.reset is not None:
            wp, g = {p: earlier(w, batch.reset) for p, w in wp.items()}, earlier(g, batch.reset)
            continue
        for partition in batch.starts:
            wp[partition] = g
        for partition in {p for p, _ in batch.rows} & absent:
            wp[partition] = later(wp[partition], g)
        began = dict(wp)
        for partition, time in batch.rows:
            bar = later(began[partition] if by_batch else wp[partition], g)
            if bar is not None and time < bar:
                late += 1
            elif skew is None or time <= batch.clock + skew:
                wp[partition] = later(wp[partition], time - delay)
        absent = batch.idle
        taking_part = [w for p, w in wp.items() if p not in absent]
        if taking_part and all(w is not None for w in taking_part):
            g = later(g, min(taking_part))
    return late


def late_together(batches: list[Batch], delay: int) -> int:
    """Rows that are late under one watermark for all partitions: the newest event time of the row's own partition
    before it, or of any partition in an earlier batch, less the delay."""
    own: dict[str, int] = {}
    before, late = None, 0
    for batch in batches:
        for partition, time in batch.rows:
            newest = later(own.get(partition), before)
            late += newest is not None and time < newest - delay
            own[partition] = later(own.get(partition), time)
        before = max(own.values(), default=None)
    return late


def later(a: int | None, b: int | None) -> int | None:
    """The larger one; None is undefined."""
    return b if a is None else a if b is None else max(a, b)


def earlier(watermark: int | None, reset: int) -> int | None:
    """W9: `min(watermark, reset)`; what is undefined stays so."""
    return None if watermark is None else min(watermark, reset)
