"""Rows that Kafka sinks have delivered (E9): a message with a null value deletes what its key had.

The brokers remove the earlier messages of a key when they compact the topic. So only a sink whose messages have keys,
and whose topic is compacted, can delete; when the values leave the brokers' disks is left to them, and the command says
so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from tidegate.iceberg.attempt import overtaken
from tidegate.maintenance.erasure import ErasedTable
from tidegate.plan.columns.changes import CHANGES, steps
from tidegate.plan.gaps import RETAINED_FROM
from tidegate.plan.versions import VALID_FROM, version_of
from tidegate.sinks.kafka_erasure import DeliveredMessages
from tidegate.sinks.upstream import Upstream
from tidegate.sql.catalog.objects import Relation
from tidegate.sql.options.kafka_options import KafkaSinkOptions
from tidegate.store.positions import read_position
from tidegate.wording import counted

if TYPE_CHECKING:
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import Sink
    from tidegate.sql.statements.row_condition import RowsCondition


def why_not_deleted(context: Context, sink: Sink, columns: Collection[str]) -> str | None:
    """Why messages of a Kafka sink can't be deleted by these columns of what it delivers; None: they can be, or nothing
    is delivered yet. Raises TG541, TG550, TG551 or TG621 if its topic is another one, or can't be asked."""
    assert isinstance(sink.connector, KafkaSinkOptions)
    found, upstream = read_position(context.project.storage, sink), Upstream.of(context, sink)
    if found is None or upstream is None:
        return None
    if not sink.connector.key:
        return "its messages have no key (key.columns), so none of them can be deleted"
    life, properties = found[0].table, upstream.opened.properties()
    if life != upstream.newest.table:
        return (
            f'it has not gone over to the current version of "{sink.upstream}" yet: tidegate run {sink.name}'
        )
    changed = steps(properties.get(CHANGES)) if isinstance(upstream.source, Relation) else ()
    if any(change.kind in ("drop", "rename") for step in changed for change in step.changes):
        return f'columns of "{sink.upstream}" were dropped or renamed, and the topic has rows of before'
    if version_of(life) > 1 and {RETAINED_FROM, VALID_FROM} & properties.keys():
        # No version that is kept tells what those rows mean.
        return f'the topic may have rows of an earlier version of "{sink.upstream}", which are beyond their retention'
    messages = DeliveredMessages(context, sink, upstream, columns)
    messages.require()
    if not messages.topic.is_compacted():
        return (
            "the brokers do not compact it (cleanup.policy = compact), so a null value would delete nothing"
        )
    if unknown := messages.undecoded_columns():
        return f"the text of {', '.join(unknown)} in its messages does not tell the exact value"
    if count := messages.unreadable():
        return f"the last message of {counted(count, 'key')} does not have the columns of the condition"
    return None


class TopicErasure:
    """Works on the topic of a sink; whoever sends holds the sink's lease. `condition`: on what the sink delivers."""

    def __init__(self, context: Context, sink: Sink, condition: RowsCondition) -> None:
        self._context, self.sink, self._condition = context, sink, condition

    def look(self) -> ErasedTable:
        """What `run` would do."""
        return ErasedTable(self.sink.name, keys=self._messages().count(self._condition.sql))

    def run(self, notify: Callable[[str], None]) -> ErasedTable:
        """Delete the keys, when their rows have left what the sink delivers. Can be done again. Raises TG502 if the
        topic is not what was looked at before the erasure, TG545 if it can't be sent."""
        if why_not_deleted(self._context, self.sink, self._condition.columns) is not None:
            raise overtaken(self.sink.place)
        messages = self._messages()
        found = messages.count(self._condition.sql)
        notify(f"{self.sink.name}: sending null values for {counted(found, 'key')}")
        if found:
            messages.delete(self._condition.sql)
        if found and messages.count(self._condition.sql):
            raise overtaken(self.sink.place)
        return ErasedTable(self.sink.name, keys=found)

    @property
    def note(self) -> str:
        """What is left to others."""
        return (
            f"the brokers remove the messages of the deleted keys when they compact the topic {self.sink.place}: its "
            "settings min.cleanable.dirty.ratio, max.compaction.lag.ms and segment.ms say when. The null values, and "
            "with them the keys, stay for delete.retention.ms more"
        )

    def _messages(self) -> DeliveredMessages:
        upstream = Upstream.of(self._context, self.sink)
        assert upstream is not None
        return DeliveredMessages(self._context, self.sink, upstream, self._condition.columns)
