"""UPDATE and DELETE: the rows that match become changes, which go through the gate into the log like any row (T1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.ingest.insert import insert
from tidegate.runtime.result import Result

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate.ingest.ingest import Log
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import Relation
    from tidegate.sql.statements.statements import Change


def change(
    context: Context,
    statement: Change,
    register: Callable[[], None],
    open_log: Callable[[Context, Relation], Log],
) -> Result:
    """Carry out UPDATE or DELETE. `register` makes what the query reads known to Spark; `open_log` as
    `evolve.apply.open_log`."""
    relation = context.relation(statement.table)
    with context.lease(relation.name):
        log = open_log(context, relation)  # its state is up to date now, and stays so under the lease
        register()
        event = insert(context.spark, log, statement.spark_sql, context.clock(), statement.op)
    total = event.on_time + event.late + event.rejected
    text = f"{statement.what} {event.on_time}"
    if event.late or event.rejected:
        text = (
            f"{statement.what} {event.on_time} of {total} rows: {event.late} expired, "
            f"{event.rejected} rejected"
        )
    if relation.watermark is not None:
        text += f"; watermark {event.watermark}"
    return Result(message=text, count=event.on_time)
