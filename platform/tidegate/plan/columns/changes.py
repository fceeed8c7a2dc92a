"""Changes of the columns of a source or table (E1-E3), as its log records them, and whom they concern. Pure functions:
no table here, and no Spark.

Each step is one commit of the log, and stays in a property of its table (`CHANGES`). A view knows how many of them
there were when its table was made (`SEEN`). So whoever opens the view sees whether a column that its query names was
renamed, widened or replaced by another one since (E2, E3): then its results are of an earlier definition (R4).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Literal

from tidegate.sql.dialect.types import SparkType, display, parse_ddl
from tidegate.sql.views.named_columns import Path, named_in

if TYPE_CHECKING:
    from tidegate.sql.catalog.objects import InputAsSeen, View

#: Table properties: of a log, its steps; of a view, how many of each input it has seen.
CHANGES, SEEN = "tidegate.changes", "tidegate.changes-seen"
#: In the summary of a batch's commit: the options that change in place (E1), by which the batch was read.
OPTIONS = "tidegate.options"

#: E3: types whose values another type has, too.
_WIDER = {"int": "bigint", "float": "double"}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")

#: A path in a table (a column's name, and names inside of it), and a Spark type.
Place = tuple[tuple[str, ...], str]
Kind = Literal["drop", "rename", "widen", "relax", "add", "reorder"]


def is_wider(was: str, now: str) -> bool:
    """E3: whether the second type (of Spark) has all values of the first one, and more."""
    one, other = _DECIMAL.fullmatch(was), _DECIMAL.fullmatch(now)
    if one is not None and other is not None:
        return int(one[1]) < int(other[1]) and one[2] == other[2]
    return _WIDER.get(was) == now


def holds(was: str, now: str) -> bool:
    """Whether a column of the second type has the values of one of the first: it is the same, a wider one (E3), or one
    whose structs have more fields, behind those that they had (E2). Iceberg changes no keys of maps."""
    return _holds(parse_ddl(was), parse_ddl(now))


def _holds(was: SparkType, now: SparkType) -> bool:
    if was.name == "struct" and now.name == "struct":
        return now.fields[: len(was.fields)] == was.fields and all(map(_holds, was.args, now.args))
    if was.name == "map" and now.name == "map" and was.args[0] != now.args[0]:
        return False
    if was.args and was.name == now.name:
        return all(map(_holds, was.args, now.args))
    return str(was) == str(now) or is_wider(str(was), str(now))


def inside(name: str, was: str, now: str) -> tuple[list[Place], list[Place]]:
    """How a column of the first type becomes one of the second, which `holds` it: what is widened, and what is added,
    each with its path in the table and its Spark type."""
    wider: list[Place] = []
    new: list[Place] = []
    _inside((name,), parse_ddl(was), parse_ddl(now), wider, new)
    return wider, new


#: As Iceberg calls what is in an array or a map.
_ITEMS = {"array": ("element",), "map": ("key", "value")}


def _inside(
    path: tuple[str, ...], was: SparkType, now: SparkType, wider: list[Place], new: list[Place]
) -> None:
    if not was.args:
        wider += [] if was == now else [(path, str(now))]
        return
    names = now.fields if now.name == "struct" else _ITEMS[now.name]
    for place, (name, kind) in enumerate(zip(names, now.args, strict=True)):
        if place < len(was.args):
            _inside((*path, name), was.args[place], kind, wider, new)
        else:
            new.append(((*path, name), str(kind)))


@dataclass(frozen=True)
class ColumnChange:
    """`column`: the name before the step, of one that is added the name after it; of `reorder` the columns in their new
    order, separated by commas. `to`: the new name of one that is renamed, the Spark type of one that is added or
    widened. `was`: the type before it was widened, or the columns in their order of before; None in logs of earlier
    releases. `relax`: it was NOT NULL."""

    kind: Kind
    column: str
    to: str | None = None
    was: str | None = None

    @property
    def text(self) -> str:
        """For people."""
        match self.kind:
            case "drop":
                return f'column "{self.column}" is dropped'
            case "rename":
                return f'column "{self.column}" is renamed to "{self.to}"'
            case "widen":
                return f'column "{self.column}" is widened from {display(self.was or "")} to {display(self.to or "")}'
            case "relax":
                return f'column "{self.column}" can be NULL'
            case "add":
                return f'column "{self.column}" {display(self.to or "")} is added'
            case "reorder":
                return f"the order of the columns is {self.column}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names that mean something else before and after it; a query without them reads the same."""
        match self.kind:
            case "rename":
                return self.column, self.to or ""
            case "drop" | "widen" | "add":
                return (self.column,)
        return ()


@dataclass(frozen=True)
class ColumnStep:
    """One commit of a log that changed its columns. `before`, `after`: identities of the definitions
    (`relation_identity`)."""

    epoch: int
    before: str
    after: str
    changes: tuple[ColumnChange, ...]


def steps(text: str | None) -> tuple[ColumnStep, ...]:
    """What a log's property `CHANGES` says, oldest first."""
    found = json.loads(text or "[]")
    return tuple(
        ColumnStep(**{**one, "changes": tuple(ColumnChange(**c) for c in one["changes"])}) for one in found
    )


def with_step(text: str | None, *new: ColumnStep) -> str:
    """The property with one more step, or with several that are made at once."""
    return json.dumps([asdict(one) for one in (*steps(text), *new)], ensure_ascii=False)


def described(changes: Iterable[ColumnChange]) -> str:
    """For people."""
    return "; ".join(change.text for change in changes)


def seen(view: View, property_of: Callable[[str], str | None]) -> dict[str, str]:
    """The table property of a view that is made now. `property_of`: `CHANGES` of an input's log."""
    counted = {name: len(steps(property_of(name))) for name in view.reads}
    counted |= {one.relation.name: one.number for one in view.seen}
    known = {name: number for name, number in counted.items() if number}
    return {SEEN: json.dumps(known, sort_keys=True)} if known else {}


def other_columns(
    view: View, properties: Mapping[str, str], property_of: Callable[[str], str | None]
) -> str | None:
    """What was changed of the columns that a view names since its table, which has these properties, was made; None if
    nothing was. Of an input that the view reads as it was before (`View.seen`): what it can't read as it was, whatever
    the values are. `property_of`: `CHANGES` of an input's log."""
    before = json.loads(properties.get(SEEN) or "{}")
    for name in view.reads:
        text, seen = property_of(name), view.seen_as(name)
        done, known = steps(text), before.get(name, 0)
        first, last = sorted((known, len(done) if seen is None else seen.number))
        changes = in_all(change for step in done[first:last] for change in step.changes)
        definition = properties.get("tidegate.definition") or view.definition
        found = list(concerned(view, name, definition, changes)) if changes else []
        if not found and seen is not None:
            found = [one for one in concerned(view, name, definition, lost(seen, text)) if not narrows(one)]
        if found:
            return f'of "{name}", which it reads, {described(found)}'
    return None


def narrowed(view: View, seen: InputAsSeen, text: str | None) -> dict[str, str]:
    """By the columns of then that a view's query may read, and that have a wider type now: the type of then."""
    changes = concerned(view, seen.relation.name, view.definition, lost(seen, text))
    return {one.column: one.was or "" for one in changes if narrows(one)}


def columns_now(seen: InputAsSeen, text: str | None) -> dict[str, tuple[str, str] | None]:
    """By the name of each column of then what it is called now, and its type (of Spark); None if it was dropped. What
    has its earlier name now is another column (E2). `text`: `CHANGES` of the log."""
    there = {c.name: (c.name, c.type) for c in seen.relation.columns}
    for change in (change for step in steps(text)[seen.number :] for change in step.changes):
        if change.column not in there:
            continue  # of one that has come since
        before, kind = there.pop(change.column)
        match change.kind:
            case "rename":
                there[change.to or ""] = before, kind
            case "widen":
                there[change.column] = before, change.to or ""
            case "relax" | "add" | "reorder":
                there[change.column] = before, kind
    found = {before: (now, kind) for now, (before, kind) in there.items()}
    return {c.name: found.get(c.name) for c in seen.relation.columns}


def narrows(change: ColumnChange) -> bool:
    """Whether values of a column that was widened may still be had in the type of before: those that fit (`unfit`)."""
    return change.kind == "widen" and is_wider(change.was or "", change.to or "")


def unfit(value: str, was: str) -> str:
    """SQL: whether a value of a wider type (SQL, too) is none of a type of before (E3)."""
    if (decimal := _DECIMAL.fullmatch(was)) is not None:
        return f"abs({value}) >= 1{'0' * (int(decimal[1]) - int(decimal[2]))}"
    if was == "int":
        return f"{value} NOT BETWEEN -2147483648 AND 2147483647"
    return f"{value} != CAST({value} AS {was})"


def lost(seen: InputAsSeen, text: str | None) -> list[ColumnChange]:
    """The columns of then that are not what they were, by their names of then: they are gone, or of another type.
    `text`: `CHANGES` of the log."""
    found = []
    for column, now in zip(seen.relation.columns, columns_now(seen, text).values(), strict=True):
        if now is None:
            found.append(ColumnChange("drop", column.name))
        elif now[1] != column.type:
            found.append(ColumnChange("widen", column.name, now[1], column.type))
    return found


def in_all(changes: Iterable[ColumnChange]) -> list[ColumnChange]:
    """What several changes come to in all, of those that a query can see: a column that was renamed and has its name
    again is none. Of the order of the columns the last one counts."""
    #: By present names: the name before all of them (None: it was added), and how it was widened.
    columns: dict[str, tuple[str | None, ColumnChange | None]] = {}
    gone: list[ColumnChange] = []
    order: list[ColumnChange] = []
    for change in changes:
        if change.kind == "reorder" and change.was is not None:
            was = order[0].was if order else change.was
            order = [replace(change, was=was)] if was != change.column else []
        if not change.names:
            continue
        before, wider = columns.pop(change.column, (change.column, None))
        match change.kind:
            case "drop":
                gone += [] if before is None else [ColumnChange("drop", before)]
            case "add":
                columns[change.column] = None, change
            case "rename":
                columns[change.to or ""] = before, wider
            case "widen":
                was = wider.was if wider is not None else change.was
                columns[change.column] = before, replace(change, was=was)
    found = gone
    for name, (before, last) in columns.items():
        if before is None:
            kind = last.to if last is not None else None
            found.append(ColumnChange("add", name, kind))
            continue
        found += [] if before == name else [ColumnChange("rename", before, name)]
        found += [] if last is None else [replace(last, column=name)]
    return found + order


def concerned(
    view: View, name: str, definition: str, changes: Iterable[ColumnChange]
) -> Iterator[ColumnChange]:
    """Those of the changes of a relation of this name that a view's query may see, which has this text. One that says
    `*` may see them all, and the order of the columns: UNION ALL takes them by their place."""
    changes = [change for change in changes if change.names or (change.kind == "reorder" and change.was)]
    if not changes:
        return
    named = named_in(view, definition, name)
    for change in changes:
        if named.everything or any(map(named.reads, _places(change))):
            yield change


def _places(change: ColumnChange) -> Iterator[Path]:
    """What means something else before and after it, or has other values or another type."""
    for name in change.names:
        if change.kind == "widen" and change.was is not None and change.to is not None:
            yield from _other_fields((name.casefold(),), parse_ddl(change.was), parse_ddl(change.to))
        else:
            yield (name.casefold(),)


def _other_fields(path: Path, was: SparkType, now: SparkType) -> Iterator[Path]:
    """What is widened or added; of what is in an array or a map, the whole."""
    if was.name != "struct" or now.name != "struct":
        yield path
        return
    for field, kind in zip(now.fields, now.args, strict=True):
        if (before := was.field(field)) != kind:
            place = (*path, field.casefold())
            yield from [place] if before is None else _other_fields(place, before, kind)
