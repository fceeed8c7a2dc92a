"""CREATE MATERIALIZED VIEW: an aggregation over windows, resolved, and the Spark SQL of one slice of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.errors import did_you_mean
from tidegate.sql.catalog import Accounts, Catalog, Column, Input, Node, View
from tidegate.sql.codes import error, unsupported
from tidegate.sql.flow import (
    SLICE,
    keyword_location,
    output_name,
    read_ctes,
    refuse_arguments,
    require_select,
    where_sql,
)
from tidegate.sql.functions import kind_of
from tidegate.sql.relations import check_object_name
from tidegate.sql.scope import (
    Scope,
    aggregates,
    name_location,
    refuse_subqueries,
    require_scalar,
    require_type,
)
from tidegate.sql.syntax import CreateViewSyntax, Name
from tidegate.sql.text import Text, node_span
from tidegate.sql.types import UNKNOWN
from tidegate.sql.view_sql import is_bound, slice_sql
from tidegate.sql.windows import Windowed, read_window, window_function
from tidegate.watermark import Derived, Identity, Shift, WindowEnd, WindowStart

_EXAMPLE = "SELECT window_start, count(*) AS n FROM TUMBLE(rel, t, INTERVAL '1 hour') GROUP BY window_start"
_WINDOW_NAMES = ("TUMBLE", "HOP")


@dataclass(frozen=True)
class Item:
    """One column of the view: `node` is resolved."""

    name: Name
    node: exp.Expr


def analyse_view(text: Text, syntax: CreateViewSyntax, catalog: Catalog) -> View:
    """Raises TG106 for what views can't do yet, TG2xx for names and types, TG3xx for windows and
    watermarks."""
    check_object_name(text, syntax.name)
    if SLICE in text.slice(syntax.query_span):
        # The engine puts the name of the slice there.
        at = text.sql.index(SLICE, syntax.query_span[0])
        raise error("TG205", f"{SLICE} can't stand in a view's query", text.at((at, at + len(SLICE) - 1)))
    query = syntax.query
    while isinstance(query, exp.Subquery) and not query.alias:
        query = query.this
    select = require_select(text, query)
    refuse_arguments(text, select, ("with_", "expressions", "from_", "where", "group"))
    ctes = read_ctes(text, select, catalog, {})
    table = _window_table(text, select)
    windowed = read_window(text, table, catalog, ctes)
    scope = windowed.scope
    where = where_sql(text, select.args.get("where"), scope)
    items = _items(text, select, scope)
    keys = _keys(text, syntax, select, scope, items)
    for item in items:
        _check_grouped(text, item.node, keys)
    return _view(text, syntax, windowed, where, items, keys)


def _window_table(text: Text, select: exp.Select) -> exp.Table:
    from_ = select.args.get("from_")
    table = from_.this if from_ is not None else None
    if (
        isinstance(table, exp.Table)
        and isinstance(table.this, exp.Anonymous)
        and window_function(table) is None
    ):
        name = table.this.name
        hint = did_you_mean(name, _WINDOW_NAMES)
        if hint is not None or kind_of(name) is None:
            raise error("TG209", f'there is no function "{name}"', name_location(text, table.this), hint)
    if window_function(table) is None:
        where = text.at(node_span(table if table is not None else select))
        raise unsupported("a view without TUMBLE or HOP in FROM", where, _EXAMPLE)
    refuse_arguments(text, table, ("this", "alias"))
    return table


def _items(text: Text, select: exp.Select, scope: Scope) -> list[Item]:
    items: list[Item] = []
    seen: set[str] = set()
    for item in select.expressions:
        if item.is_star:
            raise error("TG211", "* can't be grouped", text.at(node_span(item)), "name the columns")
        name = output_name(text, item)
        node = scope.resolve(item.unalias())
        _check_aggregates(text, node, scope)
        if name.text.casefold() in seen:
            raise error(
                "TG206", f'column "{name.text}" is there twice', text.at(name.span), "AS another_name"
            )
        seen.add(name.text.casefold())
        items.append(Item(name, node))
    return items


def _check_aggregates(text: Text, node: exp.Expr, scope: Scope) -> None:
    for window in node.find_all(exp.Window):
        raise unsupported("OVER in a view", text.at(node_span(window)))
    refuse_subqueries(text, node)
    for call in aggregates(node):
        for argument in call.expressions:
            require_scalar(text, argument, f"inside {call.name}")
    for filtered in node.find_all(exp.Filter):
        condition = filtered.expression.this
        require_scalar(text, condition, "in FILTER")
        require_type(text, condition, scope.type(condition), ("boolean",), "FILTER")
    for call in node.find_all(exp.Anonymous):
        if kind_of(call.name) in ("table", "window") or call.name.lower() in ("window", "session_window"):
            raise unsupported(f"{call.name} in a view", name_location(text, call))
        if call.name.lower() in ("grouping", "grouping_id"):
            raise unsupported(call.name, name_location(text, call))


def _keys(
    text: Text, syntax: CreateViewSyntax, select: exp.Select, scope: Scope, items: list[Item]
) -> list[exp.Expr]:
    """The group keys, resolved. Raises TG309 (C6), TG217, TG210."""
    group = select.args.get("group")
    if group is None:
        if syntax.emit is not None:
            raise _no_watermark(text, syntax)
        raise unsupported("a view without GROUP BY", text.at(node_span(select)), _EXAMPLE)
    for several in group.find_all(exp.Rollup, exp.Cube, exp.GroupingSets):
        name = {"rollup": "ROLLUP", "cube": "CUBE"}.get(several.key, "GROUPING SETS")
        raise unsupported(f"{name} in a view", keyword_location(text, several, name))
    if group.args.get("all"):
        # ALL leaves no place of its own in the tree: it is the last ALL of the query.
        start, end = syntax.query_span
        at = text.sql.upper().rindex("ALL", start, end + 1)
        raise unsupported("GROUP BY ALL in a view", text.at((at, at + 2)), "name the columns")
    refuse_arguments(text, group, ("expressions",), "in GROUP BY of a view")
    keys = [_key(text, node, scope, items) for node in group.expressions]
    if not any(is_bound(k) for k in keys):
        if syntax.emit is not None:
            raise _no_watermark(text, syntax)
        where = text.at(node_span(group))
        raise unsupported(
            "GROUP BY without window_start or window_end", where, "add window_start to GROUP BY"
        )
    return keys


def _no_watermark(text: Text, syntax: CreateViewSyntax) -> Exception:
    assert syntax.emit is not None
    hint = "add window_start or window_end: they say when a group is final; or leave out EMIT …"
    message = "EMIT ON WINDOW CLOSE needs a watermark column in GROUP BY"
    return error("TG309", message, text.at(syntax.emit), hint)


def _key(text: Text, node: exp.Expr, scope: Scope, items: list[Item]) -> exp.Expr:
    if isinstance(node, exp.Literal) and not node.is_string:
        if not node.name.isdigit() or not 1 <= int(node.name) <= len(items):
            message = f"there is no column {node.name} in SELECT: there are {len(items)}"
            raise error("TG217", message, text.at(node_span(node)))
        key = items[int(node.name) - 1].node
    else:
        alias = None
        if isinstance(node, exp.Column) and not node.table and scope.find(node.name) is None:
            alias = next((i for i in items if i.name.text.casefold() == node.name.casefold()), None)
        key = alias.node if alias is not None else scope.resolve(node)
    for call in aggregates(key):
        raise error(
            "TG210", f"{call.name} is an aggregate: it can't be in GROUP BY", text.at(node_span(node))
        )
    require_scalar(text, key, "in GROUP BY")
    return key.unnest()


def _check_grouped(text: Text, node: exp.Expr, keys: list[exp.Expr]) -> None:
    """TG211 unless every column stands in an aggregate or is part of a group key."""
    if node.unnest() in keys:
        return
    if isinstance(node, exp.Anonymous) and kind_of(node.name) == "aggregate":
        return
    if isinstance(node, exp.Filter | exp.WithinGroup):
        _check_grouped(text, node.this, keys)
        return
    if isinstance(node, exp.Column):
        # One bound of a window says the other.
        if is_bound(node) and any(is_bound(k) for k in keys):
            return
        hint = f"add {node.name} to GROUP BY, or use any_value({node.name})"
        raise error(
            "TG211", f'"{node.name}" is neither grouped nor aggregated', text.at(node_span(node)), hint
        )
    for child in node.iter_expressions():
        _check_grouped(text, child, keys)


def _view(
    text: Text,
    syntax: CreateViewSyntax,
    windowed: Windowed,
    where: str,
    items: list[Item],
    keys: list[exp.Expr],
) -> View:
    scope = windowed.scope
    relation = windowed.flow.relation
    assert relation.watermark is not None
    grouped = tuple(i.name.text for i in items if i.node.unnest() in keys or is_bound(i.node.unnest()))
    outputs = [(item.name.text, item.node) for item in items]
    query_sql, rows_sql = slice_sql(windowed, where, outputs, keys, grouped)
    derived = tuple((i.name.text, d) for i in items if (d := _derived(i.node, scope)) is not None)
    reach = windowed.window.size
    own = Identity()
    return View(
        name=syntax.name.text,
        columns=tuple(_column(item, scope) for item in items),
        inputs=(
            Input(
                relation.name,
                relation.watermark.column,
                low=1 - reach - windowed.shift,
                high=-windowed.shift,
            ),
        ),
        emit_on_window_close=syntax.emit is not None,
        kind=windowed.kind,
        clock=Identity() if windowed.shift == 0 else Shift(Identity(), windowed.shift),
        group_columns=grouped,
        query_sql=query_sql,
        order=(),
        over=None,
        open_sql=None,
        accounts=Accounts(windowed.window, relation.watermark.column, windowed.shift, rows_sql),
        watermarks=tuple((n, replace(d, of=own)) for n, d in derived),
        derived=(*windowed.flow.nodes, windowed.node, Node(f"view {syntax.name.text}", derived)),
        gates=(),
        definition=text.slice(syntax.span),
        description=syntax.description,
        location=text.at(syntax.name.span),
    )


def _derived(node: exp.Expr, scope: Scope) -> Derived | None:
    node = node.unnest()
    column = scope.find(node.name) if isinstance(node, exp.Column) else None
    derived = column.derived if column is not None else None
    return derived if isinstance(derived, WindowStart | WindowEnd) else None


def _column(item: Item, scope: Scope) -> Column:
    type_ = scope.type(item.node)
    known = type_ is not None and type_.is_exact
    return Column(item.name.text, str(type_) if known else UNKNOWN, nullable=not is_bound(item.node.unnest()))
