"""`connector = 'iceberg'`: rows appended to an ordinary Iceberg table; with `amendments = 'upsert'` those of amended
windows are replaced in it (B2).

The position is in the summary of the snapshot that has the rows: one commit. It is fenced: rows are written to a branch
from the snapshot that the position was read from, and the table moves on to it only if nobody has committed meanwhile.
So amended and new rows appear at once, together with the position that says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tidegate.errors import TidegateError
from tidegate.iceberg.attempt import TRIES
from tidegate.iceberg.commit import IcebergTable
from tidegate.iceberg.layout import quote, string
from tidegate.iceberg.protocol import AnswerLost, Commit, Conflict, GiveUp, Snapshot, Stored, drive
from tidegate.iceberg.statement import StatementBranch
from tidegate.project.owner import OWNER
from tidegate.project.storage import CATALOG
from tidegate.runtime.owners import take
from tidegate.sinks.amended import NUMBER, Amended, bound_of
from tidegate.sinks.sink_columns import add_columns, different_windows
from tidegate.sinks.sink_writer import Delivered
from tidegate.sinks.upstream import Upstream, few_files
from tidegate.sql.catalog.objects import Sink, View
from tidegate.sql.dialect.inner_names import inner
from tidegate.sql.options.sink_connectors import IcebergSinkOptions
from tidegate.store.places import new_place
from tidegate.store.positions import Position, sink_table
from tidegate.store.version import NEWEST, STORAGE_VERSION
from tidegate.views.revisions.revisions import units

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from tidegate.runtime.context import Context

#: What a table whose windows are replaced has beside the columns of the view: of which window a row is, and which
#: revision of it. A property of the table says that it has them.
_WINDOW, _REVISION = ("_window_start", "_window_end"), "_revision"
_UPSERTS = "tidegate.sink-amendments"
#: What MERGE reads, and in it the lines that say which windows go.
_CHANGES, _GONE = "_tidegate_amended", inner("gone")


class IcebergSink:
    """See `SinkWriter`."""

    replaces: ClassVar[bool] = True

    def __init__(self, context: Context, sink: Sink) -> None:
        assert isinstance(sink.connector, IcebergSinkOptions)
        self._context, self._spark, self._tables, self._sink = context, context.spark, context.tables, sink
        self._owner = context.project.owner
        self._where, self._name = sink_table(context.project.storage, sink)
        self._namespace = f"{CATALOG}.{quote(self._where)}"
        self.identifier = f"{self._namespace}.{quote(self._name)}"

    def position(self) -> Position | None:
        if not self._spark.catalog.tableExists(self.identifier):
            return None
        table = self._table()
        current = table.current()
        position = Position.of_summary(current.summary)
        if position is None and current.id is not None:
            raise self._refuse(
                f"{self.identifier} has rows, but its snapshots don't say which rows were delivered"
            )
        return position

    def begin(self, position: Position) -> None:
        upstream = Upstream.of(self._context, self._sink)
        assert upstream is not None
        fields = upstream.schema(self._tables, _WINDOW if upstream.upserts else ())
        kind = "upsert" if upstream.upserts else "ignore"
        if upstream.upserts:
            fields.append((_REVISION, "bigint"))
        columns = ", ".join(f"{quote(name)} {type_}" for name, type_ in fields)
        self._context.owners.require_namespace(self._where)
        self._spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self._namespace}")
        place = new_place(self._context.project.storage, self._where, self._name)
        where = "" if place is None else f"LOCATION {string(place)} "
        self._spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self.identifier} ({columns}) USING iceberg {where}TBLPROPERTIES "
            f"('{STORAGE_VERSION}' = '{NEWEST}', '{OWNER}' = {string(self._owner.to_text())}, "
            f"'tidegate.kind' = 'sink', 'tidegate.sink' = {string(self._sink.name)}, '{_UPSERTS}' = '{kind}', "
            "'format-version' = '2')"
        )
        update = self._table().java.newAppend()
        for key, value in position.to_summary().items():
            update = update.set(key, value)
        update.commit()

    def deliver(self, upstream: Upstream, after: Position) -> Delivered:
        table = self._table()
        base = table.current()
        assert base.id is not None
        branch = StatementBranch(self._spark._jvm, table.java, base.id)
        changed = upstream.amended(self._tables, after)
        if changed is None:
            done = self._append(table, branch, upstream, after)
        else:
            done = self._replace(table, branch, upstream, after, changed)
        self._publish(table, branch, base)
        return done

    def go_on(self, position: Position) -> None:
        upstream = Upstream.of(self._context, self._sink)
        assert upstream is not None
        table = self._table()
        add_columns(self._context, self._sink, self.identifier, upstream.schema(self._tables))
        base = table.current()
        assert base.id is not None
        branch = StatementBranch(self._spark._jvm, table.java, base.id)
        table.current()
        self._say(table, branch, position)
        self._publish(table, branch, base)

    def replace(
        self,
        before: Upstream | None,
        upstream: Upstream,
        start: Position,
        version: Callable[[str], Upstream | None],
    ) -> Delivered:
        table = self._table()
        add_columns(self._context, self._sink, self.identifier, upstream.schema(self._tables))
        base = table.current()
        assert base.id is not None
        branch = StatementBranch(self._spark._jvm, table.java, base.id)
        if self._has_windows(table):
            self._change_windows(branch, base.id, upstream, start)
        else:
            self._spark.sql(f"DELETE FROM {branch.of(self.identifier)} WHERE true")
            with few_files(self._spark):
                rows = self._fitted(upstream.rows(self._tables, start))
                rows.writeTo(branch.of(self.identifier)).append()
        table.current()
        self._say(table, branch, upstream.reached(start))
        self._publish(table, branch, base)
        return Delivered(max(upstream.newest.total - start.total, 0))

    def _change_windows(
        self, branch: StatementBranch, base: int, upstream: Upstream, start: Position
    ) -> None:
        """Put the rows of those windows anew into the branch which are not the same in the new version. What it has of
        them, as of snapshot `base`, is what the sink has delivered."""
        from pyspark.sql import functions as F

        table = self._fitted(self._tables.rows(self.identifier, base))
        added = (*_WINDOW, NUMBER)
        rows = self._fitted(upstream.rows(self._tables, start, added).withColumnRenamed(NUMBER, _REVISION))
        keys = {name: inner(f"unit{i}") for i, name in enumerate(_WINDOW)}
        gone = different_windows(table, rows, _WINDOW)
        gone = gone.select(*[F.col(quote(name)).alias(alias) for name, alias in keys.items()])
        same = F.lit(True)
        for name, alias in keys.items():
            same = same & F.col(quote(name)).eqNullSafe(F.col(quote(alias)))
        again = rows.join(gone, same, "left_semi")
        changes = again.withColumn(_GONE, F.lit(False)).unionByName(
            gone.withColumn(_GONE, F.lit(True)), allowMissingColumns=True
        )
        matches = [f"t.{quote(name)} <=> s.{quote(alias)}" for name, alias in keys.items()]
        self._merge(branch, changes, f"s.{quote(_GONE)} AND {' AND '.join(matches)}", table.columns)

    def _fitted(self, rows: DataFrame) -> DataFrame:
        """With the columns that the table has: NULL in those that only earlier versions of the view have had (E6)."""
        from pyspark.sql import functions as F

        fields = self._spark.table(self.identifier).schema.fields
        there = set(rows.columns)
        found = [
            F.col(quote(f.name)).cast(f.dataType)
            if f.name in there
            else F.lit(None).cast(f.dataType).alias(f.name)
            for f in fields
        ]
        return rows.select(*found)

    def _say(self, table: IcebergTable, branch: StatementBranch, position: Position) -> None:
        """Where the sink stands, in a snapshot of the branch that has no rows: what is before it may have said nothing,
        where there was nothing to do."""
        update = table.java.newAppend().toBranch(branch.name)
        for key, value in position.to_summary().items():
            update = update.set(key, value)
        update.commit()
        table.current()

    def forget(self) -> None:
        """The position is part of the table, which stays: a sink of the same name goes on from there."""

    def _append(
        self, table: IcebergTable, branch: StatementBranch, upstream: Upstream, after: Position
    ) -> Delivered:
        """Add what is new to the branch."""
        added = (*_WINDOW, NUMBER) if self._has_windows(table) else ()
        rows = upstream.rows(self._tables, after, added).withColumnRenamed(NUMBER, _REVISION)
        writer = self._fitted(rows).writeTo(branch.of(self.identifier))
        for key, value in upstream.reached(after).to_summary().items():
            writer = writer.option(f"snapshot-property.{key}", value)
        with few_files(self._spark):
            writer.append()
        table.current()
        return Delivered(int(table.java.snapshot(branch.name).summary().get("added-records") or 0))

    def _replace(
        self,
        table: IcebergTable,
        branch: StatementBranch,
        upstream: Upstream,
        after: Position,
        changed: Amended,
    ) -> Delivered:
        """Put the rows of amended windows in the place of those that the branch has, and add what is new."""
        from pyspark.sql import functions as F

        view = upstream.source
        assert isinstance(view, View)
        new = upstream.stored(self._tables, after.tick, upstream.newest.tick)
        again = upstream.again(self._tables, after, changed)
        names = [*(column.name for column in view.columns), *_WINDOW, _REVISION]
        keys = {name: inner(f"unit{i}") for i, name in enumerate(units(view))}
        rows = new.unionByName(again)
        rows = self._fitted(rows.withColumn(_REVISION, F.col(NUMBER)).select(*map(quote, names)))
        gone = changed.windows.select(*[F.col(quote(name)).alias(alias) for name, alias in keys.items()])
        changes = rows.withColumn(_GONE, F.lit(False)).unionByName(
            gone.withColumn(_GONE, F.lit(True)), allowMissingColumns=True
        )
        same = [f"t.{quote(name)} <=> s.{quote(alias)}" for name, alias in keys.items()]
        # So that files without any of these windows are not read.
        low, high = view.kind.spark_literal(changed.low), view.kind.spark_literal(changed.high)
        bound = f"t.{quote(bound_of(view))}"
        within = f"{bound} >= {low} AND {bound} <= {high}"
        self._merge(branch, changes, f"s.{quote(_GONE)} AND {within} AND {' AND '.join(same)}", rows.columns)
        table.current()
        self._say(table, branch, upstream.reached(after))
        return Delivered(upstream.newest.total - after.total, changed.count)

    def _merge(self, branch: StatementBranch, changes: DataFrame, condition: str, names: list[str]) -> None:
        columns = ", ".join(map(quote, names))
        values = ", ".join(f"s.{quote(name)}" for name in names)
        changes.createOrReplaceTempView(_CHANGES)
        try:
            with few_files(self._spark):
                self._spark.sql(
                    f"MERGE INTO {branch.of(self.identifier)} t USING {_CHANGES} s ON {condition} "
                    f"WHEN MATCHED THEN DELETE "
                    f"WHEN NOT MATCHED AND NOT s.{quote(_GONE)} THEN INSERT ({columns}) VALUES ({values})"
                )
        finally:
            self._spark.catalog.dropTempView(_CHANGES)

    def _publish(self, table: IcebergTable, branch: StatementBranch, base: Snapshot) -> None:
        """Move the table on to the branch."""

        def attempt(_: Snapshot) -> Stored | Conflict | AnswerLost:
            return branch.publish(self._spark._jvm, table.java)

        end = drive(Commit(base, "everything", TRIES), table.look_at_main, attempt)
        if isinstance(end, GiveUp) and end.why == "overtaken":
            raise TidegateError(
                "TG502",
                (
                    f"another run has committed to {self.identifier} in the meantime; this delivery was "
                    "not stored"
                ),
                hint="run again: it continues from the rows that are delivered",
            ) from end.error
        end.result()

    def _table(self) -> IcebergTable:
        table = IcebergTable(self._spark, self.identifier)
        owner = table.property("tidegate.sink")
        if table.property("tidegate.kind") != "sink" or owner != self._sink.name:
            what = f'is the table of sink "{owner}"' if owner else "was not made by this sink"
            raise self._refuse(f"{self.identifier} {what}")
        take(table, self._owner)
        if self._sink.connector.upserts and not self._has_windows(table):
            why = (
                f"the rows in {self.identifier} don't say to which window they belong, because it was "
                "created with amendments = 'ignore'"
            )
            raise self._refuse(why)
        return table

    def _has_windows(self, table: IcebergTable) -> bool:
        return table.property(_UPSERTS) == "upsert"

    def _refuse(self, why: str) -> TidegateError:
        return TidegateError(
            "TG541",
            f'"{self._sink.name}" can\'t deliver: {why}',
            hint="give the sink a table of its own: WITH (table = '…')",
            location=self._sink.location,
        )
