"""The gate (W1, W2, W5): every row of one partition is judged once, in offset order, on time or late.

Config, logic and state apart: `GateConfig` is what the user declared, `GateState` is what must survive a
restart (R1), `judge` takes a state and rows and returns the next state. How rows are cut into calls changes
nothing (W4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from tidegate.watermark.memory import StrategyMemory
from tidegate.watermark.outoforder import SourceWatermark
from tidegate.watermark.strategy import Expression, Strategy
from tidegate.watermark.timekind import TimeKind

# Stands for "undefined" inside arrays: no int64 is below it, so it makes nothing late, as W1 asks.
_NONE = np.iinfo(np.int64).min
#: In `Judgement.missed`: there was no watermark yet.
UNDEFINED = _NONE
_HIGHEST = np.iinfo(np.int64).max
# Rows per round of the exact walk in `_raisers`: small enough that the watermark at the start of a round
# rules out most rows of it, large enough that numpy's cost per call vanishes.
_ROUND = 2048


@dataclass(frozen=True)
class GateConfig:
    """What `WATERMARK FOR` declares: the kind of the event time column and the strategy.

    `expires`: the gate of a table WITH TTL, where an event time exactly at the watermark is expired too (T1).
    `max_future_skew`: how far ahead of the clock a row may be and still raise anything (W9), in the kind's unit; None
    is off. `by_batch`: rows are compared with Wp as it stood when their micro-batch began, not row by row.
    """

    kind: TimeKind
    strategy: Strategy
    expires: bool = False
    max_future_skew: int | None = None
    by_batch: bool = False


@dataclass
class GateState:
    """What one partition's gate must remember; committed together with the rows it came from (R1).

    `watermark`: Wp, None while undefined. `next_offset`: the first offset not read yet (the engine advances
    it). `on_time`, `late`, `rejected`: rows so far; their sum is raw (W5). `max_event_time`: the largest
    event time seen, late rows included (W2), rejected rows not; also one too far in the future (it shows there, W8).
    `memory`: what the strategy remembers of earlier rows. Times are in the unit of the column's kind.
    """

    watermark: int | None = None
    next_offset: int = 0
    on_time: int = 0
    late: int = 0
    rejected: int = 0
    max_event_time: int | None = None
    memory: StrategyMemory | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain integers, ready for JSON; `memory`, where there is one, as short text."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        del values["memory"]
        return values | ({} if self.memory is None else {"memory": self.memory.text})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> GateState:
        """The inverse of `to_dict`; raises TypeError for a key it doesn't know."""
        text = values.get("memory")
        return cls(**{**values, "memory": None if text is None else StrategyMemory(text=text)})


class Judgement(NamedTuple):
    """What `judge` decided, in the order of its input.

    `late` bool[n]. `missed` int64[n]: max(Wp, G) as it stood before the row: the watermark as of the
    row (W14), and what a late row missed; `UNDEFINED` before there was one. `state`: the state after the last row.
    """

    late: np.ndarray
    missed: np.ndarray
    state: GateState


def is_late(event_time: Any, watermark: Any, published: int | None, expires: bool = False) -> Any:
    """W1, and the one place that says so: late iff event_time < max(Wp, G). Equal is on time; where rows expire
    (`GateConfig.expires`, T1) equal is late.

    Integers or int64 arrays (then elementwise). `watermark`: Wp before the row, `published`: G; None is
    undefined, and nothing is late by it. The lowest int64 means undefined as well: nothing is below it, and
    nothing expires by it.
    """
    bar = _later(watermark, published)
    if bar is None:
        return np.zeros(event_time.shape, dtype=bool) if isinstance(event_time, np.ndarray) else False
    if expires:
        return (event_time <= bar) & (bar != _NONE)
    return event_time < bar


def judge(
    config: GateConfig,
    state: GateState,
    published: int | None,
    event_time: np.ndarray,
    accepted: np.ndarray,
    strategy: np.ndarray | None = None,
    strategy_valid: np.ndarray | None = None,
    clock: int | None = None,
    batch_start: GateState | None = None,
) -> Judgement:
    """Judge consecutive rows of one partition, in offset order.

    `published`: G as last published, None while undefined. `event_time` int64[n]. `accepted` bool[n]: False
    for rejected rows, which are counted but not judged and raise nothing. `strategy` int64[n] and
    `strategy_valid` bool[n] (default: all): the values of an `Expression`; not valid means NULL or failed,
    and raises nothing (W2). `clock`: the micro-batch's recorded clock, in the unit of the column's kind, for
    `max_future_skew`. `batch_start`: the state as the micro-batch began (None: that is `state`), for `by_batch`.
    Neither the arrays nor `state` are changed; `next_offset` is left to the engine, as is the `memory` of an
    `Expression`. Raises ValueError for arrays of other lengths or types, or if strategy values are missing for an
    `Expression` or given for another strategy, or if there is no clock to compare with.
    """
    n = len(event_time)
    event_time = _checked("event_time", event_time, n, np.int64)
    accepted = _checked("accepted", accepted, n, np.bool_)
    if isinstance(config.strategy, Expression):
        if strategy is None:
            raise ValueError("an Expression strategy needs the values that the engine evaluated")
        offered = _checked("strategy", strategy, n, np.int64)
    elif strategy is not None or strategy_valid is not None:
        raise ValueError("strategy values are for an Expression: the others compute their own")
    leads, memory = accepted, None
    if config.max_future_skew is not None:
        if clock is None:
            raise ValueError("max_future_skew needs the clock of the batch")
        leads = accepted & (event_time <= min(clock + config.max_future_skew, _HIGHEST))
    if isinstance(config.strategy, SourceWatermark):
        offered, strategy_valid, memory = config.strategy.offer(state.memory, event_time, accepted, leads)
    elif isinstance(config.strategy, Expression):
        memory = state.memory if config.strategy.preceding else None
    else:
        offered = config.strategy.values(event_time)

    may_raise = leads & ~is_late(event_time, None, published, config.expires)
    if strategy_valid is not None:
        may_raise &= _checked("strategy_valid", strategy_valid, n, np.bool_)
    before: np.ndarray | int | None
    watermark: int | None
    if config.by_batch:
        before = (batch_start or state).watermark
        may_raise &= ~is_late(event_time, before, None, config.expires)
        watermark = _later(state.watermark, int(offered[may_raise].max()) if may_raise.any() else None)
    else:
        before, watermark = _watermarks(state.watermark, event_time, offered, may_raise, config.expires)

    late = accepted & is_late(event_time, before, published, config.expires)
    if state.watermark is not None and (watermark is None or watermark < state.watermark):
        raise AssertionError(f"W2: the watermark would go back from {state.watermark} to {watermark}")
    return Judgement(
        late,
        _missed(_later(before, published), n),
        _state_after(state, watermark, memory, event_time, accepted, late),
    )


def _state_after(
    state: GateState,
    watermark: int | None,
    memory: StrategyMemory | None,
    event_time: np.ndarray,
    accepted: np.ndarray,
    late: np.ndarray,
) -> GateState:
    """`state` with the rows counted and the newest of them seen, at `watermark`."""
    rows, accepted_rows, late_rows = (
        len(event_time),
        int(np.count_nonzero(accepted)),
        int(np.count_nonzero(late)),
    )
    newest = int(event_time[accepted].max()) if accepted_rows else None
    return GateState(
        watermark=watermark,
        next_offset=state.next_offset,
        on_time=state.on_time + accepted_rows - late_rows,
        late=state.late + late_rows,
        rejected=state.rejected + rows - accepted_rows,
        max_event_time=_later(state.max_event_time, newest),
        memory=memory,
    )


def _watermarks(
    start: int | None, event_time: np.ndarray, offered: np.ndarray, may_raise: np.ndarray, expires: bool
) -> tuple[np.ndarray, int | None]:
    """Wp before each row (int64[n], `_NONE` while undefined), and Wp after the last one.

    `may_raise` holds the rows that are neither rejected, nor without a strategy value, nor late by G.
    """
    floor = _NONE if start is None else start
    before, after = _running_max(floor, np.where(may_raise, offered, _NONE))
    # A late row that this maximum let through although late rows raise nothing (W2): only a strategy that
    # runs ahead of the event time can produce one. Up to the first of them the maximum is right, so without
    # one it is right everywhere.
    if np.any(may_raise & is_late(event_time, before, None, expires) & (offered > before)):
        may_raise = _raisers(floor, event_time, offered, may_raise, before, expires)
        before, after = _running_max(floor, np.where(may_raise, offered, _NONE))
    undefined = start is None and after == _NONE and not np.any(may_raise)
    return before, None if undefined else after


def _raisers(
    floor: int,
    event_time: np.ndarray,
    offered: np.ndarray,
    may_raise: np.ndarray,
    too_high: np.ndarray,
    expires: bool,
) -> np.ndarray:
    """The rows that do raise Wp (bool[n]), exactly, where late rows offer values above it.

    Whether a row is late depends on all before it, so this walks row by row, but only over the rows that
    can matter. `too_high` is never below the true Wp: rows on time even by it are on time. Their running
    maximum is never above the true Wp: rows late by it, or offering no more than it, raise nothing.
    """
    surely_on_time = may_raise & ~is_late(event_time, too_high, None, expires)
    too_low, _ = _running_max(floor, np.where(surely_on_time, offered, _NONE))
    matter = np.flatnonzero(may_raise & ~is_late(event_time, too_low, None, expires) & (offered > too_low))
    raisers = []
    watermark = floor
    for start in range(0, len(matter), _ROUND):
        rows = matter[start : start + _ROUND]
        rows = rows[~is_late(event_time[rows], watermark, None, expires) & (offered[rows] > watermark)]
        values = zip(rows.tolist(), event_time[rows].tolist(), offered[rows].tolist(), strict=True)
        for row, time, value in values:
            # `is_late`, written out: a call per row would cost more than everything else here.
            if value > watermark and not time < watermark + (expires and watermark != _NONE):
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


def _missed(bar: Any, n: int) -> np.ndarray:
    """The watermark that each row was compared with, as an array: where it is one for all rows, too."""
    return bar if isinstance(bar, np.ndarray) else np.full(n, _NONE if bar is None else bar, dtype=np.int64)


def _checked(name: str, values: np.ndarray, n: int, dtype: type) -> np.ndarray:
    """The array as it is, or ValueError: a cast would quietly cut fractions or turn NULLs into numbers."""
    values = np.asarray(values)
    if values.shape != (n,) or (n and values.dtype != dtype):
        expected = f"{np.dtype(dtype).name}[{n}]"
        raise ValueError(f"{name} must be {expected}, not {values.dtype.name}{list(values.shape)}")
    return values.astype(dtype, copy=False)
