"""Strings that Spark reads as the clock where a time is meant: 'now', 'today', 'tomorrow', 'yesterday', in any case,
with blanks around them and a time zone behind them; and a time of day without a date, which is one of today. A
definition has none of them (W4, B1); 'epoch' never changes.

Spark does so wherever a constant text becomes a time, also by itself: `ts > 'now'`. Beside a value whose type is not
known such a text is refused, too; CAST(… AS VARCHAR) says that no time is meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from sqlglot import exp

from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.text import Text, node_span
from tidegate.sql.dialect.types import TIMESTAMPTZ, SparkType, from_datatype

#: Of a resolved expression; None if it is not known.
TypeOf = Callable[[exp.Expr], SparkType | None]

_CLOCK = re.compile(r"\s*(?i:now|today|tomorrow|yesterday)\s*(?:[A-Z][\w/+:-]*|[+-][\d:]+)?\s*")
OF_TODAY = re.compile(r"\s*T?\d{1,2}:.*", re.DOTALL)
_TIMES = ("timestamp", "timestamp_ntz", "date")
#: Functions that make a time of a text as a cast does: by name and number of arguments, which of them.
OF_TEXTS = {
    **{(name, 1): (0,) for name in ("to_timestamp", "to_timestamp_ltz", "try_to_timestamp", "timestamp")},
    **{(name, 2): (0,) for name in ("from_utc_timestamp", "to_utc_timestamp", "date_format")},
    ("date_trunc", 2): (1,),
    ("months_between", 2): (0, 1),
    ("months_between", 3): (0, 1),
}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
#: Functions that take a time, and make one of a text: any argument, or the first one only.
_OF_TIMES = """
    add_months convert_timezone date_add date_diff date_format date_part date_sub date_trunc dateadd datediff datepart
    extract last_day months_between next_day timestampadd timestampdiff trunc window
    date day dayname dayofmonth dayofweek dayofyear from_utc_timestamp hour minute month monthname quarter second
    timestamp to_date to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp try_to_date
    try_to_timestamp unix_date unix_micros unix_millis unix_seconds unix_timestamp weekday weekofyear year
""".split()  # noqa: SIM905
_UNIT_FIRST = """
    convert_timezone date_diff date_part date_trunc dateadd datediff datepart extract timestampadd timestampdiff
""".split()  # noqa: SIM905


def refuse_clock_literals(
    text: Text, node: exp.Expr, type_of: TypeOf, wanted: SparkType | None = None
) -> None:
    """TG220 for a text that Spark would read as the clock, and for one that is put together from constants where a
    time is meant, which might be one. `wanted`: the type that the whole expression is cast to."""
    if wanted is not None and _has_time(wanted):
        node = exp.Cast(this=node.copy(), to=exp.DataType.build("TIMESTAMP"))
    for literal in _texts(node):
        top = _constant_around(literal)
        of_today = OF_TODAY.fullmatch(literal.name) is not None and _is_of_today(top, type_of)
        if of_today or (_CLOCK.fullmatch(literal.name) is not None and _is_a_time(top, type_of)):
            why = "has no date, so that it is a time of today, and means" if of_today else "means"
            message = (
                f"'{literal.name.strip()}' {why} a different time in every run, but a definition must "
                "give the same result each time"
            )
            hint = "write the date, too" if of_today else "put the time into a column of the row"
            raise error("TG220", message, text.at(node_span(literal)), hint)
        if top.unnest() is not literal and _is_made_a_time(top):
            message = "this time is built from constants, and its text might be 'now'"
            raise error("TG220", message, text.at(node_span(literal)), "write the time as one literal")


def _texts(node: exp.Expr) -> Iterator[exp.Expr]:
    return (found for found in node.find_all(exp.Literal) if found.is_string)


def _constant_around(literal: exp.Expr) -> exp.Expr:
    """The largest expression around it that is a constant text, as far as one can see: what Spark computes before it
    makes a time of it."""
    top = literal
    while (above := top.parent) is not None:
        inside = isinstance(above, exp.Paren | exp.DPipe | exp.Case | exp.Trim)
        # What CASE or IF gives, not what it asks.
        inside |= isinstance(above, exp.If) and above.this is not top
        inside |= isinstance(above, exp.Anonymous) and above.name.lower() not in _OF_TIMES
        inside |= isinstance(above, exp.Cast) and from_datatype(above.to).name in (
            "string",
            "array",
            "map",
            "struct",
        )
        if not inside or above.find(exp.Column) is not None or _holds_time(above):
            break
        top = above
    return top


def _holds_time(node: exp.Expr) -> bool:
    """Whether a cast to something with a time in it stands here."""
    return isinstance(node, exp.Cast) and _has_time(from_datatype(node.to))


def _has_time(type_: SparkType) -> bool:
    return type_.name in _TIMES or any(map(_has_time, type_.args))


def _is_a_time(node: exp.Expr, type_of: TypeOf) -> bool:
    """Whether what stands around a text makes a time of it."""
    above = node.parent
    if isinstance(above, exp.Cast):
        return _has_time(from_datatype(above.to))
    if isinstance(above, exp.Extract):
        return True
    if isinstance(above, exp.If) and isinstance(above.parent, exp.Case) and above.this is node:
        # CASE value WHEN text: a comparison.
        value = above.parent.this
        return value is not None and _may_be_time(value, type_of)
    if isinstance(above, (*_COMPARISONS, exp.Between, exp.In, exp.Add, exp.Sub)):
        return any(_may_be_time(one, type_of) for one in above.iter_expressions() if one is not node)
    if isinstance(above, exp.Anonymous):
        others = [one for one in above.expressions if one is not node]
        return above.name.lower() in _OF_TIMES or any(
            found is not None and _has_time(found) for found in map(type_of, others)
        )
    return False


def _is_of_today(node: exp.Expr, type_of: TypeOf) -> bool:
    """Whether what stands around a text without a date makes a time of it that is one of today."""
    above = node.parent
    if isinstance(above, exp.Cast):
        return from_datatype(above.to) == TIMESTAMPTZ
    if isinstance(above, exp.Anonymous):
        places = OF_TEXTS.get((above.name.lower(), len(above.expressions)), ())
        return any(above.expressions[place] is node for place in places)
    if isinstance(above, (*_COMPARISONS, exp.Between, exp.In)):
        return any(type_of(one) == TIMESTAMPTZ for one in above.iter_expressions() if one is not node)
    return False


def _is_made_a_time(node: exp.Expr) -> bool:
    """Whether what stands around a text that is put together makes a time of it, and of nothing else."""
    above = node.parent
    if isinstance(above, exp.Cast):
        return _has_time(from_datatype(above.to))
    if not isinstance(above, exp.Anonymous) or above.expressions[0] is not node:
        return False
    return above.name.lower() in _OF_TIMES and above.name.lower() not in _UNIT_FIRST


def _may_be_time(node: exp.Expr, type_of: TypeOf) -> bool:
    found = type_of(node)
    return isinstance(node, exp.Interval) or found is None or _has_time(found)
