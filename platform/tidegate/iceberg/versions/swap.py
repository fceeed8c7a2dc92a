"""A new version of a table by Iceberg's Java (E5): made beside it, with its files in the folder of the table, and
swapped in by one commit of the table's metadata: schema, properties and rows change together, and no row is copied."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.iceberg.attempt import overtaken
from tidegate.iceberg.layout import NewTable, quote
from tidegate.iceberg.protocol import LIFE
from tidegate.iceberg.table_commit import put
from tidegate.iceberg.versions.numbering import highest, numbered, partitioned
from tidegate.jvm.java import java_class, json_mapper
from tidegate.plan.versions import BUILDING, GENERATION, OF_RESULTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Table property of a version that is being built: the version's number. It says that the table is ready for rows.
VERSION = "tidegate.version-built"
#: Iceberg's property: where tasks write a table's files, if that is not its own folder.
DATA_PATH = "write.data.path"
#: Nobody may delete the files of a version that is being built, since they become the table's.
KEEP_FILES = {"gc.enabled": "false"}
#: What a version needs while it is built, and a table does not have.
_OF_BUILDING = (VERSION, BUILDING, DATA_PATH, *KEEP_FILES)

_ICEBERG = "org.apache.iceberg."


@dataclass(frozen=True)
class BuiltVersion:
    """The table of a version in one reading of its metadata: `uuid`, newest snapshot and properties."""

    uuid: str
    snapshot: int | None
    properties: Mapping[str, str]


@dataclass(frozen=True)
class VersionSwap:
    """How a version takes its table's place. `tag`: what the rows of before are called from then on; `properties` to
    set, `removed` to remove; `summary`: what the commit says. `before`: the properties of the table that all this was
    made for; `built`: the version that was found complete."""

    tag: str
    properties: Mapping[str, str]
    removed: tuple[str, ...]
    summary: Mapping[str, str]
    before: Mapping[str, str]
    built: BuiltVersion

    @classmethod
    def of(
        cls,
        tag: str,
        before: Mapping[str, str],
        built: BuiltVersion,
        facts: Mapping[str, str],
        summary: Mapping[str, str],
    ) -> VersionSwap:
        """With what the table of the version says of its results, and `facts`. What only the results of before have
        said is removed; what belongs to the table stays: its owner, marks of erasures, settings of Iceberg (X3, E9)."""
        said = {k: v for k, v in built.properties.items() if k not in _OF_BUILDING}
        properties = {k: v for k, v in said.items() if k.startswith("tidegate.") or k not in before}
        properties |= dict(facts)
        gone = tuple(k for k in OF_RESULTS if k in before and k not in properties)
        # No other swap of this table has this number of a tick.
        life = f"{properties[GENERATION]}/{summary['tidegate.tick']}"
        return cls(tag, properties, gone, {**summary, LIFE: life}, dict(before), built)

    def require_as_checked(self, table: str, own: Mapping[str, str], found: BuiltVersion) -> None:
        """Raise TG502 if the table or the version is another one than this swap was made of, or if the version is none:
        its files would be deleted with it. `own`: the table's properties."""
        whole = {VERSION: self.properties[GENERATION], **KEEP_FILES}
        is_version = whole.items() <= found.properties.items()
        if not is_version or found != self.built or dict(own) != self.before:
            raise overtaken(table)


@dataclass(frozen=True)
class VersionStart:
    """What a version begins with: the rows of its table at `tag`, and what was said of them (`summary`)."""

    tag: str
    summary: Mapping[str, str]


def make_version(
    spark: SparkSession, new: NewTable, of: Any, number: int, start: VersionStart | None = None
) -> None:
    """Make the table of version `number` of the table `of` (Iceberg's object), whose files it writes into that one's
    folder. One that a crash has left half made is finished. `start`: with these rows, and their columns."""
    jvm = spark._jvm
    parsers = java_class(jvm, _ICEBERG + "SchemaParser"), java_class(jvm, _ICEBERG + "PartitionSpecParser")
    text = ", ".join(f"{quote(name)} {kind}" for name, kind in new.columns)
    struct = java_class(jvm, "org.apache.spark.sql.types.StructType").fromDDL(text)
    plain = java_class(jvm, _ICEBERG + "spark.SparkSchemaUtil").convert(struct)
    known = of.operations().current()
    own, wanted = (json.loads(parsers[0].toJson(one)) for one in (known.schema(), plain))
    schema = numbered(own, int(known.lastColumnId()), wanted)
    if start is not None:
        schema = json.loads(parsers[0].toJson(of.schemas().get(of.snapshot(start.tag).schemaId())))
    specs = [json.loads(parsers[1].toJson(spec)) for spec in known.specs()]
    # Without partitions: the ids of those that it would get here are others.
    spark.sql(NewTable(new.identifier, new.columns, (), {**new.properties, **KEEP_FILES}).sql())
    made = java_class(jvm, _ICEBERG + "spark.Spark3Util").loadIcebergTable(
        spark._jsparkSession, new.identifier
    )
    if made.properties().get(VERSION) is not None:
        return
    operations = made.operations()
    before = operations.current()
    java_schema = parsers[0].fromJson(json.dumps(schema))
    spec = parsers[1].fromJson(java_schema, json.dumps(partitioned(specs, schema, new.partitions)))
    builder = java_class(jvm, _ICEBERG + "TableMetadata").buildFrom(before)
    # Not below what the table has given: a later column gets an id that none has had there (E2).
    last = max(highest(schema), int(before.lastColumnId()), int(known.lastColumnId()))
    builder = builder.setCurrentSchema(java_schema, last)
    builder = builder.setDefaultPartitionSpec(spec)
    facts = {VERSION: str(number), DATA_PATH: f"{of.location()}/data"}
    done = builder.setProperties(_java_map(jvm, facts)).build()
    if start is not None:
        begin = java_class(jvm, _ICEBERG + "Transactions").replaceTableTransaction
        transaction = begin(made.name(), operations, done)
        scan = of.newScan().useSnapshot(of.snapshot(start.tag).snapshotId())
        _with_files(jvm, transaction, of, scan, start.summary).commit()
        done = transaction.currentMetadata()
    put(jvm, operations, before, done)


def _with_files(jvm: Any, transaction: Any, source: Any, scan: Any, summary: Mapping[str, str]) -> Any:
    """An update of the transaction that appends the files of another table. What is said of each of them stays, but for
    the number of the way in which they are split."""
    parser, mapper = java_class(jvm, _ICEBERG + "ContentFileParser"), json_mapper(jvm)
    update, own = transaction.newAppend(), transaction.table().spec()
    for key, value in summary.items():
        update = update.set(key, value)
    number, specs = own.specId(), source.specs()
    tasks = scan.includeColumnStats().planFiles()
    try:
        for task in tasks.iterator():
            file = task.file()
            said = json.loads(parser.toJson(file, specs.get(file.specId()))) | {"spec-id": number}
            update = update.appendFile(parser.fromJson(mapper.readTree(json.dumps(said)), own))
    finally:
        tasks.close()
    return update


class SwapCommit:
    """For whoever commits it, an update like any other (`attempt.py`): the rows, columns and properties of a version
    take the place of a table's. `version`: Iceberg's object of the version's table."""

    def __init__(self, jvm: Any, table: Any, version: Any, swap: VersionSwap) -> None:
        self._jvm, self._operations = jvm, table.operations()
        self._known = self._operations.current()
        self.own: int | None = None
        builder = self._builder(version, swap)
        begin = java_class(jvm, _ICEBERG + "Transactions").replaceTableTransaction
        self._transaction = begin(table.name(), self._operations, builder.build())
        self._rows = _with_files(jvm, self._transaction, version, version.newScan(), swap.summary)

    def _builder(self, version: Any, swap: VersionSwap) -> Any:
        jvm, known = self._jvm, self._known
        builder = java_class(jvm, _ICEBERG + "TableMetadata").buildFrom(known)
        stood = known.currentSnapshot()
        if stood is not None:
            refs = java_class(jvm, _ICEBERG + "SnapshotRef")
            builder = builder.setRef(swap.tag, refs.tagBuilder(stood.snapshotId()).build()).removeRef("main")
        last = max(int(one.lastColumnId()) for one in (known, version.operations().current()))
        builder = builder.setCurrentSchema(version.schema(), last).setDefaultPartitionSpec(version.spec())
        gone = java_class(jvm, "java.util.HashSet")()
        for key in swap.removed:
            gone.add(key)
        return builder.setProperties(_java_map(jvm, swap.properties)).removeProperties(gone)

    def commit(self) -> None:
        self._rows.commit()
        made = self._transaction.currentMetadata()
        self.own = int(made.currentSnapshot().snapshotId())
        put(self._jvm, self._operations, self._known, made, names=True)


class TagRemoval:
    """For whoever commits it, an update like any other: tags go, and properties say so. `own`: it makes no snapshot."""

    own: int | None = None

    def __init__(self, jvm: Any, table: Any, tags: Iterable[str], properties: Mapping[str, str]) -> None:
        self._jvm, self._operations = jvm, table.operations()
        self._known = self._operations.current()
        builder = java_class(jvm, _ICEBERG + "TableMetadata").buildFrom(self._known)
        for tag in tags:
            builder = builder.removeRef(tag)
        self._made = builder.setProperties(_java_map(jvm, properties)).build()

    def commit(self) -> None:
        put(self._jvm, self._operations, self._known, self._made, names=True)


def _java_map(jvm: Any, given: Mapping[str, str]) -> Any:
    found = java_class(jvm, "java.util.HashMap")()
    for key, value in given.items():
        found.put(key, value)
    return found
