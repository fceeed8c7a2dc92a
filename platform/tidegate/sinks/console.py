"""`connector = 'console'`: the first rows of each delivery on the screen, and how many more there are.

The position moves after the rows are shown: a run that is killed between the two shows them again.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, ClassVar

from tidegate.iceberg.layout import quote
from tidegate.plan.events import RowsDelivered
from tidegate.sinks.sink_writer import Delivered
from tidegate.sinks.statefile import StateFile
from tidegate.sinks.upstream import Upstream
from tidegate.sql.catalog.objects import Sink
from tidegate.sql.options.sink_connectors import ConsoleSinkOptions
from tidegate.store.positions import Position, position_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate.plan.events import Event
    from tidegate.runtime.context import Context


class ConsoleSink:
    """See `SinkWriter`. `notify`: who shows the rows."""

    replaces: ClassVar[bool] = False

    def __init__(self, context: Context, sink: Sink, notify: Callable[[Event], None]) -> None:
        assert isinstance(sink.connector, ConsoleSinkOptions)
        self._spark, self._tables, self._sink, self._notify = context.spark, context.tables, sink, notify
        self._shown = sink.connector.rows
        storage = context.project.storage
        self._state = StateFile(storage, position_file(storage, sink), sink.name)

    def position(self) -> Position | None:
        state = self._state.read()
        return None if state is None else Position.of_document(state)

    def begin(self, position: Position) -> None:
        self._state.write(asdict(position))

    def deliver(self, upstream: Upstream, after: Position) -> Delivered:
        from pyspark.sql import functions as F

        rows = upstream.rows(self._tables, after)
        shown = rows.select(*[F.col(quote(name)).cast("string") for name in rows.columns]).take(self._shown)
        # The rest is counted, not fetched.
        count = len(shown) if len(shown) < self._shown else rows.count()
        if shown:
            found = tuple(tuple(row) for row in shown)
            self._notify(RowsDelivered(self._sink.name, tuple(rows.columns), found, count - len(shown)))
        self.begin(upstream.reached(after))
        return Delivered(count)

    def go_on(self, position: Position) -> None:
        self.begin(position)

    def forget(self) -> None:
        self._state.remove()
