"""Rows that Kafka sinks have delivered (E9): a message with a null value deletes what its key had.

The brokers remove the earlier messages of a key when they compact the topic. So only a sink whose messages have keys,
and whose topic is compacted, can delete; when the values leave the brokers' disks is left to them, and the command says
so. A topic is only what it is taken for if nobody else writes the keys, and all of it is of one definition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pyarrow.fs import FileSelector

from tidegate.iceberg.attempt import overtaken
from tidegate.maintenance.erasure import ErasedTable
from tidegate.plan.columns.changes import CHANGES, steps
from tidegate.plan.versions import version_of
from tidegate.sinks.kafka_erasure import DeliveredMessages
from tidegate.sinks.statefile import StateFile
from tidegate.sinks.upstream import Upstream
from tidegate.sql.catalog.objects import Relation
from tidegate.sql.options.kafka_options import KafkaSinkOptions
from tidegate.store.positions import KAFKA_POSITION, Position, position_file
from tidegate.wording import counted

if TYPE_CHECKING:
    from tidegate.project import Storage
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import Sink
    from tidegate.sql.statements.row_condition import RowsCondition


def why_not_deleted(context: Context, sink: Sink, columns: Collection[str]) -> str | None:
    """Why messages of a Kafka sink can't be deleted by these columns of what it delivers; None: they can be, or nothing
    is delivered yet. Raises TG541, TG550, TG551 or TG621 if its topic is another one, or can't be asked."""
    assert isinstance(sink.connector, KafkaSinkOptions)
    storage, upstream = context.project.storage, Upstream.of(context, sink)
    if earlier := _other_topics(storage, sink):
        return f"it has delivered into another topic before: {', '.join(earlier)}"
    state = _state(storage, sink)
    if state is None:
        return None
    if upstream is None:
        return f'"{sink.upstream}", which it has delivered, is not stored any more'
    if not sink.connector.key:
        return "its messages have no key (key.columns), so none of them can be deleted"
    return _why_not_one(sink, state, upstream) or _why_not_there(
        DeliveredMessages(context, sink, upstream, state, columns)
    )


def _why_not_one(sink: Sink, state: dict[str, Any], upstream: Upstream) -> str | None:
    """Why the topic may have more than what the sink delivers now."""
    life, then = Position.of_document(state).table, "the topic may have rows of"
    if life != upstream.newest.table:
        return f'it does not continue with the present version of "{sink.upstream}" yet: tidegate run {sink.name}'
    if state["pending"] is not None:
        return f"a delivery was interrupted: tidegate run {sink.name} finishes it"
    if version_of(life) > 1:
        # Those may have had other columns of the same names, and other keys.
        return f'{then} an earlier version of "{sink.upstream}"'
    told = upstream.opened.property(CHANGES) if isinstance(upstream.source, Relation) else None
    if any(change.kind in ("drop", "rename") for step in steps(told) for change in step.changes):
        return f'columns of "{sink.upstream}" were dropped or renamed, and {then} before'
    return None


def _why_not_there(messages: DeliveredMessages) -> str | None:
    """Why null values would not delete what is in the topic, or not only that."""
    messages.require()
    if not messages.topic.is_compacted():
        return (
            "the brokers do not compact the topic (cleanup.policy = compact), so a null value deletes nothing"
        )
    if unknown := messages.undecoded_columns():
        return f"the text of {', '.join(unknown)} in its messages does not tell the exact value"
    others, unreadable = messages.unfit()
    if others:
        whose = "another sink, another program, or this sink before it was created again"
        return f"{counted(others, 'key')} of the topic: the last message may be of {whose}"
    if unreadable:
        return f"the last message of {counted(unreadable, 'key')} does not tell the columns of the condition"
    return None


class TopicErasure:
    """Works on the topic of a sink; whoever sends holds the sink's lease. `condition`: on what the sink delivers."""

    def __init__(self, context: Context, sink: Sink, condition: RowsCondition) -> None:
        self._context, self.sink, self._condition = context, sink, condition

    def look(self) -> ErasedTable:
        """What `run` would do."""
        return ErasedTable(self.sink.name, keys=self._messages().count(self._condition.sql))

    def run(self, notify: Callable[[str], None]) -> ErasedTable:
        """Delete the keys. Can be done again. Raises TG502 if the topic is not what was looked at before the erasure,
        TG545 if it can't be sent."""
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
        state = _state(self._context.project.storage, self.sink)
        assert upstream is not None
        assert state is not None
        return DeliveredMessages(self._context, self.sink, upstream, state, self._condition.columns)


def _state(storage: Storage, sink: Sink) -> dict[str, Any] | None:
    return StateFile(storage, position_file(storage, sink), sink.name).read()


def _other_topics(storage: Storage, sink: Sink) -> list[str]:
    """Topics that a sink has delivered into before it was given the one that it has."""
    own = position_file(storage, sink).rpartition("/")[2]
    filesystem, folder = storage.filesystem(storage.work_folder(sink.name))
    files = filesystem.get_file_info(FileSelector(folder, allow_not_found=True))
    names = [one.base_name for one in files if one.base_name.startswith(KAFKA_POSITION)]
    topics = [name[len(KAFKA_POSITION) :] for name in names if name.endswith(".json") and name != own]
    return [unquote(topic.removesuffix(".json")) for topic in topics]
