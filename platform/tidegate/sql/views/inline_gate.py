"""`WATERMARK(rel, col, expr)` in FROM (W14): a gate inline, over the rows of an append-only relation.

It becomes a relation of its own, whose log is fed from the other's: so it judges, commits and remembers like any
other, and all views that write the same call share it.

Names are resolved by `resolve/scope.py`, as in every definition. Its SELECT is read here and not by `selects.py`,
because what comes out is a relation: each column needs a declared type, rows are judged one by one as they arrive, so
there is no more than projections and filters, and OVER is part of the strategy.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tidegate.errors import Location, did_you_mean
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.objects import CatalogColumn, Relation, Watermark
from tidegate.sql.dialect.codes import error, unsupported
from tidegate.sql.dialect.dialect import Read, to_text
from tidegate.sql.dialect.query import SLICE, everything, quoted_column, select_from, subquery
from tidegate.sql.dialect.rewrite import safe
from tidegate.sql.dialect.system_names import ROWTIME
from tidegate.sql.dialect.text import Text, node_span
from tidegate.sql.dialect.types import display
from tidegate.sql.grammar.syntax import CreateRelationSyntax, Name, WatermarkSyntax
from tidegate.sql.options.connectors import LOG_PLACE, LogOptions
from tidegate.sql.resolve.derivation import derive
from tidegate.sql.resolve.gate_names import STAR, first_name, name_by, over_columns, timed
from tidegate.sql.resolve.hidden import rowtime_stored, scope_columns
from tidegate.sql.resolve.relations import analyse_watermark, as_time, check_column_name
from tidegate.sql.resolve.scope import (
    ColumnScope,
    ScopeColumn,
    known,
    name_location,
    require_scalar,
    require_type,
)
from tidegate.watermark import Derived, Identity, TimeKind

_USAGE = "WATERMARK(relation, time_column, time_column - INTERVAL '1 minute')"


@dataclass(frozen=True)
class _Rows:
    """What is to be judged: rows of `relation`, through projections and filters. `made` is a FROM item. `windows`:
    items with OVER, by name: only the strategy can read them, for it alone runs in the order of arrival (W11). `times`:
    by column, in lower case, how a watermark of it follows from that of `relation` (D1). `made_of`: as of
    `Relation`."""

    relation: Relation
    name: str
    columns: tuple[CatalogColumn, ...]
    made: exp.Expr
    windows: dict[str, exp.Expr] = field(default_factory=dict)
    times: Mapping[str, Derived] = field(default_factory=dict)
    made_of: tuple[str, ...] | None = None

    def scope(self, text: Text) -> ColumnScope:
        columns = [ScopeColumn(c.name, known(c.type)) for c in self.columns]
        # `$rowtime` is in sight where a relation is read, and not in `*` (W12).
        own = {c.name for c in self.columns}
        columns += [c for c in scope_columns(self.relation) if c.called not in own]
        return ColumnScope(text, tuple(columns), frozenset([self.name.casefold()]), f'in "{self.name}"')


def watermark_call(item: exp.Expr | None) -> exp.Anonymous | None:
    """The call of WATERMARK that stands in FROM, or as an argument of a window function, if one does."""
    call = item.this if isinstance(item, exp.Table) else item
    return call if isinstance(call, exp.Anonymous) and call.name.upper() == "WATERMARK" else None


def inline_gate(text: Text, call: exp.Anonymous, catalog: Catalog, ctes: Container[str]) -> Relation:
    """The implicit relation of a call; `ctes`: the names of the CTEs in sight, in lower case. Calls that mean the same
    give the same relation.

    Raises TG322 for its arguments, TG201 and TG202 for names, TG301 and TG303 for column and strategy, TG106 for
    what can't be judged (a view, a table of changes).
    """
    if len(call.expressions) != 3:
        message = f"WATERMARK takes 3 arguments, not {len(call.expressions)}"
        raise error("TG322", message, name_location(text, call), _USAGE)
    source, column, strategy = call.expressions
    rows = _rows(text, source, catalog, ctes)
    if is_rowtime(column):
        rows = _with_rowtime(rows)
    if not isinstance(column.unnest(), exp.Column) or rows.scope(text).find(column.unnest().name) is None:
        if isinstance(column.unnest(), exp.Column):
            hint = did_you_mean(column.unnest().name, [c.name for c in rows.columns])
            message = f'there is no column "{column.unnest().name}" in "{rows.name}"'
            raise error("TG202", message, text.at(node_span(column)), hint)
        raise error("TG322", "WATERMARK needs a time column", text.at(node_span(column)), _USAGE)
    watermark = _watermark(text, rows, column.unnest(), strategy)
    return _relation(rows, watermark, call, name_location(text, call), catalog)


def advisory_gate(text: Text, call: exp.Anonymous, catalog: Catalog, ctes: Container[str]) -> Relation | None:
    """W12: what TUMBLE(rel, $rowtime, …) and its kin go over, if `rel` is a source or table that declares no watermark:
    its rows, judged by SOURCE_WATERMARK() on `$rowtime`. None for any other call.

    The relation itself keeps all its rows: only windows leave out what was judged late. Who makes no such windows
    pays nothing for the watermark.
    """
    if len(call.expressions) < 2 or not is_rowtime(call.expressions[1]):
        return None
    source, column = call.expressions[:2]
    is_name = isinstance(source, exp.Column) and len(source.parts) == 1
    if not is_name or source.name.casefold() in ctes:
        return None
    found = catalog.find(source.name)
    if not isinstance(found, Relation) or found.watermark is not None:
        return None
    strategy = exp.Anonymous(this="SOURCE_WATERMARK")
    strategy.meta["span"] = strategy.meta["name_span"] = node_span(column)
    rows = _with_rowtime(_rows(text, source, catalog, ctes))
    watermark = replace(_watermark(text, rows, column, strategy), expression="SOURCE_WATERMARK()")
    written = exp.Anonymous(this="WATERMARK", expressions=[source.copy(), column.copy(), strategy])
    return _relation(rows, watermark, written, text.at(node_span(column)), catalog)


def is_rowtime(node: exp.Expr) -> bool:
    """Whether an argument is `$rowtime`."""
    return isinstance(node, exp.Column) and node.name.casefold() == ROWTIME and len(node.parts) == 1


def _with_rowtime(rows: _Rows) -> _Rows:
    """With `$rowtime` as a column of its own, for the gate to judge by."""
    if any(c.name == ROWTIME for c in rows.columns):
        return rows
    made = timed(rows.columns, quoted_column(rowtime_stored(rows.relation)), rows.made)
    return replace(rows, columns=(*rows.columns, CatalogColumn(ROWTIME, "timestamp", False)), made=made)


def _relation(
    rows: _Rows, watermark: Watermark, call: exp.Anonymous, where: Location, catalog: Catalog
) -> Relation:
    """The implicit relation, whose name says what it does: the same for the same. One that has all columns of its
    relation has its name whatever they are, since they may change (E2)."""
    facts = {
        "relation": rows.relation.name,
        "column": watermark.column,
        "strategy": str(watermark.strategy),
    }
    name = name_by(facts)
    found = Relation(
        kind="gate",
        name=catalog.gate_names.get(name, name),
        columns=rows.columns,
        watermark=watermark,
        connector=LogOptions(relation=rows.relation.name, sql=everything(rows.made)),
        format=None,
        definition=to_text(call),
        description=f"rows of {rows.relation.name}, judged again by {to_text(call)}",
        location=where,
        follows=rows.times.get(watermark.column.casefold()),
        made_of=rows.made_of,
    )
    if rows.made_of is not None:
        return replace(found, name=first_name(found))
    seen = catalog.gates_seen.get(found.name)
    return found if seen is None else over_columns(found, seen.columns)


def _rows(text: Text, source: exp.Expr, catalog: Catalog, ctes: Container[str]) -> _Rows:
    """The relation, CTE or subquery that is the first argument, or stands in FROM of one that does."""
    if isinstance(source, exp.Subquery):
        rows = _projection(text, source.this, catalog, ctes)
        return replace(rows, name=source.alias or rows.name)
    if (inner := watermark_call(source)) is not None:
        where = name_location(text, inner)
        raise unsupported(
            "WATERMARK of a WATERMARK", where, "write WATERMARK once, with the strategy that you want"
        )
    if not isinstance(source, exp.Column | exp.Table) or not isinstance(source.this, exp.Identifier):
        raise error("TG322", "WATERMARK needs a relation", text.at(node_span(source)), _USAGE)
    name, where = source.name, text.at(node_span(source.this))
    if source.args.get("table") or source.args.get("db"):
        raise error("TG201", "schema-qualified names are not supported", where, name)
    if name.casefold() in ctes:
        definition = _cte(source, name)
        if definition is not None:
            return replace(_projection(text, definition.this, catalog, ctes), name=definition.alias)
    found = catalog.get(name, where)
    if not isinstance(found, Relation):
        what = "a view" if not hasattr(found, "suffix") else "a system table"
        instead = "its rows have no partitions and offsets: apply WATERMARK to the source or table below"
        raise unsupported(f"WATERMARK over {what}", where, instead)
    if found.primary_key:
        message = f'"{found.name}" has a PRIMARY KEY: its rows change'
        raise error("TG322", message, where, "WATERMARK judges rows of an append-only relation")
    columns = tuple(replace(c, generated=None) for c in found.columns)
    times = {found.watermark.column.casefold(): Identity()} if found.watermark else {}
    return _Rows(found, found.name, columns, Read(this=SLICE), times=times)


def _cte(source: exp.Expr, name: str) -> exp.CTE | None:
    """The CTE of this name that is in sight where `source` stands: those before the one that it stands in."""
    inside: exp.Expr = source
    while inside.parent is not None:
        parent = inside.parent
        candidates: list[exp.CTE] = []
        if isinstance(parent, exp.With):
            candidates = parent.expressions[: _place(parent.expressions, inside)]
        elif not isinstance(inside, exp.With) and parent.args.get("with_") is not None:
            candidates = parent.args["with_"].expressions
        for cte in reversed(candidates):
            if cte.alias.casefold() == name.casefold():
                return cte
        inside = parent
    return None


def _place(items: list[exp.CTE], item: exp.Expr) -> int:
    return next(i for i, candidate in enumerate(items) if candidate is item)


def _projection(text: Text, query: exp.Expr, catalog: Catalog, ctes: Container[str]) -> _Rows:
    """`SELECT … FROM rel [WHERE …]` and nothing else."""
    if isinstance(query, exp.Subquery):
        return _projection(text, query.this, catalog, ctes)
    if not isinstance(query, exp.Select):
        raise unsupported(
            f"{query.key.upper()} inside WATERMARK", text.at(node_span(query)), "write a SELECT"
        )
    for key, value in query.args.items():
        if value and key not in ("with_", "expressions", "from_", "where", "kind"):
            found = value[0] if isinstance(value, list) else value
            where = text.at(node_span(found if isinstance(found, exp.Expr) else query))
            instead = "only columns and WHERE are allowed here: a gate judges rows one by one, as they arrive"
            what = {"distinct": "DISTINCT", "group": "GROUP BY", "joins": "JOIN", "order": "ORDER BY"}.get(
                key
            )
            raise unsupported(f"{what or key.upper()} inside WATERMARK", where, instead)
    from_ = query.args.get("from_")
    if from_ is None:
        raise error("TG322", "this SELECT reads nothing", text.at(node_span(query)), _USAGE)
    inner = _rows(text, from_.this, catalog, ctes)
    inner = replace(inner, name=from_.this.alias or inner.name)
    scope = inner.scope(text)
    columns: list[CatalogColumn] = []
    items: list[exp.Expr] = []
    windows = dict(inner.windows)
    times: dict[str, Derived] = {}
    for item in query.expressions:
        if item.is_star:
            columns += inner.columns
            items += [quoted_column(c.name) for c in inner.columns]
            times |= inner.times
        elif item.find(exp.Window) is not None:
            windows[_window_name(text, item)] = item.unalias()
        else:
            column, node = _item(text, item, scope, inner)
            columns.append(column)
            items.append(exp.Alias(this=node, alias=exp.to_identifier(column.name, quoted=True)))
            if (time := _time(text, item.unalias(), scope, inner)) is not None:
                times[column.name.casefold()] = time
    _check_twice(text, query, columns)
    only = None
    if (condition := query.args.get("where")) is not None:
        if inner.windows:
            instead = "write WHERE in the same SELECT as OVER, where it is applied first"
            raise unsupported("WHERE after OVER inside WATERMARK", text.at(node_span(condition)), instead)
        resolved = scope.resolve(condition.this)
        require_scalar(text, resolved, "in WHERE")
        require_type(text, condition.this, scope.type(resolved), ("boolean",), "WHERE")
        only = safe(resolved, scope.lookup)
    made = subquery(select_from([*items, *map(quoted_column, LOG_PLACE)], inner.made, only))
    read = (*query.expressions, *([condition] if condition is not None else []))
    # (What stands before a dot may be a column, too.)
    named = {part.name.casefold() for item in read for c in item.find_all(exp.Column) for part in c.parts}
    if any(item.is_star for item in query.expressions):
        named |= {c.name.casefold() for c in inner.columns} | {STAR}
    made_of = tuple(sorted({*(inner.made_of or ()), *named}))
    return _Rows(inner.relation, inner.name, tuple(columns), made, windows, times, made_of)


def _item(text: Text, item: exp.Expr, scope: ColumnScope, inner: _Rows) -> tuple[CatalogColumn, exp.Expr]:
    """One column of the subquery, and what Spark computes it by."""
    written = item.unalias()
    node = scope.resolve(written)
    require_scalar(text, node, "inside WATERMARK")
    if not item.alias_or_name:
        raise error("TG216", "this column has no name", text.at(node_span(item)), "write AS name after it")
    name = Name(item.alias_or_name, node_span(item))
    check_column_name(text, name)
    bare = node.unnest()
    same = next((c for c in inner.columns if isinstance(bare, exp.Column) and c.name == bare.name), None)
    if same is not None:
        return replace(same, name=name.text), quoted_column(same.name)
    type_ = scope.type(node)
    if type_ is None or not type_.is_exact:
        hint = f"write its type: CAST(… AS BIGINT) AS {name.text}, or another type"
        raise error("TG219", f'the type of "{name.text}" is not known', text.at(node_span(written)), hint)
    return CatalogColumn(name.text, str(type_)), safe(node, scope.lookup)


def _time(text: Text, written: exp.Expr, scope: ColumnScope, inner: _Rows) -> Derived | None:
    """How a watermark of an item follows from that of the relation (D1); None: it does not."""
    columns = tuple(replace(c, derived=inner.times.get(c.name.casefold())) for c in scope.columns)
    return derive(text, scope.resolve(written), written, replace(scope, columns=columns)).derived


def _window_name(text: Text, item: exp.Expr) -> str:
    if not isinstance(item, exp.Alias):
        raise error("TG216", "this column has no name", text.at(node_span(item)), "write AS name after it")
    return item.alias.casefold()


def _check_twice(text: Text, query: exp.Select, columns: list[CatalogColumn]) -> None:
    seen: set[str] = set()
    for column in columns:
        if column.name.casefold() in seen:
            raise error("TG206", f'column "{column.name}" is given twice', text.at(node_span(query)))
        seen.add(column.name.casefold())


def _watermark(text: Text, rows: _Rows, column: exp.Column, strategy: exp.Expr) -> Watermark:
    """Column and strategy, checked as those of CREATE are."""
    written = text.slice(node_span(strategy))
    found = next(c for c in rows.columns if c.name.casefold() == column.name.casefold())
    if isinstance(strategy.unnest(), exp.Interval):
        # W14: an INTERVAL alone is how far the watermark trails.
        expression: exp.Expr = exp.Sub(this=exp.column(found.name, quoted=True), expression=strategy.copy())
        expression.meta["span"] = node_span(strategy)
        expression.this.meta["span"] = node_span(column)
        written = f"{found.name} - {written}"
    elif isinstance(strategy.unnest(), exp.Literal):
        hint = f"write how far it trails: {found.name} - {written}"
        if TimeKind.from_spark_type(found.type) is not TimeKind.EPOCH:
            hint = "write an INTERVAL, or an expression over the row: ts - INTERVAL '1 minute'"
        message = f"this watermark would always be {written}"
        raise error("TG322", message, text.at(node_span(strategy)), hint)
    else:
        expression = _with_windows(strategy.copy(), rows.windows)
    clause = WatermarkSyntax(
        Name(found.name, node_span(column)), expression, written, node_span(strategy), None
    )
    created = CreateRelationSyntax(
        span=node_span(strategy),
        description=None,
        kind=rows.relation.kind,
        name=Name(rows.name, node_span(column)),
        if_not_exists=False,
        columns=(),
        watermarks=(clause,),
        options=None,
        options_span=None,
        format=None,
        append_only=True,
    )
    if TimeKind.from_spark_type(found.type) is None:
        needs = "a watermark needs TIMESTAMP, TIMESTAMPTZ, DATE or an integer"
        hint = "name a column that holds a time"
        if (time := as_time(found, rows.columns)) is not None:
            hint = f"compute it in a subquery: (SELECT *, {time.sql} AS {time.name} FROM {rows.name})"
        message = f'"{found.name}" is {display(found.type)}: {needs}'
        raise error("TG301", message, text.at(node_span(column)), hint)
    watermark = analyse_watermark(text, created, rows.columns)
    assert watermark is not None
    return watermark


def _with_windows(strategy: exp.Expr, windows: dict[str, exp.Expr]) -> exp.Expr:
    """The strategy with the subquery's OVER columns written out where it names them."""
    root = exp.Paren(this=strategy)
    for column in list(root.find_all(exp.Column)):
        window = windows.get(column.name.casefold())
        if window is not None and not column.table:
            written = window.copy()
            written.meta["span"] = node_span(column)
            column.replace(written)
    written_out: exp.Expr = root.this.pop()
    return written_out
