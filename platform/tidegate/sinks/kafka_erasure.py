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

from tidegate.plan.sink_stages import KAFKA_ID_HEADER, KAFKA_REVISION_HEADER
from tidegate.sinks.kafka import broke_off, offsets_of
from tidegate.sinks.kafka_messages import header
from tidegate.sinks.upstream import Upstream, few_files
from tidegate.sql.dialect.inner_names import inner
from tidegate.sql.options.kafka_options import KafkaSinkOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import Sink

#: Of a message, beside the columns that are decoded from its value: `_OURS`: a sink of tidegate has sent it; `_OWN`:
#: this one has, as it is now; `_GOES`: it has the person's row.
_KEY, _PARTITION, _OFFSET, _VALUE, _HEADERS, _FIELDS, _READABLE, _OURS, _OWN, _GOES = map(
    inner, ("key", "partition", "offset", "value", "headers", "fields", "readable", "ours", "own", "goes")
)
_LAST, _OTHER = inner("last"), inner("other")
#: How the text of a column in a message has to look, so that a cast to its type gives the value that was written: times
#: of another `timestamp_format`, and a DECIMAL, which Spark reads as a double, do not.
_TIME = r"[+-]?\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)?"
_EXACT = ("string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "binary")
_TEXTS = {
    **dict.fromkeys(_EXACT, "(?s).*"),
    **dict.fromkeys(("timestamp", "timestamp_ntz"), _TIME),
    "date": r"[+-]?\d{4,}-\d\d-\d\d",
}


class DeliveredMessages:
    """The messages of one sink, by `columns` of what it delivers. Whoever sends holds the sink's lease. `upstream`:
    what it delivers, as it is now; `state`: the sink's position file."""

    def __init__(
        self,
        context: Context,
        sink: Sink,
        upstream: Upstream,
        state: Mapping[str, Any],
        columns: Collection[str],
    ) -> None:
        assert isinstance(sink.connector, KafkaSinkOptions)
        self._spark, self._sink, self._state = context.spark, sink, state
        self._upserts = upstream.upserts
        self.topic = context.runner.topics.sink(sink, sink.connector)
        types = dict(upstream.schema(context.tables))
        self._types = {name: types[name].lower() for name in columns}

    def require(self) -> None:
        """Raise TG554 if nothing can be sent from here, TG541 for another topic than the sink began with."""
        self.topic.require()
        offsets_of(self._sink, self.topic, self._state)

    def undecoded_columns(self) -> list[str]:
        """Those columns whose text in a message does not tell the value."""
        return [name for name, kind in self._types.items() if kind not in _TEXTS]

    def unfit(self) -> tuple[int, int]:
        """How many keys have a message of a sink of tidegate, and a last message that this one, as it is now, has not
        sent: what it deletes may be another one's, and what others have sent may be a row that goes. And how many have
        a last message of this sink that does not tell all of the columns."""
        from pyspark.sql import functions as F

        others = F.count_if(F.expr(f"`{_OURS}` AND NOT `{_OWN}`"))
        unreadable = F.count_if(F.expr(f"`{_OWN}` AND NOT `{_READABLE}`"))
        found = self._last().agg(others, unreadable).first()
        assert found is not None
        return found[0], found[1]

    def count(self, condition: str) -> int:
        """How many keys have a last message for which a condition holds (Spark SQL over the columns)."""
        return self._last(condition).where(f"`{_GOES}`").count()

    def delete(self, condition: str) -> None:
        """Send a null value to each of these keys; or once more, if the topic has it, the last message of the key for
        which the condition does not hold. Can be done again. Raises TG545."""
        from pyspark.sql import functions as F

        last = self._last(condition).where(f"`{_GOES}`")
        parts = [F.lit(self._state["delivery"]), F.lit("erased"), F.col(_PARTITION), F.col(_OFFSET)]
        headers = [header(KAFKA_ID_HEADER, F.concat_ws("/", *parts))]
        headers += [header(KAFKA_REVISION_HEADER, F.lit(1))] if self._upserts else []
        other = F.col(_OTHER)
        sent = last.select(
            F.col(_KEY).alias("key"),
            other[_VALUE].alias("value"),
            F.when(other[_VALUE].isNull(), F.array(*headers)).otherwise(other[_HEADERS]).alias("headers"),
            F.col(_PARTITION).alias("partition"),
        )
        try:
            with few_files(self._spark):
                self.topic.send(sent)
        except Exception as error:
            raise broke_off(self._sink, error, "tidegate erase … --resume sends it again") from None

    def _last(self, condition: str = "FALSE") -> DataFrame:
        """Of each key in each partition: `_KEY`, `_PARTITION`; whether it has a message that is `_OURS`; of its last
        message `_OFFSET`, `_OWN`, `_READABLE` (also where the value is null), `_GOES`; and `_OTHER`: the last one of
        this sink that does not go, or is null (NULL: there is none)."""
        from pyspark.sql import functions as F

        messages = self._decoded()
        goes = F.coalesce(F.expr(condition), F.lit(False)) & F.col(_OWN) & F.col(_VALUE).isNotNull()
        messages = messages.withColumn(_GOES, goes)
        stays = F.struct(_OFFSET, _VALUE, _HEADERS)
        found = messages.groupBy(_KEY, _PARTITION).agg(
            F.max(_OURS).alias(_OURS),
            F.max(F.struct(_OFFSET, _OWN, _READABLE, _GOES)).alias(_LAST),
            F.max(F.when(F.col(_OWN) & ~F.col(_GOES), stays)).alias(_OTHER),
        )
        return found.select(_KEY, _PARTITION, _OURS, f"{_LAST}.*", _OTHER)

    def _decoded(self) -> DataFrame:
        """Every message that has a key, with the columns: NULL where the text can't be one."""
        from pyspark.sql import functions as F

        offsets = offsets_of(self._sink, self.topic, self._state)
        since, until = ({p: bounds[i] for p, bounds in offsets.items()} for i in (0, 1))
        value = F.col("value").cast("string")
        found = self.topic.messages(since, until).where(F.col("key").isNotNull())
        found = found.select(
            F.col("key").cast("string").alias(_KEY),
            F.col("partition").alias(_PARTITION),
            F.col("offset").alias(_OFFSET),
            value.alias(_VALUE),
            F.col("headers").alias(_HEADERS),
            _sent("").alias(_OURS),
            _sent(f"{self._state['delivery']}/").alias(_OWN),
            F.from_json(value, "map<string,string>").alias(_FIELDS),
        )
        told, columns = [F.col(_FIELDS).isNotNull()], {}
        for name, kind in self._types.items():
            text = F.col(_FIELDS)[name]
            columns[name] = (
                F.try_to_binary(text, F.lit("base64")) if kind == "binary" else text.try_cast(kind)
            )
            is_exact = text.rlike(f"^({_TEXTS.get(kind, '')})$") & columns[name].isNotNull()
            told.append(F.map_contains_key(_FIELDS, F.lit(name)) & (text.isNull() | is_exact))
        readable = F.col(_VALUE).isNull() | F.coalesce(F.array_min(F.array(*told)), F.lit(False))
        return found.withColumns({**columns, _READABLE: readable})


def _sent(beginning: str) -> Column:
    """Whether a message has an id of tidegate's that begins so."""
    from pyspark.sql import functions as F

    def is_one(one: Column) -> Column:
        return (one["key"] == KAFKA_ID_HEADER) & one["value"].cast("string").startswith(beginning)

    return F.coalesce(F.exists("headers", is_one), F.lit(False))
