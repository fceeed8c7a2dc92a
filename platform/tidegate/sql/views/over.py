"""Calls with OVER in a view (C5): found in its expressions, resolved, and described for the engine.

Inside one closed window (a column that carries a watermark stands in PARTITION BY) a call is ordinary Spark SQL. In
event time (that column stands first in ORDER BY) the engine goes through the rows in order, and carries what later
ones need: `OverFunction` says what that is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidegate.errors import Location, did_you_mean
from tidegate.sql.catalog.objects import OverFunction
from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.query import own
from tidegate.sql.dialect.rewrite import safe, safe_sql
from tidegate.sql.dialect.text import Text, node_span
from tidegate.sql.resolve.flow import quoted
from tidegate.sql.resolve.scope import ColumnScope, ScopeColumn, refuse_subqueries, require_scalar
from tidegate.sql.views.over_call import Call, read_call
from tidegate.sql.views.over_frame import DEFAULT, plain_frame, read_frame
from tidegate.watermark import TimeKind

COLUMN_PREFIX = "_over_"


@dataclass(frozen=True)
class OverCall:
    """One call with OVER; the expression that held it has the column `function.name` instead. `node`: the call as
    written, `name`: its function's; `partition`, `order`: resolved, those of `order` are `exp.Ordered`.

    `closed_by`: the columns of PARTITION BY that carry a watermark, by their names inside. With one, `plain` is the
    whole call for Spark over such names, nothing is carried, and `function` says no more than name and type.
    Else it is None, and `time` is the first column of ORDER BY, which carries a watermark.
    """

    node: exp.Window
    name: str
    location: Location
    partition: tuple[exp.Expr, ...]
    order: tuple[exp.Ordered, ...]
    function: OverFunction
    closed_by: tuple[str, ...] | None = None
    plain: exp.Expr | None = None
    time: ScopeColumn | None = None

    @property
    def ahead(self) -> int | None:
        """How far behind the watermark rows are released, in ticks; None: by rows or by sessions, which no time bounds
        (D4)."""
        if self.closed_by is not None or (
            self.function.unit != "session" and (self.function.following or 0) <= 0
        ):
            return 0
        return self.function.following if self.function.unit == "range" else None


def extract(
    text: Text,
    nodes: Sequence[exp.Expr],
    named: Sequence[exp.Expr],
    scope: ColumnScope,
    ties: Sequence[str] | None = None,
) -> tuple[list[exp.Expr], list[OverCall]]:
    """The written expressions with a column for each call with OVER, and these calls.

    `named`: WINDOW w AS (…) of the same SELECT. `ties`: columns that decide in `plain` between rows that ORDER BY
    finds equal, so that every run gives the same; without them all that can be sorted. Raises TG361 for PARTITION BY
    and ORDER BY, TG362 for frames and names of windows, TG363 for functions that need rows which are not there yet,
    TG210 for what can't have OVER.
    """
    windows = _named(text, named)
    for window in windows.values():
        for part in (*(window.args.get("partition_by") or ()), *_terms(window)):
            scope.resolve(part)
    if ties is None:
        # Nothing sorts by maps and variants.
        ties = [c.name for c in scope.columns if not re.search(r"\b(map<|variant)", str(c.type or ""))]
    found: list[OverCall] = []
    replaced = []
    for node in nodes:
        root = exp.Paren(this=node.copy())
        for window in [w for w in root.find_all(exp.Window, bfs=False) if not w.find_ancestor(exp.Window)]:
            call = _over(text, window, windows, scope, f"{COLUMN_PREFIX}{len(found)}", ties)
            _require_same_time(call, found)
            found.append(call)
            column = exp.Column(this=exp.to_identifier(call.function.name, quoted=True))
            column.meta["span"] = node_span(window)
            window.replace(column)
        whole = node.unnest()
        # Without a name of its own an item is called as its function, here as anywhere.
        item = root.this.pop()
        replaced.append(_called(item.unnest(), whole, found[-1]) if isinstance(whole, exp.Window) else item)
    return replaced, found


def _require_same_time(call: OverCall, others: Sequence[OverCall]) -> None:
    first = next((c.time for c in others if c.time is not None), call.time)
    if call.time is not None and first is not None and first.name != call.time.name:
        message = f"one call is ordered by {first.called}, this one by {call.time.called}"
        raise error("TG361", message, call.location, "order all calls of a view by the same column")


def _over(
    text: Text,
    written: exp.Window,
    named: Mapping[str, exp.Window],
    scope: ColumnScope,
    name: str,
    ties: Sequence[str],
) -> OverCall:
    for inner in written.find_all(exp.Window):
        if inner is not written:
            where = text.at(node_span(inner))
            raise error("TG210", "OVER is not allowed inside OVER", where, "compute it in a subquery")
    window = _merged(text, written, named)
    where = text.at(node_span(written))
    call = read_call(text, written, scope)
    partition = tuple(scope.resolve(p) for p in window.args.get("partition_by") or ())
    order = tuple(_ordered(o, scope) for o in _terms(window))
    for node in (*partition, *order):
        refuse_subqueries(text, node)
    known, called = call.type(scope), call.name.lower()
    closing = tuple(c.name for p in partition if (c := _carrier(p, scope)) is not None)
    if closing:
        plain = _plain(call, partition, order, window.args.get("spec"), scope, ties, where)
        function = OverFunction(name, call.function, "", (), (), "rows", None, 0, type=known)
        return OverCall(written, called, where, partition, order, function, closed_by=closing, plain=plain)
    for node, place in [*((p, "PARTITION BY") for p in partition), *((o, "ORDER BY") for o in order)]:
        require_scalar(text, node, f"in {place}")
    time = _time(text, _terms(window), order, scope, where)
    kind = TimeKind.from_spark_type(str(time.type))
    assert kind is not None
    spec = window.args.get("spec")
    if spec is not None and call.frame is not None:
        raise error("TG362", f"{call.name} has no frame", where, "leave it out")
    frame = call.frame or (read_frame(text, spec, kind, len(order), where) if spec is not None else DEFAULT)
    call.require_carried(frame, where)
    function = OverFunction(
        name=name,
        function=call.function,
        call=safe_sql(call.node, scope.lookup),
        keys=tuple(safe_sql(p, scope.lookup) for p in partition),
        order=tuple(_order_sql(o, scope) for o in order),
        unit=frame.unit,
        preceding=frame.preceding,
        following=frame.following,
        argument=None if call.argument is None else safe_sql(call.argument, scope.lookup),
        exclude_current=frame.exclude,
        ignore_nulls=call.ignore_nulls,
        type=known,
    )
    return OverCall(written, called, where, partition, order, function, time=time)


def _called(column: exp.Expr, window: exp.Window, call: OverCall) -> exp.Alias:
    name = exp.to_identifier(call.name)
    span = window.meta.get("name_span") or node_span(window)
    name.meta["span"] = span
    return exp.Alias(this=column, alias=name)


def _time(
    text: Text,
    written: Sequence[exp.Ordered],
    order: Sequence[exp.Ordered],
    scope: ColumnScope,
    where: Location,
) -> ScopeColumn:
    """The column of event time that the rows are in the order of. Raises TG361."""
    carriers = [c.called for c in scope.columns if c.derived is not None and c.unqualified]
    example = f"ORDER BY {carriers[0]}" if carriers else "order by a watermark column"
    if not carriers:
        message = "OVER needs an order in event time, and no column here carries a watermark"
        raise error("TG361", message, where, "declare WATERMARK FOR a column of the source")
    if not order:
        raise error("TG361", "OVER has no ORDER BY, so the order of its rows is not known", where, example)
    first, at = order[0], text.at(node_span(written[0]))
    column = _column(first.this, scope)
    if column is not None and column.lost is not None:
        lost = column.lost
        message = f'"{column.called}" lost its watermark at line {lost.location.line}, column {lost.location.column}'
        raise error("TG361", f"{message}: {lost.reason}", at, example)
    if column is None or column.derived is None:
        what = f'"{column.called}"' if column is not None else "this expression"
        hint = f"{example}, {text.slice(node_span(written[0].this))}; or PARTITION BY a column of a window"
        raise error(
            "TG361", f"{what} carries no watermark: a later row may come earlier in this order", at, hint
        )
    if first.args.get("desc"):
        hint = (
            f"write {example}; to look in the other direction, use lead for lag, and first_value "
            "for last_value"
        )
        raise error(
            "TG361", "the order must be ascending: in event time, the last row is not known yet", at, hint
        )
    return column


def _carrier(node: exp.Expr, scope: ColumnScope) -> ScopeColumn | None:
    column = _column(node, scope)
    return column if column is not None and column.derived is not None else None


def _column(node: exp.Expr, scope: ColumnScope) -> ScopeColumn | None:
    bare = node.unnest()
    return scope.find(bare.name) if isinstance(bare, exp.Column) else None


def _plain(
    call: Call,
    partition: Sequence[exp.Expr],
    order: Sequence[exp.Ordered],
    spec: exp.WindowSpec | None,
    scope: ColumnScope,
    ties: Sequence[str],
    where: Location,
) -> exp.Expr:
    """The call as Spark's own, with the frame of C5 where none is written."""
    if not order and call.needs_order:
        raise error(
            "TG361", f"{call.name} needs ORDER BY", where, "add ORDER BY, which says which row comes first"
        )
    if spec is not None and not call.takes_frame:
        raise error("TG362", f"{call.name} has no frame", where, "leave it out")
    frame = plain_frame(spec, where) if spec is not None else None
    if frame is None and order and call.takes_frame:
        start = {"start": "UNBOUNDED", "start_side": "PRECEDING", "end": "CURRENT ROW"}
        frame = exp.WindowSpec(kind="ROWS", **start)
    by_rank = call.ranks or (frame is not None and str(frame.args.get("kind")).upper() == "RANGE")
    # As tidegate's own text: the call does not name them, and lineage does not count them.
    last = [] if by_rank or not order else [own(quoted(t)) for t in ties]
    window = exp.Window(
        this=call.node.copy(),
        partition_by=[p.copy() for p in partition],
        order=exp.Order(expressions=[o.copy() for o in (*order, *last)]) if order else None,
        spec=frame,
        over="OVER",
    )
    return safe(window, scope.lookup)


def _order_sql(node: exp.Ordered, scope: ColumnScope) -> str:
    """One expression of ORDER BY, with what it says about direction and NULLs."""
    sql = safe_sql(node.this, scope.lookup)
    descending, nulls_first = bool(node.args.get("desc")), bool(node.args.get("nulls_first"))
    if descending:
        sql += " DESC"
    return sql if nulls_first is not descending else f"{sql} NULLS {'FIRST' if nulls_first else 'LAST'}"


def _terms(window: exp.Window) -> list[exp.Ordered]:
    order = window.args.get("order")
    terms = order.expressions if order is not None else []
    return [t if isinstance(t, exp.Ordered) else exp.Ordered(this=t, nulls_first=True) for t in terms]


def _ordered(term: exp.Ordered, scope: ColumnScope) -> exp.Ordered:
    flags = {key: term.args.get(key) for key in ("desc", "nulls_first")}
    return exp.Ordered(this=scope.resolve(term.this), **flags)


def _named(text: Text, named: Sequence[exp.Expr]) -> dict[str, exp.Window]:
    """WINDOW w AS (…), each with what it takes over from those before it."""
    found: dict[str, exp.Window] = {}
    for window in named:
        assert isinstance(window, exp.Window)
        name = window.this.name
        if name.casefold() in found:
            raise error("TG362", f'window "{name}" is given twice', text.at(node_span(window.this)))
        found[name.casefold()] = _merged(text, window, found)
    return found


def _merged(text: Text, window: exp.Window, named: Mapping[str, exp.Window]) -> exp.Window:
    """The window with what it takes over from the one that it names. Raises TG362."""
    base = window.args.get("alias")
    if base is None:
        return window
    where = text.at(node_span(base))
    taken = named.get(base.name.casefold())
    if taken is None:
        hint = did_you_mean(base.name, list(named)) or f"WINDOW {base.name} AS (PARTITION BY … ORDER BY …)"
        raise error("TG362", f'there is no window "{base.name}"', where, hint)
    own = {key: window.args.get(key) for key in ("partition_by", "order", "spec")}
    for key, clause in (("partition_by", "PARTITION BY"), ("order", "ORDER BY"), ("spec", "frame")):
        if own[key] and (taken.args.get(key) or key == "partition_by"):
            message = f'window "{base.name}" can\'t be given another {clause}'
            raise error("TG362", message, where, "write out the whole window")
    args = {key: value or taken.args.get(key) for key, value in own.items()}
    return exp.Window(this=window.this, **args)
