"""What is defined: sources, tables and views, and the system tables that come with each source and table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tidegate.errors import Location, did_you_mean
from tidegate.sql.codes import error
from tidegate.sql.connectors import ConnectorOptions, Format
from tidegate.watermark import Derived, GateConfig, Hop, Strategy, TimeKind, Tumble

# Columns of the log and of stored views, and names that view queries use inside.
RESERVED_COLUMNS = frozenset(
    [
        "_outcome",
        # Iceberg's own.
        "_partition",
        "_file",
        "_pos",
        "_deleted",
        "_spec_id",
        "_row_id",
        "_source_partition",
        "_offset",
        "_arrival",
        "_epoch",
        "_wm",
        "_reason",
        "_watermark",
        "_late_by",
        "_raw",
        "_progress",
        "_window_start",
        "_window_end",
        "_rows",
        "_open",
        "_w",
    ]
)
SYSTEM_TABLES = ("late", "rejected", "raw", "watermarks")


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
    """`expression` is the strategy as written."""

    column: str
    kind: TimeKind
    strategy: Strategy
    expression: str


@dataclass(frozen=True)
class Relation:
    """A source or a table: a log of rows. `definition` is the statement as written, `description` the comment
    right above it."""

    kind: str
    name: str
    columns: tuple[Column, ...]
    watermark: Watermark | None
    connector: ConnectorOptions | None
    format: Format | None
    definition: str
    description: str | None = None
    location: Location | None = field(default=None, compare=False)

    def column(self, name: str) -> Column | None:
        """The column of this name, whatever its case."""
        return _by_name(self.columns, name)

    @property
    def time_column(self) -> Column | None:
        """The watermark column."""
        return self.column(self.watermark.column) if self.watermark else None

    @property
    def gate(self) -> GateConfig | None:
        """What the gate needs to know; None without a watermark: nothing is late."""
        return GateConfig(self.watermark.kind, self.watermark.strategy) if self.watermark else None


@dataclass(frozen=True)
class Node:
    """One step of a view for `explain`: what it is, and the watermark of each column that has one."""

    name: str
    columns: tuple[tuple[str, Derived], ...]


@dataclass(frozen=True)
class View:
    """A materialized view over windows of one source or table.

    `time_column` is the upstream's watermark column; windows are over it plus `shift` ticks. `query_sql` and
    `rows_sql` are Spark SQL that reads `{slice}`: the upstream's on-time rows, with `_source_partition` and
    `_offset`. `query_sql` yields the view's columns, `_window_start`, `_window_end` and `_rows` (source rows
    in the group, A1); `rows_sql` yields `_window_start`, `_window_end`, `_source_partition`, `_offset` and
    `group_columns`.
    """

    name: str
    columns: tuple[Column, ...]
    upstream: str
    emit_on_window_close: bool
    window: Tumble | Hop
    kind: TimeKind
    time_column: str
    shift: int
    group_columns: tuple[str, ...]
    query_sql: str
    rows_sql: str
    derived: tuple[Node, ...]
    definition: str
    description: str | None = None
    location: Location | None = field(default=None, compare=False)

    def column(self, name: str) -> Column | None:
        """The column of this name, whatever its case."""
        return _by_name(self.columns, name)


@dataclass(frozen=True)
class SystemTable:
    """`<relation>$late`, `$rejected`, `$raw` or `$watermarks`. `stored`: each column's name in the log."""

    name: str
    relation: Relation
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

    def __init__(self) -> None:
        self._objects: dict[str, Object] = {}

    def __contains__(self, name: str) -> bool:
        return name.casefold() in self._objects

    def add(self, obj: Object) -> None:
        """Raises TG204 if the name is taken."""
        if obj.name in self:
            taken = self._objects[obj.name.casefold()]
            raise error("TG204", f'"{obj.name}" exists already', obj.location, _where(taken))
        self._objects[obj.name.casefold()] = obj

    def find(self, name: str) -> Object | SystemTable | None:
        """The object or system table of this name, or None."""
        obj = self._objects.get(name.casefold())
        if obj is not None:
            return obj
        base, dollar, suffix = name.rpartition("$")
        relation = self._objects.get(base.casefold())
        if dollar and suffix.casefold() in SYSTEM_TABLES and isinstance(relation, Relation):
            return system_table(relation, suffix.casefold())
        return None

    def get(self, name: str, location: Location | None = None) -> Object | SystemTable:
        """Raises TG201 with a suggestion."""
        obj = self.find(name)
        if obj is None:
            known = [*self.names(), *(f"{r.name}${s}" for r in self.relations for s in SYSTEM_TABLES)]
            hint = did_you_mean(name, known)
            if hint is None and "$" not in name:
                hint = f"there are {', '.join(self.names())}" if self.names() else "nothing is defined yet"
            raise error("TG201", f'there is no source, table or view "{name}"', location, hint)
        return obj

    def drop(self, name: str) -> None:
        """Raises TG201 if there is no such object."""
        self.get(name)
        del self._objects[name.casefold()]

    @property
    def relations(self) -> tuple[Relation, ...]:
        return tuple(o for o in self._objects.values() if isinstance(o, Relation))

    @property
    def views(self) -> tuple[View, ...]:
        return tuple(o for o in self._objects.values() if isinstance(o, View))

    def names(self) -> list[str]:
        """All names in the order of definition."""
        return [o.name for o in self._objects.values()]

    def readers(self, name: str) -> tuple[View, ...]:
        """The views that read this object."""
        return tuple(v for v in self.views if v.upstream.casefold() == name.casefold())

    def order(self) -> list[Object]:
        """Every object after what it reads; otherwise in the order of definition."""

        def visit(obj: Object) -> Iterator[Object]:
            if isinstance(obj, View):
                yield from visit(self._objects[obj.upstream.casefold()])
            yield obj

        return list({o.name: o for obj in self._objects.values() for o in visit(obj)}.values())


def system_table(relation: Relation, suffix: str) -> SystemTable:
    """The columns of `$late`, `$rejected`, `$raw` and `$watermarks`: what was judged, where it stood in the
    log, and why. Times of the watermark have the type of the time column (bigint if there is none)."""
    time = relation.time_column
    time_type = time.type if time else "bigint"
    late_by = {
        "timestamp_ntz": "interval day to second",
        "timestamp": "interval day to second",
        "date": "int",
    }
    if suffix == "watermarks":
        kinds = {
            "epoch": "bigint",
            "at": "timestamp",
            "partition": "string",
            "watermark": time_type,
            "published": time_type,
            "state": "string",
            "next_offset": "bigint",
            "on_time": "bigint",
            "late": "bigint",
            "rejected": "bigint",
            "max_event_time": time_type,
        }
        history = tuple(Column(name, kind) for name, kind in kinds.items())
        return SystemTable(f"{relation.name}$watermarks", relation, suffix, history, tuple(kinds))
    place = {
        "_source_partition": ("partition", "string"),
        "_offset": ("offset", "bigint"),
        "_arrival": ("arrival", "timestamp"),
        "_epoch": ("epoch", "bigint"),
    }
    missed = {"_wm": ("watermark", time_type)}
    behind = {"_late_by": ("late_by", late_by.get(time_type, "bigint"))}
    why = {"_reason": ("reason", "string"), "_raw": ("raw", "string")}
    system = {
        "late": missed | behind | place,
        "rejected": why | place,
        "raw": {"_outcome": ("outcome", "string")} | missed | why | place,
    }[suffix]
    own = tuple(Column(c.name, c.type, comment=c.comment) for c in relation.columns)
    # A column of the user's own keeps its name; the system's then has an underscore in front.
    added = tuple(
        Column(f"_{name}" if relation.column(name) else name, kind) for name, kind in system.values()
    )
    stored = (*(c.name for c in own), *system)
    return SystemTable(f"{relation.name}${suffix}", relation, suffix, (*own, *added), stored)


def _by_name(columns: tuple[Column, ...], name: str) -> Column | None:
    return next((c for c in columns if c.name.casefold() == name.casefold()), None)


def _where(obj: Object) -> str | None:
    return f"it is defined at {obj.location.file}:{obj.location.line}" if obj.location else None
