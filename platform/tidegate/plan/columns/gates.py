"""The columns of an implicit gate (W14) follow those of the relation that it judges (E1-E3). Pure functions: no table
here, and no Spark.

A gate's log says which columns it has, and how many times that relation's log had been changed by then (`GATE`). So
whoever opens it sees what has become of them since, by the steps of that log, and not by names (E2). A gate that is
made of some columns alone keeps them: of it, the number stays what it was when its log was made.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate.plan.columns.changes import ColumnChange, described, in_all, steps
from tidegate.sql.catalog.objects import CatalogColumn, Relation
from tidegate.sql.resolve.gate_names import STAR, over_columns

#: Table property of a gate's log.
GATE = "tidegate.gate-columns"


@dataclass(frozen=True)
class GateColumns:
    """`number`: of the steps of the relation below that the gate has followed; its `columns` then."""

    number: int
    columns: tuple[CatalogColumn, ...]

    @classmethod
    def of(cls, gate: Relation, below: str | None) -> GateColumns:
        """Of a gate by its definition of now. `below`: `CHANGES` of the log that it reads."""
        return cls(len(steps(below)), gate.columns)

    @property
    def text(self) -> str:
        """The property."""
        columns = [(c.name, c.type, c.nullable) for c in self.columns]
        return json.dumps({"number": self.number, "columns": columns}, ensure_ascii=False)


def gate_columns(text: str | None) -> GateColumns | None:
    """What the property says; None for a log of the first release, which has none."""
    if text is None:
        return None
    found = json.loads(text)
    return GateColumns(found["number"], tuple(CatalogColumn(*column) for column in found["columns"]))


def as_stored(gate: Relation, stored: GateColumns) -> Relation:
    """The gate by the definition that its log has."""
    return gate if gate.made_of is not None else over_columns(gate, stored.columns)


def to_follow(stored: GateColumns, below: str | None) -> tuple[tuple[ColumnChange, ...], ...]:
    """How the relation's columns were changed since the gate has followed, step by step. `below`: `CHANGES` of its
    log."""
    return tuple(step.changes for step in steps(below)[stored.number :])


def come_to(stored: GateColumns, left: Sequence[tuple[ColumnChange, ...]]) -> tuple[ColumnChange, ...]:
    """What the steps that are `left` to a gate come to, as one change of its table; () only if none are left. (It is
    not how they are read one after the other: names may have been swapped.)"""
    if len(left) <= 1:
        return left[0] if left else ()
    changes = [change for step in left for change in step]
    found = (*in_all(changes), *(change for change in changes if change.kind == "relax"))
    # (Taken back again: that is followed, too.)
    return found or (ColumnChange("reorder", ", ".join(c.name for c in stored.columns)),)


def kept_back(gate: Relation, changes: Iterable[ColumnChange]) -> str | None:
    """Why a gate can't follow these changes of its relation, in words; None if it can, or if they are none of its."""
    if gate.made_of is None:
        return None
    found = [one for one in changes if _concerns(one, gate.made_of)]
    if not found:
        return None
    what = "reads all columns by *" if STAR in gate.made_of else "reads such a column"
    return f"{gate.definition} {what} in a query of its own: {described(found)}"


def _concerns(change: ColumnChange, made_of: tuple[str, ...]) -> bool:
    if change.kind == "reorder" and change.was is None:
        return False
    if change.kind == "relax":
        # What it judges may be NULL from here on.
        return STAR in made_of or change.column.casefold() in made_of
    return STAR in made_of or any(name.casefold() in made_of for name in change.names)
