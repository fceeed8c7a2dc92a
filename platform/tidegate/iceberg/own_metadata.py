"""What the driver has committed is not read back: Iceberg's Java is told of it, and reads only what others commit.

After a commit it would read the new metadata from their file, which has about 1 KB for each snapshot, though it has
just written them; or from the answer of a REST catalog, which repeats all of them. There is no public way to tell it,
so this goes by the fields and methods of the release that tidegate comes with (`jvm/jars.sha256`); the metadata of a
catalog of another kind are read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

from tidegate.jvm.handles import Handle, counted_up, emptied, field, getter, method, one_more, setter
from tidegate.jvm.java import java_class, json_mapper

_ICEBERG = "org.apache.iceberg."
_DATABASE, _FOLDER = "jdbc.JdbcTableOperations", "hadoop.HadoopTableOperations"
_ANY_DATABASE = "BaseMetastoreTableOperations"
_SERVER = "rest.RESTTableOperations"
#: How the operations of a table on a server reach it.
_ROUTE = ("client", "path", "mutationHeaders")
#: By which facts a table in a database finds its row.
_ROW = ("schemaVersion", "connections", "catalogName", "tableIdentifier")
#: What a snapshot keeps in memory of its files once somebody has asked for it.
_FILES = ("allManifests", "dataManifests", "deleteManifests", "addedDataFiles", "removedDataFiles")
#: Where operations keep of which kind they are.
_KIND = "kind of catalog"


def is_folder(operations: Any) -> bool:
    """Whether the catalog of a table is a folder, and nothing that is asked."""
    return _kind(operations) == _FOLDER


def _kind(operations: Any) -> str:
    known = vars(operations)
    if _KIND not in known:
        known[_KIND] = str(operations.getClass().getName()).removeprefix(_ICEBERG)
    found: str = known[_KIND]
    return found


def is_on_server(operations: Any) -> bool:
    """Whether the catalog of a table is a REST server. It compares only what a commit names: snapshots, tags, columns
    and partitions, and no properties."""
    return _kind(operations) == _SERVER


def ask_server(jvm: Any, operations: Any, known: Any, made: Any, names: bool) -> bool:
    """Ask the server of a REST catalog to put the metadata `made` in the place of `known`, as Iceberg's client does.
    Its answer repeats all metadata, and is not parsed. `names`: only if the newest snapshot and all tags are those of
    `known`. False, with nothing asked, for a catalog of another kind."""
    from py4j.protocol import Py4JJavaError

    if not is_on_server(operations):
        return False
    try:
        client, path, headers = (field(jvm, _ICEBERG + _SERVER, name).get(operations) for name in _ROUTE)
    except Py4JJavaError:
        return False
    updates = made.changes()
    required = java_class(jvm, f"{_ICEBERG}UpdateRequirements").forUpdateTable(known, updates)
    if names:
        required = java_class(jvm, "java.util.ArrayList")(required)
        stands = java_class(jvm, f"{_ICEBERG}UpdateRequirement$AssertRefSnapshotID")
        for name in known.refs():
            if name == "main" or known.ref(name).isTag():
                required.add(stands(name, known.ref(name).snapshotId()))
    body = java_class(jvm, f"{_ICEBERG}rest.requests.UpdateTableRequest")(required, updates)
    refused = java_class(jvm, f"{_ICEBERG}rest.ErrorHandlers").tableCommitHandler()
    client.post(path, body, None, headers, refused)
    return True


def keep(jvm: Any, operations: Any, known: Any, made: Any) -> None:
    """Let a table's operations know that the metadata `made` are stored in the place of `known`. If the catalog does
    not say where they are, they are read when they are needed, as those of others are."""
    from py4j.protocol import Py4JJavaError

    take = _KINDS.get(_kind(operations))
    if take is None:
        return
    try:
        take(jvm, operations, known, made)
    except Py4JJavaError:
        return  # the commit is stored, whatever fails afterwards
    before = known.currentSnapshot()
    if before is not None:
        # Otherwise each snapshot that was once the newest would keep its manifests as long as there is the handle.
        _forgetting(jvm)(before)


def _keep_of_database(jvm: Any, operations: Any, known: Any, made: Any) -> None:
    row = json.loads(json_mapper(jvm).writeValueAsString(_row_of(jvm).on(operations)()))
    # A file of metadata has one successor. If that has one already, the newest file is somebody else's.
    if row.get("previous_metadata_location") == known.metadataFileLocation():
        _taking(jvm, _ANY_DATABASE).on(operations)(_as_stored(jvm, made, row["metadata_location"]))


def _keep_of_folder(jvm: Any, operations: Any, known: Any, made: Any) -> None:
    # The rename that was the commit has given the file the next number, which no other file has.
    file = _next_file(jvm).on(operations)()
    _taking(jvm, _FOLDER).on(operations)(_as_stored(jvm, made, file))


def _keep_of_server(jvm: Any, operations: Any, known: Any, made: Any) -> None:
    # Only the server knows where they are. Whoever asks for them next reads them, as it is.
    field(jvm, _ICEBERG + _SERVER, "current").set(operations, _as_stored(jvm, made, None))


_KINDS: dict[str, Callable[[Any, Any, Any, Any], None]] = {
    _DATABASE: _keep_of_database,
    _FOLDER: _keep_of_folder,
    _SERVER: _keep_of_server,
}


def _as_stored(jvm: Any, made: Any, location: str | None) -> Any:
    """The metadata as somebody who reads them gets them: with their place, and without what has changed."""
    builder = java_class(jvm, f"{_ICEBERG}TableMetadata").buildFrom(made)
    return builder.discardChanges().withMetadataLocation(location).build()


# -- Java's steps that are one ---------------------------------------------------------------------------------------


@cache
def _row_of(jvm: Any) -> Handle:
    """What reads the row of a table: of its operations."""
    owner = _ICEBERG + _DATABASE
    kinds = [field(jvm, owner, name).getType() for name in _ROW]
    found = method(jvm, f"{_ICEBERG}jdbc.JdbcUtil", "loadTable", kinds)
    for place, name in enumerate(_ROW):
        found = found.of(place, getter(jvm, owner, name))
    return found.of_one()


@cache
def _taking(jvm: Any, owner: str) -> Handle:
    """What lets operations remember what they remember when they have read metadata: of them, and of the metadata."""
    of = _ICEBERG + owner
    first = [emptied(jvm, of, "shouldRefresh"), counted_up(jvm, of, "version")]
    if owner == _ANY_DATABASE:
        place = method(jvm, f"{_ICEBERG}TableMetadata", "metadataFileLocation")
        first.append(setter(jvm, of, "currentMetadataLocation").of(1, place))
    return setter(jvm, of, "currentMetadata").behind(*first)


@cache
def _forgetting(jvm: Any) -> Handle:
    """What lets a snapshot forget what it keeps in memory of its files."""
    first, *others = (emptied(jvm, f"{_ICEBERG}BaseSnapshot", name) for name in _FILES)
    return first.behind(*others)


@cache
def _next_file(jvm: Any) -> Handle:
    """What gives the file of the next version of operations."""
    owner, integer = _ICEBERG + _FOLDER, java_class(jvm, "java.lang.Integer").TYPE
    found = method(jvm, owner, "getMetadataFile", [integer]).of(1, one_more(jvm, owner, "version", integer))
    return found.of_one().then(method(jvm, "org.apache.hadoop.fs.Path", "toString"))
