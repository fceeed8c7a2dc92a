"""The Spark SQL of one slice of a view: its rows with their windows, and which source rows those are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from tidegate.sql.dialect.dialect import to_spark
from tidegate.sql.dialect.rewrite import safe_sql
from tidegate.sql.resolve.flow import PLACE, Flow, quoted, time_kind
from tidegate.sql.resolve.scope import ScopeColumn
from tidegate.sql.views.groups import with_names
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

    def items(self) -> list[str]:
        """Items of SELECT."""
        return [f"{self.start} AS `_window_start`", f"{self.end} AS `_window_end`"]


def grouped_sql(selected: Selected, bounds: Bounds) -> str:
    """`View.query_sql` of a query that groups."""
    grouping = selected.grouping
    assert grouping is not None
    if bounds.key is not None:
        _, _, names = grouping.with_keys(selected.source.sql, selected.scope)
        bounds = Bounds.tick(to_spark(with_names(bounds.key, names)), bounds.kind)
    extra = [*bounds.items(), "count(*) AS `_rows`"]
    return grouping.sql(selected.source.sql, selected.scope, selected.items, extra, counted=True)


def rows_sql(selected: Selected) -> str:
    """`Accounts.rows_sql`: every row that counts, with its window, place and keys."""
    grouping = selected.grouping
    assert grouping is not None
    scope, source, names = grouping.with_keys(selected.source.sql, selected.scope)
    keyed = []
    for item in selected.items:
        if grouping.is_key(item.node):
            sql, name = safe_sql(with_names(item.node, names), scope.lookup), quoted(item.name.text)
            keyed.append(sql if sql == name else f"{sql} AS {name}")
    bounds = ["`window_start` AS `_window_start`", "`window_end` AS `_window_end`"]
    return f"SELECT {', '.join([*bounds, *map(quoted, PLACE), *keyed])} FROM {source}"


def ungrouped_sql(
    flow: Flow, selected: Selected | None, time: ScopeColumn | None, order: tuple[str, ...]
) -> str:
    """`View.query_sql` of a query that does not group: every row in the one tick of its time (C4), or in its
    session."""
    columns = [quoted(c.name) for c in flow.columns if c.starred]
    sorting = [quoted(c) for c in order if quoted(c) not in columns and c != "_window_start"]
    if flow.over is not None:
        bounds = ["`_window_start`", "`_window_end`"]
        source = flow.sql
    elif time is None and flow.open_sql is None:
        bounds, source = Bounds().items(), flow.sql
    elif time in flow.columns:
        bounds, source = Bounds.tick(quoted(time.name), time_kind(time)).items(), flow.sql
    else:
        assert selected is not None
        items = [
            f"{safe_sql(i.node, selected.scope.lookup)} AS {quoted(i.name.text)}" for i in selected.items
        ]
        hidden = ["`window_start` AS `_window_start`", "`window_end` AS `_window_end`"]
        bounds = ["`_window_start`", "`_window_end`"]
        if time is not None:
            hidden, bounds = (
                [f"{quoted(time.name)} AS `{_TIME}`"],
                Bounds.tick(f"`{_TIME}`", time_kind(time)).items(),
            )
        items += [*map(quoted, selected.source.hidden), *hidden]
        source = f"(SELECT {', '.join(items)} FROM {selected.source.sql})"
    return f"SELECT {', '.join([*columns, *bounds, '1L AS `_rows`', *sorting])} FROM {source}"
