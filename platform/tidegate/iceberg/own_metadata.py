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

from tidegate.jvm.calls import Calls, Promise
from tidegate.jvm.java import class_of, java_class, json_mapper, method

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
    calls = Calls(jvm)
    try:
        client, path, headers = (calls.call(_field(jvm, _SERVER, name), "get", operations) for name in _ROUTE)
    except Py4JJavaError:
        return False
    updates = calls.call(made, "changes")
    requirements = java_class(jvm, f"{_ICEBERG}UpdateRequirements")
    required = calls.new(
        java_class(jvm, "java.util.ArrayList"), calls.call(requirements, "forUpdateTable", known, updates)
    )
    if names:
        stands = java_class(jvm, f"{_ICEBERG}UpdateRequirement$AssertRefSnapshotID")
        for name in known.refs():
            if name == "main" or known.ref(name).isTag():
                calls.call(required, "add", calls.new(stands, name, known.ref(name).snapshotId()))
    body = calls.new(java_class(jvm, f"{_ICEBERG}rest.requests.UpdateTableRequest"), required, updates)
    refused = calls.call(java_class(jvm, f"{_ICEBERG}rest.ErrorHandlers"), "tableCommitHandler")
    calls.call(client, "post", path, body, None, headers, refused)
    calls.run()
    return True


def keep(jvm: Any, operations: Any, known: Any, made: Any) -> None:
    """Let a table's operations know that the metadata `made` are stored in the place of `known`. If the catalog does
    not say where they are, they are read when they are needed, as those of others are."""
    take = _KINDS.get(_kind(operations))
    if take is None:
        return
    calls = Calls(jvm)
    try:
        take(jvm, operations, known, made, calls)
        # Otherwise each snapshot that was once the newest would keep its manifests as long as there is the handle.
        before = calls.call(known, "currentSnapshot")
        for name in _FILES:
            calls.call(_field(jvm, "BaseSnapshot", name), "set", before, None, needs=before)
        calls.run()
    except Exception:
        return  # the commit is stored, whatever fails afterwards


def _keep_of_database(jvm: Any, operations: Any, known: Any, made: Any, calls: Calls) -> None:
    asked = Calls(jvm)
    read: Any = _row_of(jvm)
    for name in _ROW:
        read = asked.call(read, "bindTo", asked.call(_field(jvm, _DATABASE, name), "get", operations))
    found = asked.call(read, "invokeWithArguments", asked.new(java_class(jvm, "java.util.ArrayList")))
    row, place = asked.run(
        asked.call(json_mapper(jvm), "writeValueAsString", found), asked.call(known, "metadataFileLocation")
    )
    row = json.loads(row)
    # A file of metadata has one successor. If that has one already, the newest file is somebody else's.
    if row.get("previous_metadata_location") == place:
        _take(jvm, _ANY_DATABASE, operations, made, row["metadata_location"], calls)


def _keep_of_folder(jvm: Any, operations: Any, known: Any, made: Any, calls: Calls) -> None:
    # The rename that was the commit has given the file the next number, which no other file has.
    numbers = java_class(jvm, "java.util.Collections")
    number = calls.call(numbers, "singletonList", _next_version(jvm, _FOLDER, operations, calls))
    file = calls.call(calls.call(_file_of_version(jvm), "bindTo", operations), "invokeWithArguments", number)
    _take(jvm, _FOLDER, operations, made, calls.call(file, "toString"), calls)


def _keep_of_server(jvm: Any, operations: Any, known: Any, made: Any, calls: Calls) -> None:
    # Only the server knows where they are. Whoever asks for them next reads them, as it is.
    calls.call(_field(jvm, _SERVER, "current"), "set", operations, _as_stored(jvm, made, None, calls))


_KINDS: dict[str, Callable[[Any, Any, Any, Any, Calls], None]] = {
    _DATABASE: _keep_of_database,
    _FOLDER: _keep_of_folder,
    _SERVER: _keep_of_server,
}


def _take(jvm: Any, owner: str, operations: Any, made: Any, location: Any, calls: Calls) -> None:
    """Let operations remember what they remember when they have read metadata: the metadata first, and last that they
    need not read. By the version and the place they see whether what they have is old: whoever is interrupted in
    between must not leave old metadata beside new ones of these."""
    stored = _as_stored(jvm, made, location, calls)
    version = _next_version(jvm, owner, operations, calls)
    calls.call(_field(jvm, owner, "currentMetadata"), "set", operations, stored)
    calls.call(_field(jvm, owner, "version"), "set", operations, version)
    if owner == _ANY_DATABASE:
        calls.call(_field(jvm, owner, "currentMetadataLocation"), "set", operations, location)
    calls.call(_field(jvm, owner, "shouldRefresh"), "set", operations, False)


def _next_version(jvm: Any, owner: str, operations: Any, calls: Calls) -> Promise:
    known = calls.call(_field(jvm, owner, "version"), "get", operations)
    return calls.call(java_class(jvm, "java.lang.Math"), "incrementExact", known)


def _as_stored(jvm: Any, made: Any, location: Any, calls: Calls) -> Promise:
    """The metadata as somebody who reads them gets them: with their place, and without what has changed."""
    builder = calls.call(java_class(jvm, f"{_ICEBERG}TableMetadata"), "buildFrom", made)
    builder = calls.call(builder, "discardChanges")
    return calls.call(calls.call(builder, "withMetadataLocation", location), "build")


@cache
def _field(jvm: Any, owner: str, name: str) -> Any:
    """A field of one of Iceberg's classes, whoever may see it."""
    found = class_of(jvm, _ICEBERG + owner).getDeclaredField(name)
    found.setAccessible(True)
    return found


@cache
def _row_of(jvm: Any) -> Any:
    """What reads the row of a table: of its operations' facts, in the order of `_ROW`."""
    kinds = [_field(jvm, _DATABASE, name).getType() for name in _ROW]
    return method(jvm, f"{_ICEBERG}jdbc.JdbcUtil", "loadTable", kinds)


@cache
def _file_of_version(jvm: Any) -> Any:
    """What gives the file of a version: of operations in a folder, and its number."""
    return method(jvm, _ICEBERG + _FOLDER, "getMetadataFile", [java_class(jvm, "java.lang.Integer").TYPE])
