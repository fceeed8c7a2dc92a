"""What the formats JSON and CSV themselves say of a text: its values, or that it is none.

It shares no code with tidegate: Python's own `json` and `csv`, `fractions` for numbers, `datetime` for times.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np


class Refused(Exception):
    """The text is not one strict JSON object."""


class Literal(str):
    """A number, as it is written."""


LEFT = object()

MISFIT = object()


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise Refused
    return dict(pairs)


def _constant(_: str) -> None:
    raise Refused


def _deepest(text: str) -> int:
    depth = deepest = 0
    quoted = escaped = False
    for c in text:
        if quoted:
            escaped, quoted = (not escaped and c == "\\"), not (c == '"' and not escaped)
        elif c == '"':
            quoted = True
        elif c in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif c in "]}":
            depth -= 1
    return deepest


def json_object(data: bytes) -> dict[str, Any]:
    """The one strict object that these bytes are. Raises Refused."""
    try:
        text = data.decode()
        if _deepest(text) > 500:
            raise Refused
        found = json.loads(
            text, object_pairs_hook=_pairs, parse_constant=_constant, parse_int=Literal, parse_float=Literal
        )
    except (ValueError, RecursionError):
        raise Refused from None
    if not isinstance(found, dict):
        raise Refused
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Refused from None
    return found


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)

_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}


def exact(text: str) -> Fraction | None:
    """The number that a text is; None beyond all bounds."""
    whole, _, exponent = text.lower().partition("e")
    if exponent and abs(int(exponent)) > 2000:
        return Fraction(0) if int(exponent) < 0 or not Fraction(whole) else None
    return Fraction(whole) * Fraction(10) ** int(exponent or 0)


def _real(value: Fraction) -> float:
    """The nearest of the numbers of 32 bits, to even between two."""
    if not value:
        return 0.0
    exponent = max(-149, math.floor(math.log2(abs(value.numerator)) - math.log2(value.denominator)) - 25)
    step = Fraction(2) ** exponent
    while True:
        steps = value / step
        low = math.floor(steps)
        rest = steps - low
        whole = low + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2))
        if abs(whole) <= 2**24:
            return float(whole * step) if abs(whole * step) < Fraction(2) ** 128 else math.inf
        step *= 2


def number(kind: str, text: str) -> Any:
    """The number in a column of this type, or MISFIT."""
    if kind in _BITS:
        if not re.fullmatch(r"[+-]?\d+", text, re.ASCII):
            return MISFIT
        value = int(text) if len(text) < 4000 else 2**100
        return value if -(2 ** (_BITS[kind] - 1)) <= value < 2 ** (_BITS[kind] - 1) else MISFIT
    if not _NUMBER.fullmatch(text):
        return MISFIT
    found = exact(text)
    if found is None:
        return MISFIT
    if kind.startswith("DECIMAL"):
        scaled = math.floor(abs(found) * 1000 + Fraction(1, 2)) * (-1 if found < 0 else 1)
        return Decimal(scaled).scaleb(-3) if abs(scaled) < 10**12 else MISFIT
    value = _real(found) if kind == "REAL" else float(text)
    if not math.isfinite(value):
        return MISFIT
    return -abs(value) if text.startswith("-") and value == 0 else value


def time(kind: str, text: str) -> Any:
    """A time in a spelling that everybody knows; else LEFT, for Spark knows more, or refuses it."""
    day = r"\d{4}-\d\d-\d\d"
    clock = r"[ T]\d\d:\d\d:\d\d(\.\d{1,9})?"
    zone = r"(Z|[+-](0\d|1[0-7]):[0-5]\d)?" if kind == "TIMESTAMPTZ" else ""
    if not re.fullmatch(day if kind == "DATE" else day + clock + zone, text, re.ASCII):
        return LEFT
    try:
        if kind == "DATE":
            return date.fromisoformat(text)
        found = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text))
        if kind == "TIMESTAMPTZ":
            return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
        return found
    except (ValueError, OverflowError):
        return LEFT


def micros(value: Any) -> Any:
    """Times as numbers."""
    if isinstance(value, datetime):
        since = datetime(1970, 1, 1, tzinfo=value.tzinfo)
        return (value - since) // timedelta(microseconds=1)
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else value


def of_json(kind: str, value: Any) -> Any:
    """What a JSON value is in a column of this type: the value, LEFT or MISFIT. For VARCHAR of what is no text: the
    value itself, which must be its text."""
    if value is None:
        return None
    if kind == "VARCHAR":
        return value
    if kind == "BOOLEAN":
        return value if isinstance(value, bool) else MISFIT
    if kind in ("DATE", "TIMESTAMP", "TIMESTAMPTZ"):
        return time(kind, value) if type(value) is str else LEFT
    if type(value) is Literal:
        return number(kind, "0" if value == "-0" and kind in ("REAL", "DOUBLE") else value)
    if type(value) is str and kind.startswith("DECIMAL"):
        return number(kind, value)
    if (
        type(value) is str
        and kind in ("REAL", "DOUBLE")
        and value in ("NaN", "Infinity", "INF", "+INF", "-INF")
    ):
        return LEFT
    return MISFIT


def csv_fields(data: bytes) -> list[str]:
    """The fields of the one record that these bytes are. Raises Refused."""
    csv.field_size_limit(1 << 30)
    try:
        text = data.decode()
        records = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except (csv.Error, ValueError):
        raise Refused from None
    if len(records) != 1 or not records[0]:
        raise Refused
    return records[0]


def of_csv(kind: str, text: str) -> Any:
    """What a field is in a column of this type: the value, LEFT or MISFIT."""
    if text == "":
        return None
    if kind == "VARCHAR":
        return text
    if kind == "BYTEA":
        return LEFT
    if kind.endswith(("[]", ">")):
        return MISFIT
    if kind == "BOOLEAN":
        return text.lower() == "true" if text.lower() in ("true", "false") else MISFIT
    if kind in ("DATE", "TIMESTAMP", "TIMESTAMPTZ"):
        return time(kind, text)
    if kind in ("REAL", "DOUBLE"):
        text = text.strip(" \t")
        if re.fullmatch("[+-]?(NaN|INF|Inf|Infinity)", text):
            return LEFT
    return number(kind, text)


def same(found: Any, wanted: Any) -> bool:
    """Equal to the bit: -0.0 is not 0.0."""
    return repr(found) == repr(wanted) or (isinstance(found, Decimal) and found == wanted)


def real_of(value: float) -> float:
    return float(np.float32(value))


def raw_bytes(text: str) -> bytes:
    """The bytes that `_raw` stands for."""
    return base64.b64decode(text.removeprefix("base64:")) if text.startswith("base64:") else text.encode()
