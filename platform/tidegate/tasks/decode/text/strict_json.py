"""Strict JSON (RFC 8259): whether a text is one object, and nothing else. Executor side.

`members` decides it for one text. For millions of them `ObjectShape` has a pattern made from one: what matches is such
an object, too, with the same names in the same order (some may be missing), and with values that pyarrow converts to
the declared types without a loss. What matches no shape is looked at alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa

from tidegate.tasks.decode.limits import Limits
from tidegate.tasks.decode.values import DeclaredColumn, Left, Misfit, number, pattern, time

_OBJECT = "unparseable: not one JSON object"
_SYNTAX = "unparseable: not valid JSON"
_MORE = "unparseable: more text behind the JSON object"
TWICE = "unparseable: a name is there twice in an object"
_SURROGATE = "unparseable: half a character (an unpaired surrogate) in a JSON text"
#: No value of any type needs more, and some parsers would write out all the zeros.
_EXPONENT = 1000

_SPACE = re.compile(r"[ \t\r\n]*")
_COMMAS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|,', re.DOTALL)
_BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL)
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
scan_text = json.decoder.scanstring  # type: ignore[attr-defined]  # Python's own reader of texts, without a name


class NotStrict(Exception):
    """A text that is not one JSON object. `reason` does not say what is in it; `name`: a member that is there twice."""

    def __init__(self, reason: str, name: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.name = reason, name


class Number(str):
    """A number as it is written."""

    __slots__ = ()


class Member(NamedTuple):
    """`raw`: the value as it is written; `value`: strings as str, numbers as Number; `key`: the name as written."""

    key: str
    value: Any
    raw: str


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotStrict(TWICE)
    return found


def _no_constant(_: str) -> NoReturn:
    raise NotStrict(_SYNTAX)


scan = json.JSONDecoder(  # type: ignore[attr-defined]  # the decoder's own scanner, without a name
    object_pairs_hook=_once, parse_float=Number, parse_int=Number, parse_constant=_no_constant
).scan_once


def members(text: str, limits: Limits) -> dict[str, Member]:
    """The members of the one object that a text is, by name. Raises NotStrict."""
    place = after_space(text, 0)
    if text[place : place + 1] != "{":
        raise NotStrict(_OBJECT)
    if is_deeper(text, limits.depth):
        raise NotStrict(limits.too_deep)
    try:
        found, place = _object(text, place + 1)
    except RecursionError:
        raise NotStrict(limits.too_deep) from None
    except (StopIteration, ValueError, IndexError):
        raise NotStrict(_SYNTAX) from None
    if after_space(text, place) != len(text):
        raise NotStrict(_MORE)
    if _HALF.search(text) and not _whole_characters(text):
        raise NotStrict(_SURROGATE)
    return found


def _object(text: str, place: int) -> tuple[dict[str, Member], int]:
    """Behind the brace; the place behind the other one. Raises NotStrict, StopIteration, ValueError, IndexError."""
    found: dict[str, Member] = {}
    place = after_space(text, place)
    if text[place] == "}":
        return found, place + 1
    while True:
        if text[place] != '"':
            raise NotStrict(_SYNTAX)
        start = place
        name, place = scan_text(text, place + 1, True)
        key = text[start:place]
        place = after_space(text, place)
        if text[place] != ":":
            raise NotStrict(_SYNTAX)
        start = after_space(text, place + 1)
        value, place = scan(text, start)
        if name in found:
            raise NotStrict(TWICE, name)
        found[name] = Member(key, value, text[start:place])
        place = after_space(text, place)
        if text[place] == "}":
            return found, place + 1
        if text[place] != ",":
            raise NotStrict(_SYNTAX)
        place = after_space(text, place + 1)


def after_space(text: str, place: int) -> int:
    """The place behind the blanks that begin at a place."""
    return _SPACE.match(text, place).end()  # type: ignore[union-attr]  # it matches the empty text, too


def too_many(text: bytes, most: int) -> bool:
    """Whether there are more values in a JSON text than so many; each but the first of an object or array stands
    behind a comma."""
    return text.count(b",") >= most and sum(t[0] == b"," for t in _COMMAS.finditer(text)) >= most


def is_deeper(text: str, most: int) -> bool:
    """Whether objects and arrays are nested more deeply in a JSON text. What comes behind is not looked at."""
    if text.count("{") + text.count("[") <= most:
        return False
    now = 0
    for token in _BRACKETS.finditer(text):
        if token[0] in "[{":
            now += 1
            if now > most:
                return True
        elif token[0] in "]}":
            now -= 1
    return False


def _whole_characters(text: str) -> bool:
    """Whether every escape of half a character has its other half; the text is JSON."""
    for token in _BRACKETS.finditer(text):
        if len(token[0]) > 1 and _HALF.search(token[0]):
            try:
                scan_text(token[0], 1, True)[0].encode()
            except UnicodeEncodeError:
                return False
    return True


def converted(target: DeclaredColumn, member: Member) -> Any:
    """A member's value for an Arrow array of `target.parsed`. Raises Misfit, Left (Spark converts `member.raw`)."""
    value, kind = member.value, target.arrow
    if value is None:
        return None
    if kind is None:
        _refuse_huge(target, value)
        raise Left
    if pa.types.is_string(kind):
        return value if type(value) is str else member.raw
    if pa.types.is_boolean(kind):
        if isinstance(value, bool):
            return value
        raise Misfit
    if pa.types.is_temporal(kind):
        if type(value) is str:
            return time(target, value)
        if type(value) is Number and pa.types.is_timestamp(kind):
            raise Left
        raise Misfit
    if type(value) is Number:
        # "-0" is an integer, and 0; other zeros may be negative.
        return number(target, "0" if value == "-0" else value)
    if type(value) is str and not pa.types.is_integer(kind):
        # In quotes: decimals, and what is not finite.
        found = number(target, value)
        if pa.types.is_decimal(kind):
            return found
    raise Misfit


def _refuse_huge(target: DeclaredColumn, value: Any) -> None:
    """Numbers inside of a nested value that are beyond what doubles hold, or have senseless exponents."""
    if isinstance(value, Number):
        found = re.search(r"[eE][+-]?0*([0-9]+)$", value)
        if found and (len(found[1]) > 4 or int(found[1]) > _EXPONENT):
            raise Misfit
        if ("double" in target.type or "float" in target.type) and "inf" in str(float(value)):
            raise Misfit
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _refuse_huge(target, item)


# -- shapes ----------------------------------------------------------------------------------------------------

_WS = r"[ \t\r\n]*"
_CHARACTER = (
    r'(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u(?:[0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}'
    r"|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))"
)
_TEXT = f'(?:"{_CHARACTER}*")'
_ANY_NUMBER = r"(?:-?(?:0|[1-9][0-9]{0,24})(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,2})?)"
_SCALAR = f"(?:{_TEXT}|{_ANY_NUMBER}|true|false|null)"
#: Of more members, or deeper, no pattern is made.
_MEMBERS, _NESTED = 200, 4


@dataclass(frozen=True)
class ObjectShape:
    """`regex` (RE2): matches a text that ends in `}` only if it is one strict object whose values are plain. `names`:
    what the members are called that fill each column; a column without one is missing. `whole`: columns that
    Spark reads from the object itself."""

    regex: str
    names: Mapping[int, str]
    whole: frozenset[int]


def shape(
    found: Mapping[str, Member],
    place_of: Callable[[str], int | None],
    targets: Sequence[DeclaredColumn],
    needed: Container[int] = (),
) -> ObjectShape | None:
    """The shape of an object. `place_of`: which target a name fills. `needed`: targets whose members must not be
    missing, if this object has them. None if there is none for it."""
    if not 0 < len(found) <= _MEMBERS:
        return None
    parts, names, whole = [], {}, set()
    for name, member in found.items():
        place = place_of(name)
        if place is None:
            value = _any(member.value, 0)
        else:
            target = targets[place]
            names[place] = name
            if target.arrow is None:
                whole.add(place)
                if name != target.name:
                    return None
            value = _declared(target, member)
        if value is None:
            return None
        # Each may be missing, so a comma or the end comes behind it; the text is known to end in a brace.
        once = "" if place in needed else "?"
        parts.append(rf"(?:{re.escape(member.key)}{_WS}:{_WS}{value}{_WS}(?:,{_WS}|\}}{_WS}\z)){once}")
    return ObjectShape(rf"\A{_WS}\{{{_WS}{''.join(parts)}\z", names, frozenset(whole))


def _declared(target: DeclaredColumn, member: Member) -> str | None:
    kind = target.arrow
    if kind is None:
        return _any(member.value, 0)
    if pa.types.is_string(kind):
        return f"(?:{_TEXT}|null)"
    if target.formatted and pa.types.is_temporal(kind):
        return r'(?:"[^"\\\x00-\x1f]*"|null)'
    plain = pattern(target)
    return f'(?:"{plain}"|null)' if pa.types.is_temporal(kind) else f"(?:{plain}|null)"


def _any(value: Any, depth: int) -> str | None:
    """Values like this one, or null."""
    if depth > _NESTED:
        return None
    if isinstance(value, dict) and value:
        inner = [(json.dumps(n, ensure_ascii=False), _any(v, depth + 1)) for n, v in value.items()]
        if any(v is None for _, v in inner) or len(inner) > _MEMBERS:
            return None
        listed = f"{_WS},{_WS}".join(rf"{re.escape(n)}{_WS}:{_WS}{v}" for n, v in inner)
        return rf"(?:\{{{_WS}{listed}{_WS}\}}|null)"
    if isinstance(value, list):
        item = _any(value[0], depth + 1) if value else _SCALAR
        return None if item is None else rf"(?:\[{_WS}(?:{item}{_WS}(?:,{_WS}{item}{_WS})*)?\]|null)"
    return rf"(?:{_SCALAR}|\{{{_WS}\}})" if isinstance(value, dict) else _SCALAR
