"""The rows of a table with a PRIMARY KEY that a condition on its key finds (E9): in its state, also where they were
replaced and are only marked as deleted.

Every change of a key has the key, so such a condition finds all of them in the log: what is left there gives the state
that is left here, whenever it is computed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.iceberg.attempt import overtaken
from tidegate.iceberg.layout import relation_identity
from tidegate.tables.lives import state_identifier
from tidegate.tables.table import note_again

if TYPE_CHECKING:
    from tidegate.iceberg.protocol import Snapshot
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import Relation
    from tidegate.sql.statements.row_condition import RowsCondition


class StateErasure:
    """Works on the state of a table; whoever changes it holds the table's lease."""

    def __init__(self, context: Context, relation: Relation, condition: RowsCondition) -> None:
        self._context, self._condition, self._identity = context, condition, relation_identity(relation)
        identifier, owner = state_identifier(context.identifier(relation.name)), context.project.owner
        self.table = context.tables.open(identifier, owner)

    def find(self) -> int:
        """How many rows of the state go. Raises TG502 as `remove`."""
        base = self._now()
        if base.id is None:
            return 0
        return self._context.tables.rows(self.table.identifier, base.id).where(self._condition.sql).count()

    def remove(self) -> None:
        """Delete the rows, and write every file again that has rows which are only marked. Each of both can be done
        again. Raises TG502 if another process has committed to the state meanwhile, or has given it other columns."""
        base = self._now()
        if base.id is None:
            return
        self.table.delete_rows(self._condition.sql, base.facts, base)
        upkeep = self._context.tables.upkeep(self.table.identifier, self._context.project.owner)
        upkeep.compact(least_files=2)
        # Neither of them need say where the state stands.
        note_again(self.table, 1)

    def _now(self) -> Snapshot:
        """What the state said last, with the columns that the condition is on."""
        found = self.table.current()
        if self.table.property("tidegate.identity") != self._identity:
            raise overtaken(self.table.identifier)
        return found
