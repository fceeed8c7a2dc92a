"""How far an input's time may be from a column's value: one arithmetic for windows, joins, unions and slices.

A `Reach` is (low, high), in ticks: what it is about lies in [value + low, value + high]; None: no such bound.
"""

from __future__ import annotations

from collections.abc import Mapping

Reach = tuple[int | None, int | None]
Spans = Mapping[int, Reach]
"""A column's reach by number of the input; no entry: anywhere. Numbers below 0 are windows (`Reader.window`): they say
how far the end of that window is from the column's value."""

Ways = tuple[frozenset[int], ...]
"""The ways in which a row can come about, of UNION ALL one for each side: the inputs (and windows) that have a part in
it for certain."""


def plus(a: int | None, b: int | None) -> int | None:
    """The sum of two bounds; there is none where one of them is missing."""
    return None if a is None or b is None else a + b


def add(a: Reach, b: Reach) -> Reach:
    """The reach of something that is `b` away from what is `a` away."""
    return plus(a[0], b[0]), plus(a[1], b[1])


def moved(spans: Spans, by: Reach) -> dict[int, Reach]:
    """The spans of a column in whose rows the one with `spans` lies in [value + by[0], value + by[1]]."""
    return {number: add(reach, by) for number, reach in spans.items()}


def between(column: Spans, other: Spans, ways: Ways) -> Reach:
    """How far `other`'s column is from `column`'s in every row, in whichever of the `ways` the row came about."""
    found: list[Reach] = []
    for way in ways:
        lows, highs = [], []
        for number in way & column.keys() & other.keys():
            low, high = add(column[number], (_minus(other[number][1]), _minus(other[number][0])))
            lows += [] if low is None else [low]
            highs += [] if high is None else [high]
        # All inputs of a way have a part in the row, so that each of them is right.
        found.append((max(lows, default=None), min(highs, default=None)))
    lowest, highest = zip(*found, strict=True)
    return (
        None if None in lowest else min(lowest),
        None if None in highest else max(highest),
    )


def _minus(bound: int | None) -> int | None:
    return None if bound is None else -bound


def hull(*several: Spans) -> dict[int, Reach]:
    """Spans of a column that is one or the other: wide enough for each. Inputs that only one knows keep its own."""
    found: dict[int, Reach] = {}
    for spans in several:
        for number, (low, high) in spans.items():
            if number not in found:
                found[number] = (low, high)
                continue
            a, b = found[number]
            found[number] = (
                None if a is None or low is None else min(a, low),
                None if b is None or high is None else max(b, high),
            )
    return found
