"""Rows that sinks have delivered (E9): into topics see `erase_topics.py`, into Iceberg tables of their own here.

A sink delivers the columns of its view or source as they are, so the condition that finds the rows there finds them in
its table, too. The commit that deletes them says what the sink's last delivery said: its position counts commits, not
rows, so the next delivery continues behind it, repeats nothing, and misses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.iceberg.attempt import overtaken
from tidegate.iceberg.layout import quote
from tidegate.maintenance.erase_history import earlier
from tidegate.maintenance.erase_topics import TopicErasure, why_not_deleted
from tidegate.maintenance.erasure import ErasedTable
from tidegate.plan.columns.changes import CHANGES, steps
from tidegate.project.owner import OWNER, Owner
from tidegate.project.storage import CATALOG
from tidegate.sql.catalog.objects import Relation, View
from tidegate.sql.options.kafka_options import KafkaSinkOptions
from tidegate.sql.options.sink_connectors import IcebergSinkOptions
from tidegate.store.listing import every_namespace, table_names
from tidegate.store.metadata import load_properties, load_table
from tidegate.store.positions import (
    Position,
    continues,
    deployment,
    is_moved,
    last_deployment,
    read_position,
    sink_table,
)

if TYPE_CHECKING:
    from tidegate.iceberg.tables import StoredTable
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import Sink
    from tidegate.sql.statements.row_condition import RowsCondition

#: What such a table has beside the columns that are delivered, where windows are replaced in it (B2).
_OF_WINDOWS = ("_window_start", "_window_end", "_revision")


@dataclass(frozen=True)
class ReachedSink:
    """A sink of whose table those rows go that come from rows that go. `names`: by their names in the source, what the
    columns of the condition are called in it."""

    sink: Sink
    names: Mapping[str, str]

    @property
    def is_topic(self) -> bool:
        """Whether the rows are messages of a topic."""
        return isinstance(self.sink.connector, KafkaSinkOptions)

    @property
    def loses(self) -> str:
        """What goes there, for a question."""
        rows = "the rows that come from these"
        return f"{rows}, by null values for their keys" if self.is_topic else rows


def reach_sinks(
    context: Context, shown: Mapping[str, Mapping[str, str] | None]
) -> tuple[list[ReachedSink], list[str]]:
    """Of the sinks that deliver rows, or values of them: those that are reached, and in words the others. `shown`: by
    what has the rows, what it calls the columns of the condition; None: it does not show all of them as they are."""
    reached, beyond = [], []
    for sink in context.catalog.sinks:
        if (before := _before(context, sink)) is not None and {before["from"], sink.upstream} & shown.keys():
            place = f"{before['connector']} {before['place']}"
            beyond.append(f'{sink.name}: a sink that has delivered "{before["from"]}" to {place} before')
        if sink.upstream not in shown:
            continue
        beyond += [
            f"{sink.name}: a sink that has delivered to iceberg {one} before" for one in _left(context, sink)
        ]
        names, what = (
            shown[sink.upstream],
            f"a sink that delivers rows to {sink.connector.connector} {sink.place}",
        )
        if not isinstance(sink.connector, IcebergSinkOptions | KafkaSinkOptions):
            beyond.append(f"{sink.name}: {what}")
        elif not names:
            beyond.append(f"{sink.name}: {what}, and does not show the columns of the condition as they are")
        elif (why := why_beyond(context, sink, names.values())) is not None:
            beyond.append(f"{sink.name}: {what}; {why}")
        else:
            reached.append(ReachedSink(sink, names))
    return reached, beyond


def _before(context: Context, sink: Sink) -> Mapping[str, str] | None:
    """What a sink has delivered last, and where to, if that is another place or input than its definition has now."""
    storage, catalog = context.project.storage, context.catalog
    last = last_deployment(storage, sink.name)
    if last is None or not is_moved(last, sink):
        return None
    is_renamed = all(last[key] == deployment(sink)[key] for key in ("connector", "place"))
    is_renamed = is_renamed and continues(last, sink, catalog, load_table(storage, sink.upstream))
    return None if is_renamed else last


def _left(context: Context, sink: Sink) -> Iterator[str]:
    """Tables that a sink of this name has delivered into, and that are not its place now."""
    storage, own = context.project.storage, None
    if isinstance(sink.connector, IcebergSinkOptions):
        own = sink_table(storage, sink)
    for namespace in every_namespace(storage):
        for name in table_names(storage, namespace):
            said = load_properties(storage, name, namespace) or {}
            is_its = (said.get("tidegate.kind"), said.get("tidegate.sink")) == ("sink", sink.name)
            is_ours = Owner.of_text(said.get(OWNER)) == context.project.owner
            if is_its and is_ours and (namespace, name) != own:
                yield f"{namespace}.{name}"


def why_beyond(context: Context, sink: Sink, columns: Iterable[str] = ()) -> str | None:
    """Why the rows in the table of a sink, or in its topic by these columns, can't be erased; None: they can be, or
    nothing is delivered yet."""
    if isinstance(sink.connector, KafkaSinkOptions):
        return why_not_deleted(context, sink, [*columns])
    identifier = identifier_of(context, sink)
    if not context.tables.exists(identifier):
        return None
    table, owner = context.tables.open(identifier), context.project.owner
    current, properties = table.current(), table.properties()
    if properties.get("tidegate.kind") != "sink" or properties.get("tidegate.sink") != sink.name:
        return "the table was not made by this sink"
    if Owner.of_text(properties.get(OWNER)) != owner:
        return f"the table does not belong to {owner}"
    upstream, position = context.opened(sink.upstream), Position.of_summary(current.summary)
    source = context.catalog.get(sink.upstream)
    assert isinstance(source, Relation | View)
    if upstream is None or position is None:
        return "the table does not say which rows were delivered"
    if "/" in position.table or position.table != upstream.uuid:
        # Those may have had other columns of the same names.
        return f'the table may have rows of an earlier version of "{sink.upstream}"'
    changed = steps(upstream.property(CHANGES)) if isinstance(source, Relation) else ()
    if any(change.kind in ("drop", "rename") for step in changed for change in step.changes):
        return f'columns of "{sink.upstream}" were dropped or renamed, and the table has rows of before'
    # (At a snapshot it has the columns of then.)
    there = set(context.tables.rows(identifier).columns)
    if there - set(_OF_WINDOWS) != {column.name for column in source.columns}:
        return f'the table has other columns than "{sink.upstream}"'
    return None


def identifier_of(context: Context, sink: Sink) -> str:
    """Spark identifier of the table that an Iceberg sink delivers into."""
    return ".".join((CATALOG, *(quote(part) for part in sink_table(context.project.storage, sink))))


def sink_erasures(
    context: Context, sinks: Iterable[ReachedSink], condition: Callable[[Mapping[str, str]], RowsCondition]
) -> Iterator[SinkErasure | TopicErasure]:
    """Those of sinks that have delivered something; hold their leases."""
    for one in sinks:
        if one.is_topic:
            if read_position(context.project.storage, one.sink) is not None:
                yield TopicErasure(context, one.sink, condition(one.names))
        elif context.tables.exists(identifier_of(context, one.sink)):
            yield SinkErasure(context, one.sink, condition(one.names))


class SinkErasure:
    """Works on the table of a sink; whoever changes it holds the sink's lease. `condition`: on its columns."""

    def __init__(self, context: Context, sink: Sink, condition: RowsCondition) -> None:
        self._context, self.sink, self._condition = context, sink, condition
        self.table: StoredTable = context.tables.open(identifier_of(context, sink), context.project.owner)

    def look(self) -> ErasedTable:
        """What an erasure would do."""
        return ErasedTable(self.sink.name, self.find(), snapshots=earlier(self.table))

    def find(self) -> int:
        """How many rows of the table go. Raises TG502 if it is not what was looked at before the erasure."""
        base = self.table.current()
        if why_beyond(self._context, self.sink) is not None:
            raise overtaken(self.table.identifier)
        if base.id is None:
            return 0
        return self._context.tables.rows(self.table.identifier, base.id).where(self._condition.sql).count()

    def remove(self) -> None:
        """Delete the rows, and write files again that have rows which are only marked as deleted. Can be done again.
        Raises TG502 if another process has committed to the table meanwhile."""
        base = self.table.current()
        if base.id is None:
            return
        self.table.delete_rows(self._condition.sql, base.facts, base)
        self._context.tables.upkeep(self.table.identifier, self._context.project.owner).compact()
