"""W4: a text that is a time of day without a date is no time. Spark would take the date of today, which is another one
in every run: where a row has one, it is NULL, as is any text that is no time (C7). Constants are TG220
(`clock_literals`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp
from sqlglot.errors import SqlglotError

from tidegate.sql.dialect.attempts import only_if
from tidegate.sql.dialect.clock_literals import OF_TODAY
from tidegate.sql.dialect.infer import Lookup, infer
from tidegate.sql.dialect.types import STRING, TIMESTAMPTZ, SparkType, from_datatype

#: A text that is a time of day alone. And one in the zone of a place, where the hour depends on the date.
WITHOUT_DATE = "^[^0-9T]*T?[0-9]{1,2}:"
_OF_A_PLACE = WITHOUT_DATE + "[0-9:. ]*(?!(UTC|GMT|UT|Z)([+-]|$))[A-Za-z]"
#: One somewhere in a text: behind neither a date nor another part of a time.
_SOMEWHERE = "(?<![0-9:+.-])(?<!-[0-9]{1,2}[ T])T?[0-9]{1,2}:[0-9]"
#: Functions that make times of what stands inside of a text or a VARIANT: where they are told the type.
READING = {"from_json": 1, "from_csv": 1, "variant_get": 2, "try_variant_get": 2}
#: Functions that take a text as a time by themselves: by name and number of arguments, which of them.
_TIMES: dict[tuple[str, int], tuple[int, ...]] = {
    **{(name, 3): (2,) for name in ("timestampadd", "dateadd", "date_add")},
    **{(name, 3): (1, 2) for name in ("timestampdiff", "datediff", "date_diff")},
    **{("window", n): (0,) for n in (2, 3, 4)},
    ("session_window", 2): (0,),
}
_HOURS = ("hour", "minute")
_PAIRS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)

_Where = tuple[str, int | None]
_Safe = Callable[[exp.Expr], exp.Expr]


def dated(made: exp.Expr, node: exp.Expr, lookup: Lookup, safe: _Safe) -> exp.Expr:
    """What is `made` of a cast or a call, or NULL where that would be a time of today. `node`: as it was written,
    which says the types; `safe`: what Spark is given for a part of it."""
    condition = _read(node, safe) if isinstance(node, exp.Anonymous) else _cast(node, lookup, safe)
    return made if condition is None else only_if(exp.Not(this=condition), made)


def date_operands(copy: exp.Expr, node: exp.Expr, lookup: Lookup) -> None:
    """In place: each operand of `copy` that Spark takes as a time though it is a text is NULL where it has no date."""
    if isinstance(node, exp.Case) and node.this is not None:
        _date_case(copy, node, lookup)
    # Once for all, as Spark is given the parts: what guards one is no part of what is asked of another.
    for (key, place), pattern, asked in list(_operands(node, copy, lookup)):
        operand, original = _at(copy, (key, place)), _at(node, (key, place))
        bare = original.unnest()
        if isinstance(bare, exp.Literal) and not (bare.is_string and OF_TODAY.fullmatch(bare.name)):
            continue
        condition = exp.And(this=asked, expression=_matches(operand, pattern)) if asked else None
        guard = exp.Not(this=exp.Paren(this=condition) if condition else _matches(operand, pattern))
        operand = operand.copy()
        if isinstance(operand, exp.Identifier) and not isinstance(copy, exp.Func):
            # The variable of a lambda, which stands in the identities of tables in quotes, but for arguments.
            operand.set("quoted", True)
        guarded = only_if(guard, operand)
        if place is None:
            copy.set(key, guarded)
        else:
            copy.set(key, [guarded if i == place else one for i, one in enumerate(copy.args[key])])


def _date_case(copy: exp.Expr, node: exp.Case, lookup: Lookup) -> None:
    """CASE a WHEN b compares a with b."""
    value = copy.this
    for made, one in zip(copy.args["ifs"], node.args["ifs"], strict=True):
        pair = exp.EQ(this=value.copy(), expression=made.this.copy())
        date_operands(pair, exp.EQ(this=node.this.copy(), expression=one.this.copy()), lookup)
        made.set("this", pair.expression.copy())
        if pair.this != value:
            copy.set("this", pair.this.copy())


def _at(node: exp.Expr, where: _Where) -> exp.Expr:
    key, place = where
    found: exp.Expr = node.args[key] if place is None else node.args[key][place]
    return found


def _matches(value: exp.Expr, pattern: str) -> exp.Expr:
    return exp.RegexpLike(this=exp.Paren(this=value.copy()), expression=exp.Literal.string(pattern))


def _operands(
    node: exp.Expr, copy: exp.Expr, lookup: Lookup
) -> Iterator[tuple[_Where, str, exp.Expr | None]]:
    """Which operands may be such a text, by which pattern, and what else must be asked of `copy`, since a type is not
    known."""

    def may_be(type_: SparkType | None, kind: SparkType) -> bool:
        return type_ is None or type_ == kind

    def may_be_keyed(type_: SparkType | None) -> bool:
        return type_ is None or (type_.name == "map" and type_.args[0] == TIMESTAMPTZ)

    def compared(left: _Where, right: _Where) -> Iterator[tuple[_Where, str, exp.Expr | None]]:
        """Of two, the text beside a time."""
        for text, time in ((left, right), (right, left)):
            if _is_computed(_at(node, text)) or isinstance(_at(node, time).unnest(), exp.Interval):
                continue
            one, other = _type(_at(node, text), lookup), _type(_at(node, time), lookup)
            if may_be(one, STRING) and may_be(other, TIMESTAMPTZ):
                # A text that is compared with a text stays one.
                yield text, WITHOUT_DATE, None if other == TIMESTAMPTZ else _is_timestamp(_at(copy, time))

    if isinstance(node, _PAIRS):
        yield from compared(("this", None), ("expression", None))
    elif isinstance(node, exp.Between):
        for bound in ("low", "high"):
            yield from compared(("this", None), (bound, None))
    elif isinstance(node, exp.Add | exp.Sub):
        for text, other in (("this", "expression"), ("expression", "this")):
            if _type(_at(node, (text, None)), lookup) == STRING and _may_be_interval(
                node.args[other], lookup
            ):
                yield (text, None), WITHOUT_DATE, None
    elif isinstance(node, exp.Extract):
        if may_be(_type(node.expression, lookup), STRING) and node.name.upper() in ("HOUR", "MINUTE"):
            yield ("expression", None), _OF_A_PLACE, None
    elif isinstance(node, exp.Bracket) and len(node.expressions) == 1:
        inner = _type(node.this, lookup)
        if may_be(_type(node.expressions[0], lookup), STRING) and may_be_keyed(inner):
            asked = None if inner is not None else _is_timestamp(copy.this, "map<timestamp,")
            yield ("expressions", 0), WITHOUT_DATE, asked
    elif isinstance(node, exp.Anonymous) and isinstance(node.this, str):
        yield from _arguments(node, copy, lookup, compared)


def _arguments(
    node: exp.Anonymous,
    copy: exp.Expr,
    lookup: Lookup,
    compared: Callable[..., Iterator[tuple[_Where, str, exp.Expr | None]]],
) -> Iterator[tuple[_Where, str, exp.Expr | None]]:
    name, count = node.name.lower(), len(node.expressions)
    places = dict.fromkeys(_TIMES.get((name, count), ()), WITHOUT_DATE)
    if name in _HOURS and count == 1:
        places = {0: _OF_A_PLACE}
    elif name in ("date_part", "datepart") and count == 2:
        places = {1: _OF_A_PLACE}
    for place, pattern in places.items():
        if _type(node.expressions[place], lookup) in (None, STRING):
            yield ("expressions", place), pattern, None
    if name in ("nullif", "equal_null") and count == 2:
        yield from compared(("expressions", 0), ("expressions", 1))
    elif name in ("lag", "lead") and count == 3 and _type(node.expressions[2], lookup) in (None, STRING):
        first = _type(node.expressions[0], lookup)
        if first is None or first == TIMESTAMPTZ:
            asked = None if first == TIMESTAMPTZ else _is_timestamp(copy.expressions[0])
            yield ("expressions", 2), WITHOUT_DATE, asked
    elif name in ("try_add", "try_subtract") and count == 2:
        for text, other in ((0, 1), (1, 0)):
            is_text = _type(node.expressions[text], lookup) == STRING
            if is_text and _may_be_interval(node.expressions[other], lookup):
                yield ("expressions", text), WITHOUT_DATE, None


def _is_computed(node: exp.Expr) -> bool:
    """Whether a value is of numbers or times, and no text, whatever its type."""
    return isinstance(node.unnest(), exp.Interval | exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod | exp.Neg)


def _is_timestamp(node: exp.Expr, begins: str = "timestamp") -> exp.Expr:
    """Whether a value is of such a type. (That of TIMESTAMP begins like that of TIMESTAMPTZ, and such a text is no time
    for it, either.) Spark knows before there are rows."""
    return _call("startswith", _call("typeof", node), exp.Literal.string(begins))


def _may_be_interval(node: exp.Expr, lookup: Lookup) -> bool:
    type_ = _type(node, lookup)
    return isinstance(node.unnest(), exp.Interval) or type_ is None or type_.name.startswith("interval")


def _cast(node: exp.Expr, lookup: Lookup, safe: _Safe) -> exp.Expr | None:
    """Of a cast: whether it would make a time of today."""
    if not isinstance(node, exp.Cast):
        return None
    wanted, given = from_datatype(node.to), _type(node.this, lookup)
    if isinstance(node.this, exp.Literal) or not _has(wanted, "timestamp"):
        return None
    if given is not None and not _has(given, "string", "variant"):
        return None
    if wanted == TIMESTAMPTZ:
        return _matches(safe(node.this), WITHOUT_DATE)
    kind = exp.DataType.build(str(_as_texts(wanted)), dialect="spark")
    return _found(exp.TryCast(this=safe(node.this), to=kind, safe=True), wanted)


def _read(node: exp.Anonymous, safe: _Safe) -> exp.Expr | None:
    """Of a call that reads a text or a VARIANT: whether it would make a time of today."""
    name, place = node.name.lower(), READING.get(node.name.lower())
    if place is None or len(node.expressions) <= place:
        return None
    arguments = [safe(one) for one in node.expressions]
    type_, given = node.expressions[place].unnest(), node.expressions[place + 1 :]
    if place == 1 and given and _has_format(given[0]):
        return None
    if isinstance(type_, exp.Literal) and (wanted := _written(type_.name)) is not None:
        if not _has(wanted, "timestamp"):
            return None
        # Columns of CSV are found by their order; of the others, nothing else has to be read.
        columns = tuple(STRING for _ in wanted.args)
        texts = SparkType(wanted.name, (), columns, wanted.fields) if name == "from_csv" else _pruned(wanted)
        arguments[place] = exp.Literal.string(str(texts))
        reads = "try_variant_get" if place == 2 else name
        return _found(exp.Anonymous(this=reads, expressions=arguments), wanted)
    if isinstance(type_, exp.Anonymous) and type_.name.lower() == "schema_of_json":
        settings = [one for one in type_.find_all(exp.Literal) if one.name.lower() == "infertimestamp"]
        if len(type_.expressions) == 1 or (not settings and _is_constant_map(type_.expressions[1])):
            return None
    # Nobody but Spark knows the type.
    return _matches(exp.Cast(this=arguments[0], to=exp.DataType.build("STRING", dialect="spark")), _SOMEWHERE)


def _is_constant_map(node: exp.Expr) -> bool:
    is_map = isinstance(node, exp.Anonymous) and node.name.lower() == "map"
    return is_map and all(isinstance(one, exp.Literal) for one in node.expressions)


def _has_format(options: exp.Expr) -> bool:
    """Whether a pattern says what a time is. Without a date, it is one of 1970."""
    if not _is_constant_map(options):
        return False
    keys = {one.name.lower() for one in options.expressions[::2]}
    return "timestampformat" in keys and "enabledatetimeparsingfallback" not in keys


def _written(text: str) -> SparkType | None:
    """The type, or the columns, that a text of Spark's names; None for what can't be told here."""
    for ddl in (f"STRUCT<{text}>", text):
        try:
            type_ = exp.DataType.build(ddl, dialect="spark")
            for field in type_.find_all(exp.ColumnDef):
                field.set("constraints", None)
            return from_datatype(type_)
        except (SqlglotError, ValueError):
            continue
    return None


def _has(type_: SparkType, *names: str) -> bool:
    return type_.name in names or any(_has(one, *names) for one in type_.args)


def _as_texts(type_: SparkType) -> SparkType:
    """The type, with texts in the place of times."""
    if type_ == TIMESTAMPTZ:
        return STRING
    return SparkType(type_.name, type_.params, tuple(map(_as_texts, type_.args)), type_.fields)


def _pruned(type_: SparkType) -> SparkType:
    """`_as_texts`, without the fields that have no times."""
    if type_.name != "struct":
        return (
            STRING
            if type_ == TIMESTAMPTZ
            else SparkType(type_.name, type_.params, tuple(map(_pruned, type_.args)), type_.fields)
        )
    pairs = [(f, _pruned(t)) for f, t in zip(type_.fields, type_.args, strict=True) if _has(t, "timestamp")]
    return SparkType("struct", (), tuple(t for _, t in pairs), tuple(f for f, _ in pairs))


def _found(value: exp.Expr, wanted: SparkType, depth: int = 0) -> exp.Expr:
    """Whether a value of texts (`_as_texts`) has one without a date where `wanted` has a time."""
    if wanted == TIMESTAMPTZ:
        return _call("coalesce", _matches(value, WITHOUT_DATE), exp.false())
    conditions = []
    if wanted.name == "struct":
        for field, type_ in zip(wanted.fields, wanted.args, strict=True):
            if _has(type_, "timestamp"):
                inner = exp.Dot(
                    this=exp.Paren(this=value.copy()), expression=exp.to_identifier(field, quoted=True)
                )
                conditions.append(_found(inner, type_, depth))
    else:
        parts = [value] if wanted.name == "array" else [_call("map_keys", value), _call("map_values", value)]
        for part, type_ in zip(parts, wanted.args, strict=True):
            if _has(type_, "timestamp"):
                name = exp.to_identifier(f"tidegate_{depth}", quoted=True)
                asked = _found(exp.column(name.copy()), type_, depth + 1)
                some = _call("exists", part, exp.Lambda(this=asked, expressions=[name]))
                conditions.append(_call("coalesce", some, exp.false()))
    return exp.Paren(this=exp.or_(*conditions))


def _type(node: exp.Expr, lookup: Lookup) -> SparkType | None:
    """The type of an expression, and of a field of what a call reads."""
    node = node.unnest()
    if isinstance(node, exp.Dot) and (inner := _type(node.this, lookup)) is not None and inner.fields:
        return inner.field(node.expression.name)
    if isinstance(node, exp.Anonymous) and (place := READING.get(node.name.lower())) is not None:
        type_ = node.expressions[place].unnest() if len(node.expressions) > place else None
        return _written(type_.name) if isinstance(type_, exp.Literal) else None
    return infer(node, lookup)


def _call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[one.copy() for one in arguments])
