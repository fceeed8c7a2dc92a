"""The stages of what is done with a source, view or sink, in order: source, gate, log; of a view slice, steps, sink;
what keeps their tables small.

Each stage is data. What it says about itself (`facts`) is what `explain` prints; which columns carry a
watermark after it, and how that follows from those of the inputs, is D1-D3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tidegate.plan import differences as differ
from tidegate.plan.differences import Difference
from tidegate.plan.judging import gate_facts
from tidegate.plan.kafka_facts import kafka_facts
from tidegate.plan.marks import ColumnWatermark
from tidegate.plan.sink_stages import SinkStage, sink_stage
from tidegate.plan.upkeep_stages import (
    TableStage,
    cleanup_stages,
    erasure_stages,
    expiry_stages,
    upkeep_stages,
)
from tidegate.plan.view_stages import (
    CompareStage,
    KeepStage,
    Namespace,
    RevisionStage,
    SliceStage,
    StepStage,
    SwapStage,
    ViewStage,
    stored_as,
    view_stages,
)
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.lineage import sources_of
from tidegate.sql.catalog.objects import Object, Relation, Sink, SystemTable, View
from tidegate.sql.catalog.system_tables import SYSTEM_TABLES
from tidegate.sql.dialect.types import display
from tidegate.sql.options.connectors import FilesystemOptions
from tidegate.sql.options.kafka_options import KafkaOptions
from tidegate.watermark import Identity, TimeKind


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
        if self.kind == "gate":
            return [("reads", f"on-time rows of {dict(self.options)['relation']}, from its log (W14)")]
        lines = [("reads", f"connector {self.connector}" + (f", {self.format}" if self.format else ""))]
        return [*lines, *((name, value) for name, value in self.options)]


@dataclass(frozen=True)
class GateStage:
    """Judges every row once (W1, W3, W5)."""

    name: str
    column: str | None
    strategy: str | None
    judging: tuple[tuple[str, str], ...]
    watermarks: tuple[ColumnWatermark, ...]
    differences: tuple[Difference, ...]
    node: str = "gate"

    def facts(self) -> list[tuple[str, str]]:
        """(label, text) lines."""
        return list(self.judging)


@dataclass(frozen=True)
class LogStage:
    """Commits rows, progress and watermark together (R1)."""

    name: str
    table: str
    partitioned_by: tuple[str, ...]
    watermarks: tuple[ColumnWatermark, ...]
    differences: tuple[Difference, ...]
    node: str = "log"
    keeping: tuple[tuple[str, str], ...] = ()

    def facts(self) -> list[tuple[str, str]]:
        """(label, text) lines."""
        tables = ", ".join(f'"{self.name}${suffix}"' for suffix in SYSTEM_TABLES)
        return [
            ("table", f"{self.table}, Iceberg, partitioned by {', '.join(self.partitioned_by)}"),
            ("stores", "every row once, with outcome, partition, offset, arrival; beside it every Wp (R1)"),
            ("read as", f"{self.name} ({'as of now' if self.keeping else 'on time'}), {tables}"),
            *self.keeping,
        ]


Stage = (
    SourceStage
    | GateStage
    | LogStage
    | SliceStage
    | StepStage
    | ViewStage
    | SinkStage
    | CompareStage
    | RevisionStage
    | KeepStage
    | SwapStage
    | TableStage
)


def look_up(catalog: Catalog, name: str) -> Object:
    """The source, table or view; of a system table (`x$late`) its relation. Raises TG201 for an unknown
    name.
    """
    found = catalog.get(name)
    return found.relation if isinstance(found, SystemTable) else found


def plan_for(catalog: Catalog, name: str | Object, namespace: Namespace = "main") -> list[Stage]:
    """The stages of `name` (or of a definition that is not in the catalog), first to last, as a run has them.

    `namespace`: of the stored tables, or a function that tells each table's. Raises TG201 for an unknown name.
    """
    found = look_up(catalog, name) if isinstance(name, str) else name
    stages: list[Stage] = []
    after: list[Stage] = []
    for source in (*sources_of(catalog, found), found):
        if isinstance(source, Relation):
            stages += batch_stages(source, namespace)
            after += expiry_stages(source, namespace)
        else:
            # Every step of the view in question; of those before it what they read and what they give.
            stages += view_stages(catalog, source, namespace, steps=source is found)
    return [*stages, *after]


def live_stages(catalog: Catalog, found: Object, namespace: Namespace = "main") -> list[Stage]:
    """What live mode does for a source or view: the stages of a run, tick by tick, and upkeep between the ticks."""
    stages = plan_for(catalog, found, namespace)
    for one in (*sources_of(catalog, found), found):
        assert isinstance(one, Relation | View)
        stages += upkeep_stages(one, namespace)
    return stages


def batch_stages(relation: Relation, namespace: Namespace = "main") -> tuple[Stage, ...]:
    """What a batch of a source or table is: read, judged, committed."""
    mark = relation.watermark
    carried: tuple[ColumnWatermark, ...] = ()
    days: tuple[str, ...] = ()
    if mark is not None:
        carried = (ColumnWatermark(mark.column, Identity(), mark.kind, (relation.name,)),)
        days = () if mark.kind is TimeKind.EPOCH else (f"day of {mark.column}",)
    inserts = relation.kind == "table" and relation.connector is None
    differences: tuple[Difference, ...] = differ.GATE_OF_A_TABLE if inserts else differ.GATE
    if relation.ttl:
        differences += differ.TTL
    if mark is not None and mark.by_batch:
        differences = tuple(d for d in differences if not d.is_granularity)
    return (
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
            gate_facts(relation),
            carried,
            differences if mark else (),
        ),
        LogStage(
            relation.name,
            stored_as(namespace, relation.name),
            ("outcome", *days),
            carried,
            differ.LOG if mark else (),
            keeping=_keeping(relation),
        ),
    )


def tick_stages(catalog: Catalog, view: View, namespace: Namespace = "main") -> tuple[Stage, ...]:
    """What a tick of a view is: its slice, the steps of its query, its commit."""
    return tuple(view_stages(catalog, view, namespace, steps=True))


def rebuild_stages(catalog: Catalog, view: View, namespace: Namespace = "main") -> tuple[Stage, ...]:
    """A rebuild: what is kept, a tick from the beginning beside the old results, and the swap (R4, E5)."""
    given = view.name, f"{stored_as(namespace, view.name)}, Iceberg"
    return (KeepStage(*given), *tick_stages(catalog, view, namespace), SwapStage(*given))


def amendment_stages(
    catalog: Catalog, view: View, namespace: Namespace = "main", absorbs: bool = True
) -> tuple[Stage, ...]:
    """An amendment, or, without late rows, a backfill: the slice of the windows that are compared, the steps of the
    query, the comparison, and the revisions (B1)."""
    *first, _ = tick_stages(catalog, view, namespace)
    given = view.name, f"{stored_as(namespace, view.name)}, Iceberg", absorbs
    return (*first, CompareStage(*given), RevisionStage(*given))


#: What is done, as lists of the same stages. A backfill of Dagster's partitions is `backfill`, or, with late rows,
#: `amend`.
Command = Literal["run", "live", "amend", "backfill", "rebuild", "cleanup", "upkeep", "erase"]


def command_stages(
    catalog: Catalog, found: Object, command: Command, namespace: Namespace = "main"
) -> tuple[Stage, ...]:
    """The stages of a command for a source, table or view. One that is not for it (an amendment of a source, a cleanup
    of a view) has those of a run."""
    if command == "live":
        return tuple(live_stages(catalog, found, namespace))
    if isinstance(found, Relation | View) and command == "upkeep":
        return upkeep_stages(found, namespace)
    if isinstance(found, Relation | View) and command == "erase":
        keyed = isinstance(found, Relation) and bool(found.primary_key)
        state = erasure_stages(found, True, namespace) if keyed else ()
        return (*erasure_stages(found, False, namespace), *state)
    if isinstance(found, Relation) and found.primary_key and command == "cleanup":
        return cleanup_stages(found, namespace)
    if isinstance(found, View) and command == "rebuild":
        return rebuild_stages(catalog, found, namespace)
    if isinstance(found, View) and command in ("amend", "backfill"):
        return amendment_stages(catalog, found, namespace, absorbs=command == "amend")
    return tuple(plan_for(catalog, found, namespace))


def delivery_stages(catalog: Catalog, sink: Sink, namespace: Namespace = "main") -> tuple[Stage, ...]:
    """What a delivery of a sink is."""
    upstream = sink.view or look_up(catalog, sink.upstream)
    assert isinstance(upstream, Relation | View)
    *_, last = (
        tick_stages(catalog, upstream, namespace)
        if isinstance(upstream, View)
        else batch_stages(upstream, namespace)
    )
    return (sink_stage(sink, upstream, last.watermarks),)


def _keeping(relation: Relation) -> tuple[tuple[str, str], ...]:
    """What a table with a PRIMARY KEY holds beside its log (T2-T4)."""
    if not relation.primary_key:
        return ()
    changes = "the connector's rows" if relation.connector is not None else "INSERT, UPDATE and DELETE"
    key = f"of each {', '.join(relation.primary_key)} the last change, by MERGE after each batch; {changes} change it"
    if relation.watermark is None or not relation.ttl:
        return (("keeps", key), ("wins", "the larger (epoch, partition, offset)"))
    time = relation.watermark.column
    return (
        ("keeps", key),
        ("wins", f"the larger ({time}, partition, offset) (T4)"),
        ("as of now", f"rows with {time} > G; at or below it they are absent (T2)"),
        ("views read", "each row as it was when it expired, or as it is now (T3)"),
        (
            "cleanup",
            "removes expired rows that no view needs: whole days after each run, the others by tidegate cleanup (T2)",
        ),
    )


def _columns(found: Object) -> tuple[tuple[str, str], ...]:
    return tuple((c.name, display(c.type)) for c in found.columns)


def _options(relation: Relation) -> tuple[tuple[str, str], ...]:
    """The connector's options by their SQL names, without the empty ones; and what stands in for those."""
    if relation.connector is None:
        return ()
    if isinstance(relation.connector, KafkaOptions):
        return kafka_facts(relation.connector)
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
