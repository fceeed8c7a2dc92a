"""The hidden columns of logs in ordinary queries: `$rowtime` (W12) and what CURRENT_WATERMARK stands for (W14).

Spark's views have no hidden columns. So a query that asks for one reads the relation under another name, with these
columns, and every `*` leaves them out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from tidegate.sql.catalog import Object, Relation, SystemTable
from tidegate.sql.codes import error
from tidegate.sql.scope import ScopeColumn, known, name_location
from tidegate.sql.system_names import ROWTIME, WATERMARK
from tidegate.sql.text import Text

HIDDEN_COLUMNS = (ROWTIME, WATERMARK)


def hidden_name(name: str) -> str:
    """What a relation or system table is called where it is read with its hidden columns."""
    return f"{name}$hidden"


@dataclass
class LogTable:
    """A source, table or system table in FROM. `node` is renamed once a hidden column of it is used."""

    found: Relation | SystemTable
    relation: Relation
    node: exp.Table
    hidden: bool = False

    @property
    def name(self) -> str:
        return self.found.name

    def hide(self) -> str:
        """Read it with its hidden columns; its name in the catalog."""
        self.hidden = True
        self.node.set("this", exp.to_identifier(hidden_name(self.name), quoted=True))
        return self.name


def log_table(found: Object | SystemTable, node: exp.Table) -> LogTable | None:
    """The log that an item of FROM reads; None for a view, and for `$watermarks`."""
    if isinstance(found, Relation):
        return LogTable(found, found, node)
    if isinstance(found, SystemTable) and found.suffix != "watermarks":
        return LogTable(found, found.relation, node)
    return None


def log_columns(text: Text, relation: Relation) -> tuple[ScopeColumn, ...]:
    """The hidden columns as a view's query sees them: not in `*`, and under their stored names inside. None where the
    text speaks of no such thing, so that no query carries them in vain."""
    if re.search(r"\$rowtime|current_watermark", text.sql, re.IGNORECASE) is None:
        return ()
    columns = []
    if relation.column(ROWTIME) is None:
        columns.append(ScopeColumn("_arrival", known("timestamp"), written=ROWTIME, starred=False))
    time = relation.time_column
    # What a table with a PRIMARY KEY holds is what its changes left; each of them had a watermark of its own.
    if time is not None and not relation.primary_key:
        columns.append(ScopeColumn("_wm", known(time.type), written=WATERMARK, starred=False))
    return tuple(columns)


def is_current_watermark(node: exp.Expr) -> bool:
    """Whether this is a call of CURRENT_WATERMARK."""
    return isinstance(node, exp.Anonymous) and node.name.lower() == "current_watermark"


def replace_current_watermark(
    text: Text, call: exp.Anonymous, column: exp.Column, log: LogTable | None, owner: str
) -> None:
    """Put the hidden column in the call's place. Raises TG323 if `column` is not what the log has a watermark on."""
    watermark = log.relation.watermark if log is not None else None
    if log is not None and log.relation.primary_key and isinstance(log.found, Relation):
        hint = f'its changes have one each: SELECT … FROM "{log.name}$raw"'
        message = f'the rows of "{log.name}" come from changes, each judged by a watermark of its own'
        raise error("TG323", message, name_location(text, call), hint)
    if watermark is None or watermark.column.casefold() != column.name.casefold():
        where = name_location(text, call)
        hint = "a view and a column without WATERMARK FOR have none"
        if watermark is not None:
            hint = f"write CURRENT_WATERMARK({watermark.column})"
        raise error("TG323", f'"{column.name}" carries no watermark here', where, hint)
    hidden = exp.column(
        exp.to_identifier(WATERMARK, quoted=True), table=exp.to_identifier(owner, quoted=True)
    )
    # An item of SELECT keeps a name that people can read.
    is_item = isinstance(call.parent, exp.Select) and call.arg_key == "expressions"
    call.replace(exp.alias_(hidden, "current_watermark", quoted=True) if is_item else hidden)


def leave_out(select: exp.Select, logs: Mapping[str, LogTable]) -> None:
    """Keep the hidden columns out of every `*` of a SELECT."""
    hidden = [name for name, log in logs.items() if log.hidden]
    for item in select.expressions if hidden else ():
        if not item.is_star:
            continue
        star = item.this if isinstance(item, exp.Column) else item
        names = [n for n in hidden if not isinstance(item, exp.Column) or n == item.table.casefold()]
        # Behind a qualifier the names stand alone.
        table = None if isinstance(item, exp.Column) else exp.to_identifier
        columns = [
            exp.column(
                exp.to_identifier(column, quoted=True), table=table(name, quoted=True) if table else None
            )
            for name in names
            for column in HIDDEN_COLUMNS
        ]
        star.set("except_", [*(star.args.get("except_") or ()), *columns])
