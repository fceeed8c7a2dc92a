"""What the processes of a simulated world leave when they end: a value from which new processes go on, and what of it
decides about all that follows."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Hashable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.table.metadata import TableMetadata

from tests.simulate.checks.leftovers import live_files
from tests.simulate.world.driver import World

#: What lasts, by its owner in a world: files, tables, the clock, and the next ids. (Files and the metadata of tables
#: never change: a copy of a dictionary is a copy of all.)
_LASTING = {
    "store": ("files", "times", "folders"),
    "catalog": ("tables", "_changed", "_stored"),
    "outside": ("now", "met", "rng", "_ids"),
}
#: Whose values change, too.
_DEEPER = ("tables", "shown")


@dataclass(frozen=True)
class Left:
    """A world between two steps, without the memory of its processes. `also`: others whose values go with it, by
    name."""

    kept: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, world: World, **also: tuple[Any, tuple[str, ...]]) -> Left:
        """Of this world now."""
        owners = _owners(world) | also
        return cls({owner: _copied(on, names) for owner, (on, names) in owners.items()})

    def put_into(self, world: World, **also: Any) -> None:
        """Make a new world one that goes on from here."""
        owners = {owner: on for owner, (on, _) in _owners(world).items()} | also
        for owner, on in owners.items():
            for name, value in _copied_values(self.kept[owner]).items():
                setattr(on, name, value)


def _owners(world: World) -> dict[str, tuple[Any, tuple[str, ...]]]:
    return {owner: (getattr(world, owner), names) for owner, names in _LASTING.items()}


def _copied(on: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return _copied_values({name: getattr(on, name) for name in names})


def _copied_values(values: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: copy(value) for name, value in values.items()}
    for name in _DEEPER:
        for key in found.get(name, ()):
            found[name][key] = copy(found[name][key])
    return found


# -- the same state ---------------------------------------------------------------------------------------------

#: Ids and times in names and texts; the folders of tables, whose files count by the tables that have them.
_ID = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}|[0-9a-f]{12,}")
_OF_TABLES = re.compile(r"/(data|metadata)/")
#: Columns that say when something was done.
_WHEN = ("_arrival", "amended_at", "quiet_since", "moved_at", "modified")
#: What a summary says of this engine's facts but for where they are, how often it was asked, and what that took.
_NOT_FACTS = ("tidegate.progress", "tidegate.tick", "tidegate.cost")


class States:
    """Compares states. Two are the same if their tables have the same rows and say the same facts, and if the same
    other files are there; names, ids, times, and how rows are divided into files and snapshots are left out, and so are
    files that no table has."""

    def __init__(self) -> None:
        #: By what the answer was computed from, which is kept so that nothing else gets its address.
        self._tables: dict[int, tuple[TableMetadata, Hashable]] = {}

    def key(self, world: World) -> Hashable:
        """Of the state that processes would leave which ended now."""
        root = str(world.root)
        files = [
            (_ID.sub("*", path.removeprefix(root)), _content(path, content))
            for path, content in world.store.files.items()
            if not _OF_TABLES.search(path)
        ]
        tables = [(table, self._table(world, table)) for table in sorted(world.catalog.tables)]
        return tuple(sorted(files)), tuple(tables)

    def _table(self, world: World, table: tuple[str, ...]) -> Hashable:
        metadata = world.catalog.tables[table][-1]
        # (What a view says of its inputs is of versions of them that the catalog knows.)
        if id(metadata) not in self._tables:
            with world.outside.looking():
                found = _rows(world, table, metadata), _facts(world, metadata), _properties(metadata)
            self._tables[id(metadata)] = metadata, found
        return self._tables[id(metadata)][1]


def _content(path: str, content: bytes) -> bytes:
    if "/plans/" not in path:
        return content
    try:
        plan = json.loads(content)
    except ValueError:
        return content
    return _ID.sub("*", json.dumps({name: plan[name] for name in sorted(plan) if name != "arrival"})).encode()


def _properties(metadata: TableMetadata) -> Hashable:
    columns = tuple((field.field_id, field.name, str(field.field_type)) for field in metadata.schema().fields)
    return columns, tuple(sorted(metadata.properties.items()))


def _facts(world: World, metadata: TableMetadata) -> Hashable:
    """What the engine said last of a table, of inputs by their contents."""
    snapshots = {one.snapshot_id: one for one in metadata.snapshots}
    at = metadata.current_snapshot_id
    while at is not None:
        summary = snapshots[at].summary
        facts = {} if summary is None else summary.additional_properties
        said = {name: text for name, text in facts.items() if name.startswith("tidegate.")}
        if said:
            return tuple(
                (name, _inputs(world, text) if name == "tidegate.inputs" else text)
                for name, text in sorted(said.items())
                if name not in _NOT_FACTS
            )
        at = snapshots[at].parent_snapshot_id
    return ()


def _inputs(world: World, text: str) -> Hashable:
    """Of each input the epoch that a view has read."""
    epochs = {
        one.snapshot_id: one.summary.additional_properties.get("tidegate.epoch", "")
        for versions in world.catalog.tables.values()
        for one in versions[-1].snapshots
        if one.summary is not None
    }
    read = json.loads(text)
    return tuple(
        (name, tuple((what, epochs.get(snapshot)) for what, snapshot in sorted(read[name].items())))
        for name in sorted(read)
    )


def _rows(world: World, table: tuple[str, ...], metadata: TableMetadata) -> str:
    """A digest of the rows of the newest snapshot."""
    found = []
    for path in live_files(world, table, metadata):
        rows = world.catalog.parsed(path, world.store.files[path])
        found.append(pa.table(dict(_columns(rows))) if rows.num_columns else rows)
    if not found:
        return ""
    whole = pa.concat_tables(found, promote_options="permissive")
    whole = whole.select(sorted(whole.column_names))
    ordered = whole.sort_by([(name, "ascending") for name in whole.column_names]).combine_chunks()
    digest = hashlib.sha256()
    for name in ordered.column_names:
        digest.update(name.encode())
        for chunk in ordered.column(name).chunks:
            digest.update(str(len(chunk)).encode())
            for buffer in _exact(chunk):
                digest.update(buffer)
    return digest.hexdigest()


def _exact(chunk: pa.Array) -> Iterator[pa.Buffer | bytes]:
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([chunk], names=["c"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    yield sink.getvalue()


def _columns(rows: pa.Table, before: str = "") -> Iterator[tuple[str, pa.ChunkedArray]]:
    """Columns whose values can be put in order, without times of the clock."""
    for name in rows.column_names:
        column, path = rows.column(name), f"{before}{name}"
        if name in _WHEN or pa.types.is_null(column.type):
            continue
        if pa.types.is_struct(column.type):
            yield f"{path}?", column.is_null()
            inner = pa.Table.from_batches([pa.RecordBatch.from_struct_array(c) for c in column.chunks])
            yield from _columns(inner, f"{path}.")
        elif pa.types.is_nested(column.type):
            yield path, pa.chunked_array([[repr(value) for value in column.to_pylist()]], pa.string())
        else:
            yield path, column
