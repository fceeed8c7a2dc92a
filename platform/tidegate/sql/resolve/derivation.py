"""D1: through which expressions a watermark travels, and why it does not through the others."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tidegate.sql.dialect.intervals import constant_ticks
from tidegate.sql.dialect.text import Text, node_span
from tidegate.sql.resolve.reach import moved
from tidegate.sql.resolve.scope import ColumnScope, LostWatermark, ScopeColumn
from tidegate.watermark import CalendarTumble, Extracted, Shift, TimeKind, Truncated, Tumble, Window

_SECOND = 1_000_000
_WEEK_FROM_MONDAY = 4 * 86_400 * _SECOND
_UNITS: dict[str, Window] = {
    "MICROSECOND": Tumble(1),
    "MILLISECOND": Tumble(1_000),
    "SECOND": Tumble(_SECOND),
    "MINUTE": Tumble(60 * _SECOND),
    "HOUR": Tumble(3_600 * _SECOND),
    "DAY": Tumble(86_400 * _SECOND),
    "WEEK": Tumble(7 * 86_400 * _SECOND, _WEEK_FROM_MONDAY),
    "MONTH": CalendarTumble(TimeKind.TIMESTAMP, 1),
    "QUARTER": CalendarTumble(TimeKind.TIMESTAMP, 3),
    "YEAR": CalendarTumble(TimeKind.TIMESTAMP, 12),
}
_SHORT = {"YYYY": "YEAR", "YY": "YEAR", "MON": "MONTH", "MM": "MONTH", "DD": "DAY"}
_EPOCH = ("unix_seconds", "unix_timestamp", "to_unix_timestamp")


def derive(text: Text, node: exp.Expr, written: exp.Expr, scope: ColumnScope) -> ScopeColumn:
    """What is known of a column that is this (resolved) expression: the watermark that it carries (D1), or why it
    lost it. Its name and type are left to the caller."""
    bare = node.unnest()
    if isinstance(bare, exp.Column):
        found = scope.find(bare.name)
        assert found is not None
        return found
    merged = _merged(bare, scope)
    if merged is not None:
        return merged
    if isinstance(bare, exp.Add | exp.Sub):
        shifted = _shifted(text, bare, written, scope)
        if shifted is not None:
            return shifted
    through = _truncated(bare, scope) or _extracted(bare, scope)
    if through is not None:
        return through
    used = [scope.find(c.name) for c in bare.find_all(exp.Column)]
    if any(c is not None and (c.derived is not None or c.lost is not None) for c in used):
        earlier = next((c.lost for c in used if c is not None and c.lost is not None), None)
        if earlier is not None:
            return ScopeColumn("", None, lost=earlier)
        return _lost(text, written, f"a watermark does not pass through {_called(bare)}")
    return ScopeColumn("", None)


def _shifted(text: Text, bare: exp.Binary, written: exp.Expr, scope: ColumnScope) -> ScopeColumn | None:
    """column ± constant; None if it is something else."""
    if isinstance(bare.this.unnest(), exp.Interval | exp.Literal):
        return None
    column = derive(text, bare.this, written, scope)
    if column.derived is None or column.type is None:
        return None
    kind = TimeKind.from_spark_type(str(column.type))
    if kind is None:
        return None
    try:
        ticks = constant_ticks(text, bare.expression, kind)
    except ValueError as problem:
        return _lost(text, written, f"{text.slice(node_span(written))}: {problem}")
    if ticks is None:
        return None
    ticks = ticks if isinstance(bare, exp.Add) else -ticks
    spans = moved(column.spans, (-ticks, -ticks))
    return replace(column, derived=Shift(column.derived, ticks), spans=spans)


def _merged(bare: exp.Expr, scope: ColumnScope) -> ScopeColumn | None:
    """COALESCE of the two times that a FULL JOIN put side by side."""
    if not (isinstance(bare, exp.Anonymous) and bare.name.lower() == "coalesce"):
        if not isinstance(bare, exp.Coalesce):
            return None
        parts = [bare.this, *bare.expressions]
    else:
        parts = list(bare.expressions)
    names = [p.unnest().name for p in parts if isinstance(p.unnest(), exp.Column)]
    return scope.merged.get(frozenset(names)) if len(names) == len(parts) == 2 else None


def _truncated(bare: exp.Expr, scope: ColumnScope) -> ScopeColumn | None:
    if not (isinstance(bare, exp.Anonymous) and bare.name.lower() == "date_trunc"):
        return None
    if len(bare.expressions) != 2 or not isinstance(bare.expressions[0], exp.Literal):
        return None
    unit = bare.expressions[0].name.upper()
    window = _UNITS.get(_SHORT.get(unit, unit))
    time = bare.expressions[1].unnest()
    column = scope.find(time.name) if isinstance(time, exp.Column) else None
    if window is None or column is None or column.derived is None or column.type is None:
        return None
    if column.type.name not in ("timestamp", "timestamp_ntz"):
        return None
    spans = moved(column.spans, (0, window.reach - 1))
    return replace(column, derived=Truncated(column.derived, unit.lower(), window), spans=spans)


def _extracted(bare: exp.Expr, scope: ColumnScope) -> ScopeColumn | None:
    if isinstance(bare, exp.Extract):
        part, time = bare.name.lower(), bare.expression.unnest()
    elif isinstance(bare, exp.Anonymous) and len(bare.expressions) == 1:
        name = bare.name.lower()
        part = "epoch" if name in _EPOCH else "year" if name == "year" else ""
        time = bare.expressions[0].unnest()
    else:
        return None
    column = scope.find(time.name) if isinstance(time, exp.Column) else None
    if part not in ("epoch", "year") or column is None or column.derived is None or column.type is None:
        return None
    kind = TimeKind.from_spark_type(str(column.type))
    if kind is None or kind is TimeKind.EPOCH:
        return None
    # On another scale: how far the input reaches is not known in its ticks.
    return replace(column, derived=Extracted(column.derived, part, kind), spans={})


def _lost(text: Text, written: exp.Expr, reason: str) -> ScopeColumn:
    return ScopeColumn("", None, lost=LostWatermark(reason, text.at(node_span(written))))


def _called(node: exp.Expr) -> str:
    """What an expression is, for people."""
    if isinstance(node, exp.Anonymous):
        return f"{node.name}()"
    if isinstance(node, exp.Extract):
        return f"EXTRACT({node.name.upper()})"
    if isinstance(node, exp.Binary):
        return "this arithmetic" if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div) else "this"
    return node.key.upper().replace("TRYCAST", "TRY_CAST")
