"""The gate (W1, W2, W5): every row of one partition is judged once, in offset order, on time or late.

Config, logic and state apart: `GateConfig` is what the user declared, `GateState` is what must survive a
restart (R1), `judge` takes a state and rows and returns the next state. How rows are cut into calls changes
nothing (W4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from tidegate.watermark.strategy import Expression, Strategy
from tidegate.watermark.timekind import TimeKind

# Stands for "undefined" inside arrays: no int64 is below it, so it makes nothing late, as W1 asks.
_NONE = np.iinfo(np.int64).min
# Rows per round of the exact walk in `_raisers`: small enough that the watermark at the start of a round
# rules out most rows of it, large enough that numpy's cost per call vanishes.
_ROUND = 2048


@dataclass(frozen=True)
class GateConfig:
    """What `WATERMARK FOR` declares: the kind of the event time column and the strategy."""

    kind: TimeKind
    strategy: Strategy


@dataclass
class GateState:
    """What one partition's gate must remember; committed together with the rows it came from (R1).

    `watermark`: Wp, None while undefined. `next_offset`: the first offset not read yet (the engine advances
    it). `on_time`, `late`, `rejected`: rows so far; their sum is raw (W5). `max_event_time`: the largest
    event time seen, late rows included (W2), rejected rows not. Times are in the unit of the column's kind.
    """

    watermark: int | None = None
    next_offset: int = 0
    on_time: int = 0
    late: int = 0
    rejected: int = 0
    max_event_time: int | None = None

    def to_dict(self) -> dict[str, int | None]:
        """Plain integers, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> GateState:
        """The inverse of `to_dict`; raises TypeError for a key it doesn't know."""
        return cls(**values)


class Judgement(NamedTuple):
    """What `judge` decided, in the order of its input.

    `late` bool[n]. `missed` int64[n]: max(Wp, G) as it stood before the row, the watermark that a late row
    missed; meaningful only where `late`. `state`: the state after the last row.
    """

    late: np.ndarray
    missed: np.ndarray
    state: GateState


def is_late(event_time: Any, watermark: Any, published: int | None) -> Any:
    """W1, and the one place that says so: late iff event_time < max(Wp, G). Equal is on time.

    Integers or int64 arrays (then elementwise). `watermark`: Wp before the row, `published`: G; None is
    undefined, and nothing is late by it.
    """
    bar = _later(watermark, published)
    if bar is None:
        return np.zeros(event_time.shape, dtype=bool) if isinstance(event_time, np.ndarray) else False
    return event_time < bar


def judge(
    config: GateConfig,
    state: GateState,
    published: int | None,
    event_time: np.ndarray,
    accepted: np.ndarray,
    strategy: np.ndarray | None = None,
    strategy_valid: np.ndarray | None = None,
) -> Judgement:
    """Judge consecutive rows of one partition, in offset order.

    `published`: G as last published, None while undefined. `event_time` int64[n]. `accepted` bool[n]: False
    for rejected rows, which are counted but not judged and raise nothing. `strategy` int64[n] and
    `strategy_valid` bool[n] (default: all): the values of an `Expression`; not valid means NULL or failed,
    and raises nothing (W2). Neither the arrays nor `state` are changed; `next_offset` is left to the
    engine. Raises ValueError for arrays of other lengths or types, or if strategy values are missing for an
    `Expression` or given for another strategy.
    """
    n = len(event_time)
    event_time = _checked("event_time", event_time, n, np.int64)
    accepted = _checked("accepted", accepted, n, np.bool_)
    if isinstance(config.strategy, Expression):
        if strategy is None:
            raise ValueError("an Expression strategy needs the values that the engine evaluated")
        offered = _checked("strategy", strategy, n, np.int64)
    else:
        if strategy is not None or strategy_valid is not None:
            raise ValueError("strategy values are for an Expression: Column and Delay compute their own")
        offered = config.strategy.values(event_time)

    may_raise = accepted & ~is_late(event_time, None, published)
    if strategy_valid is not None:
        may_raise &= _checked("strategy_valid", strategy_valid, n, np.bool_)
    before, watermark = _watermarks(state.watermark, event_time, offered, may_raise)

    late = accepted & is_late(event_time, before, published)
    if state.watermark is not None and (watermark is None or watermark < state.watermark):
        raise AssertionError(f"W2: the watermark would go back from {state.watermark} to {watermark}")
    rows, accepted_rows, late_rows = n, int(np.count_nonzero(accepted)), int(np.count_nonzero(late))
    newest = int(event_time[accepted].max()) if accepted_rows else None
    return Judgement(
        late,
        _later(before, published),
        GateState(
            watermark=watermark,
            next_offset=state.next_offset,
            on_time=state.on_time + accepted_rows - late_rows,
            late=state.late + late_rows,
            rejected=state.rejected + rows - accepted_rows,
            max_event_time=_later(state.max_event_time, newest),
        ),
    )


def _watermarks(
    start: int | None, event_time: np.ndarray, offered: np.ndarray, may_raise: np.ndarray
) -> tuple[np.ndarray, int | None]:
    """Wp before each row (int64[n], `_NONE` while undefined), and Wp after the last one.

    `may_raise` holds the rows that are neither rejected, nor without a strategy value, nor late by G.
    """
    floor = _NONE if start is None else start
    before, after = _running_max(floor, np.where(may_raise, offered, _NONE))
    # A late row that this maximum let through although late rows raise nothing (W2): only a strategy that
    # runs ahead of the event time can produce one. Up to the first of them the maximum is right, so without
    # one it is right everywhere.
    if np.any(may_raise & is_late(event_time, before, None) & (offered > before)):
        may_raise = _raisers(floor, event_time, offered, may_raise, before)
        before, after = _running_max(floor, np.where(may_raise, offered, _NONE))
    undefined = start is None and after == _NONE and not np.any(may_raise)
    return before, None if undefined else after


def _raisers(
    floor: int, event_time: np.ndarray, offered: np.ndarray, may_raise: np.ndarray, too_high: np.ndarray
) -> np.ndarray:
    """The rows that do raise Wp (bool[n]), exactly, where late rows offer values above it.

    Whether a row is late depends on all before it, so this walks row by row, but only over the rows that
    can matter. `too_high` is never below the true Wp: rows on time even by it are on time. Their running
    maximum is never above the true Wp: rows late by it, or offering no more than it, raise nothing.
    """
    surely_on_time = may_raise & ~is_late(event_time, too_high, None)
    too_low, _ = _running_max(floor, np.where(surely_on_time, offered, _NONE))
    matter = np.flatnonzero(may_raise & ~is_late(event_time, too_low, None) & (offered > too_low))
    raisers = []
    watermark = floor
    for start in range(0, len(matter), _ROUND):
        rows = matter[start : start + _ROUND]
        rows = rows[~is_late(event_time[rows], watermark, None) & (offered[rows] > watermark)]
        values = zip(rows.tolist(), event_time[rows].tolist(), offered[rows].tolist(), strict=True)
        for row, time, value in values:
            # `is_late`, written out: a call per row would cost more than everything else here.
            if value > watermark and not time < watermark:
                watermark = value
                raisers.append(row)
    raises = np.zeros(len(event_time), dtype=bool)
    raises[raisers] = True
    return raises


def _running_max(floor: int, values: np.ndarray) -> tuple[np.ndarray, int]:
    """max(floor, all values before i) for each i, and max(floor, all values)."""
    running = np.empty(len(values) + 1, dtype=np.int64)
    running[0] = floor
    running[1:] = values
    np.maximum.accumulate(running, out=running)
    return running[:-1], int(running[-1])


def _later(a: Any, b: Any) -> Any:
    """The larger of two integers or int64 arrays, where None is undefined."""
    if a is None or b is None:
        return b if a is None else a
    return np.maximum(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else max(a, b)


def _checked(name: str, values: np.ndarray, n: int, dtype: type) -> np.ndarray:
    """The array as it is, or ValueError: a cast would quietly cut fractions or turn NULLs into numbers."""
    values = np.asarray(values)
    if values.shape != (n,) or (n and values.dtype != dtype):
        expected = f"{np.dtype(dtype).name}[{n}]"
        raise ValueError(f"{name} must be {expected}, not {values.dtype.name}{list(values.shape)}")
    return values.astype(dtype, copy=False)
