"""`TUMBLE(…)`, `HOP(…)`, `CUMULATE(…)` and `SESSION(…)` in FROM: their arguments, and the flow that goes through them
(C1, C3)."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tidegate.errors import did_you_mean
from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.dialect import WINDOW_FUNCTIONS
from tidegate.sql.dialect.intervals import Length, constant_ticks, read_interval
from tidegate.sql.dialect.query import Query, called, quoted_column, select_from
from tidegate.sql.dialect.rewrite import safe_sql
from tidegate.sql.dialect.text import Text, node_span
from tidegate.sql.resolve.flow import Flow, WindowTable, losing, quoted, time_kind
from tidegate.sql.resolve.reach import Spans, moved
from tidegate.sql.resolve.scope import LostWatermark, ScopeColumn, name_location, require_scalar
from tidegate.sql.views.window_sql import session_sql, window_sql
from tidegate.watermark import (
    CalendarHop,
    CalendarTumble,
    Cumulate,
    Hop,
    Sessions,
    TimeKind,
    Tumble,
    Window,
    WindowEnd,
    WindowStart,
)

_USAGE = {
    "TUMBLE": "TUMBLE(relation, time_column, INTERVAL '1 hour' [, offset])",
    "HOP": "HOP(relation, time_column, slide, size [, offset]), slide before size",
    "CUMULATE": "CUMULATE(relation, time_column, step, size [, offset]), step before size",
    "SESSION": "SESSION(relation, time_column, [key, …,] gap)",
}
#: Windows of HOP that one row may be in.
_MOST_WINDOWS = 10_000
_LENGTHS = {"TUMBLE": ("size",), "HOP": ("slide", "size"), "CUMULATE": ("step", "size")}


def window_function(table: exp.Expr | None) -> exp.Anonymous | None:
    """The call of TUMBLE, HOP, SESSION or CUMULATE that stands in FROM, if one does."""
    call = table.this if isinstance(table, exp.Table) else None
    if isinstance(call, exp.Anonymous) and call.name.upper() in WINDOW_FUNCTIONS:
        return call
    return None


def through_window(text: Text, call: exp.Anonymous, flow: Flow, number: int) -> Flow:
    """`flow` (the first argument of the call, read) with a row for each of its windows, known by `number`. Raises
    TG306–TG308 for the time column, TG310–TG312 for the other arguments."""
    function = call.name.upper()
    _check_count(text, call, function)
    time = _time_column(text, call, flow, function)
    if function == "SESSION":
        return _sessions(text, call, flow, time)
    window = _window(text, call, function, time_kind(time))
    flow, keep = _without_bounds(flow)
    windowed = window_sql(flow.rows, keep, quoted(time.name), window, time_kind(time), str(time.type))
    assert time.derived is not None
    reach = window.reach
    of_start = {**moved(time.spans, (0, reach - 1)), number: (window.shortest, reach)}
    of_end = {**moved(time.spans, (-reach, -1)), number: (0, 0)}
    start = ScopeColumn("window_start", time.type, WindowStart(time.derived, window), of_start)
    end = ScopeColumn("window_end", time.type, WindowEnd(time.derived, window), of_end)
    flow = replace(flow, ways=tuple(way | {number} for way in flow.ways))
    return _windowed(
        flow, windowed, (start, end), WindowTable(time, window), window.describe(time_kind(time))
    )


def _without_bounds(flow: Flow) -> tuple[Flow, tuple[str, ...]]:
    """The flow without columns that are called like the bounds, which stand in their place (a view over windows has
    some), and the names that are kept."""
    columns = tuple(c for c in flow.columns if c.called.casefold() not in ("window_start", "window_end"))
    kept = replace(flow, columns=columns)
    return kept, kept.everything()


def _check_count(text: Text, call: exp.Anonymous, function: str) -> None:
    count = len(call.expressions)
    if function == "SESSION":
        expected = None if count >= 3 else "at least 3"
    else:
        least = len(_LENGTHS[function]) + 2
        expected = None if least <= count <= least + 1 else f"{least} or {least + 1}"
    if expected is not None:
        message = f"{function} takes {expected} arguments, not {count}"
        raise error("TG310", message, name_location(text, call), _USAGE[function])


def _windowed(
    flow: Flow, rows: exp.Expr, bounds: tuple[ScopeColumn, ...], table: WindowTable, title: str
) -> Flow:
    columns = (*flow.columns, *bounds)
    found = replace(flow, columns=columns, rows=rows, window=table)
    return replace(found, nodes=(*flow.nodes, found.node(title)))


def _sessions(text: Text, call: exp.Anonymous, flow: Flow, time: ScopeColumn) -> Flow:
    arguments = call.expressions
    if flow.open_sql is not None:
        hint = "put the inner one into a view of its own, and read that view"
        raise error("TG343", "SESSION over SESSION in one query", name_location(text, call), hint)
    kind = time_kind(time)
    gap = _length(text, arguments[-1], kind, "SESSION", "gap")
    assert isinstance(gap, int)
    sessions, scope = Sessions(gap), flow.scope(text)
    nodes = [scope.resolve(argument) for argument in arguments[2:-1]]
    for node in nodes:
        require_scalar(text, node, "a key of SESSION")
    keys = [safe_sql(node, scope.lookup) for node in nodes]
    flow, keep = _without_bounds(flow)
    reason = "the session of a row is only known when the session is closed, and window_end is its time"
    flow = losing(flow, LostWatermark(reason, name_location(text, call)))
    windowed = session_sql(flow.rows, keep, quoted(time.name), keys, gap, kind, str(time.type))
    assert time.derived is not None
    # window_end: a session is final iff the watermark is there (C3); how far back it began, nobody knows beforehand.
    unbounded = {k: (None, high) for k, (_, high) in moved(time.spans, (0, -gap)).items()}
    end = ScopeColumn("window_end", time.type, time.derived, unbounded)
    start = ScopeColumn("window_start", time.type)
    table, shown = WindowTable(time, None, sessions, tuple(nodes)), sessions.describe(kind)
    by = ", ".join(text.slice(node_span(a)) for a in arguments[2:-1])
    found = _windowed(flow, windowed, (start, end), table, f"{shown} by {by}" if by else shown)
    bounds = [called(quoted_column(bound), f"_{bound}") for bound in ("window_start", "window_end")]
    open_sql = Query(select_from(bounds, windowed.copy()))
    return replace(found, open_sql=open_sql, open_time=replace(time, spans=_read_before(time.spans, gap)))


def _read_before(spans: Spans, gap: int) -> Spans:
    """The spans of what sessions are over, for who reads from a session's start on. Where an input's time is not a
    fixed distance away, rows before that start are found, too, but not by all of what they follow from: they may be
    wrong. Read from a gap earlier, what is wrong is too far away to be taken for the beginning of that session."""
    exact = all(low is not None and low == high for low, high in spans.values())
    return spans if exact else moved(spans, (-gap, 0))


def _window(text: Text, call: exp.Anonymous, function: str, kind: TimeKind) -> Window:
    arguments = call.expressions
    names = _LENGTHS[function]
    first = read_interval(arguments[2]) if isinstance(arguments[2], exp.Interval) else None
    if first is not None and first.months and kind is not TimeKind.EPOCH and function != "CUMULATE":
        return _calendar(text, call, function, kind)
    pairs = zip((*names, "offset"), arguments[2:], strict=False)
    ticks = {name: _length(text, node, kind, function, name) for name, node in pairs}
    size, offset = ticks["size"], ticks.get("offset", 0)
    step = ticks.get("slide", ticks.get("step", size))
    if size % step:
        shown = kind.format_duration
        message = f"size {shown(size)} is not a multiple of {names[0]} {shown(step)}"
        raise _not_a_multiple(text, call, function, message, step % size == 0)
    if function == "TUMBLE":
        return Tumble(size, offset % size)
    if function == "HOP":
        _require_few(text, call, size // step)
    return Hop(step, size, offset % step) if function == "HOP" else Cumulate(step, size, offset % size)


def _require_few(text: Text, call: exp.Anonymous, windows: int) -> None:
    """TG311 where a row is in more windows than anybody can compute."""
    if windows > _MOST_WINDOWS:
        message = f"every row would be in {windows:,} windows of HOP; at most {_MOST_WINDOWS:,} are allowed"
        where = text.at(node_span(call.expressions[2]))
        raise error("TG311", message, where, "write a longer slide, or a shorter size")


def _not_a_multiple(text: Text, call: exp.Anonymous, function: str, message: str, swapped: bool) -> Exception:
    hint = _USAGE[function]
    if swapped:
        hint = f"{function}(relation, time_column, {', '.join(_LENGTHS[function])})"
        hint = f"{hint}: are {_LENGTHS[function][0]} and size in the wrong order?"
    return error("TG312", message, text.at(node_span(call.expressions[3])), hint)


def _calendar(text: Text, call: exp.Anonymous, function: str, kind: TimeKind) -> Window:
    """Months and years: their lengths differ, so they are counted in months."""
    arguments = call.expressions
    months = []
    for name, argument in zip(_LENGTHS[function], arguments[2:], strict=False):
        length = read_interval(argument) if isinstance(argument, exp.Interval) else None
        if length is None or length.days or length.micros or length.months <= 0:
            hint = "write whole months or years: INTERVAL '1 month'"
            message = f"{name} of {function} must be whole months, like its other lengths"
            raise error("TG311", message, text.at(node_span(argument)), hint)
        months.append(length.months)
    offset = Length()
    if len(arguments) == len(_LENGTHS[function]) + 3:
        offset = _offset(text, arguments[-1], kind, function)
    ticks = Length(days=offset.days, micros=offset.micros).ticks(kind)
    if function == "TUMBLE":
        return CalendarTumble(kind, months[0], offset.months % months[0], ticks)
    slide, size = months
    if size % slide:
        message = f"size {size} months is not a multiple of slide {slide} months"
        raise _not_a_multiple(text, call, function, message, slide % size == 0)
    _require_few(text, call, size // slide)
    return CalendarHop(kind, slide, size, offset.months % slide, ticks)


def _offset(text: Text, node: exp.Expr, kind: TimeKind, function: str) -> Length:
    length = read_interval(node) if isinstance(node, exp.Interval) else None
    try:
        if length is not None:
            Length(days=length.days, micros=length.micros).ticks(kind)
            return length
    except ValueError as problem:
        raise error("TG311", f"offset of {function}: {problem}", text.at(node_span(node))) from None
    form = "an INTERVAL such as INTERVAL '1 month' or INTERVAL '5 days'"
    raise error("TG311", f"offset of {function} must be {form}", text.at(node_span(node)), _USAGE[function])


def _time_column(text: Text, call: exp.Anonymous, flow: Flow, function: str) -> ScopeColumn:
    node = call.expressions[1]
    where = text.at(node_span(node))
    if isinstance(node, exp.Interval | exp.Literal):
        raise error("TG307", f"{function} needs a column as its time", where, _USAGE[function])
    if not isinstance(node, exp.Column):
        instead = f"{function}((SELECT …, {text.slice(node_span(node))} AS t FROM {flow.name}), t, …)"
        raise error("TG307", f"{function} needs a column as its time", where, instead)
    scope = flow.scope(text)
    if len(node.parts) > 1 and node.parts[0].name.casefold() not in scope.qualifiers:
        raise error("TG202", f'there is no relation "{node.parts[0].name}" here', where)
    qualifier = node.parts[0].name if len(node.parts) > 1 else None
    found = scope.written(node.parts[-1].name, qualifier)
    if not found:
        hint = did_you_mean(node.name, [c.called for c in flow.columns])
        raise error("TG202", f'there is no column "{node.parts[-1].name}" in "{flow.name}"', where, hint)
    column = found[0]
    if column.derived is None:
        raise _no_watermark(text, node, column, flow)
    return column


def _no_watermark(text: Text, node: exp.Expr, column: ScopeColumn, flow: Flow) -> Exception:
    where = text.at(node_span(node))
    carriers = [c.called for c in flow.carriers()]
    if column.lost is not None:
        lost = column.lost
        at = f"line {lost.location.line}, column {lost.location.column}"
        message = f'"{column.called}" lost its watermark at {at}: {lost.reason}'
        hint = f"use {carriers[0]} itself, or {carriers[0]} ± INTERVAL" if carriers else _carrier_hint(flow)
        return error("TG308", message, where, hint)
    relation = flow.relation
    if relation is not None and relation.watermark is None:
        example = f"declare WATERMARK FOR ts AS ts - INTERVAL '5 seconds' in {relation.kind} {relation.name}"
        return error("TG306", f'{relation.kind} "{relation.name}" has no watermark', where, example)
    if not carriers and relation is None:
        message = f'no column of "{flow.name}" carries a watermark'
        return error("TG306", message, where, "run tidegate explain, which shows where it was lost")
    hint = f"use {carriers[0]}" if carriers else _carrier_hint(flow)
    return error("TG307", f'"{column.called}" is not the watermark column', where, hint)


def _carrier_hint(flow: Flow) -> str | None:
    if flow.relation is None or flow.relation.watermark is None:
        return None
    column = flow.relation.watermark.column
    return f"use {column} itself, or {column} ± INTERVAL: select it in the subquery"


def _length(text: Text, node: exp.Expr, kind: TimeKind, function: str, name: str) -> int:
    where = text.at(node_span(node))
    form = "an integer" if kind is TimeKind.EPOCH else "an INTERVAL such as INTERVAL '1 hour'"
    if kind is TimeKind.DATE:
        form = "an INTERVAL of whole days"
    try:
        ticks = constant_ticks(text, node, kind)
    except ValueError as problem:
        raise error("TG311", f"{name} of {function}: {problem}", where, f"write {form}") from None
    if ticks is None:
        raise error("TG311", f"{name} of {function} must be {form}", where, _USAGE[function])
    if ticks <= 0 and name != "offset":
        raise error("TG311", f"{name} of {function} must be longer than zero", where)
    return ticks
