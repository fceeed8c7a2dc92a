"""The call in front of OVER: its function, what it is of, and what the engine can carry for it (C5)."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tidegate.errors import Location
from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.functions import kind_of
from tidegate.sql.dialect.text import Text, node_span
from tidegate.sql.resolve.scope import (
    ColumnScope,
    name_location,
    refuse_subqueries,
    require_scalar,
    require_type,
)
from tidegate.sql.views.groups import warn_of_text
from tidegate.sql.views.over_frame import Frame

#: Values from UNBOUNDED PRECEDING on that can be continued from a carried value.
RUNNING = ("count", "sum", "avg", "min", "max", "first_value", "last_value")
_RANKS = ("row_number", "rank", "dense_rank")
_OFFSETS = ("lag", "lead")
_WHOLE = ("ntile", "percent_rank", "cume_dist")
_SAME = {
    **dict.fromkeys(("first", "any_value"), "first_value"),
    "last": "last_value",
    **dict.fromkeys(("mean", "try_avg"), "avg"),
    "try_sum": "sum",
    "count_if": "count",
    **dict.fromkeys(("bool_and", "every"), "min"),
    **dict.fromkeys(("bool_or", "some", "any"), "max"),
}
#: Rows of one time have no order of their own in Spark's RANGE frames.
_BY_ORDER = (
    *("collect_list", "array_agg", "listagg", "string_agg", "min_by", "max_by", "mode", "nth_value"),
    *("approx_percentile", "percentile_approx", "histogram_numeric", "approx_top_k"),
)


@dataclass(frozen=True)
class Call:
    """`node`: the resolved call without OVER and FILTER, IGNORE NULLS included; `name` as written, `function` what it
    is, `argument` what it aggregates (None: rows). `frame`: of functions whose frame is part of what they are."""

    node: exp.Expr
    name: str
    function: str
    argument: exp.Expr | None
    arguments: int
    ignore_nulls: bool
    frame: Frame | None
    location: Location

    def type(self, scope: ColumnScope) -> str | None:
        """Spark DDL, None if only Spark can tell."""
        found = scope.type(self.node)
        return str(found) if found is not None and found.is_exact else None

    @property
    def takes_frame(self) -> bool:
        return self.function not in (*_RANKS, *_OFFSETS, *_WHOLE)

    @property
    def needs_order(self) -> bool:
        """Without an order its value would be chance."""
        return not self.takes_frame or self.function in ("first_value", "last_value", "nth_value")

    @property
    def ranks(self) -> bool:
        """Rows that ORDER BY finds equal are equal to it."""
        return self.function in ("rank", "dense_rank", "percent_rank", "cume_dist")

    def require_carried(self, frame: Frame, where: Location) -> None:
        """Raises TG363 unless the engine can go through rows in event time with this function over this frame."""
        name, at = self.name, self.location
        if self.function in _WHOLE:
            hint = "put a window's column into PARTITION BY: PARTITION BY window_start"
            raise error(
                "TG363", f"{name} needs all rows of its partition, but more rows keep arriving", at, hint
            )
        if self.function in _OFFSETS and self.ignore_nulls:
            hint = (
                f"instead of {name}, write last_value(x) IGNORE NULLS OVER (… ROWS BETWEEN 10 "
                "PRECEDING AND 1 PRECEDING)"
            )
            raise error("TG363", f"{name} with IGNORE NULLS may reach any number of rows away", at, hint)
        if self.function in (*_RANKS, *_OFFSETS):
            return
        mergeable = self.function in RUNNING and self.arguments == 1
        if frame.is_running and not mergeable:
            hint = f"give it a bounded frame: {name}(…) OVER (… ROWS BETWEEN 100 PRECEDING AND CURRENT ROW)"
            raise error(
                "TG363",
                f"{name} from UNBOUNDED PRECEDING would have to read every earlier row again",
                at,
                hint,
            )
        if frame.exclude and not mergeable:
            message = f"{name} can't leave out a row in the middle of its frame"
            raise error("TG363", message, at, f"EXCLUDE CURRENT ROW works with {', '.join(RUNNING)}")
        if frame.unit != "rows" and self.function in _BY_ORDER:
            message = (
                f"{name} depends on the order of rows, but in this frame, rows with the same time "
                "have no order"
            )
            raise error("TG363", message, at, "write ROWS")


def read_call(text: Text, window: exp.Window, scope: ColumnScope) -> Call:
    """What stands before OVER. Raises TG210 for what can't have OVER, TG363 for arguments that nobody can carry."""
    ignore_nulls, condition, node = False, None, window.this
    while isinstance(node, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        ignore_nulls = ignore_nulls or isinstance(node, exp.IgnoreNulls)
        condition = node.expression.this if isinstance(node, exp.Filter) else condition
        node = node.this
    if not isinstance(node, exp.Anonymous) or kind_of(node.name) not in ("aggregate", "window"):
        if isinstance(node, exp.Anonymous) and kind_of(node.name) is None:
            scope.resolve(node)
        what = node.name if isinstance(node, exp.Anonymous) else text.slice(node_span(node))
        hint = "OVER works with lead, lag, row_number, rank, first_value, sum and similar functions"
        raise error("TG210", f"{what} can't have OVER", name_location(text, window), hint)
    at = name_location(text, window)
    call = scope.resolve(node)
    assert isinstance(call, exp.Anonymous)
    arguments = call.expressions
    if arguments and isinstance(arguments[0], exp.Distinct):
        hint = "count each value where it comes first: row_number() OVER (PARTITION BY x ORDER BY t) = 1"
        raise error("TG363", f"{node.name} can't be DISTINCT with OVER", at, hint)
    if arguments and isinstance(arguments[0], exp.IgnoreNulls | exp.RespectNulls):
        ignore_nulls = ignore_nulls or isinstance(arguments[0], exp.IgnoreNulls)
        arguments[0].replace(arguments[0].this)
    name = node.name.lower()
    function = _SAME.get(name, name)
    if (
        function in ("first_value", "last_value")
        and len(arguments) == 2
        and isinstance(arguments[1], exp.Boolean)
    ):
        ignore_nulls = ignore_nulls or bool(arguments[1].this)
        arguments[1].pop()
    for argument in call.expressions:
        refuse_subqueries(text, argument)
        if not isinstance(argument, exp.Star):
            require_scalar(text, argument, f"inside {node.name}")
    warn_of_text(call, scope, at)
    frame = None
    if function in _RANKS:
        frame = Frame("rows", None, 0)
    if function in _OFFSETS:
        steps = _steps(text, node)
        frame = Frame("rows", steps, 0) if function == "lag" else Frame("rows", 0, steps)
    if condition is not None:
        _filter(text, call, function, condition, scope, at)
    count = len(call.expressions)
    argument = call.expressions[0] if count and not isinstance(call.expressions[0], exp.Star) else None
    if name == "count_if" and argument is not None:
        argument = _case(argument, exp.Literal.number(1))
    plain = exp.IgnoreNulls(this=call) if ignore_nulls else call
    return Call(plain, node.name, function, argument, count, ignore_nulls, frame, at)


def _filter(
    text: Text, call: exp.Anonymous, function: str, condition: exp.Expr, scope: ColumnScope, at: Location
) -> None:
    """Spark has no FILTER with OVER: rows that it leaves out become NULL, which aggregates leave out."""
    resolved = scope.resolve(condition)
    require_scalar(text, resolved, "in FILTER")
    require_type(text, resolved, scope.type(resolved), ("boolean",), "FILTER")
    hint = "write CASE WHEN … THEN x END as its argument"
    if kind_of(function) != "aggregate" or len(call.expressions) != 1:
        raise error("TG363", f"{call.name} can't have FILTER with OVER", at, hint)
    if function in ("first_value", "last_value"):
        raise error("TG363", f"{call.name} can't have FILTER with OVER", at, f"{hint}, and IGNORE NULLS")
    argument = call.expressions[0]
    value = exp.Literal.number(1) if isinstance(argument, exp.Star) else argument.copy()
    argument.replace(_case(resolved, value))


def _case(condition: exp.Expr, value: exp.Expr) -> exp.Case:
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=value)])


def _steps(text: Text, call: exp.Anonymous) -> int:
    """The second argument of lag or lead. Raises TG363."""
    if not 1 <= len(call.expressions) <= 3:
        usage = f"{call.name}(x [, rows [, default]])"
        raise error("TG363", f"{call.name} takes one to three arguments", name_location(text, call), usage)
    if len(call.expressions) == 1:
        return 1
    steps = call.expressions[1].unnest()
    at = text.at(node_span(steps))
    if isinstance(steps, exp.Neg):
        other = "lead" if call.name.lower() == "lag" else "lag"
        raise error("TG363", f"{call.name} takes a number of rows that is not negative", at, f"use {other}")
    if not isinstance(steps, exp.Literal) or steps.is_string or not steps.name.isdigit():
        raise error("TG363", f"{call.name} takes a number as its second argument", at, f"{call.name}(x, 1)")
    return int(steps.name)
