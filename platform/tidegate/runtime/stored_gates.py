"""Implicit gates that are stored under a name of the first release, which had their columns in it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.sql.catalog.objects import Relation
from tidegate.sql.resolve.gate_names import first_name
from tidegate.store.metadata import load_table

if TYPE_CHECKING:
    from tidegate.project import Project, Storage
    from tidegate.sql.catalog.catalog import Catalog


def with_gate_names(project: Project) -> Project:
    """A project that finds the logs of gates under the names that they have. They are looked for when its `catalog` is
    asked for; where they can't be read, they have the names of now, under which no log is made then
    (`evolve/apply.py`)."""
    return project if project.gate_names is not None else replace(project, gate_names=gate_names)


def gate_names(storage: Storage, catalog: Catalog) -> dict[str, str]:
    """By the names of now those of the first release, of gates that are stored under these."""
    found = {}
    for gate in catalog.order():
        if isinstance(gate, Relation) and gate.kind == "gate" and gate.made_of is None:
            first = first_name(gate)
            try:
                if load_table(storage, gate.name) is None and load_table(storage, first) is not None:
                    found[gate.name] = first
            except TidegateError:
                continue
    return found
