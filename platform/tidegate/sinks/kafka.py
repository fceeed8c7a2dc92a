"""`connector = 'kafka'`: rows as messages of a topic, sent by all tasks at once through Spark's own writer.

A topic can't be made to take rows and position in one step: a transaction of Kafka's belongs to one producer, and a
delivery has one for each task. So the position file says first which commits are about to be sent, and where the topic
ended then. Each message has an id in its header that comes out the same whenever the row is read again. A delivery that
broke off is resumed by reading the ids that did arrive, and sending the other rows: nothing twice, nothing lost.

With `amendments = 'upsert'` a delivery also has the messages that replace those of amended windows: of each row that
is there now, with the key that it had, and for each key that is gone a null value (B2).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, ClassVar

from tidegate.confidential import variables
from tidegate.errors import TidegateError
from tidegate.jvm.failures import spark_message
from tidegate.plan.sink_stages import KAFKA_ID_HEADER
from tidegate.sinks.changed import VersionMessages, unreadable
from tidegate.sinks.kafka_messages import KafkaMessages
from tidegate.sinks.sink_writer import Delivered
from tidegate.sinks.statefile import StateFile
from tidegate.sinks.upstream import Upstream, few_files
from tidegate.sql.options.kafka_options import KafkaSinkOptions
from tidegate.store.brokers.broker import Offsets
from tidegate.store.positions import KAFKA_POSITION, Position, position_file
from tidegate.tasks.first_attempt import REPEATED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.runtime.context import Context
    from tidegate.runtime.topics import SinkTopic
    from tidegate.sql.catalog.objects import Sink

#: What becomes of messages that were not sent.
_FINISHED = "no row is lost: the next run reads which rows arrived, and delivers the rest"
#: How often one run looks into the topic and goes on, where tasks broke off that Spark would have repeated.
_ROUNDS = 3


class KafkaSink:
    """See `SinkWriter`."""

    replaces: ClassVar[bool] = False

    def __init__(self, context: Context, sink: Sink) -> None:
        assert isinstance(sink.connector, KafkaSinkOptions)
        self._spark, self._tables, self._sink, self._options = (
            context.spark,
            context.tables,
            sink,
            sink.connector,
        )
        self._messages = KafkaMessages(context.tables, sink)
        self._storage = context.project.storage
        self._topic = context.runner.topics.sink(sink, self._options)
        place = position_file(self._storage, sink)
        self._state = StateFile(self._storage, place, sink.name, context.runner.conditions)

    def position(self) -> Position | None:
        # What broke off is finished by `deliver`, which has the rows.
        state = self._state.read()
        return None if state is None else Position.of_document(state)

    def begin(self, position: Position) -> None:
        _, topic_id = self._topic.state()
        self._state.write(self._begun(position, topic_id))

    def _begun(self, position: Position, topic_id: str | None) -> dict[str, Any]:
        """The state of a sink that begins at a position, or goes on with a new version there."""
        # Two machines that begin at the same moment give a row the same id.
        stands = {key: value for key, value in asdict(position).items() if key != "commit"}
        facts = json.dumps([self._sink.name, topic_id, self._options.topic, stands])
        delivery = hashlib.blake2b(facts.encode(), digest_size=16).hexdigest()
        begun = {"topic_id": topic_id, "delivery": delivery, "pending": None}
        return {"sink": self._sink.name, **asdict(position), **begun}

    def deliver(self, upstream: Upstream, after: Position) -> Delivered:
        self._topic.require()
        state = self._state.read()
        assert state is not None
        amended = 0
        if state["pending"] is not None:
            state, amended = self._send(upstream, state, self._offsets(state), resumed=True)
        if upstream.has_news(Position.of_document(state)):
            offsets = self._offsets(state)
            state = state | {"pending": self._pending(upstream, offsets)}
            self._state.write(state)
            state, more = self._send(upstream, state, offsets, resumed=False)
            amended += more
        return Delivered(state["total"] - after.total, amended)

    def go_on(self, position: Position) -> None:
        state = self._state.read()
        assert state is not None
        self._state.write(self._begun(position, state["topic_id"]))

    def replace(
        self,
        before: Upstream | None,
        upstream: Upstream,
        start: Position,
        version: Callable[[str], Upstream | None],
    ) -> Delivered:
        self._topic.require()
        state = self._state.read()
        assert state is not None
        assert before is not None
        offsets, pending = self._offsets(state), state["pending"]
        if pending is None:
            pending = self._pending(upstream, offsets) | {"start": asdict(start)}
            state = state | {"pending": pending}
            self._state.write(state)
            resumed = False
        else:
            # What is pending is what it was, though another version may have come since.
            start, resumed = Position.of_document(pending["start"]), True
            found = upstream if upstream.newest.table == start.table else version(start.table)
            if found is None:
                raise unreadable(self._sink)
            upstream = found
        changed = VersionMessages(upstream, before, start, Position.of_document(state), pending)
        self._send_all(
            lambda arrived: self._messages.differences(changed, state, arrived), state, offsets, resumed
        )
        reached = {key: pending[key] for key in ("tick", "total", "amendments")}
        reached["commit"] = pending.get("commit")
        self._state.write(self._begun(replace(start, **reached), state["topic_id"]))
        return Delivered(max(pending["total"] - start.total, 0))

    def _pending(self, upstream: Upstream, offsets: Offsets) -> dict[str, Any]:
        """What a delivery that is about to begin consists of, and where the topic ends before it."""
        newest = {key: getattr(upstream.newest, key) for key in ("tick", "total", "amendments", "commit")}
        return newest | {"ends": {str(partition): end for partition, (_, end) in offsets.items()}}

    def forget(self) -> None:
        from pyarrow.fs import FileSelector

        filesystem, folder = self._storage.filesystem(self._storage.work_folder(self._sink.name))
        # Those of topics that it delivered into earlier, too.
        for info in filesystem.get_file_info(FileSelector(folder, allow_not_found=True)):
            if info.base_name.startswith(KAFKA_POSITION):
                filesystem.delete_file(info.path)

    def _send(
        self, upstream: Upstream, state: dict[str, Any], offsets: Offsets, resumed: bool
    ) -> tuple[dict[str, Any], int]:
        """Send the rows of the pending commits, less those that the topic has already if this is not the first try; the
        state after it, which is written, and how many amended windows were among them."""
        pending = state["pending"]
        after = Position.of_document(state)
        # What is pending is what it was, though it may have been amended since: the ids have to come out the same. One
        # that an earlier version has left says nothing of amendments.
        upto = pending.get("amendments", upstream.newest.amendments)
        reached = {key: pending.get(key) for key in ("tick", "total", "commit")} | {
            "amendments": upto if upstream.upserts else after.amendments
        }
        changed = upstream.amended(self._tables, after, upto)
        if reached["total"] > after.total or changed is not None or upto > after.amendments:
            self._send_all(
                lambda arrived: self._messages.pending(upstream, state, upto, changed, arrived),
                state,
                offsets,
                resumed,
            )
        done = state | reached | {"pending": None}
        self._state.write(done)
        return done, 0 if changed is None else changed.count

    def _send_all(
        self,
        messages: Callable[[DataFrame | None], DataFrame],
        state: Mapping[str, Any],
        offsets: Offsets,
        resumed: bool,
    ) -> None:
        """Send the messages of what is pending, less those whose ids have arrived if this is not the first try."""
        for round_ in range(_ROUNDS):
            arrived = self._arrived(state, offsets) if resumed else None
            try:
                with few_files(self._spark):
                    self._topic.send(messages(arrived))
                return
            except Exception as error:
                if REPEATED not in str(error) or round_ == _ROUNDS - 1:
                    raise broke_off(self._sink, error, _FINISHED) from None
            resumed, offsets = True, self._offsets(state)

    def _arrived(self, state: Mapping[str, Any], offsets: Offsets) -> DataFrame:
        """The ids (`id`) of this sink that the topic got since the pending delivery began."""
        from pyspark.sql import functions as F

        ends = state["pending"]["ends"]
        start = {}
        for partition, (earliest, end) in offsets.items():
            # From the start if the partition is new since then, or was cut: ids that are not asked for do no harm.
            since = ends.get(str(partition), earliest)
            start[partition] = since if earliest <= since <= end else earliest
        found = self._topic.messages(start, {partition: end for partition, (_, end) in offsets.items()})
        ids = F.expr(f"filter(headers, h -> h.key = '{KAFKA_ID_HEADER}')[0].value").cast("string")
        return found.select(ids.alias("id")).where(F.col("id").startswith(f"{state['delivery']}/"))

    def _offsets(self, state: Mapping[str, Any]) -> Offsets:
        return offsets_of(self._sink, self._topic, state)


def require_topic(context: Context, sink: Sink) -> None:
    """Raise what would keep a sink that has begun from delivering: TG554, TG541 and those of `SinkTopic.state`."""
    assert isinstance(sink.connector, KafkaSinkOptions)
    topic, storage = context.runner.topics.sink(sink, sink.connector), context.project.storage
    topic.require()
    offsets_of(sink, topic, StateFile(storage, position_file(storage, sink), sink.name).read() or {})


def offsets_of(sink: Sink, topic: SinkTopic, state: Mapping[str, Any]) -> Offsets:
    """Those of a topic, if it is the one that the sink began with, by its `state`. Raises TG541, TG621."""
    offsets, topic_id = topic.state()
    if topic_id != state["topic_id"]:
        raise TidegateError(
            "TG541",
            f'"{sink.name}" can\'t deliver: {sink.place} is not the topic that it delivered into, but another topic '
            "of the same name: it was recreated, or is at another broker",
            hint=f"DROP SINK {sink.name} and CREATE it again: from the beginning, or with snapshot = 'false'",
            location=sink.location,
        )
    return offsets


def broke_off(sink: Sink, error: Exception, hint: str) -> TidegateError:
    """TG545 for messages that could not be sent."""
    options = sink.connector
    assert isinstance(options, KafkaSinkOptions)
    text = "a task failed several times" if REPEATED in str(error) else spark_message(error)
    return TidegateError(
        "TG545",
        f'"{sink.name}" could not deliver into topic {options.topic}: {_masked(options, text)}',
        hint=hint,
        location=sink.location,
    )


def _masked(options: KafkaSinkOptions, text: str) -> str:
    """Without what came out of the environment."""
    written = [options.topic, *options.properties.values()]
    values = {os.environ.get(name, "") for one in written for name in variables(one)}
    for value in sorted(values - {""}, key=len, reverse=True):
        text = text.replace(value, "***")
    return text
