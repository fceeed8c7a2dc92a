"""The columns of a log and of a view table, and the SQL that creates them.

One log holds every row of a source exactly once: on time, late or rejected (W5), and beside them the progress
that their judgement produced (`_outcome = 'watermark'`), so that one Iceberg commit carries both (R1).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.plan.versions import LEFT
from tidegate.project.owner import OWNER, Owner
from tidegate.sql.catalog.objects import CatalogColumn, Relation, View
from tidegate.sql.dialect.attempts import without_attempts
from tidegate.sql.dialect.inner_names import unless_taken
from tidegate.sql.grammar.spelling import alike, alike_but_for, plain, plain_before
from tidegate.store.places import new_place
from tidegate.store.version import NEWEST, STORAGE_VERSION
from tidegate.watermark import Expression, TimeKind

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql.types import DataType

    from tidegate.project import Storage

ON_TIME, LATE, REJECTED, PROGRESS = "on_time", "late", "rejected", "watermark"

#: Progress of one partition (or, with `_source_partition` NULL, of the whole source) after a batch.
PROGRESS_TYPE = (
    "struct<watermark:bigint,published:bigint,state:string,next_offset:bigint,on_time:bigint,late:bigint,"
    "rejected:bigint,max_event_time:bigint,note:string,memory:string,"
    "first_offset:bigint,end_offset:bigint,quiet_since:bigint,moved_at:bigint,"
    "files:array<struct<path:string,size:bigint,modified:bigint,rows:bigint,content:string>>>"
)

#: What an amendment says of a view's row (B2), in the column `_revision`, which a table gets with its first amendment:
#: NULL for what a tick has released. `kind`: `row`; `tombstone`: a group
#: that vanished; `window`: that this window was amended, once for every revision of it. `number` counts the revisions
#: of the window, 1 is the live one; `late`: source rows that this revision has absorbed, NULL where its query does not
#: tell; `upto`: by name of the source, the last commit whose late rows are in it (JSON); `amendment`: of this view,
#: from 1.
REVISION_TYPE = (
    "struct<kind:string,number:bigint,amended_at:timestamp,late:bigint,upto:string,amendment:bigint>"
)

#: Fields of it that logs of earlier versions get when they are opened.
PROGRESS_ADDED = {"note": "string", "memory": "string", "files.element.content": "string"} | dict.fromkeys(
    ("first_offset", "end_offset", "quiet_since", "moved_at"), "bigint"
)


def missing_progress(schema: pa.Schema) -> list[tuple[str, str]]:
    """What a log of an earlier version lacks, as (path, Spark type)."""
    kind = schema.field("_progress").type
    there = {f.name for f in kind} | {f"files.element.{f.name}" for f in kind.field("files").type.value_type}
    return [(f"_progress.{name}", PROGRESS_ADDED[name]) for name in sorted(PROGRESS_ADDED.keys() - there)]


#: Small files of one day are read together, not a task each.
_TABLE_PROPERTIES = {
    STORAGE_VERSION: str(NEWEST),
    "format-version": "2",
    "read.split.open-file-cost": str(256 * 1024),
    "write.parquet.compression-codec": "zstd",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}

#: Buckets of the first key column in a state table; types that Iceberg has no buckets for.
_BUCKETS = 16
_NO_BUCKETS = ("double", "float", "boolean")

_SPARK_TIME_TYPES = {
    TimeKind.TIMESTAMP: "timestamp_ntz",
    TimeKind.TIMESTAMPTZ: "timestamp",
    TimeKind.DATE: "date",
}


@dataclass(frozen=True)
class NewTable:
    """A table to be made: (name, Spark type) of its `columns`, its partition fields in SQL, its table properties, and
    the URI of its folder; None: the catalog chooses it."""

    identifier: str
    columns: tuple[tuple[str, str], ...]
    partitions: tuple[str, ...]
    properties: Mapping[str, str]
    location: str | None = None

    @property
    def namespace(self) -> str:
        """With its catalog, as a statement names it."""
        return ".".join(self.identifier.split(".")[:2])

    def sql(self) -> str:
        """CREATE TABLE IF NOT EXISTS of it."""
        fields = ", ".join(f"{quote(name)} {kind}" for name, kind in self.columns)
        settings = ", ".join(f"'{k}' = {string(v)}" for k, v in self.properties.items())
        by = f"PARTITIONED BY ({', '.join(self.partitions)}) " if self.partitions else ""
        place = "" if self.location is None else f"LOCATION {string(self.location)} "
        made = f"CREATE TABLE IF NOT EXISTS {self.identifier} ({fields}) USING iceberg"
        return f"{made} {by}{place}TBLPROPERTIES ({settings})"


def placed(table: NewTable, storage: Storage) -> NewTable:
    """In a folder of its own, if the one of its name has a table that was renamed."""
    namespace = table.identifier.split(".", 2)[1]
    return replace(table, location=new_place(storage, namespace, name_of(table.identifier)))


def quote(name: str) -> str:
    """A Spark SQL identifier."""
    return "`" + name.replace("`", "``") + "`"


def name_of(identifier: str) -> str:
    """The name of a table, of its Spark identifier (catalog.namespace.`name`)."""
    name = identifier.split(".", 2)[2]
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def ddl(kind: DataType) -> str:
    """A type as Spark SQL reads it; PySpark's own text leaves the names of fields unquoted."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        return f"struct<{', '.join(f'{quote(f.name)}: {ddl(f.dataType)}' for f in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"array<{ddl(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{ddl(kind.keyType)}, {ddl(kind.valueType)}>"
    return kind.simpleString()


def ticks_of(column: str, kind: TimeKind) -> SparkColumn:
    """A time column as a bigint."""
    from pyspark.sql import functions as F

    value = F.col(quote(column))
    if kind is TimeKind.DATE:
        value = F.unix_date(value)
    elif kind is not TimeKind.EPOCH:
        value = F.unix_micros(value.cast("timestamp"))
    return value.cast("bigint")


def time_type(relation: Relation) -> str:
    """Spark type of the watermark column ("bigint" for integer epochs, and where there is no watermark)."""
    if relation.watermark is None:
        return "bigint"
    return _SPARK_TIME_TYPES.get(relation.watermark.kind, "bigint")


def log_columns(relation: Relation) -> list[tuple[str, str]]:
    """(name, Spark type) of every column of a relation's log: its own columns, then the system's."""
    own = [(c.name, c.type) for c in relation.columns]
    if relation.primary_key:
        # What a change does: 'upsert' or 'delete'.
        own.append(("_op", "string"))
    return [
        *own,
        ("_outcome", "string"),
        ("_source_partition", "string"),
        ("_offset", "bigint"),
        ("_arrival", "timestamp"),
        ("_epoch", "bigint"),
        ("_wm", time_type(relation)),
        ("_reason", "string"),
        ("_raw", "string"),
        *relation.message_columns,
        ("_progress", PROGRESS_TYPE),
    ]


def new_log(
    relation: Relation, table: str, owner: Owner | None = None, facts: Mapping[str, str] | None = None
) -> NewTable:
    """A relation's log. `facts`: more table properties.

    Hidden partitions: the outcome, and the day of the event time (not for integer epochs, whose unit nobody states).
    """
    parts = ["_outcome"]
    if relation.watermark is not None and relation.watermark.kind is not TimeKind.EPOCH:
        parts.append(f"days({quote(relation.watermark.column)})")
    properties = {
        "tidegate.kind": relation.kind,
        "tidegate.definition": relation.definition,
        "tidegate.identity": relation_identity(relation),
        **(facts or {}),
    }
    if relation.watermark is not None:
        properties["tidegate.time-kind"] = relation.watermark.kind.name
        properties["tidegate.time-column"] = relation.watermark.column
    return _new(table, log_columns(relation), parts, properties, owner)


def state_columns(relation: Relation) -> list[tuple[str, str]]:
    """(name, Spark type) of every column of the state of a table with a PRIMARY KEY: one row for each life of a key in
    a source partition, as of its last change. `_tombstone`: the key was deleted. `_since` (WITH TTL): max(Wp, G) as
    the life began."""
    return [
        *[(c.name, c.type) for c in relation.columns],
        ("_source_partition", "string"),
        ("_offset", "bigint"),
        ("_arrival", "timestamp"),
        ("_epoch", "bigint"),
        ("_tombstone", "boolean"),
        *([("_since", time_type(relation))] if relation.ttl else []),
    ]


def new_state(relation: Relation, table: str, owner: Owner | None = None) -> NewTable:
    """The state of a table with a PRIMARY KEY.

    Hidden partitions: a bucket of the key, and the day of the event time, so that a change touches few files. A row
    that is replaced is marked beside its file, which stays as it is until it is worth to write it anew (`KeyedTable`).
    """
    types = {c.name: c.type for c in relation.columns}
    keys = [k for k in relation.primary_key if types[k] not in _NO_BUCKETS]
    parts = [f"bucket({_BUCKETS}, {quote(keys[0])})"] if keys else []
    if relation.watermark is not None and relation.watermark.kind is not TimeKind.EPOCH:
        parts.append(f"days({quote(relation.watermark.column)})")
    properties = {
        "tidegate.kind": "state",
        "tidegate.of": relation.name,
        "tidegate.identity": relation_identity(relation),
        # Marks are deletion vectors: one for a file at most, and gone with it.
        "format-version": "3",
        "write.merge.mode": "merge-on-read",
        "write.delete.mode": "copy-on-write",
    }
    return _new(table, state_columns(relation), parts, properties, owner)


def view_columns(
    view: View, columns: tuple[CatalogColumn, ...], carried: str | None = None
) -> list[tuple[str, str]]:
    """(name, Spark type) of every column of a view's table; `columns` with the types that Spark resolved. `carried`:
    of the rows that an over view keeps for its next tick, where `_open` is NULL (C5)."""
    bound = _SPARK_TIME_TYPES.get(view.kind, "bigint")
    return [
        *[(c.name, c.type) for c in columns],
        ("_window_start", bound),
        ("_window_end", bound),
        ("_rows", "bigint"),
        ("_open", "boolean"),
        ("_tick", "bigint"),
        *([("_ordinal", "bigint")] if view.order else []),
        *([(carried_column(view), carried)] if carried is not None else []),
    ]


def carried_column(view: View) -> str:
    """The column of a view's table that holds what an over view carries."""
    return unless_taken("_carried", [c.name for c in view.columns])


def new_view_table(
    view: View,
    columns: tuple[CatalogColumn, ...],
    table: str,
    carried: str | None = None,
    owner: Owner | None = None,
    seen: Mapping[str, str] | None = None,
) -> NewTable:
    """A view's results. `seen`: what its table says of its inputs' columns (`plan/columns/changes.py`).

    `_open` is a partition, so that open windows are replaced by dropping files.
    """
    parts = ["_open"]
    if view.kind is not TimeKind.EPOCH:
        parts.append("days(_window_end)")
    properties = {
        "tidegate.kind": "view",
        "tidegate.definition": view.definition,
        "tidegate.identity": view_identity(view),
        "tidegate.inputs": json.dumps(view.reads),
        "tidegate.time-kind": view.kind.name,
        "tidegate.time-column": "_window_end",
        **(seen or {}),
    }
    return _new(table, view_columns(view, columns, carried), parts, properties, owner)


def relation_identity(relation: Relation) -> str:
    """Changes with what decides rows and their judgement (R4), not with comments, the size of batches, or how a broker
    is reached."""
    options = relation.connector.identity() if relation.connector is not None else {}
    facts: dict[str, object] = {
        "columns": [
            (c.name, c.type, c.nullable, c.generated and without_attempts(c.generated))
            for c in relation.columns
            if not c.taken_in
        ],
        # Not the strategy: a changed one continues the log (W13), and every commit says which it was.
        "watermark": relation.watermark and relation.watermark.column,
        "options": {k: without_attempts(v) for k, v in options.items()},
        "format": relation.format.identity() if relation.format is not None else "None",
    }
    if relation.primary_key:
        facts |= {"key": relation.primary_key, "ttl": relation.ttl}
    return _digest(json.dumps(facts, sort_keys=True))


def strategy_identity(relation: Relation) -> str | None:
    """Changes with the strategy (W13) and the gate's options, not with how it is written; None without a watermark."""
    watermark = relation.watermark
    if watermark is None:
        return None
    options, strategy = (watermark.max_future_skew, watermark.by_batch), watermark.strategy
    if isinstance(strategy, Expression):
        strategy = replace(strategy, sql=without_attempts(strategy.sql))
    return _digest(str(strategy) + (str(options) if any(options) else ""))


def view_identity(view: View) -> str:
    """Changes with the query (R4), not with its comments or line breaks."""
    return _digest(plain(view.definition))


def is_of_view(view: View, properties: Mapping[str, str]) -> bool:
    """Whether results with these table properties are of the view's definition (R4, E1), however that is written."""
    stored, written = properties.get("tidegate.identity"), properties.get("tidegate.definition", "")
    if stored not in (_digest(plain(written)), _digest(plain_before(written))):
        # The text is not the one that the identity is of.
        return stored == view_identity(view)
    return alike(written, view.definition)


def is_of_renamed(view: View, properties: Mapping[str, str], names: Mapping[str, str]) -> bool:
    """Whether results with these table properties are of the view's definition but for the names of what it reads.
    `names`: those of now, by those of before (`lineage.renamed_inputs`)."""
    stored, written = properties.get("tidegate.identity"), properties.get("tidegate.definition", "")
    is_of_text = stored in (_digest(plain(written)), _digest(plain_before(written)))
    return bool(names) and is_of_text and alike_but_for(written, view.definition, names)


def is_as_judged(relation: Relation, properties: Mapping[str, str], summary: Mapping[str, str]) -> bool:
    """Whether a log with these table properties, whose newest commit says this, is of the relation's columns and input,
    and was judged by its strategy."""
    judged = summary.get("tidegate.strategy-identity")
    same = properties.get("tidegate.identity") == relation_identity(relation)
    return same and judged in (None, strategy_identity(relation))


def has_gone_back(view: View, properties: Mapping[str, str]) -> bool:
    """Whether results with these table properties are of an earlier version, to which the view has gone back from its
    definition, however that is written (E1, E5). Runs continue them then."""
    left = properties.get(LEFT)
    return left is not None and (left == view_identity(view) or alike(left, view.definition))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def owned(owner: Owner | None) -> dict[str, str]:
    """The table properties of what `owner` makes (X3)."""
    return {} if owner is None else {OWNER: owner.to_text()}


def _new(
    table: str,
    columns: list[tuple[str, str]],
    parts: list[str],
    properties: dict[str, str],
    owner: Owner | None,
) -> NewTable:
    return NewTable(table, tuple(columns), tuple(parts), _TABLE_PROPERTIES | properties | owned(owner))


def string(text: str) -> str:
    """A literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
