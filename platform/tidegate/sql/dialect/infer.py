"""Types of expressions, as Spark (ANSI off) has them. Conservative: a type is exact or None, never a guess,
except that numbers whose exact type is open are `numeric`."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from tidegate.sql.dialect.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTEGERS,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ,
    SparkType,
    from_datatype,
)

Lookup = Callable[[exp.Expr], SparkType | None]
"""The type of a column reference (a resolved `exp.Column` or `exp.Dot`)."""

NUMERIC = SparkType("numeric")
VOID = SparkType("void")


def _names(text: str) -> list[str]:
    return text.split()


_FIXED: dict[str, SparkType] = {
    **dict.fromkeys(
        _names(
            "count count_if approx_count_distinct regr_count div unix_seconds unix_millis unix_micros "
            "unix_timestamp to_unix_timestamp factorial xxhash64 crc32"
        ),
        BIGINT,
    ),
    **dict.fromkeys(
        _names(
            "stddev stddev_pop stddev_samp std variance var_pop var_samp corr covar_pop covar_samp skewness "
            "kurtosis sqrt exp ln log log2 log10 log1p expm1 power pow sin cos tan asin acos atan atan2 cbrt "
            "degrees radians pi e rand randn percent_rank cume_dist months_between"
        ),
        DOUBLE,
    ),
    **dict.fromkeys(
        _names(
            "upper lower ucase lcase trim ltrim rtrim btrim initcap replace translate regexp_replace "
            "regexp_extract substring_index concat_ws format_string printf date_format hex md5 sha1 sha2 "
            "base64 uuid repeat split_part soundex chr char typeof to_json get_json_object from_unixtime "
            "dayname monthname"
        ),
        STRING,
    ),
    **dict.fromkeys(
        _names(
            "year month day dayofmonth dayofyear dayofweek weekday weekofyear quarter hour minute length "
            "char_length character_length octet_length bit_length ascii instr locate position levenshtein "
            "datediff date_diff cardinality size rank dense_rank row_number ntile hash array_size"
        ),
        INT,
    ),
    **dict.fromkeys(
        _names(
            "any some every bool_and bool_or isnull isnotnull isnan contains startswith endswith "
            "array_contains like ilike rlike regexp regexp_like"
        ),
        BOOLEAN,
    ),
    **dict.fromkeys(
        _names("to_date current_date curdate make_date last_day next_day date_from_unix_date"),
        DATE,
    ),
    **dict.fromkeys(
        _names("make_timestamp_ntz to_timestamp_ntz localtimestamp try_make_timestamp_ntz"), TIMESTAMP
    ),
    **dict.fromkeys(
        _names(
            "current_timestamp now date_trunc to_timestamp_ltz make_timestamp_ltz try_make_timestamp_ltz "
            "timestamp_seconds timestamp_millis timestamp_micros from_utc_timestamp to_utc_timestamp"
        ),
        TIMESTAMPTZ,
    ),
    "make_dt_interval": SparkType("interval day to second"),
}
_OF_FIRST = frozenset(
    [
        "min",
        "max",
        "first",
        "last",
        "first_value",
        "last_value",
        "any_value",
        "mode",
        "min_by",
        "max_by",
        "lag",
        "lead",
        "nth_value",
        "nullif",
        "positive",
    ]
)
_OF_ALL = frozenset(["coalesce", "ifnull", "nvl", "greatest", "least"])
_CASTS = {
    "int": INT,
    "bigint": BIGINT,
    "double": DOUBLE,
    "float": SparkType("float"),
    "smallint": SparkType("smallint"),
    "tinyint": SparkType("tinyint"),
    "string": STRING,
    "boolean": BOOLEAN,
    "date": DATE,
    "binary": SparkType("binary"),
}
_RANK = {name: i for i, name in enumerate((*INTEGERS, "float", "double"))}
_DAY_UNITS = ("DAY", "DAYS", "MONTH", "MONTHS", "YEAR", "YEARS")


def infer(node: exp.Expr | None, lookup: Lookup) -> SparkType | None:
    """The type of an expression whose columns are resolved, or None if it is not known."""
    if node is None:
        return None
    if isinstance(node, exp.Paren | exp.Alias | exp.Filter | exp.Window | exp.WithinGroup | exp.IgnoreNulls):
        return infer(node.this, lookup)
    if isinstance(node, exp.RespectNulls | exp.Order):
        return infer(node.this, lookup)
    if isinstance(node, exp.Column | exp.Dot):
        return lookup(node)
    if isinstance(node, exp.Cast | exp.TryCast):
        return from_datatype(node.to)
    if isinstance(node, exp.Literal):
        return _literal(node)
    if isinstance(node, exp.Null):
        return VOID
    if isinstance(node, exp.Anonymous):
        return _function(node, lookup)
    if isinstance(node, exp.Boolean | exp.Predicate | exp.Not | exp.And | exp.Or):
        return BOOLEAN
    if isinstance(node, exp.Add | exp.Sub):
        return _sum(node, lookup)
    if isinstance(node, exp.Mul | exp.Div | exp.Mod):
        return arithmetic(node, infer(node.this, lookup), infer(node.expression, lookup))
    if isinstance(node, exp.IntDiv):
        return BIGINT
    if isinstance(node, exp.Neg):
        lowest = {str(2**31): INT, str(2**63): BIGINT}
        return lowest.get(node.name) if node.name in lowest else infer(node.this, lookup)
    if isinstance(node, exp.Case):
        values = [i.args["true"] for i in node.args["ifs"]] + [node.args.get("default")]
        return _common([infer(v, lookup) for v in values if v is not None])
    if isinstance(node, exp.If):
        values = [node.args["true"], node.args.get("false")]
        return _common([infer(v, lookup) for v in values if v is not None])
    if isinstance(node, exp.DPipe):
        sides = (infer(node.this, lookup), infer(node.expression, lookup))
        return (
            STRING if all(s is not None and s.name != "array" and s.name != "binary" for s in sides) else None
        )
    if isinstance(node, exp.Trim):
        return STRING if infer(node.this, lookup) == STRING else None
    if isinstance(node, exp.Extract):
        if infer(node.expression, lookup) not in (TIMESTAMP, TIMESTAMPTZ, DATE):
            return None
        if node.name.upper() == "EPOCH":
            return BIGINT
        return SparkType("decimal", (8, 6)) if node.name.upper().startswith("S") else INT
    if isinstance(node, exp.CurrentTimestamp):
        return TIMESTAMPTZ
    if isinstance(node, exp.CurrentDate):
        return DATE
    if isinstance(node, exp.Bracket):
        return _element(node, lookup)
    return None


def arithmetic(node: exp.Expr, left: SparkType | None, right: SparkType | None) -> SparkType | None:
    """The type of `left op right` of two numbers; None if one of them may not be a number."""
    if left is None or right is None or not left.is_numeric or not right.is_numeric:
        return None
    if left.name in _RANK and right.name in _RANK:
        if isinstance(node, exp.Div):
            return DOUBLE
        wider = max(left, right, key=lambda t: _RANK[t.name])
        return wider
    if "double" in (left.name, right.name) or "float" in (left.name, right.name):
        return DOUBLE
    if left.name == right.name == "decimal" and left.params and right.params:
        return _decimal(node, *left.params, *right.params)
    return NUMERIC


def _decimal(node: exp.Expr, p1: int, s1: int, p2: int, s2: int) -> SparkType:
    if isinstance(node, exp.Mul):
        precision, scale = p1 + p2 + 1, s1 + s2
    elif isinstance(node, exp.Div):
        scale = max(6, s1 + p2 + 1)
        precision = p1 - s1 + s2 + scale
    elif isinstance(node, exp.Mod):
        scale = max(s1, s2)
        precision = min(p1 - s1, p2 - s2) + scale
    else:
        scale = max(s1, s2)
        precision = max(p1 - s1, p2 - s2) + scale + 1
    if precision > 38:
        # Spark keeps the digits before the point and at least six after it.
        scale = max(38 - (precision - scale), min(scale, 6))
        precision = 38
    return SparkType("decimal", (precision, scale))


def _sum(node: exp.Add | exp.Sub, lookup: Lookup) -> SparkType | None:
    left, right = infer(node.this, lookup), infer(node.expression, lookup)
    numbers = arithmetic(node, left, right)
    if numbers is not None or left is None:
        return numbers
    if left in (TIMESTAMP, TIMESTAMPTZ) and _is_interval(node.expression, right):
        return left
    if left == DATE and isinstance(node.expression, exp.Interval):
        return DATE if node.expression.text("unit").upper() in _DAY_UNITS else None
    return None


def _is_interval(node: exp.Expr, type_: SparkType | None) -> bool:
    return isinstance(node, exp.Interval) or (type_ is not None and type_.name.startswith("interval"))


def _literal(node: exp.Literal) -> SparkType | None:
    if node.is_string:
        return STRING
    text = node.name
    if text.isdigit():
        value = int(text)
        if value < 2**31:
            return INT
        return BIGINT if value < 2**63 else NUMERIC
    if "e" in text.lower():
        return DOUBLE
    whole, _, fraction = text.partition(".")
    digits = len(whole.lstrip("0")) + len(fraction)
    precision = max(digits, len(fraction))
    return SparkType("decimal", (precision, len(fraction))) if 0 < precision <= 38 else NUMERIC


def _function(node: exp.Anonymous, lookup: Lookup) -> SparkType | None:
    name = node.name.lower()
    args = node.expressions
    if name in _FIXED:
        return _FIXED[name]
    if name in _CASTS and len(args) == 1:
        return _CASTS[name]
    first = infer(_argument(args[0]), lookup) if args else None
    if name in ("sum", "try_sum") and first is not None:
        if first.is_integer:
            return BIGINT
        if first.name in ("float", "double"):
            return DOUBLE
        if first.name == "decimal" and first.params:
            return SparkType("decimal", (min(38, first.params[0] + 10), first.params[1]))
        return NUMERIC if first.is_numeric else None
    if name in ("avg", "mean", "try_avg") and first is not None:
        if first.name in _RANK:
            return DOUBLE
        if first.name == "decimal" and first.params:
            precision, scale = first.params
            return SparkType("decimal", (min(38, precision + 4), min(38, scale + 4)))
        return NUMERIC if first.is_numeric else None
    if name in _OF_FIRST:
        return None if first == VOID else first
    if name in _OF_ALL:
        return _common([infer(a, lookup) for a in args])
    if name == "if" and len(args) == 3:
        return _common([infer(a, lookup) for a in args[1:]])
    if name == "nvl2" and len(args) == 3:
        return _common([infer(a, lookup) for a in args[1:]])
    if name in ("collect_list", "collect_set", "array_agg") and first is not None and first != VOID:
        return SparkType("array", args=(first,))
    if name in ("abs", "negative") and first is not None and (first.name in _RANK or first.params):
        return first
    if name in ("ceil", "ceiling", "floor") and len(args) == 1 and first is not None and first.name in _RANK:
        return BIGINT
    if (
        name in ("round", "bround")
        and first is not None
        and first.name in ("int", "bigint", "double", "float")
    ):
        return first
    if name == "concat" and args and all(infer(a, lookup) == STRING for a in args):
        return STRING
    if name in ("substr", "substring", "left", "right", "lpad", "rpad", "reverse") and first == STRING:
        return STRING
    if name == "percentile" and len(args) == 2 and isinstance(args[1], exp.Literal):
        # Of intervals it is an interval.
        return DOUBLE if first is not None and first.is_numeric else None
    if name == "median" and first is not None and first.name in _RANK:
        return DOUBLE
    if name in ("try_add", "try_subtract", "try_multiply") and len(args) == 2:
        return arithmetic(exp.Mul() if name == "try_multiply" else exp.Add(), first, infer(args[1], lookup))
    return None


def _argument(node: exp.Expr) -> exp.Expr:
    """The value inside DISTINCT x."""
    return node.expressions[0] if isinstance(node, exp.Distinct) and node.expressions else node


def _common(types: list[SparkType | None]) -> SparkType | None:
    """The one type of all branches, NULLs aside; of several integers the widest."""
    found = {t for t in types if t != VOID}
    if len(found) > 1 and all(t is not None and t.is_integer for t in found):
        return max((t for t in found if t is not None), key=lambda t: _RANK[t.name])
    return found.pop() if len(found) == 1 else None


def _element(node: exp.Bracket, lookup: Lookup) -> SparkType | None:
    inner = infer(node.this, lookup)
    if inner is None or len(node.expressions) != 1:
        return None
    if inner.name == "array":
        return inner.args[0]
    return inner.args[1] if inner.name == "map" else None
