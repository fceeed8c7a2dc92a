"""C7: an expression that fails on a row yields NULL there. Spark runs with ANSI off, where most failures are
NULL already; what would throw or silently wrap around is written with Spark's `try_` functions."""

from __future__ import annotations

from sqlglot import exp

from tidegate.sql.dialect import to_spark
from tidegate.sql.infer import Lookup, infer

_OPERATORS = {exp.Add: "try_add", exp.Sub: "try_subtract", exp.Mul: "try_multiply"}
_FUNCTIONS = {
    "sum": "try_sum",
    "avg": "try_avg",
    "mean": "try_avg",
    "to_number": "try_to_number",
    "to_binary": "try_to_binary",
    "aes_decrypt": "try_aes_decrypt",
    "url_decode": "try_url_decode",
    "parse_url": "try_parse_url",
    "parse_json": "try_parse_json",
    "variant_get": "try_variant_get",
    "make_interval": "try_make_interval",
    "reflect": "try_reflect",
    "java_method": "try_reflect",
    "validate_utf8": "try_validate_utf8",
}
_TIMES = ("timestamp_ntz", "timestamp", "date")


def safe_sql(node: exp.Expr, lookup: Lookup) -> str:
    """The expression (columns resolved by `lookup`) as Spark SQL that never stops a slice."""
    return to_spark(safe(node, lookup))


def safe(node: exp.Expr, lookup: Lookup) -> exp.Expr:
    """A copy of the expression with `try_` functions in place of what can throw or wrap around."""
    if isinstance(node, exp.Literal | exp.Identifier | exp.Column | exp.DataType | exp.Interval):
        return node.copy()
    name = _OPERATORS.get(type(node))
    if name and _can_overflow(node, lookup):
        arguments = [safe(_bare(node.this), lookup), safe(_bare(node.expression), lookup)]
        return exp.Anonymous(this=name, expressions=arguments)
    if isinstance(node, exp.Neg):
        inner = infer(node.this, lookup)
        if inner is not None and inner.name in ("int", "bigint") and not isinstance(node.this, exp.Literal):
            zero = exp.Literal.number(0)
            return exp.Anonymous(this="try_subtract", expressions=[zero, safe(_bare(node.this), lookup)])
    copy = node.copy()
    for key, value in node.args.items():
        if isinstance(value, exp.Expr):
            copy.set(key, safe(value, lookup))
        elif isinstance(value, list):
            copy.set(key, [safe(v, lookup) if isinstance(v, exp.Expr) else v for v in value])
    if isinstance(copy, exp.Cast) and not isinstance(copy, exp.TryCast):
        return exp.TryCast(this=copy.this, to=copy.args["to"], safe=True)
    if isinstance(copy, exp.Anonymous) and isinstance(copy.this, str):
        copy.set("this", _FUNCTIONS.get(copy.this.lower(), copy.this))
    return copy


def _can_overflow(node: exp.Expr, lookup: Lookup) -> bool:
    left, right = infer(node.this, lookup), infer(node.expression, lookup)
    if left is None:
        return False
    if right is not None and left.is_numeric and right.is_numeric:
        return True
    interval = isinstance(node.expression, exp.Interval) or (
        right is not None and right.name.startswith("interval")
    )
    return left.name in _TIMES and interval and not isinstance(node, exp.Mul)


def _bare(node: exp.Expr) -> exp.Expr:
    """Without the brackets around it: an argument needs none."""
    return node.unnest()
