"""How far an input's time may be from a column's value: one arithmetic for windows, joins, unions and slices.

A `Reach` is (low, high), in ticks: what it is about lies in [value + low, value + high]; None: no such bound.
"""

from __future__ import annotations

from collections.abc import Mapping

Reach = tuple[int | None, int | None]
Spans = Mapping[int, Reach]
"""A column's reach by number of the input; no entry: anywhere."""


def plus(a: int | None, b: int | None) -> int | None:
    """The sum of two bounds; there is none where one of them is missing."""
    return None if a is None or b is None else a + b


def add(a: Reach, b: Reach) -> Reach:
    """The reach of something that is `b` away from what is `a` away."""
    return plus(a[0], b[0]), plus(a[1], b[1])


def moved(spans: Spans, by: Reach) -> dict[int, Reach]:
    """The spans of a column in whose rows the one with `spans` lies in [value + by[0], value + by[1]]."""
    return {number: add(reach, by) for number, reach in spans.items()}


def between(column: Spans, other: Spans) -> Reach | None:
    """How far `other`'s column is from `column`'s, as the first input of both says; None without one."""
    for number, (low, high) in column.items():
        if number in other:
            other_low, other_high = other[number]
            return (
                None if low is None or other_high is None else low - other_high,
                None if high is None or other_low is None else high - other_low,
            )
    return None


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
