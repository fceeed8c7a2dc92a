"""What is left at the end of a history, when upkeep has had its time: what is needed, and nothing else."""

from __future__ import annotations

import json
from pathlib import PurePosixPath

from pyiceberg.table.metadata import TableMetadata

from tests.simulate.checks.wrong import Wrong
from tests.simulate.scripts.pipelines import INPUTS, Pipeline
from tests.simulate.world.driver import World
from tests.simulate.world.store import path_in
from tests.simulate.world.tables import Identifier

#: What results are called that are computed beside those that they will replace.
BESIDE = "$next"
#: Properties that name a file of numbers of erased rows: of a log, and of a view that keeps its counts of them (E9).
_RECORD, _MARKS = "tidegate.erased", "tidegate.erased-windows"
#: Where a sink stands, beside its deliveries.
_STANDS = ("deployed.json", "kafka-announced.json")


def look(world: World, pipeline: Pipeline) -> None:
    """R2: every file that a kept snapshot is made of is there, and every file that is there is one of these, an input,
    a delivery, or says where a sink goes on. Raises Wrong."""
    delivers = pipeline.sink or pipeline.sent is not None
    with world.outside.looking():
        needed = set().union(*(_of_table(world, table) for table in world.catalog.tables))
    there = set(world.store.files)
    if lost := sorted(needed - there):
        raise Wrong(f"R2: upkeep has removed what a snapshot needs: {lost[:3]}")
    left = [path for path in sorted(there - needed) if not _is_kept(world, path, delivers)]
    if left:
        raise Wrong(f"R2: upkeep has not found {left[:3]}")
    if beside := [table[-1] for table in world.catalog.tables if table[-1].endswith(BESIDE)]:
        raise Wrong(f"R2: what results were computed in is left: {beside}")


def _of_table(world: World, table: tuple[str, ...]) -> set[str]:
    """The files of all its snapshots."""
    catalog, metadata = world.catalog, world.catalog.tables[table][-1]
    folder, told = f"{path_in(metadata.location)}/erased", metadata.properties
    names = [told[_RECORD]] if _RECORD in told else []
    names += [json.loads(told[_MARKS])["file"]] if _MARKS in told else []
    found = {f"{folder}/{name}" for name in names}
    io = catalog._io
    for snapshot in metadata.snapshots:
        found.add(path_in(snapshot.manifest_list))
        for manifest in snapshot.manifests(io):
            found.add(path_in(manifest.manifest_path))
            entries = manifest.fetch_manifest_entry(io, discard_deleted=True)
            found |= {path_in(entry.data_file.file_path) for entry in entries}
    return found


def _is_kept(world: World, path: str, delivers: bool) -> bool:
    """Whether it is an input, or of a sink that delivers: a file of rows, or where it stands."""
    place = PurePosixPath(path).relative_to(world.root)
    if place.parts[0] in INPUTS.values():
        return True
    if place.parent.name == "erased":
        return True  # (The record of before stays until the next one is written: somebody may be reading it.)
    if place.parts[0] == "out":
        return delivers and ("_tidegate" not in place.parts or place.name.lstrip(".").startswith("position"))
    return delivers and place.parent.name == "delivered" and place.name in _STANDS


def files_are_known(world: World) -> None:
    """Whatever a table is made of is there; and what lies about is where upkeep looks for it."""
    homes = [*(f"{world.root}/{folder}/" for folder in INPUTS.values()), f"{world.root}/out/"]
    with world.outside.looking():
        for table, versions in world.catalog.tables.items():
            for path in live_files(world, table, versions[-1]):
                if path not in world.store.files:
                    raise Wrong(f"R1: {table[-1]} has a file that is not there: {path}")
            homes.append(f"{path_in(versions[-1].location)}/")
    for path in world.store.files:
        if "/_streams/" in path:
            if "/plans/" in path:
                raise Wrong(f"a plan stays that nobody needs: {path}")
        elif not any(path.startswith(home) for home in homes):
            raise Wrong(f"a file where upkeep never looks: {path}")


def live_files(world: World, table: Identifier, metadata: TableMetadata) -> list[str]:
    """The data files of the newest snapshot."""
    snapshot = world.catalog.table(table, metadata).current_snapshot()
    if snapshot is None:
        return []
    found, io = [], world.catalog._io
    for manifest in snapshot.manifests(io):
        entries = manifest.fetch_manifest_entry(io, discard_deleted=True)
        found += [path_in(entry.data_file.file_path) for entry in entries]
    return found
