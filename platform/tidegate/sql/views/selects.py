"""SELECT and UNION ALL inside a view's query, as flows: projections, filters, groups, and OVER within windows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from sqlglot import exp

from tidegate.sql.catalog.objects import Over
from tidegate.sql.dialect.codes import error, unsupported
from tidegate.sql.dialect.dialect import Read
from tidegate.sql.dialect.query import OVER, Query, called, quoted_column, select_from, subquery
from tidegate.sql.dialect.rewrite import safe
from tidegate.sql.dialect.text import Text
from tidegate.sql.grammar.parts import keyword_location, refuse_arguments
from tidegate.sql.resolve.flow import Flow, Item, Reader, held, losing
from tidegate.sql.resolve.reach import hull
from tidegate.sql.resolve.scope import (
    ColumnScope,
    LostWatermark,
    ScopeColumn,
    common_type,
    known,
    require_scalar,
    require_type,
)
from tidegate.sql.views.from_clause import Ctes, check_ctes, read_from, refuse_over, with_ctes
from tidegate.sql.views.groups import Grouping, is_bound, read_grouping
from tidegate.sql.views.select_items import read_items, safe_item
from tidegate.watermark import Cumulate, least, shift

if TYPE_CHECKING:
    from tidegate.sql.views.over import OverCall

_ALLOWED = ("with_", "expressions", "from_", "where", "joins", "group", "having", "distinct", "windows")


@dataclass(frozen=True)
class Selected:
    """A SELECT, resolved. `source`: what it selects from, filtered and with the results of OVER; `grouping`: of GROUP
    BY, DISTINCT or aggregates, None without; `condition`: what WHERE says."""

    source: Flow
    scope: ColumnScope
    items: tuple[Item, ...]
    grouping: Grouping | None
    condition: exp.Expr | None = None

    def known(self, key: exp.Expr) -> ScopeColumn | None:
        """What is known of a key of GROUP BY."""
        if isinstance(key, exp.Column):
            return self.scope.find(key.name)
        return next((i.column for i in self.items if i.node.unnest() == key), None)

    def bound(self, name: str) -> str | None:
        """ "window_start" or "window_end" if that is what the item of this name is."""
        item = next(i for i in self.items if i.name.text == name)
        return item.node.unnest().name if is_bound(item.node) else None

    def flow(self, read: bool = True) -> Flow:
        """Its result as input of another query. `read`: whether there is one; without, the rows of groups are not those
        of the result, for which nothing asks."""
        columns = tuple(i.column for i in self.items)
        if self.grouping is not None:
            rows = self.source.rows
            if read:
                rows = subquery(self.grouping.query(rows, self.scope, self.items))
            found = replace(self.source, columns=columns, rows=rows, hidden=(), relation=None, window=None)
            title = "group" if self.grouping.keys else "aggregate"
        else:
            items = [*(safe_item(i, self.scope) for i in self.items), *map(quoted_column, self.source.hidden)]
            projected = subquery(select_from(items, self.source.rows))
            kept = {i.name.text for i in self.items if self.bound(i.name.text) == i.name.text}
            window = self.source.window if kept == {"window_start", "window_end"} else None
            found = replace(self.source, columns=columns, rows=projected, window=window)
            title = "project"
        # What FULL JOIN put side by side is gone with the columns.
        found = replace(found, merged={})
        return replace(found, nodes=(*found.nodes, found.node(title)))


def read_query(reader: Reader, query: exp.Expr, ctes: Ctes, named: bool = True) -> Flow:
    """A SELECT or UNION ALL of them, as a flow. `named`: every column needs a name. Raises TG106 for what a view can't
    hold."""
    if isinstance(query, exp.Subquery) and not query.alias:
        return read_query(reader, query.this, with_ctes(reader, query, ctes), named)
    if isinstance(query, exp.SetOperation):
        return _union(reader, query, ctes, named)
    return read_select(reader, require_select(reader, query), ctes, named).flow()


def require_select(reader: Reader, query: exp.Expr) -> exp.Select:
    """TG106 for VALUES and the rest."""
    if not isinstance(query, exp.Select):
        where = keyword_location(reader.text, query, "VALUES")
        raise unsupported(f"{query.key.upper()} in a view", where, "write a SELECT")
    return query


def read_select(reader: Reader, select: exp.Select, ctes: Ctes, named: bool = True) -> Selected:
    """One SELECT, resolved. `named`: every column needs a name."""
    text = reader.text
    refuse_arguments(text, select, _ALLOWED)
    ctes = with_ctes(reader, select, ctes)
    check_ctes(reader, select, ctes, read_query)
    source = read_from(reader, select, ctes, read_query)
    scope = source.scope(text)
    condition = read_condition(text, select.args.get("where"), scope)
    where = None if condition is None else safe(condition, scope.lookup)
    written = [*select.expressions]
    named_windows = select.args.get("windows") or []
    if named_windows or any(item.find(exp.Window) for item in written):
        _refuse_group(reader, select)
        source, written, scope = _through_over(reader, source, where, written, named_windows, scope)
        where = None
    if where is not None:
        source = _filtered(source, where)
    items = read_items(text, written, scope, named)
    grouping = read_grouping(text, select, scope, items, is_paired(source))
    if grouping is not None:
        refuse_over(reader, replace(source, open_sql=None), select, "OVER in event time below GROUP BY")
        items = grouping.checked(items)
    else:
        for item in items:
            require_scalar(text, item.node, "here without GROUP BY")
    return Selected(source, scope, tuple(items), grouping, condition)


def read_condition(text: Text, where: exp.Expr | None, scope: ColumnScope) -> exp.Expr | None:
    """What WHERE says, resolved; None without."""
    if where is None:
        return None
    condition = scope.resolve(where.this)
    require_scalar(text, condition, "in WHERE")
    require_type(text, where.this, scope.type(condition), ("boolean",), "WHERE")
    return condition


def _filtered(source: Flow, where: exp.Expr) -> Flow:
    found = replace(
        source, rows=subquery(select_from(map(quoted_column, source.everything()), source.rows, where))
    )
    return replace(found, nodes=(*found.nodes, found.node("filter")))


def _refuse_group(reader: Reader, select: exp.Select) -> None:
    for key in ("group", "having", "distinct"):
        part = select.args.get(key)
        if part:
            word = {"group": "GROUP BY", "having": "HAVING", "distinct": "DISTINCT"}[key]
            hint = "put the GROUP BY into a subquery: SELECT …, … OVER (…) FROM (SELECT … GROUP BY …)"
            where = keyword_location(reader.text, part, word) if isinstance(part, exp.Expr) else None
            raise error("TG343", f"OVER and {word} in one SELECT", where, hint)


def _through_over(
    reader: Reader,
    source: Flow,
    where: exp.Expr | None,
    written: list[exp.Expr],
    windows: list[exp.Expr],
    scope: ColumnScope,
) -> tuple[Flow, list[exp.Expr], ColumnScope]:
    """The source behind its OVER windows, and the items with their results as columns."""
    from tidegate.sql.views.over import extract

    text = reader.text
    written, calls = extract(text, written, windows, scope, source.hidden or None)
    if where is not None:
        source = _filtered(source, where)
    inside = [c for c in calls if c.closed_by is not None]
    ordered = [c for c in calls if c.closed_by is None]
    if inside and ordered:
        hint = "do one of them in a subquery"
        raise error(
            "TG343", "OVER within windows and OVER in event time in one SELECT", ordered[0].location, hint
        )
    if not calls:
        return source, written, scope
    if inside:
        found = _within(source, inside)
    else:
        found = _in_time(
            reader, _narrowed(source, scope, [*written, *windows, *(c.node for c in calls)]), ordered
        )
    return found, written, found.scope(text)


def _narrowed(source: Flow, scope: ColumnScope, nodes: list[exp.Expr]) -> Flow:
    """The source with the columns that these expressions may name: what waits for later rows is stored."""
    if any(node.is_star for node in nodes):
        return source
    used = {part.name.casefold() for n in nodes for c in n.find_all(exp.Column) for part in c.parts}
    return replace(source, columns=tuple(c for c in scope.columns if c.called.casefold() in used))


def _within(source: Flow, calls: list[OverCall]) -> Flow:
    """OVER with a watermark column in PARTITION BY: all rows of a partition become final together, so it is plain SQL.
    Only that column still says when."""
    closing = [c.closed_by for c in calls]
    assert all(closing)
    keep = frozenset.intersection(*[frozenset(c or ()) for c in closing])
    columns = []
    for one in source.columns:
        if one.derived is not None and one.name not in keep:
            lost = LostWatermark(
                "the row is complete only when its whole PARTITION BY is closed", calls[0].location
            )
            one = replace(one, derived=None, spans={}, lost=lost)
        columns.append(one)
    columns += [_result(c) for c in calls]
    items: list[exp.Expr] = [*map(quoted_column, source.everything())]
    items += [called(c.plain, c.function.name) for c in calls if c.plain is not None]
    found = replace(
        source, columns=tuple(columns), rows=subquery(select_from(items, source.rows)), window=None
    )
    return replace(found, nodes=(*found.nodes, found.node("over")))


def _in_time(reader: Reader, source: Flow, calls: list[OverCall]) -> Flow:
    """OVER in event time (C5)."""
    first = calls[0]
    refuse_over(reader, source, first.node, "OVER in event time below OVER")
    times = {c.time.name for c in calls if c.time is not None}
    if len(times) != 1 or first.time is None:
        hint = "ORDER BY the same column in every OVER"
        raise error("TG343", "OVER over two times in one SELECT", calls[-1].location, hint)
    time = next(c for c in source.columns if c.name == first.time.name)
    ahead = max((c.ahead for c in calls), key=lambda n: (n is None, n or 0))
    assert time.derived is not None
    if ahead is None:
        lost = LostWatermark("a frame that reaches ahead by rows carries no watermark (D4)", first.location)
        source = losing(source, lost)
    elif ahead:
        lost = LostWatermark(
            f"its distance from {time.called}, by which the rows are ordered, is not known", first.location
        )
        source = held(source, time, shift(time.derived, -ahead), lost)
    ties = source.hidden or tuple(c.name for c in source.columns if can_sort(c))
    rows_sql = Query(select_from(map(quoted_column, source.everything()), source.rows))
    over = partial(Over, rows_sql, time.name, ties, tuple(c.function for c in calls))
    columns = [*source.columns, *(_result(c) for c in calls)]
    hidden = ("_window_start", "_window_end", *source.hidden)
    found = replace(
        source,
        columns=tuple(columns),
        rows=Read(this=OVER),
        hidden=hidden,
        window=None,
        over=over,
        over_time=time,
        ahead=ahead,
    )
    return replace(found, nodes=(*found.nodes, found.node("over")))


def _result(call: OverCall) -> ScopeColumn:
    type_ = known(call.function.type) if call.function.type is not None else None
    return ScopeColumn(call.function.name, type_, starred=False)


def can_sort(column: ScopeColumn) -> bool:
    """Whether Spark can order by it: not by maps."""
    return column.type is None or "map<" not in str(column.type)


def _union(reader: Reader, query: exp.SetOperation, ctes: Ctes, named: bool) -> Flow:
    text = reader.text
    word = query.key.upper()
    if not isinstance(query, exp.Union):
        where = keyword_location(text, query.expression, word)
        raise unsupported(f"{word} in a view", where, "use a LEFT JOIN and WHERE … IS [NOT] NULL")
    if query.args.get("distinct"):
        where = keyword_location(text, query.expression, word)
        raise unsupported("UNION in a view", where, "use UNION ALL; a GROUP BY after it removes duplicates")
    refuse_arguments(text, query, ("this", "expression", "distinct", "with_"))
    ctes = with_ctes(reader, query, ctes)
    left, right = (
        read_query(reader, query.this, ctes, named),
        read_query(reader, query.expression, ctes, False),
    )
    for flow, part in ((left, query.this), (right, query.expression)):
        refuse_over(reader, flow, part, "OVER in event time below UNION ALL")
    if len(left.columns) != len(right.columns):
        where = keyword_location(text, query.expression, word)
        message = f"UNION ALL of {len(left.columns)} and {len(right.columns)} columns"
        raise error("TG342", message, where, "every SELECT needs the same columns, in the same order")
    where = keyword_location(text, query.expression, word)
    columns = tuple(
        _united(a, b, LostWatermark("the other side of UNION ALL carries no watermark there (D2)", where))
        for a, b in zip(left.columns, right.columns, strict=True)
    )
    a, b = (select_from([quoted_column(c.name) for c in flow.columns], flow.rows) for flow in (left, right))
    found = Flow(
        left.name,
        columns,
        subquery(exp.Union(this=a, expression=b, distinct=False)),
        (),
        (*left.reads, *right.reads),
        (*left.nodes, *right.nodes),
        ways=(*left.ways, *right.ways),
    )
    return replace(found, nodes=(*found.nodes, found.node("union all")))


def _united(a: ScopeColumn, b: ScopeColumn, lost: LostWatermark) -> ScopeColumn:
    type_ = common_type(a, b)
    plain = ScopeColumn(a.called, type_)
    if a.derived is not None and b.derived is not None and type_ is not None:
        spans = hull(a.spans, b.spans)
        return replace(plain, derived=least(a.derived, b.derived), spans=spans)
    if a.derived is not None or b.derived is not None:
        return replace(plain, lost=lost)
    return replace(plain, lost=a.lost or b.lost)


def is_paired(source: Flow) -> bool:
    """Whether window_start and window_end say each other: not where several windows start or end together."""
    window = source.window.window if source.window is not None else None
    return window is not None and not isinstance(window, Cumulate)
