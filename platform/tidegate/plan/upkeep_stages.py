"""The stages that keep stored tables small: cleanup of expired rows, and upkeep. Each works on one table."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.plan.differences import Difference
from tidegate.plan.marks import ColumnWatermark
from tidegate.plan.view_stages import Namespace, stored_as
from tidegate.sql.catalog.objects import Relation, Sink, View


@dataclass(frozen=True)
class TableStage:
    """Changes how a table is stored, or removes what nobody needs any more; the results stay as they are."""

    name: str
    table: str
    does: str = ""
    node: str = ""
    watermarks: tuple[ColumnWatermark, ...] = ()
    differences: tuple[Difference, ...] = ()

    def facts(self) -> list[tuple[str, str]]:
        """(label, text) lines."""
        return [("table", self.table), ("does", self.does)]


@dataclass(frozen=True)
class CleanupStage(TableStage):
    """Rows of a table WITH TTL that have expired, and that no view needs, go (T2, T3)."""

    does: str = "deletes rows that have expired, and that no view needs (T2, T3)"
    node: str = "cleanup"


@dataclass(frozen=True)
class RetireStage(TableStage):
    """Rows beyond their retention go, whole days of them (R5)."""

    does: str = "deletes whole days beyond the retention of jobs/maintenance.yaml that no reader needs (R5)"
    node: str = "retire"


@dataclass(frozen=True)
class CompactStage(TableStage):
    """Small files become larger ones."""

    does: str = "writes small files together into larger ones, without the rows that are marked as deleted"
    node: str = "compact"


@dataclass(frozen=True)
class ManifestStage(TableStage):
    """Many manifests become few."""

    does: str = "writes many manifests again as few"
    node: str = "rewrite"


@dataclass(frozen=True)
class ExpireStage(TableStage):
    """Old snapshots go, and the files that they alone had."""

    does: str = "removes old snapshots, and the files that they alone had"
    node: str = "expire"


@dataclass(frozen=True)
class OrphanStage(TableStage):
    """Files that no snapshot knows go."""

    does: str = "with --orphans, removes files that no snapshot knows"
    node: str = "orphans"


@dataclass(frozen=True)
class EraseStage(TableStage):
    """Rows that a condition finds go, and what is said of them is how many there were (E9)."""

    does: str = (
        "writes the files with rows that the condition finds again, without these rows, and records how many they were "
        "(E9)"
    )
    node: str = "erase"


@dataclass(frozen=True)
class ForgetStage(TableStage):
    """Nothing of the past stays (E9)."""

    does: str = "removes all earlier snapshots, tags and branches, and every file that only they had (E9)"
    node: str = "forget"


def state_of(relation: Relation | View) -> str:
    """The name of the table that has what a table with a PRIMARY KEY holds."""
    return f"{relation.name}$state"


def expiry_stages(relation: Relation, namespace: Namespace = "main") -> tuple[TableStage, ...]:
    """What a run does at its end with a table WITH TTL: whole days go, without reading a row, and old snapshots."""
    if not relation.ttl:
        return ()
    days = (
        "at the end of a run, deletes whole days of rows that have expired, and that no view needs (T2, T3)"
    )
    state = _stored(relation, state_of(relation), namespace)
    return (CleanupStage(*state, days), ExpireStage(*state))


def cleanup_stages(relation: Relation, namespace: Namespace = "main") -> tuple[TableStage, ...]:
    """What `tidegate cleanup` does with a table with a PRIMARY KEY."""
    state = _stored(relation, state_of(relation), namespace)
    expired = (
        (CleanupStage(*state),)
        if relation.ttl
        else (CleanupStage(*state, "deletes no row without WITH TTL"),)
    )
    return (*expired, CompactStage(*state), ExpireStage(*state))


def upkeep_stages(item: Relation | View, namespace: Namespace = "main") -> tuple[TableStage, ...]:
    """What `tidegate upkeep`, and live mode between two ticks, does with the tables of a source, table or view."""
    own = table_upkeep(item, False, namespace)
    keyed = isinstance(item, Relation) and bool(item.primary_key)
    return (*own, *(table_upkeep(item, True, namespace) if keyed else ()))


def erasure_stages(
    item: Relation | View, is_state: bool = False, namespace: Namespace = "main"
) -> tuple[TableStage, ...]:
    """What `tidegate erase` does with the table of a source, table or view; or with what a table with a PRIMARY KEY
    holds."""
    table = _stored(item, state_of(item) if is_state else item.name, namespace)
    return (EraseStage(*table), ForgetStage(*table))


def sink_erasure_stages(sink: Sink) -> tuple[TableStage, ...]:
    """What `tidegate erase` does with the table that an Iceberg sink delivers into."""
    table = (sink.name, f"{sink.place}, Iceberg")
    return (EraseStage(*table), ForgetStage(*table))


def table_upkeep(
    item: Relation | View, is_state: bool, namespace: Namespace = "main"
) -> tuple[TableStage, ...]:
    """The upkeep of one table, in the order in which a crash leaves the least behind. Of a state no row goes by
    retention: it holds what is there now, however old."""
    table = _stored(item, state_of(item) if is_state else item.name, namespace)
    retired = () if is_state else (RetireStage(*table),)
    return (*retired, CompactStage(*table), ManifestStage(*table), ExpireStage(*table), OrphanStage(*table))


def _stored(item: Relation | View, name: str, namespace: Namespace) -> tuple[str, str]:
    suffix = name.removeprefix(item.name)
    return name, f"{stored_as(namespace, item.name)}{suffix}, Iceberg"
