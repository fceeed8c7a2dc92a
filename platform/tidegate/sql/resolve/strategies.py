"""What stands behind WATERMARK FOR column AS (W11): the column, a delay, an expression, or SOURCE_WATERMARK()."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tidegate.sql.catalog.objects import CatalogColumn
from tidegate.sql.dialect.attempts import without_attempts
from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.intervals import constant_ticks, read_interval
from tidegate.sql.dialect.rewrite import safe_sql
from tidegate.sql.dialect.text import Text, node_span
from tidegate.sql.dialect.types import BIGINT, DOUBLE, TIMESTAMPTZ, SparkType, display
from tidegate.sql.grammar.syntax import WatermarkSyntax
from tidegate.sql.options.gate_options import GateOptions
from tidegate.sql.resolve.scope import (
    CLOCK,
    ColumnScope,
    ScopeColumn,
    name_location,
    refuse_long_intervals,
    require_scalar,
)
from tidegate.watermark import (
    PROC_TIME,
    Delay,
    Expression,
    PrecedingRows,
    Strategy,
    TimeKind,
    preceding_column,
)
from tidegate.watermark import Column as ColumnStrategy
from tidegate.watermark.preceding import FUNCTIONS

#: A frame's rows are remembered for every partition, so there is an end to it.
_MOST_ROWS = 10_000
_TIMES = ("timestamp_ntz", "timestamp", "date")
_EXAMPLE = "max(event_time) OVER (ROWS BETWEEN 10 PRECEDING AND CURRENT ROW)"


def analyse_strategy(
    text: Text,
    scope: ColumnScope,
    watermark: WatermarkSyntax,
    column: CatalogColumn,
    kind: TimeKind,
    options: GateOptions,
) -> Strategy:
    """Raises TG2xx for names and functions, TG303 for the type, TG331 for windows, TG403 and TG404 for the numbers of
    SOURCE_WATERMARK()."""
    where = text.at(node_span(watermark.expression))
    written = watermark.expression.unnest()
    if (
        isinstance(written, exp.Anonymous)
        and written.name.lower() == "source_watermark"
        and not written.expressions
    ):
        return _source_watermark(text, watermark, column, kind, options)
    resolved = replace(scope, clock=True).resolve(watermark.expression)
    resolved, scope, windows = _over_rows(text, scope, _with_clock(text, resolved))
    require_scalar(text, resolved, "in a watermark")
    node = resolved.unnest()
    if _is_column(node, column):
        return ColumnStrategy()
    if isinstance(node, exp.Add | exp.Sub) and _is_column(node.this.unnest(), column):
        shift = node.expression.unnest()
        if isinstance(shift, exp.Literal) and shift.is_string:
            hint = f"write: INTERVAL {text.slice(node_span(shift))}"
            raise error("TG303", "this is a string, not an INTERVAL", text.at(node_span(shift)), hint)
        try:
            ticks = constant_ticks(text, node.expression, kind)
        except ValueError as problem:
            if kind is TimeKind.EPOCH or not _has_months(node.expression):
                forms = {TimeKind.EPOCH: "an integer", TimeKind.DATE: "INTERVAL '5 days'"}
                hint = "write " + forms.get(kind, "INTERVAL '5 seconds'")
                raise error("TG303", str(problem), text.at(node_span(node.expression)), hint) from None
            # Months differ in length: evaluated row by row.
            ticks = None
        if ticks is not None:
            return Delay(ticks if isinstance(node, exp.Sub) else -ticks)
    refuse_long_intervals(text, resolved)
    found = scope.type(resolved)
    if found is not None and found.name != "void" and str(found) != column.type:
        both = kind is TimeKind.EPOCH and found.is_integer
        if not both:
            message = f"this is {shown_type(found)}, but {column.name} is {display(column.type)}"
            hint = f"a watermark has the type of its column: CAST(… AS {display(column.type)})"
            raise error("TG303", message, where, hint)
    sql = safe_sql(resolved, scope.lookup)
    if found is None or str(found) != column.type:
        sql = f"TRY_CAST({sql} AS {column.type})"
    return Expression(sql, windows)


def shown_type(type_: SparkType) -> str:
    """A type for an error message."""
    return "a number" if not type_.is_exact and type_.is_numeric else display(str(type_))


def _source_watermark(
    text: Text, watermark: WatermarkSyntax, column: CatalogColumn, kind: TimeKind, options: GateOptions
) -> Strategy:
    try:
        return options.source_watermark(kind)
    except ValueError as problem:
        where = text.at(node_span(watermark.expression))
        if kind is not TimeKind.EPOCH:
            raise error("TG404", f"SOURCE_WATERMARK(): {problem}", where) from None
        hint = (
            f"in milliseconds: WITH (watermark.min_delay = 50, watermark.max_delay = 604800000, "
            f"watermark.warm_up = '250: 604800000, 500: 30000, 750: 10000, 1000: 1000'); or declare the watermark on "
            f"a column such as event_time TIMESTAMPTZ AS timestamp_millis({column.name})"
        )
        raise error("TG403", f"SOURCE_WATERMARK() over an integer column: {problem}", where, hint) from None


def _with_clock(text: Text, resolved: exp.Expr) -> exp.Expr:
    """PROC_TIME() as the column that the engine adds: the micro-batch's recorded clock (W4)."""
    root = exp.Paren(this=resolved)
    for call in list(root.find_all(exp.Anonymous)):
        if call.name.lower() in CLOCK:
            if call.expressions:
                raise error("TG210", f"{call.name} takes no arguments", name_location(text, call))
            call.replace(_column(PROC_TIME, call))
    strategy: exp.Expr = root.this.pop()
    return strategy


def _over_rows(
    text: Text, scope: ColumnScope, resolved: exp.Expr
) -> tuple[exp.Expr, ColumnScope, tuple[PrecedingRows, ...]]:
    """Every window over preceding rows as a column, the scope with these columns, and the windows."""
    scope = replace(scope, columns=(*scope.columns, ScopeColumn(PROC_TIME, TIMESTAMPTZ)))
    windows: list[PrecedingRows] = []
    columns: list[ScopeColumn] = []
    root = exp.Paren(this=resolved)
    while (window := root.find(exp.Window)) is not None:
        found, type_ = _window(text, scope, window)
        if found not in windows:
            windows.append(found)
            columns.append(ScopeColumn(preceding_column(len(windows) - 1), type_))
        window.replace(_column(preceding_column(windows.index(found)), window))
    return root.this.pop(), replace(scope, columns=(*scope.columns, *columns)), tuple(windows)


def _window(text: Text, scope: ColumnScope, window: exp.Window) -> tuple[PrecedingRows, SparkType]:
    where = text.at(node_span(window))
    call = window.this
    if not isinstance(call, exp.Anonymous) or any(isinstance(a, exp.Distinct) for a in call.expressions):
        message = "FILTER, DISTINCT and IGNORE NULLS are not allowed over the preceding rows in a watermark"
        hint = "choose the values inside: max(CASE WHEN … THEN event_time END) OVER (…)"
        raise error("TG331", message, where, hint)
    if call.name.lower() not in FUNCTIONS:
        hint = f"available functions: {', '.join(FUNCTIONS)}"
        raise error(
            "TG331", f"{call.name} is not allowed over the preceding rows in a watermark", where, hint
        )
    name = call.name.lower()
    if window.args.get("partition_by") or window.args.get("order") or window.args.get("alias"):
        message = (
            "a window in a watermark is over the rows of the source's partition in the order of their arrival"
        )
        raise error("TG331", message, where, f"leave out PARTITION BY and ORDER BY: {_EXAMPLE}")
    start, end = _frame(text, window)
    arguments = list(call.expressions)
    if name == "lag":
        steps = _count(arguments[1]) if len(arguments) == 2 else 1
        if len(arguments) > 2 or steps is None:
            raise error(
                "TG331", "lag takes an expression and a number of rows", where, "lag(event_time, 1) OVER ()"
            )
        start, end, arguments = steps, steps, arguments[:1]
    elif start is None:
        message = "without a frame, this would have to remember every earlier row"
        raise error("TG331", message, where, f"write how many rows: {_EXAMPLE}")
    if len(arguments) != 1:
        raise error("TG331", f"{name} takes one expression here", where, _EXAMPLE)
    if start > _MOST_ROWS or end > start:
        message = f"a frame in a watermark spans at most {_MOST_ROWS:,} rows, and begins before it ends"
        raise error("TG331", message, where, _EXAMPLE)
    sql, type_ = _argument(text, scope, name, arguments[0])
    result = BIGINT if name == "count" else DOUBLE if name == "avg" else type_
    return PrecedingRows(name, without_attempts(sql), start, end, str(type_), str(result), sql), result


def _argument(text: Text, scope: ColumnScope, function: str, argument: exp.Expr) -> tuple[str, SparkType]:
    """Spark SQL of what is aggregated, and its type: an integer, a double, a time or a date."""
    where = text.at(node_span(argument))
    if function == "count":
        if isinstance(argument, exp.Star):
            return "CAST(1 AS bigint)", BIGINT
        require_scalar(text, argument, "inside OVER")
        return f"CAST(CASE WHEN {safe_sql(argument, scope.lookup)} IS NOT NULL THEN 1 END AS bigint)", BIGINT
    require_scalar(text, argument, "inside OVER")
    found, sql = scope.type(argument), safe_sql(argument, scope.lookup)
    if found is not None and found.is_integer:
        return f"CAST({sql} AS bigint)", BIGINT
    if found is not None and found.name in ("float", "double"):
        return f"CAST({sql} AS double)", DOUBLE
    if found is not None and found.name in _TIMES and function not in ("sum", "avg"):
        return sql, found
    shown = "of a type that is not known" if found is None else shown_type(found)
    wanted = "a number" if function in ("sum", "avg") else "a number or a time"
    message = f"{function} over the preceding rows takes {wanted}, but this is {shown}"
    raise error("TG331", message, where, "CAST(… AS BIGINT), or AS DOUBLE")


def _frame(text: Text, window: exp.Window) -> tuple[int | None, int]:
    """How many rows back the frame begins (None: it is not said) and ends (0: at the current row)."""
    spec = window.args.get("spec")
    if spec is None:
        return None, 0
    where = text.at(node_span(window))
    if str(spec.args.get("kind")).upper() != "ROWS":
        raise error("TG331", "a frame in a watermark counts rows", where, f"write ROWS: {_EXAMPLE}")
    bounds = []
    for key in ("start", "end"):
        bound, side = spec.args.get(key), str(spec.args.get(f"{key}_side") or "").upper()
        rows = 0 if bound is None or bound == "CURRENT ROW" else _count(bound)
        if rows is None or (rows and side != "PRECEDING"):
            message = "a frame in a watermark reaches back a number of rows, and never ahead"
            raise error(
                "TG331", message, where, f"write ROWS BETWEEN n PRECEDING AND CURRENT ROW: {_EXAMPLE}"
            )
        bounds.append(rows)
    return bounds[0], bounds[1]


def _count(node: object) -> int | None:
    """A literal number of rows."""
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        return int(node.name)
    return None


def _column(name: str, instead_of: exp.Expr) -> exp.Column:
    column = exp.Column(this=exp.to_identifier(name, quoted=True))
    column.meta["span"] = node_span(instead_of)
    return column


def _has_months(node: exp.Expr) -> bool:
    lengths = [read_interval(i) for i in node.find_all(exp.Interval)]
    return any(length is not None and length.months for length in lengths)


def _is_column(node: exp.Expr, column: CatalogColumn) -> bool:
    return isinstance(node, exp.Column) and node.name.casefold() == column.name.casefold()
