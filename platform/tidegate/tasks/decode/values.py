"""What the text of a value must look like in each type of column, and what it becomes. Executor side.

Every plain type has a pattern of the spellings that pyarrow converts without a loss: whole batches of those are
converted at once. Other spellings are converted here, one value after the other, or are left to Spark (times that are
written in an unusual way, or by a `timestamp_format`, and nested types). What fits its column in no way is a Misfit.
Numbers are exact: integers must be in the range of their type, decimals are rounded to their scale, half up, and a
floating-point number is finite unless its text says otherwise ("NaN", "Infinity").
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.tasks.decode.reasons import misfit

_PLAIN = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMAL_TYPE = re.compile(r"decimal\((\d+),(\d+)\)")
#: Digits that an integer of a type may have whatever they are.
_SURE_DIGITS = {8: 2, 16: 4, 32: 9, 64: 18}

_DAY = (
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_YEAR = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?"
#: Offsets that Java's and Arrow's calendars both know.
_OFFSET = "(?:Z|[+-](?:0[0-9]|1[0-7]):[0-5][0-9])"
_TIME = f"{_YEAR}-{_DAY}[ T]{_CLOCK}"

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NOT_FINITE = frozenset(("NaN", "Infinity", "+Infinity", "-Infinity", "INF", "+INF", "-INF", "Inf", "-Inf"))
#: A time without a date would be taken for one of today: what a row says must not depend on the clock (W4).
_DAY_TEXT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?![0-9])")
_DATED = re.compile(r"\s*[+-]?[0-9]{4}")


class Misfit(Exception):
    """A value that its column can't hold."""


class Left(Exception):
    """A value that Spark converts, or refuses."""


@dataclass(frozen=True)
class DeclaredColumn:
    """A declared column. `type`: Spark's; `wants`: as SQL writes it; `formatted`: its times are written by a
    `timestamp_format`; `required`: a row in which it is NULL is rejected; `optional`: it was taken in."""

    name: str
    type: str
    wants: str
    formatted: bool = False
    required: bool = False
    optional: bool = False

    @property
    def arrow(self) -> pa.DataType | None:
        """The type of the converted column; None if Spark converts all of it."""
        decimal = _DECIMAL_TYPE.fullmatch(self.type)
        return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else _PLAIN.get(self.type)

    @property
    def parsed(self) -> pa.DataType | None:
        """The type that it has on the way there: times are text until the end."""
        kind = self.arrow
        return pa.string() if kind is not None and pa.types.is_temporal(kind) else kind

    @property
    def nested(self) -> bool:
        """Whether it has values inside of its values."""
        return self.type.startswith(("array<", "map<", "struct<"))

    @property
    def may_be_left(self) -> bool:
        """Whether Spark converts some of its values."""
        kind = self.arrow
        return kind is None or pa.types.is_temporal(kind) or pa.types.is_floating(kind)

    @property
    def misfit(self) -> str:
        """The reason of a row whose value does not fit; it must not say the value (it may be a secret)."""
        return misfit(self.name, self.wants)


def pattern(target: DeclaredColumn) -> str | None:
    """RE2 of the plain spellings of a value, those of texts without quotes. None for VARCHAR and for what Spark
    converts."""
    kind = target.arrow
    if kind is None or target.formatted or pa.types.is_string(kind):
        return None
    if pa.types.is_integer(kind):
        return f"(?:0|-?[1-9][0-9]{{0,{_SURE_DIGITS[kind.bit_width] - 1}}})"
    if pa.types.is_floating(kind):
        exponent = 2 if kind.bit_width == 64 else 1
        fraction = r"(?:\.[0-9]+)?"
        # "-0" is 0 as an integer is, and -0.0 is not.
        whole = rf"(?:-?[1-9][0-9]{{0,24}}{fraction}|0{fraction}|-0\.[0-9]+)"
        return rf"(?:{whole}(?:[eE][-+]?[0-9]{{1,{exponent}}})?)"
    if pa.types.is_decimal(kind):
        whole = kind.precision - kind.scale
        digits = f"(?:0|[1-9][0-9]{{0,{whole - 1}}})" if whole else "0"
        return f"(?:-?{digits}" + (rf"(?:\.[0-9]{{1,{kind.scale}}})?)" if kind.scale else ")")
    if pa.types.is_boolean(kind):
        return "(?:true|false)"
    if pa.types.is_date(kind):
        return f"(?:{_YEAR}-{_DAY})"
    return f"(?:{_TIME}{_OFFSET}?)" if kind.tz else f"(?:{_TIME})"


def number(target: DeclaredColumn, text: str) -> Any:
    """A number from its text, in a spelling of JSON or Java. Raises Misfit, Left."""
    kind = target.arrow
    assert kind is not None
    if pa.types.is_integer(kind):
        # More digits than any of these types has are a misfit; to convert them all would take long.
        if not _INTEGER.fullmatch(text) or len(text.lstrip("+-0")) > 19:
            raise Misfit
        value = int(text)
        if not -(1 << kind.bit_width - 1) <= value < 1 << kind.bit_width - 1:
            raise Misfit
        return value
    if pa.types.is_decimal(kind):
        if not _NUMBER.fullmatch(text):
            raise Misfit
        return _decimal(text, kind)
    if text in _NOT_FINITE:
        raise Left
    if not _NUMBER.fullmatch(text):
        raise Misfit
    real: float = pa.scalar(text).cast(kind).as_py() if kind.bit_width == 32 else float(text)
    if not math.isfinite(real):
        raise Misfit
    return real


def _decimal(text: str, kind: Any) -> Decimal:
    try:
        value = Decimal(text)
        if not value.is_finite() or (value and value.adjusted() >= kind.precision - kind.scale):
            raise Misfit
        if value.adjusted() < -kind.scale - 1:
            return Decimal(0)
        rounded = value.quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, Context(prec=200))
    except InvalidOperation:
        raise Misfit from None
    if rounded and rounded.adjusted() >= kind.precision - kind.scale:
        raise Misfit
    return rounded


def time(target: DeclaredColumn, text: str) -> str:
    """The text of a time, if it is a plain one. Raises Misfit, Left."""
    if not target.formatted:
        plain = re.compile(pattern(target) or "")
        if plain.fullmatch(text):
            return text
        if _DAY_TEXT.match(text):
            try:
                date.fromisoformat(text[:10])
            except ValueError:
                raise Misfit from None
            # The pattern knows no leap years.
            if plain.fullmatch(f"{text[:8]}28{text[10:]}"):
                return text
        if not _DATED.match(text):
            raise Misfit
    raise Left


def finished(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column as it was parsed in the type that it is to have. `column`: times as text in plain spellings."""
    if pa.types.is_date(kind):
        return column.cast(kind)
    return _timestamps(column, kind) if pa.types.is_timestamp(kind) else column


def _timestamps(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Timestamps to the second or finer; with a time zone, where they name an offset, and UTC where they do not."""
    if int(pc.max(pc.binary_length(texts)).as_py() or 0) > len("2026-01-01 00:00:00.000000"):
        # Spark cuts nanoseconds off.
        texts = pc.replace_substring_regex(texts, r"(\.[0-9]{6})[0-9]{1,3}", r"\1")
    if kind.tz is None:
        return texts.cast(kind)
    plain = pa.timestamp(kind.unit)
    zoned = pc.match_substring_regex(texts, _OFFSET + "$")
    if pc.all(zoned).as_py():
        return texts.cast(kind)
    if not pc.any(zoned).as_py():
        return texts.cast(plain).cast(kind)
    nothing = pa.scalar(None, pa.string())
    with_zone = pc.if_else(zoned, texts, nothing).cast(kind)
    without = pc.if_else(zoned, nothing, texts).cast(plain).cast(kind)
    return pc.coalesce(with_zone, without)
