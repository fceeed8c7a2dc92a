"""Columns that files have and their source does not declare, as the commits of a log record them: nobody reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidegate.plan.recorded import Recorded

#: Key of a log's commits.
UNDECLARED = "tidegate.undeclared"
#: Names that are remembered, characters of each, and names that a sentence spells out.
_NAMES, _LENGTH, _SPELLED = 50, 60, 5


@dataclass(frozen=True)
class Undeclared(Recorded):
    """`columns`: by name, the file that had it last. `at`: when the last batch with such a file was planned, µs since
    1970."""

    KEY = UNDECLARED

    columns: Mapping[str, str]
    at: int


def and_undeclared(before: Undeclared | None, columns: Mapping[str, str], at: int) -> Undeclared | None:
    """With those of one more batch."""
    if not columns:
        return before
    known = {} if before is None else before.columns
    new = [name for name in columns if name not in known][: _NAMES - len(known)]
    kept = {name: columns.get(name, file) for name, file in known.items()} | {n: columns[n] for n in new}
    return Undeclared(kept, at)


def and_declared(before: Undeclared | None, names: Iterable[str]) -> Undeclared | None:
    """Without those that are declared from now on; None if no other is left."""
    if before is None:
        return None
    declared = {name.casefold() for name in names}
    kept = {name: file for name, file in before.columns.items() if name.casefold() not in declared}
    return Undeclared(kept, before.at) if kept else None


def readable(names: Iterable[str]) -> list[str]:
    """The first names, as they may stand in a line: they are a stranger's."""
    found = ("".join(c if c.isprintable() else "?" for c in name)[:_LENGTH] for name in names)
    return list(dict.fromkeys(found))[:_NAMES]


def undeclared_text(columns: Mapping[str, str]) -> str:
    """For people."""
    spelled = [f'"{name}" (in {file})' for name, file in list(columns.items())[:_SPELLED]]
    rest = len(columns) - len(spelled)
    more = f" and {rest:,} more" if rest else ""
    return f"files have columns that are not declared, and that are not read: {', '.join(spelled)}{more}"
