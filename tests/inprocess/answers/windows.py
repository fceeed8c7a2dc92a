"""Functions over the neighbours of a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tests.inprocess.answers.functions import cast, plain
from tests.inprocess.answers.terms import Declined, Value, Window

_BIGGEST = 2**63 - 1


def in_windows(asked: Window, rows: Any, value: Callable[[Any], Any]) -> Any:
    """`value`: the values of a term in all rows."""
    groups = _groups(asked, rows, value)
    if asked.function == "row_number":
        return pa.array(_scattered(rows.count, groups, lambda place, group: place + 1), pa.int32())
    given = value(asked.given[0]) if asked.given else None
    if asked.function in ("lead", "lag"):
        return _moved(asked, rows.count, groups, given)
    if given is None or len(asked.given) > 1 or asked.function not in _OF_FRAME:
        raise Declined
    return _OF_FRAME[asked.function](given, rows.count, _framed(asked, groups))


#: The places of the rows of a group, in their order; and for each the number of rows that are before it and before the
#: next one that differs in what they are ordered by.
_Group = tuple[list[int], list[tuple[int, int]]]


def _groups(asked: Window, rows: Any, value: Callable[[Any], Any]) -> list[_Group]:
    order = ordered([(value(term), up, first) for term, up, first in asked.orders], rows.count)
    by = [plain(value(term)).to_pylist() for term in asked.partition]
    keys = [value(term).to_pylist() for term, _, _ in asked.orders]
    found: dict[tuple[Any, ...], list[int]] = {}
    for place in order:
        found.setdefault(tuple(column[place] for column in by), []).append(place)
    return [(group, _peers(group, keys)) for group in found.values()]


def ordered(keys: Sequence[tuple[Any, bool, bool]], count: int) -> list[int]:
    """The places of rows in their order. `keys`: values, whether they ascend, and whether NULL comes first."""
    if not keys:
        return list(range(count))
    if any(pa.types.is_nested(key.type) or pa.types.is_floating(key.type) for key, _, _ in keys):
        raise Declined
    by = pa.Table.from_arrays([key for key, _, _ in keys], names=[str(place) for place in range(len(keys))])
    ways = [
        (str(place), "ascending" if up else "descending", "at_start" if first else "at_end")
        for place, (_, up, first) in enumerate(keys)
    ]
    return pc.sort_indices(by, sort_keys=ways).to_pylist()  # type: ignore[no-any-return]


def _peers(group: Sequence[int], keys: Sequence[Sequence[Any]]) -> list[tuple[int, int]]:
    values = [tuple(column[place] for column in keys) for place in group]
    found: list[tuple[int, int]] = []
    start = 0
    while start < len(values):
        end = start
        while end < len(values) and values[end] == values[start]:
            end += 1
        found += [(start, end)] * (end - start)
        start = end
    return found


def _scattered(count: int, groups: Sequence[_Group], of: Callable[[int, Sequence[int]], Any]) -> list[Any]:
    found: list[Any] = [None] * count
    for group, _ in groups:
        for place, row in enumerate(group):
            found[row] = of(place, group)
    return found


def _moved(asked: Window, count: int, groups: Sequence[_Group], given: Any) -> Any:
    shift = 1
    if len(asked.given) > 1:
        number = asked.given[1]
        if len(asked.given) > 2 or not isinstance(number, Value):
            raise Declined
        shift = number.scalar.as_py()
    if asked.function == "lag":
        shift = -shift

    def row_of(place: int, group: Sequence[int]) -> int | None:
        return group[place + shift] if 0 <= place + shift < len(group) else None

    return pc.take(given, pa.array(_scattered(count, groups, row_of), pa.int64()))


def _framed(asked: Window, groups: Sequence[_Group]) -> list[tuple[int, list[int]]]:
    """Each row, and the rows of its frame."""
    by_rows, low, high = asked.frame or (False, None, 0 if asked.orders else None)
    if not by_rows and not {low, high} <= {None, 0}:
        raise Declined
    found = []
    for group, peers in groups:
        for place, row in enumerate(group):
            before, after = (place, place + 1) if by_rows else peers[place]
            start = 0 if low is None else max(0, before + low)
            end = len(group) if high is None else max(0, after + high)
            found.append((row, group[start:end]))
    return found


_Frames = list[tuple[int, list[int]]]


def _taken(choose: Callable[[list[int], list[Any]], int | None]) -> Callable[[Any, int, _Frames], Any]:
    def function(given: Any, count: int, frames: _Frames) -> Any:
        values = given.to_pylist()
        places: list[int | None] = [None] * count
        for row, frame in frames:
            places[row] = choose(frame, values)
        return pc.take(given, pa.array(places, pa.int64()))

    return function


def _extreme(choose: Callable[..., int]) -> Callable[[list[int], list[Any]], int | None]:
    def chosen(frame: list[int], values: list[Any]) -> int | None:
        known = [place for place in frame if values[place] is not None]
        return choose(known, key=lambda place: values[place]) if known else None

    return chosen


def _counted(given: Any, count: int, frames: _Frames) -> Any:
    known, found = given.is_valid().to_pylist(), [0] * count
    for row, frame in frames:
        found[row] = sum(known[place] for place in frame)
    return pa.array(found, pa.int64())


def _summed(given: Any, count: int, frames: _Frames) -> Any:
    if not pa.types.is_integer(given.type):
        raise Declined
    values, found = cast(given, pa.int64()).to_pylist(), list[Any]([None] * count)
    for row, frame in frames:
        known = [values[place] for place in frame if values[place] is not None]
        found[row] = sum(known) if known else None
        if known and abs(found[row]) > _BIGGEST:
            raise Declined
    return pa.array(found, pa.int64())


def _comparable(function: Callable[[Any, int, _Frames], Any]) -> Callable[[Any, int, _Frames], Any]:
    def checked(given: Any, count: int, frames: _Frames) -> Any:
        if pa.types.is_nested(given.type) or pa.types.is_floating(given.type):
            raise Declined
        return function(given, count, frames)

    return checked


_OF_FRAME: dict[str, Callable[[Any, int, _Frames], Any]] = {
    "first_value": _taken(lambda frame, _: frame[0] if frame else None),
    "last_value": _taken(lambda frame, _: frame[-1] if frame else None),
    "min": _comparable(_taken(_extreme(min))),
    "max": _comparable(_taken(_extreme(max))),
    "count": _counted,
    "sum": _summed,
    "try_sum": _summed,
}
