"""CREATE MATERIALIZED VIEW: its query resolved, the clock that closes its rows, and the Spark SQL of a slice of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.objects import Accounts, Carried, CatalogColumn, Input, View
from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.text import Text
from tidegate.sql.dialect.types import UNKNOWN
from tidegate.sql.grammar.syntax import CreateViewSyntax
from tidegate.sql.resolve.flow import PLACE, Flow, Reader, node, time_kind
from tidegate.sql.resolve.reach import Spans, between, moved, plus
from tidegate.sql.resolve.relations import check_object_name
from tidegate.sql.resolve.scope import ScopeColumn
from tidegate.sql.views.from_clause import Ctes, with_ctes
from tidegate.sql.views.groups import is_bound
from tidegate.sql.views.pane_windows import pane_windows
from tidegate.sql.views.selects import Selected, can_sort, read_query, read_select
from tidegate.sql.views.view_sql import Bounds, grouped_sql, rows_sql, ungrouped_sql
from tidegate.watermark import (
    Derived,
    EarliestOpen,
    Hop,
    Identity,
    Least,
    Shift,
    TimeKind,
    Tumble,
    Window,
    WindowEnd,
    WindowStart,
)

#: Letters of a definition that may be nested so deeply that its query can't be written: about a hundred operators.
_LONG = 500
#: Of the thousand calls within calls that Python allows: a tick writes the query from deeper than a check.
_SPARE_CALLS = 150


@dataclass(frozen=True)
class Closing:
    """What says when a row is final: the watermark `clock`, on the scale of `_window_end`. The time of input k lies in
    [_window_end + low, _window_end + high], `spans[k]`. `column`: the column whose one tick the row is in, None for a
    window; `key`: that column as a key of GROUP BY."""

    kind: TimeKind
    clock: Derived
    spans: Spans
    column: ScopeColumn | None = None
    key: exp.Expr | None = None


def analyse_view(text: Text, syntax: CreateViewSyntax, catalog: Catalog) -> View:
    """Raises TG106 for what views can't do, TG2xx for names and types, TG3xx for windows and watermarks."""
    check_object_name(text, syntax.name)
    reader = Reader(text, catalog)
    query: exp.Expr = syntax.query
    ctes: Ctes = {}
    while isinstance(query, exp.Subquery) and not query.alias:
        ctes = with_ctes(reader, query, ctes)
        query = query.this
    selected = read_select(reader, query, ctes) if isinstance(query, exp.Select) else None
    flow = selected.flow(read=False) if selected is not None else read_query(reader, query, ctes)
    closing = _closing(flow, selected)
    if closing is None and syntax.emit is not None:
        raise _no_watermark(text, syntax, flow, selected)
    if flow.open_sql is not None and syntax.emit is None:
        hint = "write EMIT ON WINDOW CLOSE at the end"
        raise error("TG341", "SESSION needs EMIT ON WINDOW CLOSE (C3)", text.at(syntax.name.span), hint)
    view = _view(syntax, reader, flow, selected, closing)
    if len(view.definition) > _LONG:
        _write(view, _SPARE_CALLS)
    return view


def _write(view: View, calls: int) -> None:
    """Write the query for Spark from so many calls within calls: as deep in them as a tick is when it does so. Raises
    RecursionError."""
    if calls:
        _write(view, calls - 1)
    else:
        for query in (view.query_sql, view.open_sql, view.over and view.over.query_sql):
            str(query)


def _closing(flow: Flow, selected: Selected | None) -> Closing | None:
    """C2, C4, C6: what says when a row is final; None if nothing does."""
    if flow.over_time is not None:
        return _one_tick(flow.over_time)
    if flow.open_sql is not None:
        return _session(selected)
    if selected is None or selected.grouping is None:
        carriers = [c for c in flow.columns if c.derived is not None]
        if not carriers and selected is not None:
            # A query need not show its time.
            carriers = list(selected.source.carriers())
        return _one_tick(carriers[0]) if carriers else None
    grouping, source = selected.grouping, selected.source
    ends = [k.name for k in grouping.keys if isinstance(k, exp.Column) and is_bound(k)]
    if source.window is not None and ends and (grouping.paired or "window_end" in ends):
        time = source.window.time
        end = next(c for c in source.columns if c.name == "window_end")
        assert time.derived is not None
        return Closing(time_kind(time), time.derived, end.spans)
    for key in grouping.keys:
        found = selected.known(key)
        if found is not None and found.derived is not None:
            return replace(_one_tick(found), key=key)
    return None


def _session(selected: Selected | None) -> Closing | None:
    """C3: a session closes as a whole, so that window_end itself has to say when its rows and groups are final."""
    source = selected.source if selected is not None else None
    if selected is None or source is None or source.window is None:
        return None
    end = next(c for c in source.columns if c.name == "window_end")
    keys = (
        selected.grouping.keys if selected.grouping is not None else (exp.column("window_end", quoted=True),)
    )
    if not any(isinstance(k, exp.Column) and k.name == "window_end" for k in keys):
        return None
    assert source.window.time.derived is not None
    return Closing(time_kind(source.window.time), source.window.time.derived, end.spans)


def _one_tick(column: ScopeColumn) -> Closing:
    """A row is in the one tick of this column's value."""
    assert column.derived is not None
    spans = moved(column.spans, (-1, -1))
    return Closing(time_kind(column), column.derived, spans, column)


def _view(
    syntax: CreateViewSyntax, reader: Reader, flow: Flow, selected: Selected | None, closing: Closing | None
) -> View:
    text = reader.text
    order: tuple[str, ...] = ()
    if selected is not None and selected.grouping is not None:
        query_sql = grouped_sql(selected, _bounds(closing, selected))
    else:
        order = _order(flow) if syntax.emit is not None else ()
        query_sql = ungrouped_sql(flow, selected, closing.column if closing is not None else None, order)
    return View(
        name=syntax.name.text,
        columns=tuple(_column(c) for c in flow.columns if c.starred),
        inputs=_inputs(reader, flow, closing),
        emit_on_window_close=syntax.emit is not None,
        kind=closing.kind if closing is not None else TimeKind.EPOCH,
        clock=closing.clock if closing is not None else None,
        group_columns=_group_columns(selected),
        query_sql=query_sql,
        order=order,
        over=flow.over(query_sql) if flow.over is not None else None,
        open_sql=flow.open_sql,
        accounts=_accounts(selected, closing),
        pane_windows=pane_windows(reader, selected) if closing is not None else None,
        watermarks=_watermarks(flow, selected, closing) if closing is not None else (),
        derived=(*flow.nodes[:-1], node(f"view {syntax.name.text}", flow.columns)),
        gates=tuple(reader.gates.values()),
        definition=text.slice(syntax.span),
        session_keys=_session_keys(selected),
        description=syntax.description,
        location=text.at(syntax.name.span),
        renamed_from=syntax.renamed_from.text if syntax.renamed_from is not None else None,
    )


def _bounds(closing: Closing | None, selected: Selected) -> Bounds:
    """`_window_start` and `_window_end` of a group."""
    if closing is None:
        return Bounds()
    if closing.key is not None:
        return Bounds.of_key(closing.key, closing.kind)
    grouping = selected.grouping
    assert grouping is not None
    shown = grouping.paired or any(is_bound(k) and k.name == "window_start" for k in grouping.keys)
    return Bounds("`window_start`" if shown else "min(`window_start`)", "`window_end`")


def _order(flow: Flow) -> tuple[str, ...]:
    """C4: (partition, offset) of one relation's rows, else all columns that can be compared. What OVER releases at one
    instant is sorted by time first."""
    first = ("_window_start",) if flow.over is not None else ()
    if all(p in flow.hidden for p in PLACE):
        return (*first, *PLACE)
    return (*first, *(c.name for c in flow.columns if c.starred and can_sort(c)))


def _inputs(reader: Reader, flow: Flow, closing: Closing | None) -> tuple[Input, ...]:
    """The inputs with what a slice needs of them."""
    found = []
    for number, one in enumerate(reader.inputs):
        low, high = closing.spans.get(number, (None, None)) if closing is not None else (None, None)
        low = plus(low, 1)
        if flow.open_time is not None:
            # From the earliest open session on: the engine knows where it begins. Up to the clock itself: a row that is
            # in no final session is what keeps its own from being final.
            low, high = flow.open_time.spans.get(number, (None, None))
            high = plus(high, -1)
        if one.time_column is None or one.lookup:
            low = high = None
        found.append(replace(one, low=low, high=plus(high, 1)))
    return tuple(found)


def _watermarks(flow: Flow, selected: Selected | None, closing: Closing) -> tuple[Carried, ...]:
    """D3: what carries a watermark in the view's rows, by its own frontier."""
    found = []
    window = None
    if selected is not None and (selected.grouping is not None or flow.open_sql is not None):
        window = selected.source.window
    for column in flow.columns:
        bound = None
        if window is not None and closing.column is None and selected is not None:
            bound = selected.bound(column.name)
        if bound is not None and window is not None:
            found.append(_bound(column.name, bound, window.window))
            continue
        if _closes(column, selected, closing):
            found.append(Carried(column.name, Identity(), 1, 1))
            continue
        kind = TimeKind.from_spark_type(str(column.type))
        if column.derived is None or not column.starred or kind is None or not kind.same_ticks(closing.kind):
            continue
        low, high = between(column.spans, closing.spans, flow.ways)
        if high is None:
            continue
        # Rows of OVER that reach ahead are released that much later.
        low, high = plus(low, flow.ahead), high + (flow.ahead or 0)
        back = 1 - high
        found.append(Carried(column.name, Shift(Identity(), back) if back else Identity(), low, high))
    return tuple(found)


def _closes(column: ScopeColumn, selected: Selected | None, closing: Closing) -> bool:
    """Whether a column of the result is the one by whose ticks it closes."""
    if closing.key is not None and selected is not None:
        return next(i for i in selected.items if i.name.text == column.name).node.unnest() == closing.key
    return column is closing.column


def _bound(name: str, bound: str, window: Window | None) -> Carried:
    if window is None:
        if bound == "window_end":
            return Carried(name, Identity(), 0, 0)
        return Carried(name, EarliestOpen(), 1, None)
    if bound == "window_end":
        return Carried(name, WindowEnd(Identity(), window), 0, 0)
    exact = isinstance(window, Tumble | Hop)
    return Carried(name, WindowStart(Identity(), window), window.reach if exact else 1, window.reach)


def _accounts(selected: Selected | None, closing: Closing | None) -> Accounts | None:
    """A1: only where windows are filled by the rows of one relation."""
    if (
        closing is None
        or closing.column is not None
        or selected is None
        or selected.grouping is None
        or selected.grouping.several
    ):
        return None
    source = selected.source
    table, relation = source.window, source.relation
    if table is None or table.window is None or relation is None or relation.watermark is None:
        return None
    if len(source.reads) != 1:
        return None
    low, high = table.time.spans.get(source.reads[0], (None, None))
    if low is None or low != high or not all(p in source.hidden for p in PLACE):
        return None
    rows = rows_sql(selected)
    return Accounts(table.window, relation.watermark.column, -low, rows)


def _group_columns(selected: Selected | None) -> tuple[str, ...]:
    if selected is None or selected.grouping is None:
        return ()
    grouping = selected.grouping
    return tuple(i.name.text for i in selected.items if grouping.is_key(i.node))


def _session_keys(selected: Selected | None) -> tuple[str, ...]:
    """Of the group columns those that are the same for all rows of a session."""
    table = selected.source.window if selected is not None else None
    if selected is None or selected.grouping is None or table is None or table.sessions is None:
        return ()
    keys = {key.sql() for key in table.keys} | {key.name for key in table.keys if isinstance(key, exp.Column)}

    def is_key(node: exp.Expr) -> bool:
        return (node.name if isinstance(node, exp.Column) else node.sql()) in keys

    grouping = selected.grouping
    return tuple(i.name.text for i in selected.items if grouping.is_key(i.node) and is_key(i.node.unnest()))


def _column(column: ScopeColumn) -> CatalogColumn:
    exact = column.type is not None and column.type.is_exact
    parts = column.derived.of if isinstance(column.derived, Least) else (column.derived,)
    never_null = all(isinstance(p.of if isinstance(p, Shift) else p, WindowStart | WindowEnd) for p in parts)
    return CatalogColumn(column.name, str(column.type) if exact else UNKNOWN, nullable=not never_null)


def _no_watermark(text: Text, syntax: CreateViewSyntax, flow: Flow, selected: Selected | None) -> Exception:
    """TG309 (C6): with why the query has none, where that is known."""
    assert syntax.emit is not None
    where = text.at(syntax.emit)
    grouping = selected.grouping if selected is not None else None
    grouped = grouping is not None
    source = selected.source if selected is not None else flow
    items = selected.items if selected is not None else ()
    keys = [i.column for i in items if grouping is not None and grouping.is_key(i.node)]
    lost = next((c for c in keys if c.lost is not None), None)
    if grouped and source.carriers() and lost is None:
        names = " or ".join(c.called for c in source.carriers()[-2:])
        hint = f"add {names} to GROUP BY, so that it is known when a group is final; or leave out EMIT …"
        return error("TG309", "EMIT ON WINDOW CLOSE needs a watermark column in GROUP BY", where, hint)
    what = "EMIT ON WINDOW CLOSE needs a watermark" + (" column in GROUP BY" if grouped else "")
    lost = lost or next((c for c in (*source.columns, *flow.columns) if c.lost is not None), None)
    if lost is not None and lost.lost is not None:
        at = f"line {lost.lost.location.line}, column {lost.lost.location.column}"
        hint = f'"{lost.called}" lost its watermark at {at}: {lost.lost.reason}'
    elif source.relation is not None:
        name = f"{source.relation.kind} {source.relation.name}"
        hint = f"declare WATERMARK FOR ts AS ts - INTERVAL '5 seconds' in {name}, or leave out EMIT …"
    else:
        hint = (
            "no column that the query reads carries a watermark, and tidegate explain shows why; "
            "or leave out EMIT …"
        )
    return error("TG309", what, where, hint)
