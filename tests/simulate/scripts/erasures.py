"""Histories in which rows are erased (E9), as plain values, and how a seed makes them up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: A key by whose text it is found wherever it is still written.
PERSON = "somebody-who-is-to-be-forgotten"


@dataclass(frozen=True)
class Erase:
    """A driver erases the rows of the source that have one of these values in a column (`tidegate erase`). `keeps`:
    views that only count the rows stay as they are. `resumes`: no condition is given: what was begun is finished.
    `recomputes`: such views are computed from the rows that are left."""

    column: str
    values: tuple[Any, ...]
    keeps: bool = False
    resumes: bool = False
    recomputes: bool = False

    @property
    def where(self) -> str:
        """As it is written."""
        return f"{self.column} IN ({', '.join(map(repr, self.values))})"

    def finds(self, row: Mapping[str, Any]) -> bool:
        """Whether it is about a row, of the source, or of a view that shows the column."""
        return row.get(self.column) in self.values
