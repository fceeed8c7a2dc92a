"""Whether a new version of a view has reached the current one, where no time of both can be compared (E5): by what each
of them has read."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.plan.closing import commits
from tidegate.sql.catalog.objects import Relation
from tidegate.views.resolve import standing

if TYPE_CHECKING:
    from tidegate.iceberg.protocol import Snapshot
    from tidegate.iceberg.tables import StoredTable
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import View


@dataclass(frozen=True)
class ReadBefore:
    """What there was just before the new version took in all that there was, so that it has read no less. `stood`: the
    newest commit of the current version; `inputs`: by name of each input the commits that are kept of it."""

    stood: int | None
    inputs: Mapping[str, Container[int | None]]

    @classmethod
    def now(cls, context: Context, view: View, current: StoredTable) -> ReadBefore:
        """As it is. (What the current version has read is there before its commit.)"""
        stood = current.current().commit
        found: dict[str, Container[int | None]] = {}
        for p in standing(context, view):
            if isinstance(p.source, Relation) and p.source.primary_key:
                # Of a table with a key, commits are numbers.
                found[p.input.name] = range((p.snapshot.commit or 0) + 1)
            else:
                found[p.input.name] = set() if p.opened is None else p.opened.snapshot_ids()
        return cls(stood, found)

    def covers(self, base: Snapshot) -> bool:
        """Whether the current version, whose newest commit is `base`, has read nothing else of the inputs of both. What
        has expired is old if it was read before, and else unknown."""
        if base.commit == self.stood:
            return True
        read = commits(base.summary.get("tidegate.inputs"))
        return all(read[name] in known for name, known in self.inputs.items() if read.get(name) is not None)
