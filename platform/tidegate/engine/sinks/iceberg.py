"""`connector = 'iceberg'`: rows appended to an ordinary Iceberg table.

The position is in the summary of the snapshot that has the rows: one commit. It is fenced: rows are written to a branch
from the snapshot that the position was read from, and the table moves on to it only if nobody has committed meanwhile.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.engine.commit import IcebergTable
from tidegate.engine.layout import quote
from tidegate.engine.sinks import Position
from tidegate.engine.sinks.upstream import Upstream, few_files
from tidegate.errors import TidegateError
from tidegate.project.storage import CATALOG
from tidegate.sql.sink_connectors import IcebergSinkOptions, Sink
from tidegate.store.positions import sink_table

if TYPE_CHECKING:
    from tidegate.engine.session import Session

_BRANCH = "tidegate_delivery"


class IcebergSink:
    """See `SinkWriter`."""

    def __init__(self, session: Session, sink: Sink) -> None:
        assert isinstance(sink.connector, IcebergSinkOptions)
        self._session, self._spark, self._sink = session, session.spark, sink
        namespace, name = sink_table(session.project.storage, sink)
        self._namespace = f"{CATALOG}.{quote(namespace)}"
        self.identifier = f"{self._namespace}.{quote(name)}"

    def position(self) -> Position | None:
        if not self._spark.catalog.tableExists(self.identifier):
            return None
        table = self._table()
        current = table.current()
        position = Position.of_summary(current.summary)
        if position is None and current.id is not None:
            raise self._refuse(f"{self.identifier} has rows, but its snapshots don't say what was delivered")
        return position

    def begin(self, position: Position) -> None:
        upstream = Upstream.of(self._session, self._sink)
        assert upstream is not None
        columns = ", ".join(f"{quote(name)} {kind}" for name, kind in upstream.schema(self._spark))
        text = self._sink.name.replace("\\", "\\\\").replace("'", "\\'")
        self._spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self._namespace}")
        self._spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self.identifier} ({columns}) USING iceberg TBLPROPERTIES "
            f"('tidegate.kind' = 'sink', 'tidegate.sink' = '{text}', 'format-version' = '2')"
        )
        update = self._table().java.newAppend()
        for key, value in position.to_summary().items():
            update = update.set(key, value)
        update.commit()

    def deliver(self, upstream: Upstream, after: Position) -> int:
        table = self._table()
        base = table.current().id
        manage = table.java.manageSnapshots()
        known = table.java.refs().containsKey(_BRANCH)
        (manage.replaceBranch if known else manage.createBranch)(_BRANCH, base).commit()
        writer = upstream.rows(self._spark, after.tick).writeTo(f"{self.identifier}.branch_{_BRANCH}")
        for key, value in replace(upstream.newest, skipped=after.skipped).to_summary().items():
            writer = writer.option(f"snapshot-property.{key}", value)
        with few_files(self._spark):
            writer.append()
        table.current()
        written = table.java.snapshot(_BRANCH)
        self._publish(table, base)
        return int(written.summary().get("added-records") or 0)

    def forget(self) -> None:
        """The position is part of the table, which stays: a sink of the same name goes on from there."""

    def _publish(self, table: IcebergTable, base: int | None) -> None:
        try:
            table.java.manageSnapshots().fastForwardBranch("main", _BRANCH).commit()
        except Exception as error:
            if table.current().id == base:
                raise
            raise TidegateError(
                "TG502",
                f"another run has committed to {self.identifier} meanwhile; nothing of this delivery was kept",
                hint="run again: it goes on from what is delivered",
            ) from error

    def _table(self) -> IcebergTable:
        table = IcebergTable(self._spark, self.identifier)
        owner = table.property("tidegate.sink")
        if table.property("tidegate.kind") != "sink" or owner != self._sink.name:
            what = f'is the table of sink "{owner}"' if owner else "was not made by this sink"
            raise self._refuse(f"{self.identifier} {what}")
        return table

    def _refuse(self, why: str) -> TidegateError:
        return TidegateError(
            "TG541",
            f'"{self._sink.name}" can\'t deliver: {why}',
            hint="give the sink a table of its own: WITH (table = '…')",
            location=self._sink.location,
        )
