"""What a sink delivers: the closed rows of a view or the on-time rows of a log, by the number of their commit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.engine.commit import IcebergTable
from tidegate.engine.layout import ON_TIME, quote
from tidegate.engine.sinks import Position
from tidegate.sql.catalog import Relation, View
from tidegate.store.positions import final_keys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.engine.session import Session
    from tidegate.sql.sink_connectors import Sink


_FEW_FILES = {
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
}


@contextmanager
def few_files(spark: SparkSession) -> Iterator[None]:
    """While the block runs, what is sorted ends in as many partitions as its size asks for: a small delivery is a file,
    not one for each task. The rest of tidegate has this off, see `engine/spark.py`."""
    before = {key: spark.conf.get(key, None) for key in _FEW_FILES}
    for key, value in _FEW_FILES.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)


@dataclass(frozen=True)
class Upstream:
    """A view or relation at one snapshot. `newest`: its last commit."""

    source: Relation | View
    identifier: str
    snapshot: int | None
    newest: Position

    @classmethod
    def of(cls, session: Session, sink: Sink) -> Upstream | None:
        """None while nothing of it is stored."""
        source = session.catalog.get(sink.upstream)
        assert isinstance(source, Relation | View)
        identifier = session.stored(source.name)
        if identifier is None:
            return None
        table = IcebergTable(session.spark, identifier)
        current = table.current()
        tick, total = (current.integer(key) or 0 for key in final_keys(source))
        return cls(source, identifier, current.id, Position(table.uuid, tick, total))

    def rows(self, spark: SparkSession, after: int) -> DataFrame:
        """The rows of the commits after `after` in the order in which they became final; columns as in SQL."""
        names = [quote(c.name) for c in self.source.columns]
        if self.snapshot is None:
            return spark.table(self.identifier).select(*names).limit(0)
        stored, order = self.stored(spark, after, self.newest.tick)
        return stored.orderBy(*order).select(*names)

    def stored(self, spark: SparkSession, after: int, upto: int) -> tuple[DataFrame, list[str]]:
        """The rows of the commits after `after` and up to `upto`, with the columns that SQL does not see, in no order;
        and the columns that say in which order they became final. Needs a snapshot."""
        from pyspark.sql import functions as F

        stored = spark.read.option("versionAsOf", self.snapshot).table(self.identifier)
        if isinstance(self.source, View):
            number, rows = F.col("_tick"), stored.where(~F.col("_open"))
            order = ["_tick", "_window_end", *(["_ordinal"] if self.source.order else [])]
        else:
            number, rows = F.col("_epoch"), stored.where(F.col("_outcome") == ON_TIME)
            order = ["_epoch", "_source_partition", "_offset"]
        return rows.where((number > after) & (number <= upto)), order

    def schema(self, spark: SparkSession) -> list[tuple[str, str]]:
        """(name, Spark DDL) of the columns."""
        from tidegate.engine.resolve import ddl

        types = {field.name: ddl(field.dataType) for field in spark.table(self.identifier).schema.fields}
        return [(c.name, types[c.name]) for c in self.source.columns]
