"""What a sink delivers: the closed rows of a view or the on-time rows of a log, by the number of their commit.

A sink follows by commits, each once, as a gate inline does (`ingest/sources/log.py`), and its position is the number of
the last. A view cannot: which rows it needs depends on event time, and some of them again in the next window, so it
reads a pinned snapshot between bounds of time (`views/inputs.py`). Audits and advice follow nothing: they read all of
one snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.iceberg.layout import ON_TIME, ddl, quote
from tidegate.iceberg.protocol import AMENDMENTS
from tidegate.jvm.within import settings
from tidegate.sinks.amended import AMENDMENT, Amended, amended, as_of, bound_of
from tidegate.sql.catalog.objects import Relation, View
from tidegate.store.positions import Position, final_keys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.iceberg.tables import Tables
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import Sink


_FEW_FILES = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
}


def few_files(spark: SparkSession) -> AbstractContextManager[None]:
    """While the block runs, what is sorted ends in as many partitions as its size asks for: a small delivery is a file,
    not one for each task. The rest of tidegate has this off, see `jvm/spark.py`."""
    return settings(spark, _FEW_FILES)


@dataclass(frozen=True)
class Upstream:
    """A view or relation at one snapshot. `newest`: its last commit, and its last amendment. `frontier`: up to where a
    view is final, in ticks. `upserts`: whether the sink follows amendments (B2)."""

    source: Relation | View
    identifier: str
    snapshot: int | None
    newest: Position
    frontier: int | None
    upserts: bool

    @classmethod
    def of(cls, context: Context, sink: Sink) -> Upstream | None:
        """None while nothing of it is stored."""
        source = context.catalog.get(sink.upstream)
        assert isinstance(source, Relation | View)
        identifier = context.stored(source.name)
        if identifier is None:
            return None
        table = context.tables.open(identifier)
        current = table.current()
        tick, total = (current.integer(key) or 0 for key in final_keys(source))
        newest = Position(table.uuid, tick, total, amendments=current.integer(AMENDMENTS) or 0)
        frontier = current.integer("tidegate.frontier")
        return cls(source, identifier, current.id, newest, frontier, sink.connector.upserts)

    def has_news(self, delivered: Position) -> bool:
        """Whether there is anything to deliver."""
        amended = self.upserts and self.newest.amendments > delivered.amendments
        return self.newest.tick > delivered.tick or amended

    def reached(self, after: Position) -> Position:
        """The position of a sink that stood at `after` and has delivered all of this. One that ignores amendments stays
        at the last that it has followed: if it is told to upsert some day, it has those after it to catch up with."""
        amendments = self.newest.amendments if self.upserts else after.amendments
        return replace(self.newest, amendments=amendments, skipped=after.skipped, since=after.since)

    @property
    def order(self) -> list[str]:
        """The columns that say in which order rows became final."""
        if isinstance(self.source, View):
            return ["_tick", "_window_end", *(["_ordinal"] if self.source.order else [])]
        return ["_epoch", "_source_partition", "_offset"]

    def rows(self, tables: Tables, after: int, added: Sequence[str] = ()) -> DataFrame:
        """The rows of the commits after `after` in the order in which they became final; columns as in SQL, and those
        of `added`, of the ones that SQL does not see. Needs a snapshot."""
        names = [quote(c.name) for c in self.source.columns] + list(added)
        return self.stored(tables, after, self.newest.tick).orderBy(*self.order).select(*names)

    def stored(self, tables: Tables, after: int, upto: int, amendments: int | None = None) -> DataFrame:
        """The rows of the commits after `after` and up to `upto`, with the columns that SQL does not see, in no order;
        those of a view with `NUMBER` and `AMENDMENT` of `amended.py`, as they were after so many amendments (None: as
        they are). Needs a snapshot."""
        from pyspark.sql import functions as F

        table = self.table(tables)
        if isinstance(self.source, View):
            newest = self.newest.amendments
            number = F.col("_tick")
            rows = as_of(table, self.source, newest if amendments is None else amendments, newest)
        else:
            number, rows = F.col("_epoch"), table.where(F.col("_outcome") == ON_TIME)
        return rows.where((number > after) & (number <= upto))

    def amended(self, tables: Tables, delivered: Position, upto: int | None = None) -> Amended | None:
        """The windows that the sink is to deliver once more (B2): those that amendments up to number `upto` (None: all)
        have changed, and that a sink at `delivered` has not followed."""
        if not self.upserts or not isinstance(self.source, View) or self.snapshot is None:
            return None
        upto = self.newest.amendments if upto is None else upto
        return amended(self.table(tables), self.source, delivered, upto)

    def again(
        self, tables: Tables, delivered: Position, changed: Amended, amendments: int | None = None
    ) -> DataFrame:
        """The rows of these windows, as `stored`, that stand in the place of what a sink at `delivered` has of them."""
        from pyspark.sql import functions as F

        rows = self.stored(tables, 0, delivered.tick, amendments)
        return self.around(rows.where(F.col(AMENDMENT) > delivered.amendments), changed)

    def around(self, rows: DataFrame, changed: Amended) -> DataFrame:
        """Those of windows that end where the first of these windows ends, or later, and not later than the last: so
        only files of these days are read."""
        from pyspark.sql import functions as F

        assert isinstance(self.source, View)
        low, high = (F.expr(self.source.kind.spark_literal(mark)) for mark in (changed.low, changed.high))
        bound = F.col(bound_of(self.source))
        return rows.where((bound >= low) & (bound <= high))

    def table(self, tables: Tables) -> DataFrame:
        """The stored table at the snapshot, which there must be."""
        return tables.rows(self.identifier, self.snapshot)

    def schema(self, tables: Tables, added: Sequence[str] = ()) -> list[tuple[str, str]]:
        """(name, Spark DDL) of the columns, and of those of `added`."""
        types = {field.name: ddl(field.dataType) for field in tables.rows(self.identifier).schema.fields}
        return [(name, types[name]) for name in (*(c.name for c in self.source.columns), *added)]
