"""Publication of G (W6), the watermark of a whole source, and where new partitions start (R3)."""

from __future__ import annotations

from collections.abc import Iterable


def publish(watermarks: Iterable[int | None], previous: int | None) -> int | None:
    """G: the minimum of the watermarks of the partitions that take part, once each of them has one (W6).

    `watermarks`: Wp of every partition that takes part, None while undefined. `previous`: G as last
    published. While a partition has none, or none takes part, G stays what it was (None at first); it never
    goes back.
    """
    marks = list(watermarks)
    defined = [mark for mark in marks if mark is not None]
    if not marks or len(defined) < len(marks):
        return previous
    lowest = min(defined)
    return lowest if previous is None else max(lowest, previous)


def start_watermark(published: int | None) -> int | None:
    """Wp of a partition that appears after the first row was judged: G as last published, never below
    (R3).
    """
    return published
