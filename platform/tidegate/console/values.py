"""Values of rows, for people and for JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any


def show(value: Any, spark_type: str | None = None) -> str:
    """One line of text. NULL is `NULL`; times are ISO, with time zone in UTC as `+00:00`; structs `{a: 1}`.

    Control characters are escaped: a value can neither break the table nor talk to the terminal.
    """
    if isinstance(value, str):
        return _escape(value)
    return _escape(_text(value, spark_type))


def to_json(value: Any, spark_type: str | None = None) -> Any:
    """JSON-ready: times ISO text, DECIMAL exact text, binary hex, structs objects, NaN and infinity text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _float(value)
    if _is_struct(value):
        return {k: to_json(v) for k, v in zip(value.__fields__, value, strict=True)}
    if isinstance(value, Mapping):
        return {k if isinstance(k, str) else show(k): to_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(v) for v in value]
    return _text(value, spark_type)


def json_line(columns: Sequence[str], row: Sequence[Any], types: Sequence[str | None] | None = None) -> str:
    """One row as a JSON object. Of columns with the same name, the second is called `name_2`, and so on."""
    kinds = types or [None] * len(columns)
    values = {n: to_json(v, t) for n, v, t in zip(unique(columns), row, kinds, strict=True)}
    return json.dumps(values, ensure_ascii=False)


def unique(names: Sequence[str]) -> list[str]:
    """The names with `_2`, `_3`, … where one comes again."""
    result: list[str] = []
    for name in names:
        candidate, number = name, 2
        while candidate in result:
            candidate, number = f"{name}_{number}", number + 1
        result.append(candidate)
    return result


def _text(value: Any, spark_type: str | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, datetime):
        return _instant(value, spark_type)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if _is_struct(value):
        pairs = (f"{k}: {show(v)}" for k, v in zip(value.__fields__, value, strict=True))
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{show(k)}: {show(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(show(v) for v in value) + "]"
    return str(value)


def _instant(value: datetime, spark_type: str | None) -> str:
    # PySpark hands a TIMESTAMPTZ out without zone, in the time zone of this process.
    if value.tzinfo is None and spark_type == "timestamp":
        value = value.astimezone()
    if value.tzinfo is not None:
        value = value.astimezone(UTC)
    text = value.isoformat(sep=" ")
    if value.microsecond:
        head, zone = text[:26], text[26:]
        text = head.rstrip("0") + zone
    return text


def _float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def _is_struct(value: Any) -> bool:
    """A pyspark Row; told by its fields, so that nothing here imports pyspark."""
    return isinstance(value, tuple) and hasattr(value, "__fields__")


def _escape(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
