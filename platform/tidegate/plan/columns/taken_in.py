"""Columns that a source has taken in by itself (`schema.evolution = 'add'`): those of its input that its definition
does not declare. Its log has them, by ids of their own (E2), and a property of its table says which they are. Pure
functions: no table here, and no Spark.

They are no part of the definition: queries do not see them, and nothing that reads the source changes. Once the
definition declares such a column, it is this one, with all values since it was taken in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace

from tidegate.plan.columns.changes import CHANGES, holds, steps
from tidegate.plan.columns.merging import MOST, width
from tidegate.plan.columns.undeclared import LENGTH, NOTHING, FoundColumn, shortened
from tidegate.sql.catalog.objects import CatalogColumn, Relation, is_reserved
from tidegate.sql.dialect.types import display, parse_ddl

#: Table property of a log.
TAKEN_IN = "tidegate.taken-in"
#: Characters of the property, about.
_TEXT = 200_000
#: Names that a sentence spells out.
_SPELLED = 5
#: Shorter than what a name is cut to that stands in a line (`undeclared.readable`).
_NAME = re.compile(rf"[A-Za-z][A-Za-z0-9_]{{0,{LENGTH - 2}}}")


@dataclass(frozen=True)
class TakenIn:
    """`column`, of this Spark `type`, `where`: what had it first; since the log's commit `epoch`."""

    column: str
    type: str
    where: str
    epoch: int


def taken_in(text: str | None) -> tuple[TakenIn, ...]:
    """What a log's property `TAKEN_IN` says, oldest first."""
    return tuple(TakenIn(**one) for one in json.loads(text or "[]"))


def to_text(columns: tuple[TakenIn, ...]) -> str:
    """The inverse of `taken_in`."""
    return json.dumps([asdict(one) for one in columns], ensure_ascii=False)


def takes_in(relation: Relation) -> bool:
    """Whether it says so."""
    return getattr(relation.connector, "schema_evolution", "report") == "add"


def with_taken_in(relation: Relation, text: str | None) -> Relation:
    """The relation with the columns that its log has taken in behind its own; only the one that writes the log sees it
    so. `text`: the property."""
    more = [
        CatalogColumn(one.column, one.type, taken_in=True)
        for one in taken_in(text)
        if relation.column(one.column) is None
    ]
    return replace(relation, columns=(*relation.columns, *more)) if more else relation


def to_take_in(
    relation: Relation, found: Mapping[str, FoundColumn], properties: Mapping[str, str], epoch: int
) -> tuple[TakenIn, ...]:
    """Those of the columns found in the input that the log takes in now, in the commit `epoch`. `properties`: of its
    table. Not one whose name a column of tidegate has, nor one that the definition has dropped or renamed, nor one
    whose type nobody knows: they stay reported."""
    known = taken_in(properties.get(TAKEN_IN))
    there = {c.name.casefold() for c in relation.columns} | {one.column.casefold() for one in known}
    there |= {c.renamed_from.casefold() for c in relation.columns if c.renamed_from is not None}
    there |= {
        change.column.casefold()
        for step in steps(properties.get(CHANGES))
        for change in step.changes
        if change.kind in ("drop", "rename")
    }
    candidates: dict[str, TakenIn] = {}
    for name, column in found.items():
        if column.type in (None, NOTHING) or name.casefold() in there:
            continue
        if column.type is not None and can_be_a_column(name):
            one = TakenIn(name, column.type, shortened(column.where), epoch)
            candidates.setdefault(name.casefold(), one)
    new: list[TakenIn] = []
    if candidates:
        wide, long = sum(width(parse_ddl(one.type)) for one in known), sum(map(_length, known))
    for one in candidates.values():
        wider, longer = wide + width(parse_ddl(one.type)), long + _length(one)
        if wider <= MOST and longer <= _TEXT:
            new.append(one)
            wide, long = wider, longer
    return tuple(new)


def _length(one: TakenIn) -> int:
    return len(one.column) + len(one.type) + len(one.where)


def can_be_a_column(name: str) -> bool:
    """Whether a name of the input can be one of the log; others are reported only."""
    return _NAME.fullmatch(name) is not None and not is_reserved(name)


def types_taken_in(properties: Mapping[str, str]) -> dict[str, str]:
    """By name, the types, as they are written, of the columns that a log with these table properties has taken in and
    its definition does not declare."""
    return {one.column: display(one.type) for one in taken_in(properties.get(TAKEN_IN))}


def taken_in_text(columns: tuple[TakenIn, ...]) -> str:
    """For people."""
    spelled = [f'"{one.column}" {display(one.type)} (in {one.where})' for one in columns]
    return f"taken in, because schema.evolution is 'add': {_first(spelled)}"


def not_declared_text(types: Mapping[str, str]) -> str:
    """For people: columns by name, with their types as they are written."""
    spelled = _first([f'"{name}" {kind}' for name, kind in types.items()])
    return f"columns were taken in and are not declared, so queries can't name them yet: {spelled}"


def _first(spelled: list[str]) -> str:
    more = f" and {len(spelled) - _SPELLED:,} more" if len(spelled) > _SPELLED else ""
    return ", ".join(spelled[:_SPELLED]) + more


def adopted(
    columns: tuple[TakenIn, ...], added: Iterable[CatalogColumn]
) -> tuple[dict[str, TakenIn], list[str]]:
    """What of the columns that were taken in is declared by columns that a definition adds, by their names there; and
    why some can't be."""
    by_name = {one.column.casefold(): one for one in columns}
    pairs = {
        c.name: (c, by_name[name])
        for c in added
        for name in [(c.renamed_from or "").casefold(), c.name.casefold()]
        if name in by_name
    }
    problems = [text for c, was in pairs.values() if (text := _undeclarable(c, was)) is not None]
    names = [was.column for _, was in pairs.values()]
    problems += [
        f'"{name}", which was taken in, is declared by several columns'
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]
    return {name: was for name, (_, was) in pairs.items()}, problems


def _undeclarable(column: CatalogColumn, was: TakenIn) -> str | None:
    if column.generated is not None:
        return f'column "{column.name}" was taken in, and can\'t be a computed one: give that another name'
    if holds(was.type, column.type):
        return None
    return (
        f'column "{column.name}" was taken in as {display(was.type)} and is declared as {display(column.type)}, which '
        f"can't hold all of it: declare it as {display(was.type)}, and compute the other type from it in a column of "
        "its own: name TYPE AS …"
    )


def additions(relation: str, name: str, types: Mapping[str, str]) -> list[str]:
    """The statements that would take the first columns in. `relation`: SOURCE or TABLE; `types`: by name, Spark types.
    Driver side."""
    kinds = {column: kind for column, kind in types.items() if _can_be_added(column, kind)}
    return [
        f'ALTER {relation} "{name}" ADD COLUMN "{column}" {display(kind)}'
        for column, kind in list(kinds.items())[:_SPELLED]
    ]


def not_added_text(names: Iterable[str], types: Mapping[str, str]) -> str:
    """For people: of which columns nobody can say such a statement; empty if there are none."""
    spelled = [f'"{name}"' for name in names if not _can_be_added(name, types.get(name))]
    if not spelled:
        return ""
    return (
        f"; no statement is given for {_first(spelled)}: the values are nested, of several types or all NULL, or the "
        "name can't be a column's"
    )


def _can_be_added(name: str, kind: str | None) -> bool:
    return kind not in (None, NOTHING) and can_be_a_column(name)
