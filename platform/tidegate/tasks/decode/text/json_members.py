"""Members of JSON objects that no column is for, as some rows of a file or of a batch of messages show them. Executor
side, but for what is made of a relation."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa

from tidegate.plan.columns.undeclared import LONGEST_NAME, MOST_NAMES, NOTHING
from tidegate.tasks.decode.text.bulk import sparse

if TYPE_CHECKING:
    from tidegate.sql.catalog.objects import Relation

#: Rows of a file, or of a group of messages, that are looked at, and as many as there are at least if anything is said
#: of them.
ROWS, FEWEST = 100, 10
#: Messages that one task looks at, their bytes together, and the members of one of them.
_TASK, _BYTES, _MEMBERS = 300, 1 << 20, 1000
#: Python's types of values, and Spark's of the columns that hold them.
_TYPES: Mapping[type, str | None] = {
    type(None): NOTHING,
    bool: "boolean",
    int: "bigint",
    float: "double",
    str: "string",
}
_LONGEST_INTEGER = 1 << 63


@dataclass(frozen=True)
class JsonNames:
    """Names of a relation's columns, case-folded: those that are `declared`, and those that were `taken_in`."""

    declared: frozenset[str]
    taken_in: frozenset[str] = frozenset()

    @classmethod
    def of(cls, relation: Relation) -> JsonNames:
        """Driver side."""
        taken_in = frozenset(c.name.casefold() for c in relation.columns if c.taken_in)
        return cls(frozenset(c.name.casefold() for c in relation.columns) - taken_in, taken_in)


def both_kinds(one: str | None, other: str | None) -> str | None:
    """The type that holds the values of both: numbers with and without a fraction are of one kind in JSON. None absorbs
    all others: values of several types, or none that a column has."""
    if one == other or other == NOTHING:
        return one
    if one == NOTHING:
        return other
    return "double" if {one, other} == {"bigint", "double"} else None


def fits(column: str, kind: str | None) -> bool:
    """Whether a column of the first type, which was taken in, holds values of the second one. (A text holds all.)"""
    return column not in _TYPES.values() or column == "string" or both_kinds(column, kind) == column


@dataclass(frozen=True)
class Members:
    """What so many `rows` have beside declared columns: by name how many of them, and the type of their values."""

    rows: int = 0
    found: Mapping[str, tuple[int, str | None]] = field(default_factory=dict)

    @classmethod
    def of(cls, texts: Iterable[bytes], known: JsonNames) -> Members:
        """Of those of the texts that are objects."""
        rows, counts, kinds = 0, Counter[str](), dict[str, str | None]()
        for row in _objects(texts):
            rows += 1
            for name, value in islice(row.items(), _MEMBERS):
                if name.casefold() in known.declared or len(name) > LONGEST_NAME or not name.isidentifier():
                    continue
                counts[name] += 1
                kind = _kind(value)
                kinds[name] = both_kinds(kinds[name], kind) if name in kinds else kind
        return cls(rows, {name: (count, kinds[name]) for name, count in counts.items()})

    def both(self, other: Members) -> Members:
        """Of the rows of both."""
        found = dict(self.found)
        for name, (count, kind) in other.found.items():
            before, kind_before = found.get(name, (0, NOTHING))
            found[name] = before + count, both_kinds(kind_before, kind)
        return Members(self.rows + other.rows, _frequent(found))

    def undeclared(self, known: JsonNames) -> dict[str, str | None]:
        """By name, the Spark type that holds their values (None: none does). Only identifiers that half of at least ten
        rows have: where a row has names of its own, they are values, and a value stands in no log (X4). Those that were
        taken in are known, however few have them."""
        return {
            name: kind
            for name, (count, kind) in self.found.items()
            if self.rows >= FEWEST and (2 * count >= self.rows or name.casefold() in known.taken_in)
        }

    def to_text(self) -> str:
        """As a task reports it: little, whatever the names are (X2)."""
        return json.dumps([self.rows, _frequent(self.found)])

    @classmethod
    def from_text(cls, text: str) -> Members:
        """The inverse of `to_text`."""
        rows, found = json.loads(text)
        return cls(rows, {name: (count, kind) for name, (count, kind) in found.items()})


class MembersLook:
    """One task's look at some of its messages."""

    def __init__(self, known: JsonNames) -> None:
        self._known, self._rows, self._bytes = known, _TASK, _BYTES

    def column(self, texts: pa.Array) -> pa.Array:
        """For a group of messages (binary) a column with what was found (`Members.to_text`) in its first row, and NULL
        elsewhere."""
        count = len(texts)
        if self._rows <= 0 or self._bytes <= 0 or not count:
            return pa.nulls(count, pa.string())
        places = np.unique(np.linspace(0, count - 1, min(ROWS, self._rows), dtype=np.int64))
        self._rows -= len(places)
        members = Members.of(self._short(texts.take(pa.array(places))), self._known)
        return sparse({0: members.to_text()} if members.rows else {}, count)

    def _short(self, texts: pa.Array) -> Iterator[bytes]:
        for text in texts:
            if text.is_valid and (size := text.as_buffer().size) <= self._bytes:
                self._bytes -= size
                yield text.as_py()


def undeclared_members(beginning: bytes, known: JsonNames) -> dict[str, str | None]:
    """See `Members.undeclared`. `beginning`: of a file; a row that is cut off there does not count."""
    return Members.of(beginning.split(b"\n")[:ROWS], known).undeclared(known)


def _objects(texts: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for text in texts:
        try:
            row = json.loads(text.decode("utf-8-sig"), parse_constant=_no_constant)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield row


def _no_constant(_: str) -> NoReturn:
    raise ValueError


def _kind(value: Any) -> str | None:
    if type(value) is int and not -_LONGEST_INTEGER <= value < _LONGEST_INTEGER:
        return None
    return _TYPES.get(type(value))


def _frequent(found: Mapping[str, tuple[int, str | None]]) -> dict[str, tuple[int, str | None]]:
    names = sorted(found, key=lambda name: -found[name][0])[:MOST_NAMES]
    return {name: found[name] for name in names}
