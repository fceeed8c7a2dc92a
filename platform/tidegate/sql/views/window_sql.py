"""Spark SQL that gives every row its windows: TUMBLE, HOP, CUMULATE, months (C1) and SESSION (C3).

Arithmetic is on ticks (watermark.TimeKind) and exact: a bound that its type can't hold is NULL. Rows without
a time are in no window.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tidegate.sql.dialect.query import called, own, quoted_column, select_from, subquery, with_column
from tidegate.watermark import CalendarHop, CalendarTumble, Cumulate, Hop, TimeKind, Tumble, Window

#: Spark's window() is a projection for each window that a row is in: of more, planning them takes longer than the rest.
MOST_EXPANDED = 64
_MICROS_PER_DAY = 86_400_000_000
#: Months from 1970 up to which the calendar's arithmetic is done: what dates and timestamps can hold, less a bit.
_MONTHS_OF_DATES, _MONTHS_OF_TIMESTAMPS = 5_800_000 * 12, 290_000 * 12


def window_sql(
    source: exp.Expr, keep: Sequence[str], time: str, window: Window, kind: TimeKind, type_: str
) -> exp.Expr:
    """A FROM item with the columns `keep`, `window_start` and `window_end`, and a row for every window that a row of
    `source` is in.

    `source`: a FROM item. `keep`: names of columns of it. `time`: a column of it, quoted, of the Spark type
    `type_`, which is also that of the bounds.
    """
    if isinstance(window, CalendarTumble | CalendarHop):
        return _calendar_sql(source, keep, time, window, kind, type_)
    if isinstance(window, Cumulate):
        return _cumulate_sql(source, keep, time, window, kind, type_)
    if kind is TimeKind.EPOCH or window.size // window.slide > MOST_EXPANDED:
        return _arithmetic_sql(source, keep, time, window, kind, type_)
    # Spark's own window() takes half the time of arithmetic in SQL. It wraps around at times less than a window away
    # from what a timestamp can hold.
    value, start, end = time, "`_w`.`start`", "`_w`.`end`"
    if kind is TimeKind.DATE:
        value = f"CAST({time} AS TIMESTAMP_NTZ)"
        start, end = (f"CAST({bound} AS DATE)" for bound in (start, end))
    lengths = ", ".join(_seconds(kind, t) for t in (window.size, window.slide, window.offset % window.slide))
    # window() has to be alone in its SELECT.
    inner = _with(source, "_w", f"window({value}, {lengths})")
    return _bounds(inner, keep, start, end)


def session_sql(
    source: exp.Expr,
    keep: Sequence[str],
    time: str,
    keys: Sequence[str],
    gap: int,
    kind: TimeKind,
    type_: str = "bigint",
) -> exp.Expr:
    """A FROM item with the columns `keep`, `window_start` and `window_end`: every row of `source` with its session.

    C3. `keys`: SQL over `source`'s columns; rows of one session agree in all of them, NULLs agree. `gap`: ticks; rows
    exactly that far apart are two sessions. `type_`: the Spark type of `time` where it is an integer. Not Spark's
    session_window(), which merges rows exactly `gap` apart.
    """
    by = f"PARTITION BY {', '.join(keys)} " if keys else ""
    ticks = _ticks(time, kind)
    # NULL where there is no row before, or where the distance is beyond int64: a new session either way.
    distance = f"try_subtract({ticks}, lag({ticks}) OVER ({by}ORDER BY {time}))"
    starts = f"CASE WHEN {distance} < {gap}L THEN 0 ELSE 1 END"
    begun = _with(source, "_w", starts, time)
    # The default frame holds all rows of the same time, so their order among themselves does not matter.
    number = f"sum(`_w`) OVER ({by}ORDER BY {time})"
    numbered = _with(begun, "_w_session", number)
    same = f"OVER (PARTITION BY {', '.join([*keys, '`_w_session`'])})"
    end = _from_ticks(f"try_add(max({ticks}) {same}, {gap}L)", kind, type_)
    return _bounds(numbered, keep, f"min({time}) {same}", end)


def shift_sql(time: str, ticks: int, kind: TimeKind, type_: str) -> str:
    """A time of the Spark type `type_` plus a number of ticks, of the same type; NULL if it can't hold the sum."""
    return time if not ticks else _from_ticks(f"try_add({_ticks(time, kind)}, {ticks}L)", kind, type_)


def _arithmetic_sql(
    source: exp.Expr, keep: Sequence[str], time: str, window: Tumble | Hop, kind: TimeKind, type_: str
) -> exp.Expr:
    last = _last_start(time, window.slide, window.offset, kind)
    starts = last
    if window.size != window.slide:
        starts = _each(f"try_subtract({last}, {window.size - window.slide}L)", last, f"{window.slide}L")
    inner = _with(source, "_w", starts, time)
    start = _from_ticks("`_w`", kind, type_)
    end = _from_ticks(f"try_add(`_w`, {window.size}L)", kind, type_)
    return _bounds(inner, keep, start, end)


def _cumulate_sql(
    source: exp.Expr, keep: Sequence[str], time: str, window: Cumulate, kind: TimeKind, type_: str
) -> exp.Expr:
    start = _last_start(time, window.size, window.offset, kind)
    first = f"try_add({_last_start(time, window.step, window.offset, kind)}, {window.step}L)"
    ends = _each(first, f"try_add({start}, {window.size}L)", f"{window.step}L")
    inner = _with(source, "_w", ends, time)
    return _bounds(inner, keep, _from_ticks(start, kind, type_), _from_ticks("`_w`", kind, type_))


def _calendar_sql(
    source: exp.Expr,
    keep: Sequence[str],
    time: str,
    window: CalendarTumble | CalendarHop,
    kind: TimeKind,
    type_: str,
) -> exp.Expr:
    day = f"CAST({shift_sql(time, -window.offset, kind, type_)} AS DATE)"
    month = f"((year({day}) - 1970) * 12 + month({day}) - 1)"
    slide, size = window.slide_months, window.size_months
    last = f"({month} - pmod({month} - {window.offset_months % slide}, {slide}))"
    starts = last if size == slide else _each(f"{last} - {size - slide}", last, str(slide))
    inner = _with(source, "_w", starts, time)
    bounds = (_first_of(month, window.offset, kind, type_) for month in ("`_w`", f"(`_w` + {size})"))
    return _bounds(inner, keep, *bounds)


def _first_of(month: str, offset: int, kind: TimeKind, type_: str) -> str:
    """Where the month with this number starts, plus the offset."""
    most = _MONTHS_OF_DATES if kind is TimeKind.DATE else _MONTHS_OF_TIMESTAMPS
    day = f"CASE WHEN {month} BETWEEN -{most} AND {most} THEN add_months(DATE '1970-01-01', {month}) END"
    return shift_sql(f"CAST({day} AS {type_})", offset, kind, type_)


def _last_start(time: str, slide: int, offset: int, kind: TimeKind) -> str:
    """The last multiple of `slide`, plus `offset`, at or before the time. Two remainders instead of one of
    `time - offset`, which could overflow."""
    ticks = _ticks(time, kind)
    return f"try_subtract({ticks}, pmod(pmod({ticks}, {slide}L) - {offset % slide}L, {slide}L))"


def _each(first: str, last: str, step: str) -> str:
    """A row for each of them; one with NULL if they can't be told, since no row may get lost (W3)."""
    return f"explode_outer(sequence({first}, {last}, {step}))"


def _ticks(time: str, kind: TimeKind) -> str:
    """A time as a bigint."""
    return {
        TimeKind.TIMESTAMP: f"unix_micros(CAST({time} AS TIMESTAMP))",
        TimeKind.TIMESTAMPTZ: f"unix_micros({time})",
        TimeKind.DATE: f"CAST(unix_date({time}) AS BIGINT)",
        TimeKind.EPOCH: f"CAST({time} AS BIGINT)",
    }[kind]


def _from_ticks(ticks: str, kind: TimeKind, type_: str) -> str:
    """A bigint as a time; NULL if the type can't hold it."""
    return {
        TimeKind.TIMESTAMP: f"CAST(timestamp_micros({ticks}) AS TIMESTAMP_NTZ)",
        TimeKind.TIMESTAMPTZ: f"timestamp_micros({ticks})",
        TimeKind.DATE: f"date_from_unix_date(TRY_CAST({ticks} AS INT))",
        TimeKind.EPOCH: f"TRY_CAST({ticks} AS {type_})",
    }[kind]


def _with(source: exp.Expr, name: str, value: str, time: str | None = None) -> exp.Expr:
    """Everything of `source` and a column more; of the rows that have a `time`, if it is given."""
    known = own(f"{time} IS NOT NULL") if time is not None else None
    return with_column(source, name, own(value), known)


def _bounds(inner: exp.Expr, keep: Sequence[str], start: str, end: str) -> exp.Expr:
    bounds = [called(own(start), "window_start"), called(own(end), "window_end")]
    return subquery(select_from([*map(quoted_column, keep), *bounds], inner))


def _seconds(kind: TimeKind, ticks: int) -> str:
    """Exact text for window(): whole seconds where it is."""
    micros = ticks * _MICROS_PER_DAY if kind is TimeKind.DATE else ticks
    return f"'{micros // 1_000_000} seconds'" if micros % 1_000_000 == 0 else f"'{micros} microseconds'"
