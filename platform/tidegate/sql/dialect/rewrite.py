"""C7: an expression that fails on a row yields NULL there. Spark runs with ANSI off, where most failures are
NULL already; what would throw or silently wrap around is written with Spark's `try_` functions, or asked by ours."""

from __future__ import annotations

from functools import lru_cache

from sqlglot import exp

from tidegate.sql.dialect.amounts import how_much
from tidegate.sql.dialect.attempts import ATTEMPT, attempt, bounded, only_if
from tidegate.sql.dialect.clock_literals import OF_TEXTS
from tidegate.sql.dialect.dialect import to_spark
from tidegate.sql.dialect.infer import Lookup, infer
from tidegate.sql.dialect.text import without_places
from tidegate.sql.dialect.types import BIGINT, INTEGERS, STRING
from tidegate.sql.dialect.undated import READING, WITHOUT_DATE, date_operands, dated

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
_SUMS, _AVERAGES = ("sum", "try_sum"), ("avg", "mean", "try_avg")
#: What sums of BIGINT are added up in: no 10^19 rows leave it.
_WIDE = "DECIMAL(38,0)"
#: With more digits than these, 10^10 rows of a DECIMAL can leave the 38 digits that its sum has.
_ROOMY = 28
#: The smallest of the integers whose negative values Spark keeps in their own type, where they wrap around.
_LOWEST = {"tinyint": -(2**7), "smallint": -(2**15)}
#: Digits up to which Spark negates a DECIMAL as it is.
_NEGATED = 34


def safe_sql(node: exp.Expr, lookup: Lookup) -> str:
    """The expression (columns resolved by `lookup`) as Spark SQL that never stops a slice."""
    return to_spark(safe(node, lookup))


def safe(node: exp.Expr, lookup: Lookup) -> exp.Expr:
    """A copy of the expression without what can throw or wrap around."""
    if isinstance(node, exp.Literal | exp.Identifier | exp.Column | exp.DataType | exp.Interval):
        return without_places(node)
    total = _total(node, lookup)
    if total is not None:
        return total
    name = _OPERATORS.get(type(node)) if isinstance(node, exp.Binary) else None
    if isinstance(node, exp.Binary) and name and _can_overflow(node, lookup):
        arguments = [safe(_bare(node.this), lookup), safe(_bare(node.expression), lookup)]
        return exp.Anonymous(this=name, expressions=arguments)
    if (absolute := _absolute(node, lookup)) is not None:
        return absolute
    if isinstance(node, exp.Neg):
        inner = infer(node.this, lookup)
        if inner is not None and inner.name in ("int", "bigint") and not isinstance(node.this, exp.Literal):
            zero = exp.Literal.number(0)
            return exp.Anonymous(this="try_subtract", expressions=[zero, safe(_bare(node.this), lookup)])

    def inside(part: exp.Expr) -> exp.Expr:
        return safe(part, lookup)

    copy = without_places(node, inside)
    if isinstance(copy, exp.Cast):
        cast = exp.TryCast(this=copy.this, to=copy.args["to"], safe=True)
        return dated(cast, node, lookup, inside)
    date_operands(copy, node, lookup)
    if isinstance(copy, exp.Anonymous) and isinstance(copy.this, str):
        if copy.this.lower() == "regexp_substr" and len(copy.expressions) == 2:
            return _substring(copy)
        copy.set("this", _FUNCTIONS.get(copy.this.lower(), copy.this))
        if (called := (node.name.lower(), len(node.expressions))) in OF_TEXTS:
            return _dated(
                attempt(copy, node, lookup), [node.expressions[i] for i in OF_TEXTS[called]], lookup
            )
        if node.name.lower() in READING:
            return dated(attempt(copy, node, lookup), node, lookup, inside)
    if (condition := how_much(copy, node, lookup)) is not None:
        return only_if(condition, attempt(copy, node, lookup))
    return attempt(copy, node, lookup)


def _dated(made: exp.Expr, texts: list[exp.Expr], lookup: Lookup) -> exp.Expr:
    """What a call makes of `texts` (as they are written), or NULL where one of them has no date (W4)."""
    for one in texts:
        if infer(one, lookup) != STRING or isinstance(one, exp.Literal):
            continue
        value = exp.Paren(this=safe(one, lookup))
        matched = exp.RegexpLike(this=value, expression=exp.Literal.string(WITHOUT_DATE))
        made = only_if(exp.Not(this=matched), made)
    return made


def _substring(call: exp.Anonymous) -> exp.Expr:
    """regexp_substr as Spark computes it, which does so before anything around it is asked. It stands there itself only
    for identities, which are of what was written (`without_attempts`)."""
    found = exp.Anonymous(
        this="regexp_extract", expressions=[*call.copy().expressions, exp.Literal.number(0)]
    )
    tried = exp.Anonymous(this=ATTEMPT, expressions=[found])
    return only_if(
        exp.false(), call, exp.Anonymous(this="nullif", expressions=[tried, exp.Literal.string("")])
    )


def _absolute(node: exp.Expr, lookup: Lookup) -> exp.Expr | None:
    """The absolute or negative value of a number where Spark's own is wrong: of the smallest integer, which it gives
    back as it is, and of a decimal of more than 34 digits, which it rounds to 34, or throws. None for anything else."""
    is_call = isinstance(node, exp.Anonymous) and node.name.lower() in ("abs", "negative")
    if not isinstance(node, exp.Neg) and not (is_call and len(node.expressions) == 1):
        return None
    inner = node.this if isinstance(node, exp.Neg) else node.expressions[0]
    type_ = infer(inner, lookup)
    if is_call and type_ is not None and type_.name in ("int", "bigint"):
        value = safe(inner, lookup)
        minus = exp.Anonymous(this="try_subtract", expressions=[exp.Literal.number(0), value])
        if node.name.lower() != "abs":
            return minus
        negative = exp.LT(this=exp.Paren(this=value.copy()), expression=exp.Literal.number(0))
        return bounded(exp.Case(ifs=[exp.If(this=negative, true=minus)], default=value.copy()))
    if type_ is not None and type_.name in _LOWEST and not isinstance(inner, exp.Literal):
        value, call = safe(inner, lookup), node.copy()
        (call.expressions[0] if is_call else call.this).replace(value)
        lowest = exp.Literal.number(_LOWEST[type_.name])
        return only_if(exp.GT(this=exp.Paren(this=value.copy()), expression=lowest), call)
    if type_ is None or type_.name != "decimal" or not type_.params or type_.params[0] <= _NEGATED:
        return None
    value, zero = safe(inner, lookup), exp.Literal.number(0)
    text = _cast(value, "STRING")
    below = exp.Anonymous(this="substr", expressions=[text, exp.Literal.number(2)])
    above = exp.Anonymous(this="concat", expressions=[exp.Literal.string("-"), text.copy()])
    kind = _type("DECIMAL({},{})".format(*type_.params)).copy()
    cases = [
        exp.If(
            this=exp.LT(this=exp.Paren(this=value.copy()), expression=zero),
            true=exp.TryCast(this=below, to=kind, safe=True),
        )
    ]
    other = (
        value.copy()
        if is_call and node.name.lower() == "abs"
        else exp.TryCast(this=above, to=kind.copy(), safe=True)
    )
    return bounded(exp.Case(ifs=cases, default=other))


def _total(node: exp.Expr, lookup: Lookup) -> exp.Expr | None:
    """A sum or average of whole numbers or long decimals, with its FILTER or OVER, that is the same in every order of
    the rows; None for anything else.

    BIGINT is added up in 38 digits: the sum is exact, and NULL if it does not fit into 64 bits. Narrower integers need
    2^32 rows to leave 64 bits, and averages divide that sum. Decimals that could leave 38 digits on the way give NULL
    where the sum of those above zero, or of those below, does.
    """
    call = node
    while isinstance(call, exp.Filter | exp.Window):
        call = call.this
    if not isinstance(call, exp.Anonymous) or len(call.expressions) != 1:
        return None
    is_average = call.name.lower() in _AVERAGES
    if not is_average and call.name.lower() not in _SUMS:
        return None
    distinct = call.expressions[0] if isinstance(call.expressions[0], exp.Distinct) else None
    if distinct is not None and len(distinct.expressions) != 1:
        return None
    value = call.expressions[0] if distinct is None else distinct.expressions[0]
    type_ = infer(value, lookup)
    if type_ is None:
        return None
    value = safe(value, lookup)

    def called(name: str, argument: exp.Expr) -> exp.Expr:
        one = exp.Distinct(expressions=[argument]) if distinct is not None else argument
        return _with_call(node, exp.Anonymous(this=name, expressions=[one]), lookup)

    if type_.name in INTEGERS:
        wide = type_ == BIGINT
        total = called("try_sum", _cast(value, _WIDE) if wide else value)
        if is_average:
            mean = exp.Div(this=_cast(total, "DOUBLE"), expression=called("count", value.copy()))
            return exp.Paren(this=mean)
        return exp.TryCast(this=total, to=_type("BIGINT").copy(), safe=True) if wide else total
    if type_.name == "decimal" and type_.params and type_.params[0] > _ROOMY:
        zero = _cast(exp.Literal.number(0), f"DECIMAL({type_.params[0]},{type_.params[1]})")
        sides = []
        for name in ("greatest", "least"):
            side = exp.Anonymous(this=name, expressions=[value.copy(), zero.copy()])
            sides.append(_with_call(node, exp.Anonymous(this="try_sum", expressions=[side]), lookup))
        fits = exp.And(this=_known(sides[0]), expression=_known(sides[1]))
        return exp.Case(ifs=[exp.If(this=fits, true=called("try_avg" if is_average else "try_sum", value))])
    return None


def lost_totals(node: exp.Expr, lookup: Lookup) -> list[exp.Expr]:
    """For each sum and average in an expression that can be NULL because its total does not fit: whether it is, though
    there are values (C7)."""
    found: list[exp.Expr] = []
    for call in node.find_all(exp.Anonymous):
        name, outer = call.name.lower(), call.parent if isinstance(call.parent, exp.Filter) else call
        if (
            name not in (*_SUMS, *_AVERAGES)
            or len(call.expressions) != 1
            or isinstance(outer.parent, exp.Window)
        ):
            continue
        value = call.expressions[0]
        type_ = infer(value.expressions[0] if isinstance(value, exp.Distinct) else value, lookup)
        is_long = (
            type_ is not None and type_.name == "decimal" and bool(type_.params) and type_.params[0] > _ROOMY
        )
        if is_long or (type_ == BIGINT and name in _SUMS):
            there = without_places(outer)
            (there.this if isinstance(there, exp.Filter) else there).set("this", "count")
            some = exp.GT(this=safe(there, lookup), expression=exp.Literal.number(0))
            found.append(
                exp.And(
                    this=some,
                    expression=exp.Is(this=exp.Paren(this=safe(outer, lookup)), expression=exp.Null()),
                )
            )
    return found


def _with_call(node: exp.Expr, call: exp.Expr, lookup: Lookup) -> exp.Expr:
    """The FILTER or OVER around another call."""
    if isinstance(node, exp.Anonymous):
        return call
    around = node.copy()
    around.set("this", exp.Placeholder())
    around = safe(around, lookup)
    around.set("this", _with_call(node.this, call, lookup))
    return around


def _known(node: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Is(this=node, expression=exp.Null()))


def _cast(node: exp.Expr, type_: str) -> exp.Cast:
    return exp.Cast(this=node, to=without_places(_type(type_)))


@lru_cache(256)
def _type(text: str) -> exp.DataType:
    """Who puts it into a tree takes a copy: it would be parsed again for each sum of each view."""
    return exp.DataType.build(text, dialect="spark")


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
