"""The Spark SQL of one slice of a view: its rows with their windows, and which source rows those are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from tidegate.sql.dialect.dialect import to_spark
from tidegate.sql.dialect.query import Query, called, own, quoted_column, select_from, subquery
from tidegate.sql.dialect.rewrite import safe
from tidegate.sql.resolve.flow import PLACE, Flow, quoted, time_kind
from tidegate.sql.resolve.scope import ScopeColumn
from tidegate.sql.views.groups import with_names
from tidegate.sql.views.select_items import safe_item
from tidegate.watermark import TimeKind

if TYPE_CHECKING:
    from tidegate.sql.views.selects import Selected

#: The time of a row that its query does not show.
_TIME = "_w"


@dataclass(frozen=True)
class Bounds:
    """SQL of `_window_start` and `_window_end`; of rows that are never final: none. `key`: a key of GROUP BY in whose
    one tick the group is."""

    start: str = "CAST(NULL AS BIGINT)"
    end: str = "CAST(NULL AS BIGINT)"
    key: exp.Expr | None = None
    kind: TimeKind = TimeKind.EPOCH

    @classmethod
    def of_key(cls, key: exp.Expr, kind: TimeKind) -> Bounds:
        """The one tick of a key's value."""
        return cls(key=key, kind=kind)

    @classmethod
    def tick(cls, sql: str, kind: TimeKind) -> Bounds:
        """The one tick of an expression's value."""
        if kind is TimeKind.EPOCH:
            whole = f"CAST({sql} AS BIGINT)"
            return cls(whole, f"try_add({whole}, 1L)")
        length = "INTERVAL '1' DAY" if kind is TimeKind.DATE else "INTERVAL '0.000001' SECOND"
        return cls(
            sql,
            f"CAST(try_add({sql}, {length}) AS DATE)"
            if kind is TimeKind.DATE
            else f"try_add({sql}, {length})",
        )

    def items(self) -> list[exp.Expr]:
        """Items of SELECT."""
        return [called(own(self.start), "_window_start"), called(own(self.end), "_window_end")]


#: Those of the window function that a row went through.
_WINDOW = Bounds("`window_start`", "`window_end`")


def grouped_sql(selected: Selected, bounds: Bounds) -> Query:
    """`View.query_sql` of a query that groups."""
    grouping = selected.grouping
    assert grouping is not None
    if bounds.key is not None:
        _, _, names = grouping.with_keys(selected.source.rows, selected.scope)
        bounds = Bounds.tick(to_spark(with_names(bounds.key, names)), bounds.kind)
    extra = [*bounds.items(), called(own("count(*)"), "_rows")]
    return Query(grouping.query(selected.source.rows, selected.scope, selected.items, extra, counted=True))


def rows_sql(selected: Selected) -> Query:
    """`Accounts.rows_sql`: every row that counts, with its window, place and keys."""
    grouping = selected.grouping
    assert grouping is not None
    scope, source, names = grouping.with_keys(selected.source.rows, selected.scope)
    keyed = [
        called(safe(with_names(item.node, names), scope.lookup), item.name.text)
        for item in selected.items
        if grouping.is_key(item.node)
    ]
    return Query(select_from([*_WINDOW.items(), *map(quoted_column, PLACE), *keyed], source))


def ungrouped_sql(
    flow: Flow, selected: Selected | None, time: ScopeColumn | None, order: tuple[str, ...]
) -> Query:
    """`View.query_sql` of a query that does not group: every row in the one tick of its time (C4), or in its
    session."""
    columns = [c.name for c in flow.columns if c.starred]
    sorting = [c for c in order if c not in columns and c != "_window_start"]
    source = flow.rows
    bounds: list[exp.Expr] = [quoted_column("_window_start"), quoted_column("_window_end")]
    if flow.over is not None:
        pass
    elif time is None and flow.open_sql is None:
        bounds = Bounds().items()
    elif time in flow.columns:
        bounds = Bounds.tick(quoted(time.name), time_kind(time)).items()
    else:
        assert selected is not None
        hidden = _WINDOW.items()
        if time is not None:
            hidden = [called(quoted_column(time.name), _TIME)]
            bounds = Bounds.tick(quoted(_TIME), time_kind(time)).items()
        items = [
            *(safe_item(i, selected.scope) for i in selected.items),
            *map(quoted_column, selected.source.hidden),
        ]
        source = subquery(select_from([*items, *hidden], selected.source.rows))
    counted = called(own("1L"), "_rows")
    return Query(
        select_from([*map(quoted_column, columns), *bounds, counted, *map(quoted_column, sorting)], source)
    )
