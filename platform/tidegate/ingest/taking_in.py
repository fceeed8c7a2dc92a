"""A source takes in columns that its input has and its definition does not declare (`schema.evolution = 'add'`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.iceberg.layout import log_columns
from tidegate.iceberg.table_change import TableChange
from tidegate.plan.columns.taken_in import (
    TAKEN_IN,
    taken_in,
    taken_in_text,
    takes_in,
    to_take_in,
    to_text,
    with_taken_in,
)
from tidegate.plan.events import DefinitionChanged

if TYPE_CHECKING:
    from tidegate.ingest.connector import BatchPlan, Connector
    from tidegate.ingest.ingest import Log


def take_in_new(log: Log, connector: Connector, plan: BatchPlan) -> DefinitionChanged | None:
    """Let the log have the columns that are new in the input of a plan, from this plan on, in a commit of its own (E7),
    and the connector read them; None if there are none, or if the source only reports them. Raises TG502 like
    `Log.add`.

    What names a new schema was planned before this looks, and a schema is registered before the first message that
    names it: so every field that the plan's messages have by schemas of the source's subject is known now."""
    if not takes_in(log.relation):
        return None
    before = log.table.property(TAKEN_IN)
    new = to_take_in(log.relation, connector.undeclared(plan), log.table.properties(), log.progress.epoch + 1)
    if not new:
        return None
    text = to_text((*taken_in(before), *new))
    relation = with_taken_in(log.relation, text)
    change = TableChange(
        added=tuple(((one.column,), one.type) for one in new),
        order=tuple(name for name, _ in log_columns(relation)),
        properties={TAKEN_IN: text},
        expected={TAKEN_IN: before},
    )
    log.change_columns(change, [one.column for one in new], taken_in_text(new), plan.arrived)
    log.reads(relation)
    connector.becomes(relation)
    return DefinitionChanged(relation.name, log.progress.epoch, taken_in_text(new))
