"""Columns that the input has and its source does not declare, as the commits of a log record them: nobody reads
them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tidegate.plan.recorded import Recorded

#: Key of a log's commits.
UNDECLARED = "tidegate.undeclared"
#: Names that a log remembers, names of one input that are looked at, characters of each, and names that a sentence
#: spells out.
_NAMES, MOST_NAMES, LENGTH, _SPELLED = 50, 500, 60, 5


class FoundColumn(NamedTuple):
    """A column of the input that is not declared. `where`: a file that has it, or a schema of a registry. `type`: the
    Spark type that holds its values; None where the input does not say one."""

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
    return Undeclared(kept, at, {name: kind for name, kind in said.items() if kind is not None})


def and_declared(before: Undeclared | None, names: Iterable[str]) -> Undeclared | None:
    """Without those that are declared from now on; None if no other is left."""
    if before is None:
        return None
    declared = {name.casefold() for name in names}
    kept = {name: where for name, where in before.columns.items() if name.casefold() not in declared}
    types = {name: kind for name, kind in before.types.items() if name in kept}
    return Undeclared(kept, before.at, types) if kept else None


def readable(names: Iterable[str]) -> list[str]:
    """The first names, as they may stand in a line: they are a stranger's."""
    found = ("".join(c if c.isprintable() else "?" for c in name)[:LENGTH] for name in names)
    return list(dict.fromkeys(found))[:MOST_NAMES]


def undeclared_text(columns: Mapping[str, str]) -> str:
    """For people."""
    spelled = [f'"{name}" (in {where})' for name, where in list(columns.items())[:_SPELLED]]
    rest = len(columns) - len(spelled)
    more = f" and {rest:,} more" if rest else ""
    return f"the input has columns that are not declared, and that are not read: {', '.join(spelled)}{more}"
