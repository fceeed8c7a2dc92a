"""Order and OVER windows of semantics.md in plain Python (C4, C5): slow, and obviously right. Imports nothing of
tidegate.

Times are integers in one unit; a watermark of None is undefined, and releases nothing.

    over(rows, watermark=20, calls=[Call("lead", "v")], keys=("k",))      # the rows that are released, with values
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.oracles.oracle import Row, aggregate
from tests.oracles.sessions import sessions


@dataclass(frozen=True)
class Rows:
    """ROWS BETWEEN `start` AND `end`, counted from the current row: -2 is 2 PRECEDING, 0 CURRENT ROW, 1 1 FOLLOWING;
    a start of None is UNBOUNDED PRECEDING."""

    start: int | None
    end: int = 0


@dataclass(frozen=True)
class Range:
    """RANGE BETWEEN `start` AND `end`, the same in event time; CURRENT ROW (0) takes in all rows of the same time."""

    start: int | None
    end: int = 0


@dataclass(frozen=True)
class SessionGap:
    """SESSION WITH GAP `gap`: the session that the row is in, as in C3."""

    gap: int


Frame = Rows | Range | SessionGap

#: C5: what an ordered aggregate, first_value and last_value have without a frame of their own.
DEFAULT_FRAME = Rows(None, 0)


@dataclass(frozen=True)
class Call:
    """One function over the window. `n` and `default` are those of lead and lag; `column` None is count(*)."""

    function: str
    column: str | None = None
    frame: Frame = DEFAULT_FRAME
    exclude_current: bool = False
    n: int = 1
    default: Any = None


@dataclass(frozen=True)
class Released:
    row: Row
    values: tuple


def arrival_order(row: Row) -> tuple:
    """C4: (event time, partition, offset)."""
    return row.event_time, row.partition, row.offset


def released(rows: Iterable[Row], watermark: int | None) -> list[Row]:
    """C4: the rows below the watermark, in order."""
    return sorted((row for row in rows if is_below(row, watermark)), key=arrival_order)


def is_below(row: Row, watermark: int | None) -> bool:
    """C4: event time < watermark. A row at the watermark can still get company before it in the order."""
    return watermark is not None and row.event_time < watermark


def over(
    rows: Iterable[Row],
    watermark: int | None,
    calls: Sequence[Call],
    keys: Sequence[str] = (),
    order: Callable[[Row], tuple] = arrival_order,
) -> list[Released]:
    """C5: every released row with its values. A row is released when each of its calls is complete."""
    out = []
    for ordered in partitions(rows, keys, order):
        for i, row in enumerate(ordered):
            if is_below(row, watermark) and all(is_complete(ordered, i, call, watermark) for call in calls):
                out.append(Released(row, tuple(value(ordered, i, call) for call in calls)))
    return out


def so_far(rows: Iterable[Row], calls: Sequence[Call], keys: Sequence[str] = ()) -> list[Released]:
    """C2: what a view without EMIT ON WINDOW CLOSE shows: every row, with what is known by now."""
    return [
        Released(row, tuple(value(ordered, i, call) for call in calls))
        for ordered in partitions(rows, keys)
        for i, row in enumerate(ordered)
    ]


def partitions(
    rows: Iterable[Row], keys: Sequence[str], order: Callable[[Row], tuple] = arrival_order
) -> list[list[Row]]:
    """PARTITION BY and ORDER BY; NULL keys are a key."""
    by_key: dict[tuple, list[Row]] = {}
    for row in rows:
        by_key.setdefault(tuple(row.payload[key] for key in keys), []).append(row)
    return [sorted(members, key=order) for members in by_key.values()]


def is_complete(ordered: list[Row], i: int, call: Call, watermark: int | None) -> bool:
    """C5: whether nothing that comes can change the call's value at row i. The row itself is below the watermark."""
    if call.function in ("row_number", "rank", "dense_rank", "lag"):
        return True
    if call.function == "lead":
        return _nth_is_below(ordered, i + call.n, watermark)
    frame = call.frame
    if isinstance(frame, Rows):
        return frame.end <= 0 or _nth_is_below(ordered, i + frame.end, watermark)
    if isinstance(frame, Range):
        # A row at exactly the watermark is on time (W1): the last instant of the frame has to be below it.
        return ordered[i].event_time + max(frame.end, 0) < watermark
    return _session_of(ordered, i, frame.gap).end <= watermark


def value(ordered: list[Row], i: int, call: Call) -> Any:
    """The call's value at row i of its ordered partition."""
    row = ordered[i]
    if call.function == "row_number":
        return i + 1
    if call.function == "rank":
        return 1 + sum(other.event_time < row.event_time for other in ordered)
    if call.function == "dense_rank":
        return 1 + len({other.event_time for other in ordered if other.event_time < row.event_time})
    if call.function in ("lead", "lag"):
        at = i + call.n if call.function == "lead" else i - call.n
        return ordered[at].payload[call.column] if 0 <= at < len(ordered) else call.default
    members = [j for j in _frame(ordered, i, call.frame) if not (call.exclude_current and j == i)]
    if call.function == "first_value":
        return ordered[members[0]].payload[call.column] if members else None
    if call.function == "last_value":
        return ordered[members[-1]].payload[call.column] if members else None
    return aggregate(call.function, call.column, [ordered[j] for j in members])


def _frame(ordered: list[Row], i: int, frame: Frame) -> list[int]:
    """Places of the rows in the frame, in order."""
    if isinstance(frame, SessionGap):
        members = _session_of(ordered, i, frame.gap).rows
        return [j for j, row in enumerate(ordered) if any(row is member for member in members)]
    if isinstance(frame, Rows):
        low = 0 if frame.start is None else i + frame.start
        return [j for j in range(len(ordered)) if low <= j <= i + frame.end]
    now = ordered[i].event_time
    earliest = min(row.event_time for row in ordered) if frame.start is None else now + frame.start
    return [j for j, row in enumerate(ordered) if earliest <= row.event_time <= now + frame.end]


def _session_of(ordered: list[Row], i: int, gap: int):
    return next(s for s in sessions(ordered, gap) if any(row is ordered[i] for row in s.rows))


def _nth_is_below(ordered: list[Row], n: int, watermark: int | None) -> bool:
    return n < len(ordered) and is_below(ordered[n], watermark)
