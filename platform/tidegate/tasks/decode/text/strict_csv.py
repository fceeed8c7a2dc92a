"""CSV as RFC 4180 has it: records, and the fields of one. Executor side.

A field in quotes may hold delimiters, line breaks and doubled quotes; behind its closing quote comes a delimiter or the
end of the record. A quote inside a field that does not begin with one is a character like any other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.tasks.decode.text.strict_json import NotStrict
from tidegate.tasks.decode.values import DeclaredColumn, Left, Misfit, number, pattern, time

_OPEN = "unparseable: a quoted field is not closed"
_BEHIND = "unparseable: text behind a quoted field"
_SEVERAL = "unparseable: more than one record"
_NOTHING = "unparseable: an empty record"
_FEW, _MANY = "unparseable: fewer fields than columns", "unparseable: more fields than columns"

_END = re.compile(r"(?:\r\n|\n|\r)\Z")


def fields(text: str, delimiter: str, null: str, wanted: int | None) -> list[str | None]:
    """The fields of one record, with or without a line break behind it; `wanted`: how many there must be. Raises
    NotStrict."""
    text = _END.sub("", text)
    if not text:
        raise NotStrict(_NOTHING)
    found: list[str | None] = []
    place = -1
    while place < len(text):
        place += 1
        if text.startswith('"', place):
            end = _closing(text, place + 1)
            value: str | None = text[place + 1 : end].replace('""', '"')
            place = end + 1
            if place < len(text) and text[place] != delimiter:
                raise NotStrict(_BEHIND)
        else:
            end = text.find(delimiter, place)
            end = len(text) if end < 0 else end
            value = text[place:end] or None
            if value and ("\n" in value or "\r" in value):
                raise NotStrict(_SEVERAL)
            place = end
        found.append(None if value == null else value)
        if wanted is not None and len(found) > wanted:
            raise NotStrict(_MANY)
    if wanted is not None and len(found) < wanted:
        raise NotStrict(_FEW)
    return found


def _closing(text: str, place: int) -> int:
    while True:
        end = text.find('"', place)
        if end < 0:
            raise NotStrict(_OPEN)
        if text[end + 1 : end + 2] != '"':
            return end
        place = end + 2


def converted(target: DeclaredColumn, text: str) -> Any:
    """A field's value for an Arrow array of `target.parsed`. Raises Misfit, Left (Spark converts the text)."""
    kind = target.arrow
    if kind is None:
        if target.nested:
            raise Misfit  # CSV has no spelling for what is inside of a value
        raise Left
    if pa.types.is_string(kind):
        return text
    if pa.types.is_boolean(kind):
        if text.lower() not in ("true", "false"):
            raise Misfit
        return text.lower() == "true"
    if pa.types.is_temporal(kind):
        return time(target, text)
    return number(target, text.strip(" \t") if pa.types.is_floating(kind) else text)


def regex(filled: Sequence[DeclaredColumn | None], delimiter: str, null: str) -> str | None:
    """RE2 of the records of which each field is plain, without a line break at the end; None if there is none."""
    if (
        len(delimiter.encode()) > 1
        or delimiter in '"\r\n'
        or re.search(r'["\r\n]', null)
        or delimiter in null
    ):
        return None
    out = re.escape(delimiter)
    # With a NULL of its own, nothing in quotes is an empty text.
    some = "+" if null else "*"
    any_text = rf'(?:[^"\r\n{out}][^\r\n{out}]*|"(?:[^"]|""){some}"|)'
    parts = []
    for target in filled:
        plain = pattern(target) if target is not None else None
        nothing = f"|{re.escape(null)}" if null else '|""'
        if target is not None and target.nested:
            parts.append(f"(?:{nothing})")
        elif plain is None or target is None:
            parts.append(any_text)
        else:
            parts.append(f'(?:{plain}|"{plain}"{nothing}|)')
    body = out.join(parts)
    return rf"\A(?:{body})\z"


def without_end(text: pa.Array) -> pa.Array:
    """Records without the line break behind them."""
    if not pc.any(pc.match_substring_regex(text, r"[\r\n]\z")).as_py():
        return text
    return pc.replace_substring_regex(text, r"(?:\r\n|\n|\r)\z", "")
