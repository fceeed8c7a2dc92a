"""How the columns of a source change between runs (E1 to E3), as plain values, and how a seed makes it up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.oracles import columns as rules
from tests.oracles.columns import Column, Columns

#: What every row of a file has beside its own columns: values for columns of these names, whether there are any or not.
FIELDS = ("amount", "extra", "note", "tip")
#: The columns at first.
FIRST: Columns = (Column("amount", "INT", -1), Column("extra", "INT", -2))


@dataclass(frozen=True)
class Change:
    """A definition is edited. Of the source, `what`: add, drop, rename, widen, or replace (a column is renamed, and
    another one gets its name); `name`: of the column; `to`: its new name, or the type of a new column. Or query: the
    view `name` gets the query of the view `to`. `stays`: processes that know the definitions of before run once more
    when the edit is carried out; else each is ended."""

    what: str
    name: str
    to: str = ""
    stays: bool = False


@dataclass(frozen=True)
class Definition:
    """Columns, and by the new name of one that was renamed in the last edit its old one."""

    columns: Columns = FIRST
    renamed: tuple[tuple[str, str], ...] = ()

    def sql(self) -> str:
        """As in CREATE."""
        before = dict(self.renamed)
        return "".join(
            f"{column.name} {column.kind}{f' RENAMED FROM {old}' if (old := before.get(column.name)) else ''}, "
            for column in self.columns
        )

    def after(self, change: Change, number: int) -> Definition | None:
        """The definition as it is edited; None where that can't be said of it. `number`: of a new column."""
        columns, name, to = self.columns, change.name, change.to
        names = {column.name for column in columns}
        if change.what == "add":
            return None if name in names else Definition(rules.added(columns, name, to, number))
        if name not in names or to in names:
            return None
        if change.what == "drop":
            return Definition(rules.dropped(columns, name))
        if change.what == "widen":
            return Definition(rules.widened(columns, name))
        columns = rules.renamed(columns, name, to)
        if change.what == "replace":
            columns = rules.added(columns, name, "INT", number)
        return Definition(columns, ((to, name),))


def fields(number: int) -> dict[str, int]:
    """Of a row of this number."""
    return {name: 10 * number + at for at, name in enumerate(FIELDS)}


def held(number: int, decoded: Sequence[Column], now: Sequence[Column]) -> dict[str, Any]:
    """What the columns of today show of it."""
    return rules.held(fields(number), decoded, now)


@dataclass(frozen=True)
class Apply:
    """A driver carries out whatever definitions were edited (`tidegate apply --yes`). `fresh`: in a new process."""

    fresh: bool = True


@dataclass(frozen=True)
class Back:
    """A driver lets a view go back to the version before (`tidegate rollback --yes`)."""

    view: str


class Edits:
    """Edits of one history, each of the definitions that the one before has left. `read`: names of columns that a view
    reads; `views`: those whose queries may change, and the queries that they may get."""

    def __init__(
        self, rng: Random, read: Sequence[str], views: Sequence[str] = (), queries: Sequence[str] = ()
    ) -> None:
        self._rng, self._read, self._now, self._number = rng, read, Definition(), 0
        self._views, self._queries = views, queries
        #: What undoes edits, the last one last.
        self._undo: list[Change] = []

    def change(self) -> Change:
        """The next one."""
        rng = self._rng
        if self._views and rng.random() < 0.3:
            view = rng.choice(self._views)
            self._undo.append(Change("query", view, view))
            return Change("query", view, rng.choice([one for one in self._queries if one != view]))
        while True:
            what = rng.choice(["add", "add", "drop", "rename", "rename", "replace", "replace", "widen"])
            name = rng.choice(FIELDS)
            if self._read and rng.random() < 0.5:
                what, name = rng.choice(["replace", "replace", "widen"]), self._read[0]
            if name in self._read and what in ("drop", "rename"):
                continue
            to = rng.choice(["INT", "BIGINT"]) if what == "add" else ""
            if what in ("rename", "replace"):
                to = rng.choice([one for one in FIELDS if one != name])
            change = Change(what, name, to, rng.random() < 0.3)
            self._number += 1
            after = self._now.after(change, self._number)
            if after is not None and after != self._now and after.columns:
                self._undo += _undoing(change, self._now)
                self._now = after
                return change

    def revert(self) -> Change:
        """What undoes the last edit that can be undone; else the next edit. A column that comes back is another one
        (E2)."""
        while self._undo:
            change = self._undo.pop()
            if change.what == "query":
                return change
            self._number += 1
            after = self._now.after(change, self._number)
            if after is not None and after.columns:
                self._now = after
                return change
        return self.change()


def _undoing(change: Change, before: Definition) -> list[Change]:
    """Of columns. (Nothing becomes narrower again.)"""
    match change.what:
        case "add":
            return [Change("drop", change.name)]
        case "rename":
            return [Change("rename", change.to, change.name)]
        case "drop":
            kind = next(column.kind for column in before.columns if column.name == change.name)
            return [Change("add", change.name, kind)]
    return []
