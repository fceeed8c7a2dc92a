"""The Spark SQL of one slice of a view: its rows per window and group, and which source rows those are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from tidegate.sql.dialect import to_spark
from tidegate.sql.flow import HIDDEN
from tidegate.sql.rewrite import safe_sql
from tidegate.sql.scope import Scope, ScopeColumn
from tidegate.sql.windows import Windowed

KEY_PREFIX = "_key_"
_BOUNDS = ("window_start", "window_end")


def is_bound(node: exp.Expr) -> bool:
    """window_start or window_end itself."""
    return isinstance(node, exp.Column) and node.name in _BOUNDS


def slice_sql(
    windowed: Windowed,
    where: str,
    outputs: Sequence[tuple[str, exp.Expr]],
    keys: Sequence[exp.Expr],
    grouped: Sequence[str],
) -> tuple[str, str]:
    """`View.query_sql` and `View.rows_sql`. `outputs`: the view's columns, resolved; `keys`: those of GROUP
    BY; `grouped`: the names of the outputs that are keys."""
    scope, source, names = _with_keys(windowed, where, keys)
    columns = [(name, _with_names(node, names)) for name, node in outputs]
    plain = [_with_names(k, names) for k in keys]
    # One bound says the other. A literal would be taken for an ordinal, and groups nothing anyway.
    others = [to_spark(k) for k in plain if not is_bound(k) and not isinstance(k, exp.Literal)]
    grouping = ", ".join(["`window_start`", "`window_end`", *dict.fromkeys(others)])
    bounds = ["`window_start` AS `_window_start`", "`window_end` AS `_window_end`"]
    selected = [_named(node, name, scope) for name, node in columns]
    keyed = [_named(node, name, scope) for name, node in columns if name in grouped]
    every = ", ".join([*selected, *bounds, "count(*) AS `_rows`"])
    query = f"SELECT {every} FROM {source} GROUP BY {grouping}"
    rows = f"SELECT {', '.join([*bounds, *(f'`{h}`' for h in HIDDEN), *keyed])} FROM {source}"
    return query, rows


def _with_keys(
    windowed: Windowed, where: str, keys: Sequence[exp.Expr]
) -> tuple[Scope, str, dict[exp.Expr, str]]:
    """Keys that are expressions become columns of the source: evaluated once, and Spark need not see for
    itself that the expression in SELECT is the one in GROUP BY (for lambdas it doesn't)."""
    computed = [k for k in keys if not isinstance(k, exp.Column | exp.Literal)]
    names = {k: f"{KEY_PREFIX}{i + 1}" for i, k in enumerate(dict.fromkeys(computed))}
    scope = windowed.scope
    if not names:
        return scope, f"{windowed.sql}{where}", names
    items = ", ".join(f"{safe_sql(k, scope.lookup)} AS `{name}`" for k, name in names.items())
    added = tuple(ScopeColumn(name, scope.type(k)) for k, name in names.items())
    source = f"(SELECT *, {items} FROM {windowed.sql}{where})"
    return replace(scope, columns=(*scope.columns, *added)), source, names


def _with_names(node: exp.Expr, names: dict[exp.Expr, str]) -> exp.Expr:
    if not names:
        return node

    def visit(part: exp.Expr) -> exp.Expr:
        name = names.get(part)
        return exp.Column(this=exp.to_identifier(name, quoted=True)) if name else part

    return node.unnest().transform(visit)


def _named(node: exp.Expr, name: str, scope: Scope) -> str:
    sql = safe_sql(node, scope.lookup)
    quoted = to_spark(exp.to_identifier(name, quoted=True))
    return sql if sql == quoted else f"{sql} AS {quoted}"
