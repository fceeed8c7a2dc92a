"""What a Kafka sink has delivered of a person's rows (E9): a message with a null value deletes what its key had, once
the brokers compact the topic.

The messages are looked for in the topic, and not in the view: the topic may have rows that the view has no longer, and
keys of an earlier definition of the sink. Only the last message of a key counts, since compaction removes the others.
It is the last one in its partition, because a topic that got more partitions can have a key in two of them. Tasks read,
decode and compare the messages, and send what replaces them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from tidegate.iceberg.layout import quote
from tidegate.plan.sink_stages import KAFKA_ID_HEADER, KAFKA_REVISION_HEADER
from tidegate.sinks.amended import NUMBER
from tidegate.sinks.kafka import broke_off, offsets_of
from tidegate.sinks.kafka_messages import KafkaMessages, header, ordering
from tidegate.sinks.statefile import StateFile
from tidegate.sinks.upstream import Upstream, few_files
from tidegate.sql.dialect.inner_names import inner
from tidegate.sql.options.kafka_options import KafkaSinkOptions
from tidegate.store.positions import Position, position_file

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import Sink

#: Of a message, beside the columns that are decoded from its value.
_KEY, _PARTITION, _OFFSET, _READABLE, _NEWEST = map(
    inner, ("key", "partition", "offset", "readable", "newest")
)
_VALUE, _AT, _FIELDS = map(inner, ("value", "at", "fields"))
#: Types whose text in JSON a cast reads again.
_CAST = ("string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "date")
_TIMES = ("timestamp", "timestamp_ntz")


class DeliveredMessages:
    """The messages of one sink, by `columns` of what it delivers. Whoever sends holds the sink's lease. `upstream`:
    what it delivers, as it is now."""

    def __init__(self, context: Context, sink: Sink, upstream: Upstream, columns: Collection[str]) -> None:
        assert isinstance(sink.connector, KafkaSinkOptions)
        self._context, self._sink, self._upstream, self._columns = context, sink, upstream, columns
        self.topic = context.runner.topics.sink(sink, sink.connector)
        found = StateFile(
            context.project.storage, position_file(context.project.storage, sink), sink.name
        ).read()
        assert found is not None
        self._state: dict[str, Any] = found
        types = dict(upstream.schema(context.tables))
        self._types = {name: types[name].lower() for name in columns}

    def require(self) -> None:
        """Raise TG554 if nothing can be sent from here, TG541 for another topic than the sink began with."""
        self.topic.require()
        offsets_of(self._sink, self.topic, self._state)

    def undecoded_columns(self) -> list[str]:
        """Those columns whose text in a message does not tell the value."""
        assert self._sink.format is not None
        kinds = _CAST if "timestamp_format" in self._sink.format.options else (*_CAST, *_TIMES)
        return [
            name for name, kind in self._types.items() if kind.partition("(")[0] not in (*kinds, "binary")
        ]

    def unreadable(self) -> int:
        """How many keys have a last message that does not tell all of the columns."""
        return self._last().where(f"NOT {quote(_READABLE)}").count()

    def count(self, condition: str) -> int:
        """How many keys have a last message for which a condition holds (Spark SQL over the columns)."""
        return self._last().where(condition).count()

    def delete(self, condition: str) -> None:
        """Send a null value to each of these keys, or the last of the rows that still have the key. Can be done again.
        Raises TG545."""
        from pyspark.sql import functions as F

        going = self._last().where(condition).select(_KEY, _PARTITION, _OFFSET)
        messages = going.join(self._left(going), F.col(_KEY) == F.col(_AT), "left")
        parts = [F.lit(self._state["delivery"]), F.lit("erased"), F.col(_PARTITION), F.col(_OFFSET)]
        headers = [header(KAFKA_ID_HEADER, F.concat_ws("/", *parts))]
        if self._upstream.upserts:
            headers.append(header(KAFKA_REVISION_HEADER, F.coalesce(NUMBER, F.lit(1))))
        sent = messages.select(
            F.col(_KEY).alias("key"),
            F.col(_VALUE).alias("value"),
            F.array(*headers).alias("headers"),
            F.col(_PARTITION).alias("partition"),
        )
        try:
            with few_files(self._context.spark):
                self.topic.send(sent)
        except Exception as error:
            raise broke_off(self._sink, error, "tidegate erase … --resume sends it again") from None

    def _last(self) -> DataFrame:
        """Of each key in each partition the last message, if a sink of tidegate has sent it and it has a value: `_KEY`,
        `_PARTITION`, `_OFFSET`, `_READABLE`, and the columns."""
        from pyspark.sql import functions as F

        offsets = offsets_of(self._sink, self.topic, self._state)
        since, until = ({p: bounds[i] for p, bounds in offsets.items()} for i in (0, 1))
        value = F.col("value").cast("string")
        found = self.topic.messages(since, until).where(F.col("key").isNotNull())
        found = found.withColumn(_FIELDS, F.from_json(value, "map<string,string>"))
        decoded = {name: self._decoded(name) for name in self._columns}
        known = [F.map_contains_key(_FIELDS, F.lit(name)) for name in self._columns]
        told = [F.col(_FIELDS)[name].isNull() | column.isNotNull() for name, column in decoded.items()]
        readable = F.coalesce(F.array_min(F.array(F.col(_FIELDS).isNotNull(), *known, *told)), F.lit(False))
        sent = F.coalesce(F.exists("headers", lambda one: one["key"] == KAFKA_ID_HEADER), F.lit(False))
        facts = [column.alias(name) for name, column in decoded.items()]
        newest = F.struct(
            F.col("offset").alias(_OFFSET),
            (sent & value.isNotNull()).alias(_VALUE),
            readable.alias(_READABLE),
            *facts,
        )
        by_key = found.select(
            F.col("key").cast("string").alias(_KEY),
            F.col("partition").alias(_PARTITION),
            F.col("offset").alias(_OFFSET),
            newest.alias(_NEWEST),
        ).groupBy(_KEY, _PARTITION)
        last = by_key.agg(F.max_by(_NEWEST, _OFFSET).alias(_NEWEST))
        return last.select(_KEY, _PARTITION, f"{_NEWEST}.*").where(F.col(_VALUE)).drop(_VALUE)

    def _decoded(self, name: str) -> Column:
        """A column from its text in JSON; NULL where it can't be one."""
        from pyspark.sql import functions as F

        text, kind = F.col(_FIELDS)[name], self._types[name]
        return F.try_to_binary(text, F.lit("base64")) if kind == "binary" else text.try_cast(kind)

    def _left(self, going: DataFrame) -> DataFrame:
        """Of the keys of `going` that delivered rows still have: `_AT` (the key), `_VALUE` and `NUMBER` of the last."""
        from pyspark.sql import functions as F

        after, upstream, by = Position.of_document(self._state), self._upstream, ordering(self._upstream)
        stored = upstream.stored(self._context.tables, 0, after.tick, after.amendments, after.edge)
        rows = KafkaMessages(self._context.tables, self._sink).rows(upstream, stored, by)
        number = F.col(NUMBER) if upstream.upserts else F.lit(1).cast("bigint")
        newest = F.struct(*by, F.col("value").alias(_VALUE), number.alias(NUMBER))
        rows = rows.join(going.select(F.col(_KEY).alias("key")).distinct(), "key", "left_semi")
        last = rows.groupBy(F.col("key").alias(_AT)).agg(F.max_by(newest, F.struct(*by)).alias(_NEWEST))
        return last.select(_AT, f"{_NEWEST}.{_VALUE}", f"{_NEWEST}.{NUMBER}")
