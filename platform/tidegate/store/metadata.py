"""The current state of one Iceberg table: schema, properties, and what tidegate wrote into its newest commit.

A hadoop catalog's table is a folder with numbered JSON files, and a catalog in SQLite says which of its JSON files is
the newest: they are read as they are, since importing pyiceberg alone takes longer than the whole of `tidegate status`.
Other catalogs are asked through pyiceberg.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from pydantic_core import from_json

from tidegate.errors import TidegateError
from tidegate.masking import masked
from tidegate.plan.versions import GENERATION
from tidegate.project.disk import trouble
from tidegate.project.storage import CATALOG, Storage
from tidegate.store.folder_catalog import newest_in_folder, newest_in_sqlite
from tidegate.store.once import kept
from tidegate.store.version import require_known

_PROGRESS_FIELDS = (
    "watermark",
    "published",
    "state",
    "next_offset",
    "on_time",
    "late",
    "rejected",
    "max_event_time",
    "end_offset",
    "quiet_since",
    "moved_at",
)


def life(uuid: str, properties: Mapping[str, str]) -> str:
    """What positions in a table are good for: Iceberg's uuid, and the generation of its results from the second on."""
    generation = properties.get(GENERATION)
    return uuid if generation is None else f"{uuid}/{generation}"


class StoredCommit(NamedTuple):
    """One commit by tidegate that a table's metadata still know. `at_ms`: when, ms since 1970; `summary`: as below."""

    snapshot_id: int
    at_ms: int
    summary: Mapping[str, str]

    def integer(self, key: str) -> int | None:
        """As `CommittedTable.integer`."""
        value = self.summary.get(key)
        return None if value is None else int(value)


@dataclass(frozen=True)
class CommittedTable:
    """A table as of its newest commit by tidegate.

    `columns`: (name, Iceberg type) in order. `summary`: the snapshot's summary, tidegate's keys included;
    empty if there is no snapshot yet. `snapshot_id`: of that snapshot. `committed_ms`: when, ms since the
    epoch in UTC. `current_snapshot_id` is newer than `snapshot_id` if somebody else (say, compaction)
    committed since. `metadata_location`: the JSON file, or what the catalog calls it. `uuid`: of this table
    and no other, not even of one of the same name that is made later. `snapshots`: as Iceberg's JSON has them. `held`:
    rows in the table now, whoever committed last, and their bytes; None if not known.
    """

    name: str
    location: str
    metadata_location: str
    columns: tuple[tuple[str, str], ...]
    properties: Mapping[str, str]
    summary: Mapping[str, str]
    snapshot_id: int | None
    committed_ms: int | None
    current_snapshot_id: int | None
    uuid: str = ""
    snapshots: Sequence[dict[str, Any]] = field(default=(), compare=False, repr=False)
    held: tuple[int, int] | None = None

    @cached_property
    def commits(self) -> tuple[StoredCommit, ...]:
        """Those by tidegate that have not expired, newest first."""
        return tuple(_commits(self.snapshots, self.current_snapshot_id))

    def integer(self, key: str) -> int | None:
        """An integer of the summary (`tidegate.epoch`, …), or None if it is not there."""
        value = self.summary.get(key)
        return None if value is None else int(value)

    def property(self, key: str) -> str | None:
        """A table property, or None if it is not there."""
        return self.properties.get(key)


@dataclass(frozen=True)
class ProgressRow:
    """One progress row: of a partition, or of the whole source (`partition` None).

    `watermark`, `published` and `max_event_time` are in the unit of the source's time column; None:
    undefined. `end_offset`: a broker's next free offset when the batch was planned, `quiet_since`: when
    something last arrived from it, `moved_at`: when its watermark last rose, µs since 1970; None for other inputs.
    """

    partition: str | None
    watermark: int | None
    published: int | None
    state: str | None
    next_offset: int
    on_time: int
    late: int
    rejected: int
    max_event_time: int | None
    end_offset: int | None = None
    quiet_since: int | None = None
    moved_at: int | None = None


def load_table(storage: Storage, name: str, namespace: str | None = None) -> CommittedTable | None:
    """State of table `name` of a namespace (None: the project's), or None if it was never created.

    Raises TG620 if its metadata can't be read, TG622 for a table of a later release.
    """
    namespace = namespace or storage.namespace_of(name)
    return kept((storage.warehouse, namespace, name), lambda: _loaded(storage, name, namespace))


def _loaded(storage: Storage, name: str, namespace: str) -> CommittedTable | None:
    found = _metadata(storage, name, namespace)
    if found is None:
        return None
    require_known(f'"{name}"', found[1].get("properties") or {})
    return _state(name, *found)


def load_tagged(storage: Storage, name: str, tag: str | None) -> tuple[CommittedTable, list[Any]] | None:
    """As `load_table`, as of a tag (None: the newest snapshot), with the columns of that time in Iceberg's JSON; None
    without the table or the tag."""
    found = _metadata(storage, name, None)
    if found is None:
        return None
    at, schema = found[1].get("current-snapshot-id"), found[1]["current-schema-id"]
    if tag is not None:
        ref = (found[1].get("refs") or {}).get(tag)
        if ref is None:
            return None
        at = ref["snapshot-id"]
        by_id = {one["snapshot-id"]: one for one in found[1]["snapshots"]}
        schema = by_id[at].get("schema-id", schema)
    then = found[1] | {"current-snapshot-id": at, "current-schema-id": schema}
    fields = next(one["fields"] for one in found[1]["schemas"] if one["schema-id"] == schema)
    return _state(name, found[0], then), fields


def load_properties(storage: Storage, name: str, namespace: str | None = None) -> Mapping[str, str] | None:
    """As `load_table`, only the properties, and those of a later release's tables, too."""
    found = _metadata(storage, name, namespace)
    return None if found is None else found[1].get("properties") or {}


def _metadata(storage: Storage, name: str, namespace: str | None) -> tuple[str, dict[str, Any]] | None:
    """(path, content) of a table's newest metadata."""
    namespace = namespace or storage.namespace_of(name)
    if storage.has_folder_catalog:
        folder = storage.local_warehouse
        assert folder is not None  # Warehouse refuses a hadoop catalog on object storage (TG607)
        return _newest(storage, f'"{name}"', lambda: newest_in_folder(folder, namespace, name))
    if (file := storage.sqlite) is not None:
        local = storage.local_warehouse
        return _newest(storage, f'"{name}"', lambda: newest_in_sqlite(file, local, namespace, name))
    return _from_catalog(storage, namespace, name)


def read_progress(
    storage: Storage, table: CommittedTable, commit: StoredCommit | None = None
) -> list[ProgressRow]:
    """The progress rows of a log as of a commit (None: the newest), partitions in their order of name, the source's own
    row last.

    Empty before the first batch. Raises TG620 if they can't be read.
    """
    summary = table.summary if commit is None else commit.summary
    path = summary.get("tidegate.progress")
    if path is None:
        return []
    try:
        rows = _progress_file(storage, path)
    except FileNotFoundError:
        # Compaction may have moved the rows into another file; then they are found through the metadata.
        rows = _progress_scan(storage, table, int(summary["tidegate.epoch"]))
    except (OSError, ValueError, KeyError) as error:
        raise trouble(error) or TidegateError(
            "TG620", f"can't read the progress of {table.name}: {error}"
        ) from None
    return sorted(rows, key=lambda r: (r.partition is None, r.partition or ""))


def _newest(
    storage: Storage, table: str, find: Callable[[], str | None]
) -> tuple[str, dict[str, Any]] | None:
    """(path, content) of the newest metadata file, which `find` names. Old files go away while they are read."""
    before = None
    for _ in range(5):
        path = find()
        if path is None:
            return None
        try:
            content = storage.content(path)
        except FileNotFoundError:
            if path == before:
                raise TidegateError(
                    "TG620", f"{table}: {path} is missing", hint="restore it from a backup (docs/backup.md)"
                ) from None
            before = path
            continue  # superseded and cleaned up since we listed it
        except OSError as error:
            raise trouble(error) or TidegateError(
                "TG620", f"{table}: {path} can't be read: {error}"
            ) from None
        try:
            plain = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
            return path, _parsed(plain)
        except (ValueError, OSError) as error:
            raise TidegateError("TG620", f"{path} is damaged: {error}") from None
    raise TidegateError("TG620", f"{table} changes faster than it can be read", hint="try again")


def _parsed(text: bytes) -> Any:
    """What a JSON text says. Raises ValueError."""
    try:
        # In two thirds of the time of Python's own, which reads also what is a little beside the standard.
        return from_json(text)
    except ValueError:
        return json.loads(text)


def _from_catalog(storage: Storage, namespace: str, name: str) -> tuple[str, dict[str, Any]] | None:
    table = ask_catalog(storage, lambda catalog: catalog.load_table((namespace, name)))
    if table is None:
        return None
    from pyiceberg.typedef import IcebergBaseModel

    # Of version 3, which states of tables have, pyiceberg's own class refuses to be written, even as what was read.
    return table.metadata_location, json.loads(IcebergBaseModel.model_dump_json(table.metadata))


def ask_catalog(storage: Storage, question: Callable[[Any], Any]) -> Any:
    """What a catalog answers that is no folder; None if it has no such table or namespace."""
    try:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        return question(load_catalog(CATALOG, **storage.pyiceberg_properties()))
    except (NoSuchTableError, NoSuchNamespaceError):
        return None
    except TidegateError:
        raise
    except Exception as error:
        if _means_no_tables(error):
            return None
        raise catalog_refuses(storage, error) from None


def catalog_refuses(storage: Storage, error: Exception) -> TidegateError:
    """TG620 for a catalog that could not be asked. Drivers and servers raise what they like; the first line says what
    it was. TG624 if it is the object storage of its tables that has refused, TG623 if it is a disk."""
    known = trouble(error)
    # (A database that is out of space has a disk of its own.)
    if known is not None and (known.code == "TG624" or isinstance(error, OSError)):
        return known
    first = masked(str(error).splitlines()[0]) if str(error) else type(error).__name__
    return TidegateError(
        "TG620",
        f"the {storage.settings.catalog.type} catalog does not answer: {first}",
        hint="check warehouse.catalog of the environment",
    )


def _means_no_tables(error: Exception) -> bool:
    """A jdbc catalog creates its own tables with the first table of the project; before that there is
    nothing.
    """
    text = str(error).lower()
    return "iceberg_tables" in text and ("no such table" in text or "does not exist" in text)


def _state(name: str, path: str, metadata: dict[str, Any]) -> CommittedTable:
    current = metadata.get("current-snapshot-id")
    current = None if current in (None, -1) else current
    snapshots = metadata.get("snapshots") or []
    ours = next(_commits(snapshots, current), None)
    newest: Mapping[str, str] = next((s["summary"] for s in _ancestors(snapshots, current)), {})
    schema = next(
        (s for s in metadata.get("schemas", []) if s.get("schema-id") == metadata.get("current-schema-id")),
        metadata.get("schema") or {"fields": []},
    )
    return CommittedTable(
        name=name,
        location=metadata["location"],
        metadata_location=path,
        columns=tuple((f["name"], _type_text(f["type"])) for f in schema["fields"]),
        properties=metadata.get("properties") or {},
        summary=ours.summary if ours else {},
        snapshot_id=ours.snapshot_id if ours else None,
        committed_ms=ours.at_ms if ours else None,
        current_snapshot_id=current,
        uuid=life(metadata.get("table-uuid") or "", metadata.get("properties") or {}),
        snapshots=snapshots,
        held=_held(newest),
    )


def _held(newest: Mapping[str, str]) -> tuple[int, int] | None:
    """By the summary of a table's newest snapshot. (Rows that deletions by a condition remove are counted still.)"""
    if "total-records" not in newest:
        return None
    rows = int(newest["total-records"]) - int(newest.get("total-position-deletes") or 0)
    return rows, int(newest.get("total-files-size") or 0)


def _commits(snapshots: Sequence[dict[str, Any]], current: int | None) -> Iterator[StoredCommit]:
    """Those by tidegate of a history, newest first."""
    for one in filter(_by_tidegate, _ancestors(snapshots, current)):
        yield StoredCommit(one["snapshot-id"], one["timestamp-ms"], one["summary"])


def _ancestors(snapshots: Sequence[dict[str, Any]], current: int | None) -> Iterator[dict[str, Any]]:
    """The current snapshot and its parents, newest first."""
    by_id = {s["snapshot-id"]: s for s in snapshots}
    while current in by_id:
        # pop: a damaged file whose parents form a circle must not hang status.
        snapshot = by_id.pop(current)
        yield snapshot
        current = snapshot.get("parent-snapshot-id")


def _by_tidegate(snapshot: dict[str, Any]) -> bool:
    return any(key.startswith("tidegate.") for key in snapshot.get("summary") or {})


def _type_text(kind: Any) -> str:
    return kind if isinstance(kind, str) else str(kind.get("type"))


def _progress_file(storage: Storage, path: str) -> list[ProgressRow]:
    import pyarrow.parquet as pq

    filesystem, local = storage.filesystem(path)
    columns = ["_source_partition", *(f"_progress.{name}" for name in _PROGRESS_FIELDS)]
    with filesystem.open_input_file(local) as file:
        table = pq.ParquetFile(file).read(columns=columns, use_threads=False)
    return _rows(table.to_pylist())


def _progress_scan(storage: Storage, table: CommittedTable, epoch: int) -> list[ProgressRow]:
    from pyiceberg.table import StaticTable

    static = StaticTable.from_metadata(table.metadata_location, storage.pyiceberg_properties())
    scan = static.scan(
        row_filter=f"_outcome == 'watermark' and _epoch == {epoch}",
        selected_fields=("_source_partition", "_progress"),
        snapshot_id=table.current_snapshot_id,
    )
    return _rows(scan.to_arrow().to_pylist())


def _rows(rows: list[dict[str, Any]]) -> list[ProgressRow]:
    return [
        ProgressRow(
            partition=row["_source_partition"],
            watermark=progress["watermark"],
            published=progress["published"],
            state=progress["state"],
            next_offset=progress["next_offset"] or 0,
            on_time=progress["on_time"] or 0,
            late=progress["late"] or 0,
            rejected=progress["rejected"] or 0,
            max_event_time=progress["max_event_time"],
            end_offset=progress.get("end_offset"),  # not in logs of earlier versions
            quiet_since=progress.get("quiet_since"),
            moved_at=progress.get("moved_at"),
        )
        for row in rows
        if (progress := row["_progress"]) is not None
    ]
