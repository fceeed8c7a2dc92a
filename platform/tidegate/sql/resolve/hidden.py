"""The hidden columns of logs in queries: `$rowtime`, `$partition`, `$offset`, of messages `$key` and `$headers` (W12),
and what CURRENT_WATERMARK stands for (W14).

Spark's views have no hidden columns. So a query that asks for one reads the relation under another name, with these
columns, and every `*` leaves them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from tidegate.sql.catalog.objects import Object, Relation, SystemTable
from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.system_names import HEADERS, KEY, OFFSET, PARTITION, ROWTIME, WATERMARK
from tidegate.sql.dialect.text import Text
from tidegate.sql.resolve.scope import ScopeColumn, known, name_location


@dataclass(frozen=True)
class HiddenColumn:
    """`name`: in queries; `stored`: in the log; `type`: Spark DDL."""

    name: str
    stored: str
    type: str


def hidden_columns(relation: Relation, current: bool = False) -> tuple[HiddenColumn, ...]:
    """Those that a query over the relation's log may name. `current`: over what a table with a PRIMARY KEY holds, which
    keeps of a row only where and when it came."""
    messages = {} if current and relation.primary_key else dict(relation.message_columns)
    return message_columns(messages)


def message_columns(messages: Mapping[str, str]) -> tuple[HiddenColumn, ...]:
    """The hidden columns where a log keeps these of messages (`Relation.message_columns`)."""
    found = [
        HiddenColumn(ROWTIME, "_rowtime" if messages else "_arrival", "timestamp"),
        HiddenColumn(PARTITION, "_source_partition", "string"),
        HiddenColumn(OFFSET, "_offset", "bigint"),
    ]
    names = ((KEY, "_key"), (HEADERS, "_headers"))
    found += [HiddenColumn(name, stored, messages[stored]) for name, stored in names if stored in messages]
    return tuple(found)


def rowtime_stored(relation: Relation) -> str:
    """What `$rowtime` is in the relation's log."""
    return hidden_columns(relation)[0].stored


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

    @property
    def columns(self) -> tuple[str, ...]:
        """Its hidden columns that a query may name."""
        return tuple(c.name for c in hidden_columns(self.relation, current=isinstance(self.found, Relation)))

    def hide(self) -> str:
        """Read it with its hidden columns; its name in the catalog."""
        self.hidden = True
        self.node.set("this", exp.to_identifier(hidden_name(self.name), quoted=True))
        return self.name


def log_table(found: Object | SystemTable, node: exp.Table) -> LogTable | None:
    """The log that an item of FROM reads; None for a view, and for `$watermarks`."""
    if isinstance(found, Relation):
        return LogTable(found, found, node)
    if (
        isinstance(found, SystemTable)
        and isinstance(found.relation, Relation)
        and found.suffix != "watermarks"
    ):
        return LogTable(found, found.relation, node)
    return None


def log_columns(text: Text, relation: Relation) -> tuple[ScopeColumn, ...]:
    """The hidden columns as a view's query sees them: not in `*`, and under their stored names inside. None where the
    text speaks of no such thing, so that no query carries them in vain."""
    spoken = text.sql.lower()
    columns = [c for c in scope_columns(relation) if c.called in spoken]
    time = relation.time_column
    # What a table with a PRIMARY KEY holds is what its changes left; each of them had a watermark of its own.
    if time is not None and not relation.primary_key and "current_watermark" in spoken:
        columns.append(ScopeColumn("_wm", known(time.type), written=WATERMARK, starred=False))
    return tuple(columns)


def scope_columns(relation: Relation) -> list[ScopeColumn]:
    """The hidden columns that can be named, in sight of a query over the relation's rows."""
    return [
        ScopeColumn(c.stored, known(c.type), written=c.name, starred=False)
        for c in hidden_columns(relation, current=True)
        if relation.column(c.name) is None
    ]


def is_current_watermark(node: exp.Expr) -> bool:
    """Whether this is a call of CURRENT_WATERMARK."""
    return isinstance(node, exp.Anonymous) and node.name.lower() == "current_watermark"


def replace_current_watermark(
    text: Text, call: exp.Anonymous, column: exp.Column, log: LogTable | None, owner: str
) -> None:
    """Put the hidden column in the call's place. Raises TG323 if `column` is not what the log has a watermark on."""
    watermark = log.relation.watermark if log is not None else None
    if log is not None and log.relation.primary_key and isinstance(log.found, Relation):
        hint = f'select the watermark of each change instead: SELECT … FROM "{log.name}$raw"'
        message = (
            f'the rows of "{log.name}" result from changes, and each change was judged by a '
            "watermark of its own"
        )
        raise error("TG323", message, name_location(text, call), hint)
    if watermark is None or watermark.column.casefold() != column.name.casefold():
        where = name_location(text, call)
        hint = "a view has no watermark, nor has a column without WATERMARK FOR"
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
            for column in (*logs[name].columns, WATERMARK)
        ]
        star.set("except_", [*(star.args.get("except_") or ()), *columns])
