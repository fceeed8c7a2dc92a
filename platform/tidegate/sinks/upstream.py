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
from tidegate.iceberg.protocol import AMENDMENTS, LIFE
from tidegate.jvm.within import settings
from tidegate.plan.versions import kept_versions, number_of, tag_of
from tidegate.sinks.amended import AMENDMENT, Amended, amended, as_of, bound_of
from tidegate.sql.catalog.objects import CatalogColumn, Relation, View
from tidegate.store.positions import KnownCommits, Position, final_keys
from tidegate.views.definition import as_stored, is_of_results
from tidegate.views.versions.renaming import not_renamed_yet
from tidegate.watermark import TimeKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from tidegate.iceberg.protocol import Snapshot
    from tidegate.iceberg.tables import StoredTable, Tables
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
    """A view or relation at one snapshot. `source`: its definition, that of the stored results. `newest`: its last
    commit, and its last amendment. `frontier`: up to where a view is final, in ticks. `upserts`: whether the sink
    follows amendments (B2). `opened`: the table that has it."""

    source: Relation | View
    identifier: str
    snapshot: int | None
    newest: Position
    frontier: int | None
    upserts: bool
    opened: StoredTable

    @classmethod
    def of(cls, context: Context, sink: Sink) -> Upstream | None:
        """None while nothing of it is stored."""
        source = context.catalog.get(sink.upstream)
        assert isinstance(source, Relation | View)
        identifier = _stored(context, source)
        if identifier is None:
            return None
        table = context.tables.open(identifier)
        current = table.current()
        if isinstance(source, View) and not is_of_results(context, source, table.properties()):
            # Its next version is being built, or it has gone back to an earlier one (E5).
            source = _as_stored(context, source, table.properties(), identifier, current.id)
        return cls._at(source, identifier, table, current, table.uuid, sink)

    @classmethod
    def of_version(cls, context: Context, sink: Sink, life: str) -> Upstream | None:
        """An earlier version of a view (E5), as it was when another one took its place; None if it can't be read any
        more. `life`: as in `Position.table`."""
        view = context.catalog.get(sink.upstream)
        identifier = _stored(context, view) if isinstance(view, View) else None
        if identifier is None or not isinstance(view, View):
            return None
        table = context.tables.open(identifier)
        table.current()
        number, known = number_of(life, table.uuid), kept_versions(table.properties())
        kept = next((one for one in known if one.number == number), None)
        if kept is None:
            return None
        at = table.at(tag_of(kept.number))
        source = _as_stored(context, view, kept.definition, identifier, at.id)
        return cls._at(source, identifier, table, at, life, sink)

    @classmethod
    def _at(
        cls, source: Relation | View, identifier: str, table: StoredTable, at: Snapshot, life: str, sink: Sink
    ) -> Upstream:
        tick, total = (at.integer(key) or 0 for key in final_keys(source))
        newest = Position(life, tick, total, amendments=at.integer(AMENDMENTS) or 0, commit=at.commit)
        frontier = at.integer("tidegate.frontier")
        return cls(source, identifier, at.id, newest, frontier, sink.connector.upserts, table)

    def has_commit(self, position: Position) -> bool:
        """Whether it has the commit up to which a sink has delivered; that of an earlier release is not known."""
        commit = position.commit
        if commit is None or position.table != self.newest.table:
            return False
        return commit == self.newest.commit or self.opened.at(commit).id == commit

    def known_commits(self) -> KnownCommits:
        """All commits of the current results that are kept: what `has_commit` does not find may have expired."""
        key, life = final_keys(self.source)[0], self.opened.current().summary.get(LIFE)
        summaries = self.opened.summaries().items()
        ticks = {id_: int(s[key]) for id_, s in summaries if key in s and s.get(LIFE) == life}
        return KnownCommits(self.opened.uuid, self.opened.properties(), ticks)

    def has_news(self, delivered: Position) -> bool:
        """Whether there is anything to deliver."""
        amended = self.upserts and self.newest.amendments > delivered.amendments
        return self.newest.tick > delivered.tick or amended

    def reached(self, after: Position) -> Position:
        """The position of a sink that stood at `after` and has delivered all of this. One that ignores amendments stays
        at the last that it has followed: if it is told to upsert some day, it has those after it to catch up with."""
        amendments = self.newest.amendments if self.upserts else after.amendments
        kept = {name: getattr(after, name) for name in ("skipped", "since", "beyond")}
        return replace(self.newest, amendments=amendments, **kept)

    @property
    def order(self) -> list[str]:
        """The columns that say in which order rows became final."""
        if isinstance(self.source, View):
            return ["_tick", "_window_end", *(["_ordinal"] if self.source.order else [])]
        return ["_epoch", "_source_partition", "_offset"]

    def rows(self, tables: Tables, after: Position, added: Sequence[str] = ()) -> DataFrame:
        """What a sink at `after` is to deliver, in the order in which it became final; columns as in SQL, and those of
        `added`, of the ones that SQL does not see. Needs a snapshot."""
        names = [quote(c.name) for c in self.source.columns] + list(added)
        rows = self.stored(tables, after.tick, self.newest.tick, edge=after.edge)
        return rows.orderBy(*self.order).select(*names)

    def stored(
        self,
        tables: Tables,
        after: int,
        upto: int,
        amendments: int | None = None,
        edge: int | None = None,
    ) -> DataFrame:
        """The rows of the commits after `after` and up to `upto`, with the columns that SQL does not see, in no order;
        those of a view with `NUMBER` and `AMENDMENT` of `amended.py`, as they were after so many amendments (None: as
        they are). `edge`: of the first delivery of a version, what ends later. Needs a snapshot."""
        from pyspark.sql import functions as F

        table = self.table(tables)
        if isinstance(self.source, View):
            newest = self.newest.amendments
            number = F.col("_tick")
            rows = as_of(table, self.source, newest if amendments is None else amendments, newest)
            if edge is not None and after == 0:
                # (Later commits have nothing that ends there.)
                rows = rows.where(F.col("_window_end") > F.expr(self.source.kind.spark_literal(edge)))
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
        fields = tables.rows(self.identifier, self.snapshot).schema.fields
        types = {field.name: ddl(field.dataType) for field in fields}
        return [(name, types[name]) for name in (*(c.name for c in self.source.columns), *added)]


def _stored(context: Context, source: Relation | View) -> str | None:
    """The identifier of what is stored, also where a rename is still to be made: the table is the same one then, and
    where a sink begins is one place."""
    found = context.stored(source.name)
    return not_renamed_yet(context, source) if found is None and isinstance(source, View) else found


def _as_stored(
    context: Context, view: View, properties: Mapping[str, str], identifier: str, snapshot: int | None
) -> View:
    """The definition of stored results; as far as a delivery needs it, if nobody can read it any more, since what it
    reads has changed."""
    known = as_stored(context, view, properties)
    if known is not None:
        return known
    fields = context.tables.rows(identifier, snapshot).schema.fields
    names = [field.name for field in fields]
    # The first column that is not the view's own (`layout.view_columns`).
    own = fields[: names.index("_window_start")]
    kind = properties.get("tidegate.time-kind")
    return replace(
        view,
        columns=tuple(CatalogColumn(field.name, ddl(field.dataType)) for field in own),
        order=("_ordinal",) if "_ordinal" in names else (),
        kind=view.kind if kind is None else TimeKind[kind],
    )
