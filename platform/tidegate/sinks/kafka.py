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
from tidegate.iceberg.layout import quote
from tidegate.jvm.failures import spark_message
from tidegate.plan.sink_stages import KAFKA_ID_HEADER, KAFKA_REVISION_HEADER
from tidegate.sinks.amended import AMENDMENT, NUMBER, Amended
from tidegate.sinks.changed import VersionMessages, unreadable
from tidegate.sinks.filewriter import as_json
from tidegate.sinks.sink_writer import Delivered
from tidegate.sinks.statefile import StateFile
from tidegate.sinks.upstream import Upstream, few_files
from tidegate.sql.catalog.objects import View
from tidegate.sql.dialect.inner_names import inner
from tidegate.sql.options.kafka_options import KafkaSinkOptions
from tidegate.store.brokers.broker import Offsets
from tidegate.store.positions import KAFKA_POSITION, Position, position_file
from tidegate.tasks.first_attempt import REPEATED
from tidegate.views.revisions.revisions import beside_units

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import Sink

#: Inside, beside what a message has: the commit that a row is of, and what equal rows have in common.
_COMMIT, _HASH = inner("commit"), inner("hash")
#: Those of the version before.
_KEY, _VALUE = inner("key"), inner("value")
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
        self._send_all(lambda arrived: self._differences(changed, state, arrived), state, offsets, resumed)
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
                lambda arrived: self._messages(upstream, state, upto, changed, arrived),
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
                    raise self._broke_off(error) from None
            resumed, offsets = True, self._offsets(state)

    def _messages(
        self,
        upstream: Upstream,
        state: Mapping[str, Any],
        upto: int,
        changed: Amended | None,
        arrived: DataFrame | None,
    ) -> DataFrame:
        """Rows of `MESSAGE`, of the pending commits and of the windows that amendments up to `upto` have `changed`,
        without those whose `id` arrived. Those of a key are in one task, in the order in which they became final;
        without a key no order can be kept."""
        from pyspark.sql import functions as F

        after = Position.of_document(state)
        stored = upstream.stored(self._tables, after.tick, state["pending"]["tick"], upto, after.edge)
        by = _ordering(upstream)
        rows = self._rows(upstream, stored, by)
        if isinstance(upstream.source, View):
            rows = rows.withColumn(_COMMIT, F.col(by[0]).cast("string"))
            if changed is not None:
                rows = rows.unionByName(self._again(upstream, after, upto, changed, by))
        return self._with_ids(upstream, rows, by, state["delivery"], arrived)

    def _with_ids(
        self, upstream: Upstream, rows: DataFrame, by: list[str], delivery: str, arrived: DataFrame | None
    ) -> DataFrame:
        """Rows with `key`, `value`, `by`, and of a view `_COMMIT` and `NUMBER`, as `MESSAGE`, without those whose id
        has arrived."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        together = "key" if self._options.key else _HASH
        if isinstance(upstream.source, View):
            # Rows that are equal are the same message: it does not matter which of them arrived, but how many did.
            rows = rows.withColumn(_HASH, F.md5(F.coalesce("value", "key"))).repartition(together)
            equal = Window.partitionBy("key", _HASH, _COMMIT).orderBy(by[0])
            parts = [F.col(_COMMIT), F.col(_HASH), F.row_number().over(equal)]
        else:
            # Of a log: partition and offset.
            parts = [F.col(by[1]), F.col(by[2])]
            rows = rows.withColumn(_HASH, F.hash(*parts)).repartition(together)
        rows = rows.withColumn("id", F.concat_ws("/", F.lit(delivery), *parts))
        if arrived is not None:
            rows = rows.join(arrived, "id", "left_anti").repartition(together)
        headers = [_header(KAFKA_ID_HEADER, "id")]
        if upstream.upserts:
            headers.append(_header(KAFKA_REVISION_HEADER, NUMBER))
        return rows.sortWithinPartitions(*by).select("key", "value", F.array(*headers).alias("headers"))

    def _differences(
        self, changed: VersionMessages, state: Mapping[str, Any], arrived: DataFrame | None
    ) -> DataFrame:
        """Rows of `MESSAGE`: of a new version what is not the same in the one before, and a null value for every key
        that it does not have any more. Without those whose `id` arrived."""
        from pyspark.sql import functions as F

        upstream, by = changed.upstream, _ordering(changed.upstream)
        now = self._rows(upstream, changed.rows(self._tables), by)
        # (What orders the rows of the version before may be of another number of columns.)
        then = self._rows(changed.before, changed.rows_before(self._tables), _ordering(changed.before))
        known = then.select(F.col("key").alias(_KEY), F.col("value").alias(_VALUE)).distinct()
        same = F.col("key").eqNullSafe(F.col(_KEY)) & (F.col("value") == F.col(_VALUE))
        came = now.join(known, same, "left_anti")
        went = then.select("key").where(F.col("key").isNotNull()).distinct()
        went = went.join(now.select("key"), "key", "left_anti")
        nothing = {name: F.lit(None).cast(kind) for name, kind in now.dtypes if name != "key"}
        went = went.withColumns({**nothing, NUMBER: F.lit(1).cast("bigint")})
        rows = came.unionByName(went).withColumn(_COMMIT, F.lit(changed.commit))
        return self._with_ids(upstream, rows, by, state["delivery"], arrived)

    def _rows(self, upstream: Upstream, stored: DataFrame, by: list[str]) -> DataFrame:
        """`key`, `value` and `by`: the columns that order them; of a view also `NUMBER`, `AMENDMENT`."""
        from pyspark.sql import functions as F

        assert self._sink.format is not None
        names = [column.name for column in upstream.source.columns]
        return stored.select(
            self._key().alias("key"),
            as_json(names, self._sink.format).alias("value"),
            *[F.col(name).alias(alias) for name, alias in zip(upstream.order, by, strict=True)],
            *([NUMBER, AMENDMENT] if isinstance(upstream.source, View) else []),
        )

    def _again(
        self, upstream: Upstream, after: Position, upto: int, changed: Amended, by: list[str]
    ) -> DataFrame:
        """What replaces the messages of amended windows: their rows, and a null value for every key that was there and
        is not any more. `_COMMIT` says which amendment it was."""
        from pyspark.sql import functions as F

        view = upstream.source
        assert isinstance(view, View)
        came = self._rows(upstream, upstream.again(self._tables, after, changed, upto), by)
        then = upstream.stored(self._tables, 0, after.tick, after.amendments).drop(NUMBER, AMENDMENT)
        then = beside_units(upstream.around(then, changed), changed.windows, view, [NUMBER, AMENDMENT])
        went = self._rows(upstream, then, by).join(came.select("key"), "key", "left_anti")
        went = went.where(F.col("key").isNotNull()).withColumn("value", F.lit(None).cast("string"))
        commit = F.concat(F.lit("a"), F.col(AMENDMENT).cast("string"))
        return came.unionByName(went).withColumn(_COMMIT, commit)

    def _key(self) -> Column:
        from pyspark.sql import functions as F

        assert self._sink.format is not None
        if not self._options.key:
            return F.lit(None).cast("string")
        if self._options.key_encode == "text":
            return F.col(quote(self._options.key[0])).cast("string")
        return as_json(self._options.key, self._sink.format)

    def _arrived(self, state: Mapping[str, Any], offsets: Offsets) -> DataFrame:
        """The ids (`id`) of this sink that the topic got since the pending delivery began."""
        from pyspark.sql import functions as F

        ends = state["pending"]["ends"]
        start = {}
        for partition, (earliest, end) in offsets.items():
            # From the start if the partition is new since then, or was cut: ids that are not asked for do no harm.
            since = ends.get(str(partition), earliest)
            start[partition] = since if earliest <= since <= end else earliest
        found = self._topic.headers(start, {partition: end for partition, (_, end) in offsets.items()})
        ids = F.expr(f"filter(headers, h -> h.key = '{KAFKA_ID_HEADER}')[0].value").cast("string")
        return found.select(ids.alias("id")).where(F.col("id").startswith(f"{state['delivery']}/"))

    def _offsets(self, state: Mapping[str, Any]) -> Offsets:
        """Those of the topic, if it is the one that the sink began with. Raises TG541, TG621."""
        offsets, topic_id = self._topic.state()
        if topic_id != state["topic_id"]:
            raise TidegateError(
                "TG541",
                f'"{self._sink.name}" can\'t deliver: {self._options.topic} is not the topic that it '
                "delivered into, but another topic of the same name: it was recreated, or is at "
                "another broker",
                hint=f"DROP SINK {self._sink.name} and CREATE it again: from the beginning, or with snapshot = 'false'",
                location=self._sink.location,
            )
        return offsets

    def _broke_off(self, error: Exception) -> TidegateError:
        text = "a task failed several times" if REPEATED in str(error) else spark_message(error)
        return TidegateError(
            "TG545",
            f'"{self._sink.name}" could not deliver into topic {self._options.topic}: {self._masked(text)}',
            hint="no row is lost: the next run reads which rows arrived, and delivers the rest",
            location=self._sink.location,
        )

    def _masked(self, text: str) -> str:
        """Without what came out of the environment."""
        written = [self._options.topic, *self._options.properties.values()]
        values = {os.environ.get(name, "") for one in written for name in variables(one)}
        for value in sorted(values - {""}, key=len, reverse=True):
            text = text.replace(value, "***")
        return text


def _ordering(upstream: Upstream) -> list[str]:
    """What the columns that order the rows are called beside the parts of a message."""
    return [inner(f"by{i}") for i in range(len(upstream.order))]


def _header(name: str, column: str) -> Column:
    from pyspark.sql import functions as F

    value = F.col(column).cast("string").cast("binary")
    return F.struct(F.lit(name).alias("key"), value.alias("value"))
