"""Columns that the input has and its source does not declare, as the commits of a log record them: nobody reads
them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tidegate.plan.recorded import Recorded

#: Key of a log's commits.
UNDECLARED = "tidegate.undeclared"
#: Names that a log remembers, names of one input that are looked at, characters of each, and names that a sentence
#: spells out.
_NAMES, MOST_NAMES, LENGTH, _SPELLED = 50, 500, 60, 5
#: Characters of a name inside of a type, and of a type's text.
LONGEST_NAME, LONGEST_TYPE = 128, 10_000
#: Spark's type of a column whose values are all NULL: no column is declared so.
NOTHING = "void"
#: Characters that a commit has of the place of one, and of the types of all.
_PLACE, _TYPES = 200, 10_000
#: Characters that are said of the columns of one file, and of all files that one task looks at; and how many columns of
#: a file are named once there are more.
_FILE, _TASK, _FEW = 40_000, 1 << 20, 5


class FoundColumn(NamedTuple):
    """A column of the input that is not declared. `where`: a file that has it, a schema of a registry, or a batch of
    messages. `type`: the Spark type that holds its values; None where the input does not say one, and `NOTHING` where
    no value of it was seen."""

    where: str
    type: str | None = None


@dataclass(frozen=True)
class Undeclared(Recorded):
    """`columns`: by name, what had it last. `at`: when the last batch with such a column was planned, µs since 1970.
    `types`: Spark types of the columns of which one is known."""

    KEY = UNDECLARED

    columns: Mapping[str, str]
    at: int
    types: Mapping[str, str] = field(default_factory=dict)


def and_undeclared(
    before: Undeclared | None, columns: Mapping[str, FoundColumn], at: int
) -> Undeclared | None:
    """With those of one more batch."""
    if not columns:
        return before
    known, types = ({}, {}) if before is None else (before.columns, before.types)
    new = [name for name in columns if name not in known][: _NAMES - len(known)]
    kept = {name: columns[name].where if name in columns else where for name, where in known.items()}
    kept |= {name: columns[name].where for name in new}
    # (What is of another type now is of none that can be said.)
    said = {name: columns[name].type if name in columns else types.get(name) for name in kept}
    short, left = {}, _TYPES
    for name, kind in said.items():
        if kind is not None and len(kind) <= left:
            short[name], left = kind, left - len(kind)
    return Undeclared({name: shortened(where) for name, where in kept.items()}, at, short)


def shortened(where: str) -> str:
    """What tells a place, if it is long."""
    return where if len(where) <= _PLACE else f"…{where[1 - _PLACE :]}"


def and_declared(before: Undeclared | None, names: Iterable[str]) -> Undeclared | None:
    """Without those that are declared from now on; None if no other is left."""
    if before is None:
        return None
    declared = {name.casefold() for name in names}
    kept = {name: where for name, where in before.columns.items() if name.casefold() not in declared}
    types = {name: kind for name, kind in before.types.items() if name in kept}
    return Undeclared(kept, before.at, types) if kept else None


def is_inner_name(name: str) -> bool:
    """Whether a field inside of a type can be called so."""
    return len(name) <= LONGEST_NAME and name.isascii() and name.isidentifier()


def readable(names: Iterable[str]) -> list[str]:
    """The first names, as they may stand in a line: they are a stranger's."""
    found = ("".join(c if c.isprintable() else "?" for c in name)[:LENGTH] for name in names)
    return list(dict.fromkeys(found))[:MOST_NAMES]


class Telling:
    """What one task says of the columns of its files: of those that have the same columns the same, and of all together
    no more than a limit (X2): there may be very many files, and a stranger writes them."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, str | None], ...], Mapping[str, str | None]] = {}
        self._left = _TASK

    def of(self, names: Sequence[str], type_of: Callable[[int], str | None]) -> Mapping[str, str | None]:
        """By name, the types of columns of a file (`type_of`: by place). Of several whose names are the same whatever
        their case, no value is in a column of that name for certain: they have no type."""
        count, left = Counter(name.casefold() for name in names), _FILE
        found: dict[str, str | None] = {}
        for place, name in enumerate(names[:MOST_NAMES]):
            (text,) = readable([name])
            kind = type_of(place) if count[name.casefold()] == 1 and text not in found else None
            left -= len(text)
            if left < 0:
                break
            found[text] = kind = kind if kind is not None and len(kind) <= left else None
            left -= len(kind or "")
        key = tuple(found.items())
        if key not in self._known:
            self._left -= sum(len(name) + len(kind or "") for name, kind in key)
            if self._left < 0:
                return {name: kind for name, kind in key[:_FEW] if len(kind or "") <= LENGTH}
        return self._known.setdefault(key, found)


def undeclared_text(columns: Mapping[str, str]) -> str:
    """For people."""
    spelled = [f'"{name}" (in {where})' for name, where in list(columns.items())[:_SPELLED]]
    rest = len(columns) - len(spelled)
    more = f" and {rest:,} more" if rest else ""
    return f"the input has columns that are not declared, and that are not read: {', '.join(spelled)}{more}"
