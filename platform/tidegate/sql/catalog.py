"""What is defined: sources, tables and views, and the system tables that come with each source and table."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field

from tidegate.errors import Location, TidegateError, did_you_mean
from tidegate.sql.codes import error
from tidegate.sql.connectors import Guard
from tidegate.sql.formats import Format, SchemaReader
from tidegate.sql.front_matter import Annotations, Block
from tidegate.sql.gate_options import GateOptions
from tidegate.sql.option_types import ConnectorOptions
from tidegate.sql.sink_connectors import Sink, Sinks
from tidegate.watermark import Derived, GateConfig, PlainWindows, Strategy, TimeKind, Window

# Columns of the log and of stored views, and names that view queries use inside.
_LOG = """_outcome _source_partition _offset _arrival _epoch _wm _strategy _proc_time _reason _watermark _late_by
    _raw _progress _why _rowtime _key _headers $rowtime $watermark $partition $offset $key $headers"""
_VIEW = "_window_start _window_end _rows _open _tick _ordinal _revision _w _w_session"
_TABLE_WITH_KEY = "_op _since _tombstone"
_ICEBERG = "_partition _file _pos _deleted _spec_id _row_id"
RESERVED_COLUMNS = frozenset(" ".join([_LOG, _VIEW, _TABLE_WITH_KEY, _ICEBERG]).split())
SYSTEM_TABLES = ("late", "rejected", "raw", "watermarks")
REVISIONS = "revisions"  # of a view (B2)


@dataclass(frozen=True)
class Column:
    """`type` is Spark DDL, or `unknown` for a view's column that only Spark can tell. `generated` is Spark
    SQL over the columns before it, already of the column's type."""

    name: str
    type: str
    nullable: bool = True
    generated: str | None = None
    comment: str | None = None


@dataclass(frozen=True)
class Watermark:
    """`expression` is the strategy as written. `max_future_skew` (W9) and `by_batch`: as in `GateConfig`."""

    column: str
    kind: TimeKind
    strategy: Strategy
    expression: str
    max_future_skew: int | None = None
    by_batch: bool = False


@dataclass(frozen=True)
class Relation:
    """A source or a table: a log of rows. `definition` is the statement as written, `description` the comment
    right above it.

    `primary_key`: the log's rows are changes by key (upsert or delete), and what SELECT shows is the last one of each.
    `ttl`: rows expire by event time (T1, T2). `gate_options`: of WITH (…), as they were given. `follows`: of an
    implicit gate, how its watermark column derives from that of the relation below (D1); None: it is another time.
    """

    kind: str
    name: str
    columns: tuple[Column, ...]
    watermark: Watermark | None
    connector: ConnectorOptions | None
    format: Format | None
    definition: str
    description: str | None = None
    location: Location | None = field(default=None, compare=False)
    primary_key: tuple[str, ...] = ()
    ttl: bool = False
    gate_options: GateOptions = field(default_factory=GateOptions)
    follows: Derived | None = None

    def column(self, name: str) -> Column | None:
        """The column of this name, whatever its case."""
        return _by_name(self.columns, name)

    @property
    def time_column(self) -> Column | None:
        """The watermark column."""
        return self.column(self.watermark.column) if self.watermark else None

    @property
    def message_columns(self) -> tuple[tuple[str, str], ...]:
        """(name, Spark type) of what its log keeps of messages beside their values; () but for Kafka."""
        return self.connector.message_columns if self.connector is not None else ()

    @property
    def gate(self) -> GateConfig | None:
        """What the gate needs to know; None without a watermark: nothing is late."""
        if self.watermark is None:
            return None
        mark = self.watermark
        return GateConfig(mark.kind, mark.strategy, self.ttl, mark.max_future_skew, mark.by_batch)


@dataclass(frozen=True)
class Node:
    """One step of a view for `explain`: what it is, the watermark of each column that has one, and why others lost
    theirs."""

    name: str
    columns: tuple[tuple[str, Derived], ...]
    lost: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Input:
    """One place where a view's query reads a relation or another view; `{input_0}`, `{input_1}`, … in its SQL.

    `time_column`: what `low` and `high` are about: a relation's watermark column, `_window_end` of a view, None
    where the whole is read. Rows with a time < frontier + `low` are in no window that ends after the view's frontier;
    rows with a time >= clock + `high` are in none that is final when the view's clock stands there (ticks; None:
    no such bound). `lookup`: a table joined without time, read whole at its newest snapshot (B1 records which).
    """

    name: str
    time_column: str | None
    low: int | None = None
    high: int | None = None
    lookup: bool = False


@dataclass(frozen=True)
class Accounts:
    """How the rows of the one relation that a view aggregates are counted per window (A1). `rows_sql` reads `{input_0}`
    and yields `_window_start`, `_window_end`, `_source_partition`, `_offset` and the view's `group_columns` for every
    row that counts; windows are over `time_column` plus `shift` ticks."""

    window: Window
    time_column: str
    shift: int
    rows_sql: str


@dataclass(frozen=True)
class OverFunction:
    """One call with OVER in event time (C5). `name`: its column in `Over.query_sql`. `keys`, `order`: SQL over
    `Over.rows_sql`'s columns: PARTITION BY, and the whole ORDER BY (time first, ascending). `function`: its name in
    lower case; `call`: the call without OVER; `argument`: what is aggregated, if anything.

    `unit` is "rows", "range" or "session"; `preceding` and `following` are rows (or ticks for "range"): how far the
    frame goes back and ahead, negative where it starts after the row or ends before it; `preceding` None is unbounded.
    For "session" `preceding` is the gap in ticks and `following` 0. lag(x, n) looks n rows back (preceding n, following
    0), lead(x, n) n rows ahead (preceding 0, following n); row_number, rank and dense_rank are "rows", unbounded.
    `exclude_current`: EXCLUDE CURRENT ROW. `ignore_nulls`: of first_value and last_value. `type`: Spark DDL, or None if
    only Spark can tell.
    """

    name: str
    function: str
    call: str
    keys: tuple[str, ...]
    order: tuple[str, ...]
    unit: str
    preceding: int | None
    following: int | None
    argument: str | None = None
    exclude_current: bool = False
    ignore_nulls: bool = False
    type: str | None = None


@dataclass(frozen=True)
class Over:
    """OVER windows in event time (C5): the engine carries the rows and values that later rows need.

    `rows_sql` reads the inputs and yields the rows in question: every column that `query_sql` or a function needs,
    under names without clashes. `time`: its column that orders (never NULL). `ties`: the columns that decide
    between rows of one time, after the ORDER BY of the call (C4): partition and offset, else all columns.
    `query_sql` reads `{over}` (those columns, the functions' columns, `_window_start`: the time, `_window_end`: the
    watermark from which on the row's values are final, NULL while nobody knows it) and yields what `View.query_sql`
    does.
    """

    rows_sql: str
    time: str
    ties: tuple[str, ...]
    functions: tuple[OverFunction, ...]
    query_sql: str


@dataclass(frozen=True)
class Carried:
    """A view's column that carries a watermark (D3): `derived` from the view's own frontier (`Identity()`). The
    `_window_end` of a row lies in [value + low, value + high], ticks; None: no such bound."""

    column: str
    derived: Derived
    low: int | None
    high: int | None


@dataclass(frozen=True)
class View:
    """A materialized view.

    Every result row lies in a window [`_window_start`, `_window_end`): of TUMBLE, HOP, CUMULATE or SESSION; or, where
    the query groups or sorts by a watermark column, the one tick of that column's value (C4, C6). A row is final iff
    `clock` >= `_window_end`; `clock` follows from the inputs' marks and is on the scale of `_window_end`, whose kind is
    `kind`. Without a `clock` no row is ever final: the view is recomputed as a whole.

    `query_sql` is Spark SQL that reads `{input_0}`, … (a relation's on-time rows with `_source_partition`, `_offset`
    and `_arrival`; a view's rows with `_window_end`) and yields the view's columns, `_window_start`, `_window_end`,
    `_rows` (source rows in the group, A1; 1 without a group) and, for C4, the columns of `order`.
    `order`: what decides between rows of one `_window_end` when sorted rows are released (C4); () for groups.
    `open_sql`: of a view of sessions: every session of `{input_0}` with `_window_start` and `_window_end`, to find the
    earliest open one. `watermarks`: the columns that carry one, from this view's own frontier (D3).
    `gates`: implicit relations of WATERMARK(…) that the inputs name (W14). `plain`: all that `query_sql` says, where it
    says no more than that.
    """

    name: str
    columns: tuple[Column, ...]
    inputs: tuple[Input, ...]
    emit_on_window_close: bool
    kind: TimeKind
    clock: Derived | None
    group_columns: tuple[str, ...]
    query_sql: str
    order: tuple[str, ...]
    over: Over | None
    open_sql: str | None
    accounts: Accounts | None
    plain: PlainWindows | None
    watermarks: tuple[Carried, ...]
    derived: tuple[Node, ...]
    gates: tuple[Relation, ...]
    definition: str
    description: str | None = None
    location: Location | None = field(default=None, compare=False)

    def column(self, name: str) -> Column | None:
        """The column of this name, whatever its case."""
        return _by_name(self.columns, name)

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of what it reads, each once."""
        return tuple(dict.fromkeys(i.name for i in self.inputs))


@dataclass(frozen=True)
class SystemTable:
    """`<relation>$late`, `$rejected`, `$raw` or `$watermarks`; `<view>$revisions`, whose `relation` is the view.
    `stored`: each column's name in the table that is stored."""

    name: str
    relation: Relation | View
    suffix: str
    columns: tuple[Column, ...]
    stored: tuple[str, ...]

    def shown(self, stored: str) -> str:
        """The name here of a column of the log."""
        return self.columns[self.stored.index(stored)].name

    def column(self, name: str) -> Column | None:
        """The column of this name, whatever its case."""
        return _by_name(self.columns, name)


Object = Relation | View


class Catalog:
    """Names are looked up whatever their case; one name is one object."""

    def __init__(self, schemas: SchemaReader | None = None, guard: Guard | None = None) -> None:
        #: Says what connectors may not reach; None: they may reach everything.
        self.guard = guard
        #: Reads the files that AVRO and PROTOBUF sources name; None: their columns are taken as they are written.
        self.schemas = schemas
        self._objects: dict[str, Object] = {}
        self.sinks = Sinks()
        #: Front matter above the statements of files, and what it says, by name (`project/front_matter.py`).
        self.blocks: tuple[Block, ...] = ()
        self.annotations: dict[str, Annotations] = {}

    def __contains__(self, name: str) -> bool:
        return name.casefold() in self._objects or name in self.sinks

    def add(self, obj: Object) -> None:
        """Raises TG204 if the name is taken."""
        if obj.name in self:
            raise self._taken(obj)
        for gate in obj.gates if isinstance(obj, View) else ():
            self._objects.setdefault(gate.name.casefold(), gate)
        self._objects[obj.name.casefold()] = obj

    def find(self, name: str) -> Object | SystemTable | None:
        """The object or system table of this name, or None."""
        obj = self._objects.get(name.casefold())
        if obj is not None:
            return obj
        from tidegate.sql.system_tables import system_table_of  # it makes tables of what is defined here

        base, _, suffix = name.rpartition("$")
        return system_table_of(self._objects.get(base.casefold()), suffix.casefold())

    def get(self, name: str, location: Location | None = None) -> Object | SystemTable:
        """Raises TG201 with a suggestion."""
        obj = self.find(name)
        if obj is None and name in self.sinks:
            sink = self.sinks.find(name)
            hint = f"it only delivers {sink.upstream}: read that" if sink else None
            raise error("TG215", f'"{name}" is a sink', location, hint)
        if obj is None:
            known = [*self.names(), *(f"{r.name}${s}" for r in self.relations for s in SYSTEM_TABLES)]
            hint = did_you_mean(name, known)
            if hint is None and "$" not in name:
                hint = f"there are {', '.join(self.names())}" if self.names() else "nothing is defined yet"
            raise error("TG201", f'there is no source, table or view "{name}"', location, hint)
        return obj

    def having(self, view: View) -> Catalog:
        """This catalog, and the implicit gates of a view that may not be in it."""
        other = copy(self)
        other._objects = {g.name.casefold(): g for g in view.gates} | self._objects
        return other

    def replace(self, obj: Object) -> None:
        """Put an altered definition in the place of the one of this name. Raises TG201 if there is none."""
        self.get(obj.name)
        self._objects[obj.name.casefold()] = obj

    def drop(self, name: str) -> None:
        """Raises TG201 if there is no such object."""
        obj = self.get(name)
        del self._objects[name.casefold()]
        for gate in obj.gates if isinstance(obj, View) else ():
            if not self.readers(gate.name):
                del self._objects[gate.name.casefold()]

    @property
    def relations(self) -> tuple[Relation, ...]:
        """Sources and tables, without the implicit gates of WATERMARK(…)."""
        return tuple(o for o in self._objects.values() if isinstance(o, Relation) and o.kind != "gate")

    @property
    def views(self) -> tuple[View, ...]:
        """Materialized views, without the implicit ones of sinks."""
        return tuple(o for o in self._objects.values() if isinstance(o, View) and "$" not in o.name)

    def names(self) -> list[str]:
        """The names of relations and views in the order of definition, without the implicit gates and views."""
        return [
            o.name for o in self._objects.values() if "$" not in o.name and getattr(o, "kind", "") != "gate"
        ]

    def add_sink(self, sink: Sink) -> None:
        """With its implicit view, if it has one. Raises TG204 if the name is taken."""
        if sink.name in self:
            raise self._taken(sink)
        if sink.view is not None:
            self.add(sink.view)
        self.sinks.add(sink)

    def drop_sink(self, name: str) -> None:
        """With its implicit view. KeyError if there is no such sink."""
        sink = self.sinks.drop(name)
        if sink.view is not None:
            self.drop(sink.view.name)

    def _taken(self, obj: Object | Sink) -> TidegateError:
        taken = self._objects.get(obj.name.casefold()) or self.sinks.find(obj.name)
        return error("TG204", f'"{obj.name}" exists already', obj.location, _where(taken))

    def readers(self, name: str) -> tuple[View, ...]:
        """The views that read this object themselves, the implicit ones of sinks too."""
        views = (o for o in self._objects.values() if isinstance(o, View))
        return tuple(v for v in views if name.casefold() in (r.casefold() for r in v.reads))

    def order(self) -> list[Object]:
        """Every object after what it reads; otherwise in the order of definition."""

        def visit(obj: Object) -> Iterator[Object]:
            for name in reads(obj):
                yield from visit(self._objects[name.casefold()])
            yield obj

        return list({o.name: o for obj in self._objects.values() for o in visit(obj)}.values())


def reads(obj: Object) -> tuple[str, ...]:
    """What an object reads: a view its inputs, an implicit gate the relation that it stands on."""
    if isinstance(obj, View):
        return obj.reads
    upstream = getattr(obj.connector, "relation", None)
    return () if upstream is None else (upstream,)


def _by_name(columns: tuple[Column, ...], name: str) -> Column | None:
    return next((c for c in columns if c.name.casefold() == name.casefold()), None)


def _where(obj: Object | Sink | None) -> str | None:
    return f"it is defined at {obj.location.file}:{obj.location.line}" if obj and obj.location else None
