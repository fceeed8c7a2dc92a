"""Conditions by which Iceberg's Java skips files: who reads looks at every row."""

from __future__ import annotations

from typing import Any

from tidegate.iceberg.layout import ON_TIME
from tidegate.jvm.java import java_class

#: What fits into 32 bits reaches Java as another type.
_INT = 1 << 31


def _expressions(jvm: Any) -> Any:
    return java_class(jvm, "org.apache.iceberg.expressions.Expressions")


def on_time_between(jvm: Any, column: str, low: int | None, high: int | None) -> Any:
    """On-time rows with low <= `column` < high (ticks; None: no bound)."""
    expressions = _expressions(jvm)
    both, where = getattr(expressions, "and"), expressions.equal("_outcome", ON_TIME)
    if low is not None and abs(low) > _INT:
        where = both(where, expressions.greaterThanOrEqual(column, low))
    if high is not None and abs(high) > _INT:
        where = both(where, expressions.lessThan(column, high))
    return where


def closed_between(jvm: Any, low: Any, high: Any) -> Any:
    """Closed rows of a view, of windows that end in [low, high]."""
    expressions = _expressions(jvm)
    both = getattr(expressions, "and")
    ends = both(
        expressions.greaterThanOrEqual("_window_end", low), expressions.lessThanOrEqual("_window_end", high)
    )
    return both(expressions.equal("_open", False), ends)


def nobodys(jvm: Any) -> Any:
    """Rows of a view's table that are nobody's result."""
    return _expressions(jvm).isNull("_open")


def all_rows(jvm: Any) -> Any:
    """Every row."""
    return _expressions(jvm).alwaysTrue()
