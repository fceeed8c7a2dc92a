"""The messages that a Kafka sink sends, as frames of `MESSAGE`: what is pending of its view or source, what replaces
the windows of amendments (B2), and what differs between two versions of its view (E6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidegate.iceberg.layout import quote
from tidegate.plan.sink_stages import KAFKA_ID_HEADER, KAFKA_REVISION_HEADER
from tidegate.sinks.amended import AMENDMENT, NUMBER, Amended
from tidegate.sinks.changed import VersionMessages
from tidegate.sinks.filewriter import as_json
from tidegate.sinks.upstream import Upstream
from tidegate.sql.catalog.objects import View
from tidegate.sql.dialect.inner_names import inner
from tidegate.sql.options.kafka_options import KafkaSinkOptions
from tidegate.store.positions import Position
from tidegate.views.revisions.revisions import beside_units

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidegate.iceberg.tables import Tables
    from tidegate.sql.catalog.objects import Sink

#: Inside, beside what a message has: the commit that a row is of, and what equal rows have in common.
_COMMIT, _HASH = inner("commit"), inner("hash")
#: Those of the version before.
_KEY, _VALUE = inner("key"), inner("value")


class KafkaMessages:
    """Of one sink. What it delivered can be read again later, and gives the same messages with the same ids."""

    def __init__(self, tables: Tables, sink: Sink) -> None:
        assert isinstance(sink.connector, KafkaSinkOptions)
        self._tables, self._sink, self._options = tables, sink, sink.connector

    def pending(
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
        by = ordering(upstream)
        rows = self.rows(upstream, stored, by)
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
        headers = [header(KAFKA_ID_HEADER, F.col("id"))]
        if upstream.upserts:
            headers.append(header(KAFKA_REVISION_HEADER, F.col(NUMBER)))
        return rows.sortWithinPartitions(*by).select("key", "value", F.array(*headers).alias("headers"))

    def differences(
        self, changed: VersionMessages, state: Mapping[str, Any], arrived: DataFrame | None
    ) -> DataFrame:
        """Rows of `MESSAGE`: of a new version what is not the same in the one before, and a null value for every key
        that it does not have any more. Without those whose `id` arrived."""
        from pyspark.sql import functions as F

        upstream, by = changed.upstream, ordering(changed.upstream)
        now = self.rows(upstream, changed.rows(self._tables), by)
        # (What orders the rows of the version before may be of another number of columns.)
        then = self.rows(changed.before, changed.rows_before(self._tables), ordering(changed.before))
        known = then.select(F.col("key").alias(_KEY), F.col("value").alias(_VALUE)).distinct()
        same = F.col("key").eqNullSafe(F.col(_KEY)) & (F.col("value") == F.col(_VALUE))
        came = now.join(known, same, "left_anti")
        went = then.select("key").where(F.col("key").isNotNull()).distinct()
        went = went.join(now.select("key"), "key", "left_anti")
        nothing = {name: F.lit(None).cast(kind) for name, kind in now.dtypes if name != "key"}
        went = went.withColumns({**nothing, NUMBER: F.lit(1).cast("bigint")})
        rows = came.unionByName(went).withColumn(_COMMIT, F.lit(changed.commit))
        return self._with_ids(upstream, rows, by, state["delivery"], arrived)

    def rows(self, upstream: Upstream, stored: DataFrame, by: list[str]) -> DataFrame:
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
        came = self.rows(upstream, upstream.again(self._tables, after, changed, upto), by)
        then = upstream.stored(self._tables, 0, after.tick, after.amendments).drop(NUMBER, AMENDMENT)
        then = beside_units(upstream.around(then, changed), changed.windows, view, [NUMBER, AMENDMENT])
        went = self.rows(upstream, then, by).join(came.select("key"), "key", "left_anti")
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


def ordering(upstream: Upstream) -> list[str]:
    """What the columns that order the rows are called beside the parts of a message."""
    return [inner(f"by{i}") for i in range(len(upstream.order))]


def header(name: str, value: Column) -> Column:
    """One header of a message."""
    from pyspark.sql import functions as F

    return F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
