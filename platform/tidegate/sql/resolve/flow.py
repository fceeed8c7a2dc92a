"""What a query reads: rows on their way from relations and views to a result, with what is known of every column.

Every step knows which of its columns still carry a watermark, and why the others do not (D1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from sqlglot import exp

from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.objects import Input, Node, Over, Relation, SystemTable, View
from tidegate.sql.dialect.codes import error, unsupported
from tidegate.sql.dialect.dialect import Read, to_spark
from tidegate.sql.dialect.query import Query, input_role
from tidegate.sql.dialect.system_names import NAMES
from tidegate.sql.dialect.text import Text, node_span
from tidegate.sql.grammar.syntax import Name
from tidegate.sql.resolve.hidden import log_columns
from tidegate.sql.resolve.reach import Reach, Ways, between
from tidegate.sql.resolve.scope import ColumnScope, LostWatermark, ScopeColumn, known
from tidegate.watermark import Derived, Identity, Sessions, TimeKind, Window, least, shift, substitute

#: Where a row stands in its log; rows of one relation keep it until they are joined, united or grouped.
PLACE = ("_source_partition", "_offset")


@dataclass(frozen=True)
class Item:
    """One column of a SELECT: `node` is resolved over the scope, `column` what is known of it, under its new name."""

    name: Name
    node: exp.Expr
    written: exp.Expr
    column: ScopeColumn


@dataclass(frozen=True)
class WindowTable:
    """The window function that gave a flow its `window_start` and `window_end`, over the column `time`; for SESSION
    `window` is None, and `sessions` of rows that agree in `keys`, resolved."""

    time: ScopeColumn
    window: Window | None
    sessions: Sessions | None = None
    keys: tuple[exp.Expr, ...] = ()


@dataclass(frozen=True)
class Flow:
    """`rows` is a FROM item that yields `columns` and the `hidden` ones. `name` is what the query may call it,
    `relation` the one relation whose rows these are, if it is one. `reads`: the numbers of its inputs. `window`: the
    window function that it just went through. `open_sql`, `open_time`: every session and what they are over (its
    `spans`: what to read for one), if there was SESSION. `over`, `over_time`: OVER windows in event time that it went
    through, for the query that reads them, and the column that orders them; `ahead`: how many ticks their frames reach
    ahead, None by rows or sessions. `ways`: the inputs that have a part in a row."""

    name: str
    columns: tuple[ScopeColumn, ...]
    rows: exp.Expr
    hidden: tuple[str, ...]
    reads: tuple[int, ...]
    nodes: tuple[Node, ...]
    relation: Relation | None = None
    window: WindowTable | None = None
    open_sql: Query | None = None
    open_time: ScopeColumn | None = None
    over: Callable[[Query], Over] | None = None
    over_time: ScopeColumn | None = None
    ahead: int | None = 0
    merged: Mapping[frozenset[str], ScopeColumn] = field(default_factory=dict)
    ways: Ways = ()

    def scope(self, text: Text) -> ColumnScope:
        """Its columns in sight, and the names that may stand before them."""
        qualifiers = frozenset(c.qualifier for c in self.columns if c.qualifier) or {self.name.casefold()}
        relation = self.relation
        # A relation as it is, not what is made of it.
        plain = relation is not None and relation.name == self.name and isinstance(self.rows, Read)
        kind = f'{relation.kind} "{self.name}"' if relation is not None and plain else f'"{self.name}"'
        what = f"in {kind}" if len(qualifiers) == 1 else "here"
        return ColumnScope(text, self.columns, frozenset(qualifiers), what, merged=self.merged)

    def everything(self) -> tuple[str, ...]:
        """The names of all that `rows` yields, each once: `$offset` in a query is one of the hidden ones."""
        return tuple(dict.fromkeys([*(c.name for c in self.columns), *self.hidden]))

    def carriers(self) -> tuple[ScopeColumn, ...]:
        """The columns that carry a watermark."""
        return tuple(c for c in self.columns if c.derived is not None)

    def node(self, name: str) -> Node:
        """This step, for `explain`."""
        return node(name, self.columns)


@dataclass
class Reader:
    """One query being read: its text, what it can name, and what it has read so far. The number of an input is its
    place in `inputs`; how much of it a slice needs is known at the end."""

    text: Text
    catalog: Catalog
    inputs: list[Input] = field(default_factory=list)
    gates: dict[str, Relation] = field(default_factory=dict)
    windows: int = 0

    def read(self, name: Name) -> Flow:
        """A relation or view by name. Raises TG201; TG106 for system tables."""
        where = self.text.at(name.span)
        found = self.catalog.get(name.text, where)
        if isinstance(found, SystemTable):
            raise unsupported("a view over a system table", where, "read its source or table instead")
        return self.relation(found) if isinstance(found, Relation) else self.view(found)

    def relation(self, relation: Relation) -> Flow:
        """Its on-time rows."""
        number = len(self.inputs)
        time = relation.watermark.column if relation.watermark else None
        self.inputs.append(Input(relation.name, time))
        columns = tuple(
            ScopeColumn(
                c.name,
                known(c.type),
                Identity(number) if c.name == time else None,
                {number: (0, 0)} if c.name == time else {},
                starred=c.name not in NAMES,
            )
            for c in relation.columns
        )
        columns += log_columns(self.text, relation)
        reads = f"{relation.kind} {relation.name}" if relation.kind != "gate" else relation.name
        nodes, ways = (node(reads, columns),), (frozenset((number,)),)
        return Flow(
            relation.name,
            columns,
            Read(this=input_role(number)),
            PLACE,
            (number,),
            nodes,
            relation,
            ways=ways,
        )

    def view(self, view: View) -> Flow:
        """A view's rows (D3): what carries a watermark follows from its frontier."""
        number = len(self.inputs)
        carried = {c.column: c for c in view.watermarks}
        self.inputs.append(Input(view.name, "_window_end" if view.clock is not None else None))
        columns = []
        for column in view.columns:
            mark = carried.get(column.name) if TimeKind.from_spark_type(column.type) else None
            derived = substitute(mark.derived, {0: Identity(number)}) if mark is not None else None
            reach: dict[int, Reach] = {number: (mark.low, mark.high)} if mark is not None else {}
            columns.append(ScopeColumn(column.name, known(column.type), derived, reach))
        found = tuple(columns)
        nodes = (node(f"view {view.name}", found),)
        ways = (frozenset((number,)),)
        return Flow(view.name, found, Read(this=input_role(number)), (), (number,), nodes, ways=ways)

    def window(self) -> int:
        """A number for the next window function, below those of inputs, under which spans know its `window_end`."""
        self.windows += 1
        return -self.windows


def held(flow: Flow, column: ScopeColumn, until: Derived, lost: LostWatermark) -> Flow:
    """The flow whose rows are not there before `until`, a mark on the scale of its `column`, is beyond its value.

    A row that is still to come has a value of `column` at or above `until`, and then of the others no less than what is
    known of how far they lie from it in every row. Where nothing is known they have no watermark any more: `lost`.
    """
    columns = []
    for one in flow.columns:
        if one.derived is not None:
            low = 0 if one.name == column.name else between(column.spans, one.spans, flow.ways)[0]
            bounded = None if low is None else least(one.derived, shift(until, low))
            one = (
                replace(one, derived=bounded) if bounded else replace(one, derived=None, spans={}, lost=lost)
            )
        columns.append(one)
    return replace(flow, columns=tuple(columns))


def losing(flow: Flow, lost: LostWatermark) -> Flow:
    """The flow whose columns have all lost their watermarks."""
    return replace(
        flow,
        columns=tuple(
            replace(c, derived=None, spans={}, lost=lost) if c.derived is not None else c
            for c in flow.columns
        ),
    )


def node(name: str, columns: tuple[ScopeColumn, ...]) -> Node:
    """A step for `explain`: the columns that carry a watermark, and those that lost it here."""
    carried = tuple((c.called, c.derived) for c in columns if c.derived is not None)
    return Node(name, carried, tuple((c.called, c.lost.reason) for c in columns if c.lost is not None))


def time_kind(column: ScopeColumn) -> TimeKind:
    """The kind of a column that carries a watermark."""
    kind = TimeKind.from_spark_type(str(column.type))
    assert kind is not None, f"{column.name} is {column.type}"
    return kind


def named(flow: Flow, alias: str | None) -> Flow:
    """The flow under another name."""
    if not alias:
        return flow
    return replace(flow, name=alias, columns=tuple(replace(c, qualifier=None) for c in flow.columns))


def relation_name(text: Text, item: exp.Expr, clause: str) -> Name:
    """A table in FROM, or a name as an argument, which the parser takes for a column."""
    if not isinstance(item, exp.Table | exp.Column) or not isinstance(item.this, exp.Identifier):
        hint = "write the name of a source, table, view or CTE, or (SELECT …)"
        raise error("TG310", f"{clause} needs a relation", text.at(node_span(item)), hint)
    parts = item.parts
    if len(parts) > 1:
        hint = (
            f"write {parts[-1].name}; SHOW SOURCES, SHOW TABLES and SHOW MATERIALIZED VIEWS list what exists"
        )
        raise error("TG201", "schema-qualified names are not supported", text.at(node_span(item)), hint)
    return Name(parts[0].name, node_span(parts[0]))


@lru_cache(1024)
def quoted(name: str) -> str:
    """A name in backticks."""
    return to_spark(exp.to_identifier(name, quoted=True))
