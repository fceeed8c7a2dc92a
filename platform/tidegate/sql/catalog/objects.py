"""What is defined: sources, tables, views and sinks, and the system tables that come with each."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.errors import Location
from tidegate.sql.dialect.query import Query
from tidegate.sql.options.formats import Format
from tidegate.sql.options.gate_options import GateOptions
from tidegate.sql.options.kafka_options import KafkaSinkOptions
from tidegate.sql.options.option_types import ConnectorOptions, SinkOptions
from tidegate.sql.options.sink_connectors import FilesystemSinkOptions, IcebergSinkOptions
from tidegate.watermark import Derived, GateConfig, PaneWindows, Strategy, TimeKind, Window

# Columns of the log and of stored views, and names that view queries use inside.
_LOG = """_outcome _source_partition _offset _arrival _epoch _wm _strategy _proc_time _reason _watermark _late_by
    _raw _progress _why _rowtime _key _headers $rowtime $watermark $partition $offset $key $headers"""
_VIEW = "_window_start _window_end _rows _open _tick _ordinal _revision _w _w_session"
_TABLE_WITH_KEY = "_op _since _tombstone"
_ICEBERG = "_partition _file _pos _deleted _spec_id _row_id"
RESERVED_COLUMNS = frozenset(" ".join([_LOG, _VIEW, _TABLE_WITH_KEY, _ICEBERG]).split())
RESERVED_BEGINNINGS = ("_key_", "_preceding_", "_argument_", "_over_")
#: Behind a sink's name: its own view, if it has a query.
VIEW_SUFFIX = "$rows"


def is_reserved(name: str) -> bool:
    """Whether tidegate has columns of this name, or of such names, beside those of a definition."""
    return name.casefold() in RESERVED_COLUMNS or name.casefold().startswith(RESERVED_BEGINNINGS)


@dataclass(frozen=True)
class CatalogColumn:
    """`type` is Spark DDL, or `unknown` for a view's column that only Spark can tell. `generated` is Spark
    SQL over the columns before it, already of the column's type. `renamed_from`: its name before, as its definition
    says it (E2). `taken_in`: no definition declares it (`plan/columns/taken_in.py`)."""

    name: str
    type: str
    nullable: bool = True
    generated: str | None = None
    comment: str | None = None
    renamed_from: str | None = None
    taken_in: bool = field(default=False, repr=False)


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
    implicit gate, how its watermark column derives from that of the relation below (D1); None: it is another time;
    `made_of`: by which columns of that one its own are made, in small letters; None: it has all of them, whatever they
    are.
    """

    kind: str
    name: str
    columns: tuple[CatalogColumn, ...]
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
    made_of: tuple[str, ...] | None = field(default=None, compare=False)

    def column(self, name: str) -> CatalogColumn | None:
        """The column of this name, whatever its case."""
        return _by_name(self.columns, name)

    @property
    def time_column(self) -> CatalogColumn | None:
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
class InputAsSeen:
    """A source or table as a view knows it whose query was written before its columns were changed (E2, E5).
    `relation`: with the columns of then; `number`: how many times its log had been changed by then
    (`plan/columns/changes.py`)."""

    relation: Relation
    number: int


@dataclass(frozen=True)
class Node:
    """One step of a view for `explain`: what it is, the watermark of each column that has one, and why others lost
    theirs."""

    name: str
    columns: tuple[tuple[str, Derived], ...]
    lost: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Input:
    """One place where a view's query reads a relation or another view: the roles `input_0`, `input_1`, … of its SQL.

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
    """How the rows of the one relation that a view aggregates are counted per window (A1). `rows_sql` reads `input_0`
    and yields `_window_start`, `_window_end`, `_source_partition`, `_offset` and the view's `group_columns` for every
    row that counts; windows are over `time_column` plus `shift` ticks."""

    window: Window
    time_column: str
    shift: int
    rows_sql: Query


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
    `query_sql` reads `over` (those columns, the functions' columns, `_window_start`: the time, `_window_end`: the
    watermark from which on the row's values are final, NULL while nobody knows it) and yields what `View.query_sql`
    does.
    """

    rows_sql: Query
    time: str
    ties: tuple[str, ...]
    functions: tuple[OverFunction, ...]
    query_sql: Query


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

    `query_sql` is Spark SQL that reads `input_0`, … (a relation's on-time rows with `_source_partition`, `_offset`
    and `_arrival`; a view's rows with `_window_end`) and yields the view's columns, `_window_start`, `_window_end`,
    `_rows` (source rows in the group, A1; 1 without a group) and, for C4, the columns of `order`.
    `order`: what decides between rows of one `_window_end` when sorted rows are released (C4); () for groups.
    `open_sql`: of a view of sessions: every session of `input_0` with `_window_start` and `_window_end`, to find the
    earliest open one; `session_keys`: its columns that are keys of SESSION. `watermarks`: the columns that carry one,
    from this view's own frontier (D3). `gates`: implicit relations of WATERMARK(…) that the inputs name (W14).
    `pane_windows`: all that `query_sql` says, where it says no more than that. `seen`: those of its inputs that it
    reads as they were before their columns were changed (`plan/columns/as_seen.py`). `renamed_from`: its name before,
    as its definition says.
    """

    name: str
    columns: tuple[CatalogColumn, ...]
    inputs: tuple[Input, ...]
    emit_on_window_close: bool
    kind: TimeKind
    clock: Derived | None
    group_columns: tuple[str, ...]
    query_sql: Query
    order: tuple[str, ...]
    over: Over | None
    open_sql: Query | None
    accounts: Accounts | None
    pane_windows: PaneWindows | None
    watermarks: tuple[Carried, ...]
    derived: tuple[Node, ...]
    gates: tuple[Relation, ...]
    definition: str
    session_keys: tuple[str, ...] = ()
    description: str | None = None
    location: Location | None = field(default=None, compare=False)
    seen: tuple[InputAsSeen, ...] = ()
    renamed_from: str | None = None

    def column(self, name: str) -> CatalogColumn | None:
        """The column of this name, whatever its case."""
        return _by_name(self.columns, name)

    def seen_as(self, name: str) -> InputAsSeen | None:
        """How it knows the input of this name, if that was changed since; None: as it is."""
        return next((one for one in self.seen if one.relation.name == name), None)

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of what it reads, each once."""
        return tuple(dict.fromkeys(i.name for i in self.inputs))


@dataclass(frozen=True)
class SystemTable:
    """`<relation>$late`, `$rejected`, `$raw` or `$watermarks`; `<view>$revisions` and `<view>$v1`, whose `relation` is
    the view.
    `stored`: each column's name in the table that is stored."""

    name: str
    relation: Relation | View
    suffix: str
    columns: tuple[CatalogColumn, ...]
    stored: tuple[str, ...]

    def shown(self, stored: str) -> str:
        """The name here of a column of the log."""
        return self.columns[self.stored.index(stored)].name

    def column(self, name: str) -> CatalogColumn | None:
        """The column of this name, whatever its case."""
        return _by_name(self.columns, name)


@dataclass(frozen=True)
class Sink:
    """Delivers the final rows of a view, or the on-time rows of a relation, to somewhere else: each once; and again
    what is amended later, if it upserts amendments (B2).

    `upstream`: what it delivers. `view`: with a query of its own, that query as a view called `<sink>$rows`, which is
    then also the upstream. `format`: how files are written; None where the connector has its own.
    """

    name: str
    upstream: str
    view: View | None
    connector: SinkOptions
    format: Format | None
    definition: str
    description: str | None = None
    location: Location | None = field(default=None, compare=False)

    @property
    def place(self) -> str:
        """Where the rows go: a folder, a table, a topic, or the console."""
        if isinstance(self.connector, FilesystemSinkOptions):
            return self.connector.path
        if isinstance(self.connector, KafkaSinkOptions):
            return self.connector.topic
        if isinstance(self.connector, IcebergSinkOptions):
            return self.connector.table or self.name
        return "console"


Object = Relation | View


def reads(obj: Object) -> tuple[str, ...]:
    """What an object reads: a view its inputs, an implicit gate the relation that it stands on."""
    if isinstance(obj, View):
        return obj.reads
    upstream = getattr(obj.connector, "relation", None)
    return () if upstream is None else (upstream,)


def _by_name(columns: tuple[CatalogColumn, ...], name: str) -> CatalogColumn | None:
    return next((c for c in columns if c.name.casefold() == name.casefold()), None)
