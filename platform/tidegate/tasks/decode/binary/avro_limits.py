"""Whether a message of AVRO may be read at all (X2). Executor side.

The library that reads messages has no limits: a schema that contains itself makes it run out of its stack, and values
without bytes (an array of nulls, a record of records without fields) out of memory: few bytes say how many there are.
Where a schema lets so much follow from the bytes of a message, the message is walked over first, and nothing is made.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tidegate.tasks.decode.binary.messages import Undecodable, zigzag
from tidegate.tasks.decode.limits import Limits

_COMPLEX = frozenset(("record", "error", "array", "map", "enum", "fixed"))
_SIMPLE = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
_BYTES = {"null": 0, "boolean": 1, "float": 4, "double": 8}


class _Reach(NamedTuple):
    """Of a type: how many values it makes beyond one for each of its bytes, whether it may have no bytes at all, and
    how deeply its values may be nested."""

    free: float
    empty: bool
    depth: float


_ENDLESS = _Reach(math.inf, True, math.inf)


@dataclass(frozen=True)
class Walk:
    """How messages of one schema are looked at. `schema`, `named`: as fastavro has parsed them, without logical types.
    `free`: values beyond one for each byte, at most, of any type in it."""

    schema: Any
    named: Mapping[str, Any]
    free: float

    @classmethod
    def of(cls, schema: Any, named: Mapping[str, Any], limits: Limits) -> Walk:
        """Look at a schema, once."""
        survey = _Survey(named, {})
        try:
            # In the order in which they are defined, so that no chain of names is deep.
            for name in named:
                survey.reach(name)
            reach = survey.reach(schema)
        except RecursionError:
            reach = _ENDLESS
        free = max((r.free for r in (*survey.known.values(), reach)), default=0.0)
        return cls(schema, named, math.inf if reach.depth > limits.depth or survey.endless else free)

    def check(self, value: bytes, limits: Limits) -> None:
        """Raises Undecodable for a message that is more than a row may be; it may be no message all the same."""
        if (len(value) + 1) * (1 + self.free) <= limits.values:
            return
        try:
            _Steps(value, self.named, limits).over(self.schema, 0, 0)
        except IndexError:
            raise Undecodable from None
        except RecursionError:
            raise Undecodable(limits.too_deep) from None


@dataclass
class _Survey:
    named: Mapping[str, Any]
    known: dict[str, _Reach]
    #: Whether a few bytes can stand for any number of values.
    endless: bool = False

    def reach(self, kind: Any) -> _Reach:
        if isinstance(kind, list):
            found = [self.reach(k) for k in kind]
            # Its index is a byte, which stands for one of the values.
            free = max((r.free for r in found), default=0.0)
            return _Reach(max(free - 1, 0.0), False, max((r.depth for r in found), default=0))
        name = _name(kind)
        if isinstance(name, list | dict):
            return self.reach(name)
        if name in _SIMPLE:
            return _Reach(1.0 if name == "null" else 0.0, name == "null", 0)
        if name not in _COMPLEX:
            if name in self.known:
                return self.known[name]
            self.known[name] = _ENDLESS  # while it is looked at: one that contains itself has no end
            self.known[name] = self.reach(self.named[name])
            return self.known[name]
        return self._complex(name, kind)

    def _complex(self, name: str, kind: Mapping[str, Any]) -> _Reach:
        if name in ("array", "map"):
            items = self.reach(kind["items" if name == "array" else "values"])
            self.endless = self.endless or (name == "array" and items.empty)
            return _Reach(items.free, False, items.depth + 1)
        if name == "fixed":
            empty = kind["size"] <= 0
            return _Reach(float(empty), empty, 0)
        if name == "enum":
            return _Reach(0.0, False, 0)
        fields = [self.reach(f["type"]) for f in kind["fields"]]
        depth = 1 + max((r.depth for r in fields), default=0)
        return _Reach(1 + sum(r.free for r in fields), all(r.empty for r in fields), depth)


@dataclass
class _Steps:
    """Over one message, without making its values."""

    value: bytes
    named: Mapping[str, Any]
    limits: Limits
    seen: int = 0

    def over(self, kind: Any, place: int, depth: int) -> int:
        """The place behind a value. Raises Undecodable, IndexError for bytes that end too early."""
        name: Any = None
        while name not in _SIMPLE and name not in _COMPLEX:
            if isinstance(kind, list):
                index, place = zigzag(self.value, place)
                if index < 0:
                    raise IndexError
                kind = kind[index]
            name = _name(kind)
            if isinstance(name, list | dict):
                kind, name = name, None
            elif name not in _SIMPLE and name not in _COMPLEX:
                kind, name = self.named[name], None
        self.seen += 1
        if self.seen > self.limits.values:
            raise Undecodable(self.limits.too_many)
        if name in ("record", "error", "array", "map"):
            if depth >= self.limits.depth:
                raise Undecodable(self.limits.too_deep)
            if name in ("array", "map"):
                return self._blocks(kind, place, depth + 1)
            for field in kind["fields"]:
                place = self.over(field["type"], place, depth + 1)
            return place
        if name in ("int", "long", "enum"):
            return zigzag(self.value, place)[1]
        if name in ("bytes", "string"):
            return self._text(place)
        return self._behind(place + (max(kind["size"], 0) if name == "fixed" else _BYTES[name]))

    def _blocks(self, kind: Mapping[str, Any], place: int, depth: int) -> int:
        items, keyed = kind.get("items", kind.get("values")), kind["type"] == "map"
        while True:
            count, place = zigzag(self.value, place)
            if count == 0:
                return place
            if count < 0:
                count, (_, place) = -count, zigzag(self.value, place)
            if self.seen + count > self.limits.values:
                raise Undecodable(self.limits.too_many)
            for _ in range(count):
                place = self.over(items, self._text(place) if keyed else place, depth)

    def _text(self, place: int) -> int:
        length, place = zigzag(self.value, place)
        if length < 0:
            raise IndexError
        return self._behind(place + length)

    def _behind(self, place: int) -> int:
        if place > len(self.value):
            raise IndexError
        return place


def _name(kind: Any) -> Any:
    return kind["type"] if isinstance(kind, dict) else kind
