"""Values as a PostgreSQL client shows them: what stands below `----` in a test file."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

#: A type as Spark's schemas say it in JSON: a name, or a dict for array, map and struct.
Type = Any


def render(value: Any, kind: Type = None) -> str:
    """One value. An empty text is `(empty)`; line breaks are escaped, a row is a line."""
    text = _text(value, kind)
    if text == "":
        return "(empty)"
    return text.replace("\\", "\\\\").replace("\n", "\\n") if "\n" in text else text


def _text(value: Any, kind: Type) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime):
        return _instant(value, kind)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return _interval(value)
    if isinstance(value, bytes | bytearray):
        return "\\x" + value.hex()
    if isinstance(value, Mapping):
        inner = kind if isinstance(kind, dict) else {}
        pairs = (
            f"{_quoted(_text(k, inner.get('keyType')))}:{_element(v, inner.get('valueType'))}"
            for k, v in value.items()
        )
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, tuple):
        fields = kind.get("fields", []) if isinstance(kind, dict) else []
        kinds = [f["type"] for f in fields] or [None] * len(value)
        return "(" + ",".join(_field(v, k) for v, k in zip(value, kinds, strict=True)) + ")"
    if isinstance(value, Sequence):
        inside = kind.get("elementType") if isinstance(kind, dict) else None
        return "{" + ",".join(_element(v, inside) for v in value) + "}"
    return str(value)


def _float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _instant(value: datetime, kind: Type) -> str:
    # PySpark hands a TIMESTAMPTZ out without zone, in the time zone of this process.
    zoned = value.tzinfo is not None or kind == "timestamp"
    if zoned:
        value = value.astimezone(UTC)
    text = value.replace(tzinfo=None).isoformat(sep=" ")
    if value.microsecond:
        text = text.rstrip("0")
    return text + "+00:00" if zoned else text


def _interval(value: timedelta) -> str:
    micros = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
    sign = "-" if micros < 0 else ""
    days, rest = divmod(abs(micros), 86_400_000_000)
    seconds, fraction = divmod(rest, 1_000_000)
    parts = []
    if days:
        parts.append(f"{sign}{days} day{'' if sign + str(days) == '1' else 's'}")
    if rest or not days:
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        parts.append(f"{sign}{clock}" + (f".{fraction:06}".rstrip("0") if fraction else ""))
    return " ".join(parts)


def _element(value: Any, kind: Type) -> str:
    """Of an array: quoted where the array's own signs occur in it."""
    text = _text(value, kind)
    nested = isinstance(value, list | Mapping)
    return text if value is None or nested else _quoted(text)


def _quoted(text: str) -> str:
    if text and text.upper() != "NULL" and not re.search(r'[{},"\\\s]', text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _field(value: Any, kind: Type) -> str:
    """Of a struct: NULL is nothing."""
    if value is None:
        return ""
    text = _text(value, kind)
    if text and not re.search(r'[(),"\\\s]', text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'
