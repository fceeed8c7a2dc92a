"""The stages that bring one source or view up to date, in order: source, gate, log, slice, view.

Each stage is data. What it says about itself (`facts`) is what `explain` prints; which columns carry a
watermark after it, and how that follows from the source's, is D1.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.plan import differences as differ
from tidegate.plan.differences import Difference
from tidegate.sql.catalog import SYSTEM_TABLES, Catalog, Object, Relation, SystemTable, View
from tidegate.sql.connectors import FilesystemOptions
from tidegate.sql.types import display
from tidegate.watermark import Derived, Hop, Identity, Shift, TimeKind, Tumble, WindowEnd, WindowStart


@dataclass(frozen=True)
class ColumnWatermark:
    """A column that carries a watermark after a stage, and how it follows from the source's `watermark`
    (D1).
    """

    column: str
    derived: Derived
    kind: TimeKind

    def text(self) -> str:
        """`watermark - 1 hour`, `tumble_end(watermark, 1 hour)`."""
        return self.derived.describe(self.kind)

    def at(self, watermark: int | None) -> str:
        """Its value when the source's watermark is `watermark` (None: `none yet`)."""
        return self.kind.format(self.derived.at(watermark))


@dataclass(frozen=True)
class SourceStage:
    """Reads rows: from a connector, or for a table from INSERTs."""

    name: str
    kind: str
    connector: str | None
    options: tuple[tuple[str, str], ...]
    format: str | None
    columns: tuple[tuple[str, str], ...]
    node: str = "source"
    watermarks: tuple[ColumnWatermark, ...] = ()
    differences: tuple[Difference, ...] = ()

    def facts(self) -> list[tuple[str, str]]:
        """(label, text) lines."""
        if self.connector is None:
            return [("reads", "rows of INSERT statements, in their order; one partition")]
        lines = [("reads", f"connector {self.connector}" + (f", {self.format}" if self.format else ""))]
        return [*lines, *((name, value) for name, value in self.options)]


@dataclass(frozen=True)
class GateStage:
    """Judges every row once (W1, W3, W5)."""

    name: str
    column: str | None
    strategy: str | None
    watermarks: tuple[ColumnWatermark, ...]
    differences: tuple[Difference, ...]
    node: str = "gate"

    def facts(self) -> list[tuple[str, str]]:
        """(label, text) lines."""
        if self.column is None:
            return [("late", "nothing: there is no watermark"), ("rejected", "rows that can't be read (W5)")]
        return [
            ("late", f"iff {self.column} < max(Wp, G), row by row in the order of each partition (W1)"),
            ("Wp", f"of a partition: the largest {self.strategy} of its rows that were on time (W2)"),
            ("G", "of the source: the smallest Wp, once every partition has one (W6)"),
            ("rejected", f"{self.column} is NULL, or the row can't be read (W5)"),
        ]


@dataclass(frozen=True)
class LogStage:
    """Commits rows, progress and watermark together (R1)."""

    name: str
    table: str
    partitioned_by: tuple[str, ...]
    watermarks: tuple[ColumnWatermark, ...]
    differences: tuple[Difference, ...]
    node: str = "log"

    def facts(self) -> list[tuple[str, str]]:
        """(label, text) lines."""
        tables = ", ".join(f'"{self.name}${suffix}"' for suffix in SYSTEM_TABLES)
        return [
            ("table", f"{self.table}, Iceberg, partitioned by {', '.join(self.partitioned_by)}"),
            ("stores", "every row once, with outcome, partition, offset, arrival; beside it every Wp (R1)"),
            ("read as", f"{self.name} (on time), {tables}"),
        ]


@dataclass(frozen=True)
class SliceStage:
    """Cuts the windows out of the log that became final since the last time (C2)."""

    name: str
    upstream: str
    time: str
    window: Tumble | Hop
    kind: TimeKind
    emit_on_window_close: bool
    watermarks: tuple[ColumnWatermark, ...]
    differences: tuple[Difference, ...] = (differ.LATE_IN_WINDOWS,)
    node: str = "slice"

    def facts(self) -> list[tuple[str, str]]:
        """(label, text) lines."""
        reads = f"on-time rows of {self.upstream}, at one snapshot, from the earliest window not yet final on"
        lines = [
            ("window", f"{self.window.describe(self.kind)} over {self.time}"),
            ("reads", reads),
            ("final", "windows with frontier < window_end ≤ watermark (C2); nothing is dropped here (W3)"),
        ]
        if not self.emit_on_window_close:
            lines.append(("open", "all later windows, recomputed each time"))
        return lines


@dataclass(frozen=True)
class ViewStage:
    """The sink: the view's table, which takes the slice's result and the new frontier in one commit (R2)."""

    name: str
    table: str
    emit_on_window_close: bool
    group_columns: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    watermarks: tuple[ColumnWatermark, ...]
    differences: tuple[Difference, ...] = ()
    node: str = "sink"

    def facts(self) -> list[tuple[str, str]]:
        """(label, text) lines."""
        if self.emit_on_window_close:
            emits = "each window once, when it is final; rows are only ever appended (C2)"
        else:
            emits = "final windows once; open windows too, replaced as rows come (C2)"
        lines = [
            ("table", f"{self.table}, Iceberg, with the rows of each window counted (A1)"),
            ("emits", emits),
            ("columns", ", ".join(f"{name} {kind}" for name, kind in self.columns)),
        ]
        if self.group_columns:
            lines.append(("group by", ", ".join(self.group_columns)))
        return lines


Stage = SourceStage | GateStage | LogStage | SliceStage | ViewStage


def look_up(catalog: Catalog, name: str) -> Object:
    """The source, table or view; of a system table (`x$late`) its relation. Raises TG201 for an unknown
    name.
    """
    found = catalog.get(name)
    return found.relation if isinstance(found, SystemTable) else found


def plan_for(catalog: Catalog, name: str | Object, namespace: str = "main") -> list[Stage]:
    """The stages of `name` (or of a definition that is not in the catalog), first to last.

    `namespace`: of the stored tables. Raises TG201 for an unknown name.
    """
    found = look_up(catalog, name) if isinstance(name, str) else name
    if isinstance(found, View):
        relation = look_up(catalog, found.upstream)
        assert isinstance(relation, Relation), "views over views have no plan yet"
        return [*_relation_stages(relation, namespace), *_view_stages(found, namespace)]
    return _relation_stages(found, namespace)


def _relation_stages(relation: Relation, namespace: str) -> list[Stage]:
    mark = relation.watermark
    carried: tuple[ColumnWatermark, ...] = ()
    days: tuple[str, ...] = ()
    if mark is not None:
        carried = (ColumnWatermark(mark.column, Identity(), mark.kind),)
        days = () if mark.kind is TimeKind.EPOCH else (f"day of {mark.column}",)
    differences = differ.GATE if relation.kind == "source" else differ.GATE_OF_A_TABLE
    return [
        SourceStage(
            relation.name,
            relation.kind,
            relation.connector.connector if relation.connector else None,
            _options(relation),
            _format(relation),
            _columns(relation),
        ),
        GateStage(
            relation.name,
            mark.column if mark else None,
            mark.expression if mark else None,
            carried,
            differences if mark else (),
        ),
        LogStage(
            relation.name,
            f"{namespace}.{relation.name}",
            ("outcome", *days),
            carried,
            differ.LOG if mark else (),
        ),
    ]


def _view_stages(view: View, namespace: str) -> list[Stage]:
    shifted: Derived = Identity() if view.shift == 0 else Shift(Identity(), view.shift)
    in_slice = (
        ColumnWatermark("window_start", WindowStart(shifted, view.window), view.kind),
        ColumnWatermark("window_end", WindowEnd(shifted, view.window), view.kind),
    )
    time = view.time_column
    if view.shift:
        time += f" {'-' if view.shift < 0 else '+'} {view.kind.format_duration(abs(view.shift))}"
    # The last node is the query's result: its columns are the view's.
    carried = view.derived[-1].columns if view.derived else ()
    return [
        SliceStage(
            view.name, view.upstream, time, view.window, view.kind, view.emit_on_window_close, in_slice
        ),
        ViewStage(
            view.name,
            f"{namespace}.{view.name}",
            view.emit_on_window_close,
            view.group_columns,
            _columns(view),
            tuple(ColumnWatermark(column, derived, view.kind) for column, derived in carried),
        ),
    ]


def _columns(found: Object) -> tuple[tuple[str, str], ...]:
    return tuple((c.name, display(c.type)) for c in found.columns)


def _options(relation: Relation) -> tuple[tuple[str, str], ...]:
    """The connector's options by their SQL names, without the empty ones; and what stands in for those."""
    if relation.connector is None:
        return ()
    lines = []
    for name, field in type(relation.connector).model_fields.items():
        value = getattr(relation.connector, name)
        if name != "connector" and value not in (None, ()):
            lines.append((field.alias or name, _option_text(value)))
    if isinstance(relation.connector, FilesystemOptions):
        if not relation.connector.partition_columns:
            lines.append(("partition", "the folder that a file is in"))
        if not relation.connector.order_column:
            lines.append(("order", "file name, then position in the file"))
    return tuple(lines)


def _option_text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _format(relation: Relation) -> str | None:
    if relation.format is None:
        return None
    options = ", ".join(f"{k} = '{v}'" for k, v in relation.format.options.items())
    return f"FORMAT PLAIN ENCODE {relation.format.encode.upper()}" + (f" ({options})" if options else "")
