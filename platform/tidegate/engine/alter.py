"""ALTER … WATERMARK (W13) and RESET WATERMARK (W9) in a session: what is kept, what is committed, what is said."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidegate.engine.result import Result
from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from tidegate.engine.session import Session
    from tidegate.sql.statements import AlterWatermark, ResetWatermark


def alter_watermark(session: Session, statement: AlterWatermark) -> Result:
    """Keep the new definition; the next row that is read is judged by it, and its commit records the change.

    Raises TG520 for what a file in assets/ defines: the file would win at the next start.
    """
    relation = statement.relation
    assert relation.watermark is not None
    strategy = relation.watermark.expression
    clause = f"WATERMARK FOR {relation.watermark.column} AS {strategy}"
    if not session.project.is_interactive(relation.name):
        where = relation.location.file if relation.location is not None else "a file in assets/"
        raise TidegateError(
            "TG520",
            f'"{relation.name}" is defined by {where}: a statement can\'t change it',
            hint=f"edit the file: {clause}; the next run goes on with it, nothing is built anew",
            location=statement.location,
        )
    # Not while another process writes the log with the old strategy (TG508).
    with session.lease(relation.name):
        session.project.save_definition(relation.name, relation.definition)
        session.catalog.replace(relation)
    if strategy == statement.before:
        return Result(message=f"the strategy of {relation.name} is {strategy} already: nothing changes")
    return Result(
        message=f"altered {relation.name}: from the next row on its watermark is {strategy} "
        f"(it was {statement.before}); what is decided stays decided"
    )


def reset_watermark(session: Session, statement: ResetWatermark) -> Result:
    """Set the watermark of every partition and of the whole, in a commit of its own.

    Closed windows stay closed: a view's frontier never goes back, whatever the watermark does.
    """
    relation = session.relation(statement.name)
    with session.lease(relation.name):
        log = session.log(relation)
        before = log.progress.published
        log.reset(statement.value, datetime.now(UTC))
    message = f"reset the watermark of {relation.name} to {log.format(statement.value)}"
    message += f" (it was {log.format(before)})"
    if before is None or statement.value >= before:
        return Result(message=f"{message}; rows before it are late from now on")
    message += "; rows from there on are on time again, late rows stay late"
    views = [x.name for x in session.catalog.readers(relation.name) if session.stored(x.name) is not None]
    if views:
        message += f"; windows that are closed in {', '.join(views)} stay closed"
    return Result(message=message)
