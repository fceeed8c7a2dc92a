"""`TUMBLE(…)` and `HOP(…)` in FROM: their arguments, and the Spark SQL that gives every row its windows
(C1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from tidegate.errors import did_you_mean
from tidegate.sql.catalog import Catalog, Node
from tidegate.sql.codes import error, unsupported
from tidegate.sql.dialect import WINDOW_FUNCTIONS, to_spark
from tidegate.sql.flow import HIDDEN, Flow, read_flow
from tidegate.sql.intervals import constant_ticks
from tidegate.sql.scope import Scope, ScopeColumn, name_location
from tidegate.sql.text import Text, node_span
from tidegate.watermark import Hop, TimeKind, Tumble, WindowEnd, WindowStart

_USAGE = {
    "TUMBLE": "TUMBLE(relation, time_column, INTERVAL '1 hour' [, offset])",
    "HOP": "HOP(relation, time_column, slide, size [, offset]), slide before size",
}
_LENGTHS = {"TUMBLE": ("size",), "HOP": ("slide", "size")}
_MICROS_PER_DAY = 86_400_000_000


@dataclass(frozen=True)
class Windowed:
    """A relation with its windows: `sql` is a FROM item with the flow's columns, `window_start`, `window_end`
    and the hidden ones."""

    flow: Flow
    window: Tumble | Hop
    kind: TimeKind
    shift: int
    scope: Scope
    sql: str
    node: Node


def window_function(table: exp.Expr | None) -> exp.Anonymous | None:
    """The call of TUMBLE, HOP, SESSION or CUMULATE that stands in FROM, if one does."""
    call = table.this if isinstance(table, exp.Table) else None
    if isinstance(call, exp.Anonymous) and call.name.upper() in WINDOW_FUNCTIONS:
        return call
    return None


def read_window(text: Text, table: exp.Table, catalog: Catalog, ctes: Mapping[str, Flow]) -> Windowed:
    """Raises TG306–TG308 for the time column, TG310–TG312 for the other arguments."""
    call = window_function(table)
    assert call is not None
    function = call.name.upper()
    if function not in _USAGE:
        raise unsupported(function, name_location(text, call), "there are TUMBLE and HOP")
    arguments = call.expressions
    lengths = _LENGTHS[function]
    if not len(lengths) + 2 <= len(arguments) <= len(lengths) + 3:
        message = f"{function} takes {len(lengths) + 2} or {len(lengths) + 3} arguments, not {len(arguments)}"
        raise error("TG310", message, name_location(text, call), _USAGE[function])
    flow = read_flow(text, arguments[0], catalog, ctes, function)
    time = _time_column(text, arguments[1], flow, function)
    watermark = flow.relation.watermark
    assert watermark is not None
    names = (*lengths, "offset")
    ticks = {
        name: _length(text, node, watermark.kind, function, name)
        for name, node in zip(names, arguments[2:], strict=False)
    }
    size, offset = ticks["size"], ticks.get("offset", 0)
    if function == "HOP":
        slide = ticks["slide"]
        if size % slide:
            hint = "HOP(relation, time_column, slide, size)"
            if slide % size == 0:
                hint = f"{hint}: are slide and size the wrong way round?"
            shown = watermark.kind.format_duration
            message = f"size {shown(size)} is not a multiple of slide {shown(slide)}"
            raise error("TG312", message, text.at(node_span(arguments[3])), hint)
        window: Tumble | Hop = Hop(slide, size, offset % slide)
    else:
        window = Tumble(size, offset % size)
    return _windowed(text, table, flow, time, window, watermark.kind)


def _time_column(text: Text, node: exp.Expr, flow: Flow, function: str) -> ScopeColumn:
    where = text.at(node_span(node))
    relation = flow.relation
    watermark = relation.watermark
    example = f"declare WATERMARK FOR ts AS ts - INTERVAL '5 seconds' in {relation.kind} {relation.name}"
    if isinstance(node, exp.Interval | exp.Literal):
        raise error("TG307", f"{function} needs a column as its time", where, _USAGE[function])
    if not isinstance(node, exp.Column):
        hint = f"{function}((SELECT …, {text.slice(node_span(node))} AS t FROM {flow.name}), t, …)"
        raise error("TG307", f"{function} needs a column as its time", where, hint)
    name = node.parts[-1].name
    if len(node.parts) > 1 and node.parts[0].name.casefold() != flow.name.casefold():
        raise error("TG202", f'there is no relation "{node.parts[0].name}" here', where)
    found = next((c for c in flow.columns if c.name.casefold() == name.casefold()), None)
    if found is None:
        hint = did_you_mean(name, [c.name for c in flow.columns])
        raise error("TG202", f'there is no column "{name}" in "{flow.name}"', where, hint)
    if watermark is None:
        raise error("TG306", f'{relation.kind} "{relation.name}" has no watermark', where, example)
    if found.lost is not None:
        lost = found.lost
        at = f"line {lost.location.line}, column {lost.location.column}"
        hint = f"use {watermark.column} itself, or {watermark.column} ± INTERVAL"
        raise error("TG308", f'"{found.name}" lost its watermark at {at}: {lost.reason}', where, hint)
    if found.derived is None:
        carriers = [c.name for c in flow.columns if c.derived is not None]
        hint = f"use {carriers[0]}" if carriers else f"select {watermark.column} in the subquery"
        raise error("TG307", f'"{found.name}" is not the watermark column', where, hint)
    return found


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


def _windowed(
    text: Text, table: exp.Table, flow: Flow, time: ScopeColumn, window: Tumble | Hop, kind: TimeKind
) -> Windowed:
    assert time.derived is not None
    start = ScopeColumn("window_start", time.type, WindowStart(time.derived, window))
    end = ScopeColumn("window_end", time.type, WindowEnd(time.derived, window))
    for column in flow.columns:
        if column.name.casefold() in (start.name, end.name):
            hint = f"rename {column.name} in a subquery"
            where = text.at(node_span(table.this))
            raise error("TG206", f'"{flow.name}" has a column {column.name} of its own', where, hint)
    columns = (*flow.columns, start, end)
    alias = table.alias or flow.name
    if table.alias_column_names:
        raise unsupported("a list of column names", text.at(node_span(table.args["alias"])))
    scope = Scope(text, columns, frozenset([alias.casefold()]), f'in "{alias}"')
    node = Node(window.describe(kind), tuple((c.name, c.derived) for c in columns if c.derived is not None))
    return Windowed(flow, window, kind, time.shift, scope, _sql(flow, time, window, kind), node)


def _sql(flow: Flow, time: ScopeColumn, window: Tumble | Hop, kind: TimeKind) -> str:
    keep = ", ".join([*(_quoted(c.name) for c in flow.columns), *(_quoted(h) for h in HIDDEN)])
    column = _quoted(time.name)
    if kind is TimeKind.EPOCH:
        return _integer_sql(flow, keep, column, window, str(time.type))
    value, back = column, "{}"
    if kind is TimeKind.DATE:
        value, back = f"CAST({column} AS TIMESTAMP_NTZ)", "CAST({} AS DATE)"
    lengths = ", ".join(_seconds(kind, t) for t in (window.size, window.slide, window.offset))
    start, end = back.format("`_w`.`start`"), back.format("`_w`.`end`")
    # Spark's window() has to be alone in its SELECT.
    inner = f"(SELECT *, window({value}, {lengths}) AS `_w` FROM {flow.sql})"
    return f"(SELECT {keep}, {start} AS `window_start`, {end} AS `window_end` FROM {inner})"


def _integer_sql(flow: Flow, keep: str, column: str, window: Tumble | Hop, type_: str) -> str:
    """Integers have no window() in Spark: the last window that starts at or before the value, and those
    before it that still hold it. Two remainders instead of one of `value - offset`, which could overflow."""
    slide = window.slide
    value = f"CAST({column} AS BIGINT)"
    last = f"{value} - pmod(pmod({value}, {slide}L) - {window.offset}L, {slide}L)"
    count = window.size // slide
    starts = (
        last if count == 1 else f"explode(transform(sequence(0L, {count - 1}L), i -> {last} - i * {slide}L))"
    )
    inner = f"(SELECT *, {starts} AS `_w` FROM {flow.sql})"
    start, end = f"TRY_CAST(`_w` AS {type_})", f"TRY_CAST(`_w` + {window.size}L AS {type_})"
    return f"(SELECT {keep}, {start} AS `window_start`, {end} AS `window_end` FROM {inner})"


def _seconds(kind: TimeKind, ticks: int) -> str:
    """Exact text for window(): whole seconds where it is."""
    micros = ticks * _MICROS_PER_DAY if kind is TimeKind.DATE else ticks
    return f"'{micros // 1_000_000} seconds'" if micros % 1_000_000 == 0 else f"'{micros} microseconds'"


def _quoted(name: str) -> str:
    return to_spark(exp.to_identifier(name, quoted=True))
