"""Functions of Spark over Arrow's arrays and scalars, where these have the same result; else they decline."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import unquote_plus

import pyarrow as pa
import pyarrow.compute as pc

from tests.inprocess.answers.terms import Declined


def is_null(value: Any) -> bool:
    """Whether it is of no type."""
    return pa.types.is_null(value.type)


def is_nothing(value: Any) -> bool:
    """Whether it is NULL in every row."""
    if isinstance(value, pa.Scalar):
        return not value.is_valid
    return value.null_count == len(value)


def nothing(value: Any, kind: Any) -> Any:
    """NULL of a type, in the place of a value that is NULL in every row."""
    return pa.scalar(None, kind) if isinstance(value, pa.Scalar) else pa.nulls(len(value), kind)


def cast(value: Any, target: Any) -> Any:
    """Where the value is the same afterwards."""
    kind = value.type
    if kind == target:
        return value
    if is_nothing(value):
        return nothing(value, target)
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(target) and kind.unit == target.unit == "us":
        return value.cast(pa.int64()).cast(target)
    if pa.types.is_integer(kind) and (pa.types.is_integer(target) or pa.types.is_string(target)):
        return value.cast(target)
    if pa.types.is_binary(kind) and pa.types.is_string(target):
        return value.cast(target)  # (what is no text is refused there)
    if pa.types.is_list(kind) and pa.types.is_null(kind.value_type):
        return pa.scalar([], target)
    raise Declined


def together(values: Sequence[Any]) -> list[Any]:
    """Of one type: that of those that have one."""
    kinds = {value.type for value in values if not is_null(value)}
    if len(kinds) > 1:
        if not all(map(pa.types.is_integer, kinds)):
            raise Declined
        kinds = {max(kinds, key=lambda kind: int(kind.bit_width))}
    return [cast(value, kind) for value in values for kind in kinds] or list(values)


def plain(value: Any) -> Any:
    """A value by which rows can be told apart. Raises Declined for others."""
    if not any(is_simple(value.type) for is_simple in _SIMPLE):
        raise Declined
    return value


_SIMPLE = (pa.types.is_integer, pa.types.is_string, pa.types.is_timestamp, pa.types.is_boolean)


def _compared(compare: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def function(left: Any, right: Any) -> Any:
        left, right = together([left, right])
        kind = left.type
        if pa.types.is_floating(kind) or pa.types.is_nested(kind) or pa.types.is_duration(kind):
            raise Declined
        if is_null(left):
            return pa.scalar(None, pa.bool_())
        return compare(left, right)

    return function


def _same(left: Any, right: Any) -> Any:
    neither = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.coalesce(_compared(pc.equal)(left, right), neither)


def _logical(value: Any) -> Any:
    if is_null(value):
        return nothing(value, pa.bool_())
    if not pa.types.is_boolean(value.type):
        raise Declined
    return value


def _when(*given: Any) -> Any:
    conditions = [_logical(one) for one in given[: len(given) // 2 * 2 : 2]]
    values = together([*given[1::2], given[-1] if len(given) % 2 else pa.scalar(None)])
    found = values[-1]
    for condition, value in zip(reversed(conditions), reversed(values[:-1]), strict=True):
        found = pc.if_else(pc.coalesce(condition, False), value, found)
    return found


def _sum(checked: bool, plus: bool) -> Callable[[Any, Any], Any]:
    if checked:
        function = pc.add_checked if plus else pc.subtract_checked
    else:
        function = pc.add if plus else pc.subtract

    def summed(left: Any, right: Any) -> Any:
        if pa.types.is_timestamp(left.type) and pa.types.is_duration(right.type):
            return (pc.add_checked if plus else pc.subtract_checked)(left, right)
        left, right = together([left, right])
        if not pa.types.is_integer(left.type):
            raise Declined
        return function(left, right)

    return summed


def _texts(values: Sequence[Any]) -> list[Any]:
    found = [nothing(value, pa.string()) if is_null(value) else value for value in values]
    if not all(pa.types.is_string(value.type) for value in found):
        raise Declined
    return found


def _concat(*given: Any) -> Any:
    return pc.binary_join_element_wise(*_texts(given), "", null_handling="emit_null")


def _concat_with(separator: Any, *given: Any) -> Any:
    separator, *texts = _texts([separator, *given])
    if not isinstance(separator, pa.Scalar) or not separator.is_valid:
        raise Declined
    word, rows = separator.as_py(), _rows_of(texts)
    # (Arrow's own function leaves rows out in which every text is NULL.)
    found = [word.join(text for text in row if text is not None) for row in rows]
    return pa.array(found, pa.string()) if _is_column(texts) else pa.scalar(found[0], pa.string())


def _is_column(values: Sequence[Any]) -> bool:
    return not all(isinstance(value, pa.Scalar) for value in values)


def _rows_of(values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Values side by side; one row of what is the same in every row."""
    count = next((len(value) for value in values if not isinstance(value, pa.Scalar)), 1)
    columns = [_listed(value) * (count if isinstance(value, pa.Scalar) else 1) for value in values]
    return list(zip(*columns, strict=True)) if columns else [()]


def _each(change: Callable[..., str]) -> Callable[..., Any]:
    """Of texts, one by one. What else is given has to be the same for all of them."""

    def function(texts: Any, *given: Any) -> Any:
        (texts,) = _texts([texts])
        if not all(isinstance(one, pa.Scalar) and one.is_valid for one in given):
            raise Declined
        words = [one.as_py() for one in given]
        known = {text: change(text, *words) for text in {*_listed(texts)} if text is not None}
        if isinstance(texts, pa.Scalar):
            return pa.scalar(known.get(texts.as_py()), pa.string())
        return pa.array([known.get(text) for text in texts.to_pylist()], pa.string())

    return function


def _listed(value: Any) -> list[Any]:
    return [value.as_py()] if isinstance(value, pa.Scalar) else value.to_pylist()  # type: ignore[no-any-return]


def _decoded(text: str) -> str:
    if re.search("%(?![0-9a-fA-F]{2})", text):
        raise Declined
    return unquote_plus(text, errors="strict")


def _replaced(text: str, pattern: str, by: str) -> str:
    if not re.fullmatch(r"\^?[\w:/]+\+?", pattern) or not re.fullmatch(r"[\w:/]*", by):
        raise Declined
    return re.sub(pattern, by, text)


def _length(value: Any) -> Any:
    if is_null(value):
        return nothing(value, pa.int32())
    if not pa.types.is_string(value.type) and not pa.types.is_binary(value.type):
        raise Declined
    return pc.binary_length(value)


def _among(value: Any, *given: Any) -> Any:
    found = _compared(pc.equal)(value, given[0])
    for one in given[1:]:
        found = pc.or_kleene(found, _compared(pc.equal)(value, one))
    return found


def _aggregated(lists: Any, start: Any, _: Any) -> Any:
    """Where no list has an element, and nothing is made of the result."""
    if is_nothing(lists):
        return nothing(lists, start.type)
    if isinstance(lists, pa.Scalar) or len(lists.flatten()) or not start.is_valid:
        raise Declined
    return pc.if_else(pc.is_null(lists), pa.scalar(None, start.type), start)


def _field(struct: Any, name: Any) -> Any:
    if not pa.types.is_struct(struct.type) or isinstance(struct, pa.Scalar):
        raise Declined
    places = [place for place, field in enumerate(struct.type) if field.name.lower() == name.as_py().lower()]
    if len(places) != 1:
        raise Declined
    # (As it is flattened, a field of what is NULL is NULL.)
    return struct.flatten()[places[0]]


def _divided(left: Any, right: Any) -> tuple[Any, Any]:
    left, right = cast(left, pa.int64()), cast(right, pa.int64())
    if not isinstance(right, pa.Scalar) or not right.is_valid or right.as_py() <= 0:
        raise Declined
    return left, right


def _remainder(left: Any, right: Any) -> Any:
    """Of a division by what is above zero; it is never below."""
    kind = together([left, right])[0].type
    left, right = _divided(left, right)
    found = pc.subtract(left, pc.multiply(pc.divide(left, right), right))
    return pc.if_else(pc.less(found, 0), pc.add(found, right), found).cast(kind)


def _micros(value: Any) -> Any:
    if not pa.types.is_timestamp(value.type) or value.type.tz is None:
        raise Declined
    return value.cast(pa.int64())


def _of_micros(value: Any) -> Any:
    if not pa.types.is_integer(value.type):
        raise Declined
    return value.cast(pa.int64()).cast(pa.timestamp("us", "UTC"))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "==": _compared(pc.equal),
    "!=": _compared(pc.not_equal),
    "<": _compared(pc.less),
    "<=": _compared(pc.less_equal),
    ">": _compared(pc.greater),
    ">=": _compared(pc.greater_equal),
    "<=>": _same,
    "and": lambda left, right: pc.and_kleene(_logical(left), _logical(right)),
    "or": lambda left, right: pc.or_kleene(_logical(left), _logical(right)),
    "not": lambda value: pc.invert(_logical(value)),
    "isNull": pc.is_null,
    "isNotNull": pc.is_valid,
    "coalesce": lambda *given: pc.coalesce(*together(given)),
    "when": _when,
    "+": _sum(False, True),
    "-": _sum(False, False),
    "try_add": _sum(True, True),
    "try_subtract": _sum(True, False),
    "concat": _concat,
    "concat_ws": _concat_with,
    "replace": _each(lambda text, old, new: text.replace(old, new) if old else text),
    "regexp_replace": _each(_replaced),
    "url_decode": _each(_decoded),
    "octet_length": _length,
    "in": _among,
    "array": lambda: pa.scalar([], pa.list_(pa.null())),
    "aggregate": _aggregated,
    "field": _field,
    "is_valid_utf8": lambda text: pc.if_else(
        pc.is_valid(_texts([text])[0]), True, pa.scalar(None, pa.bool_())
    ),
    "pmod": _remainder,
    "div": lambda left, right: pc.divide(*_divided(left, right)),
    "unix_micros": _micros,
    "timestamp_micros": _of_micros,
}
