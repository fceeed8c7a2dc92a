"""`connector = 'replay'`: a recording played back in its arrival order, cut into batches of any number of rows.

The recording is sorted once, by Spark, into a staged copy in which every row has its place in the whole arrival
order (`_seq`) and its offset inside its partition. From then on it behaves like a broker: stable offsets, all
partitions known from the start (W6), any batch size.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidegate.errors import TidegateError
from tidegate.iceberg.layout import quote
from tidegate.iceberg.progress import ConsumedFile
from tidegate.ingest.connector import BatchPlan, BatchRows, Connector, Pending, no_input
from tidegate.ingest.shape import add_generated, partition_name
from tidegate.ingest.sources.file_looks import check_files
from tidegate.ingest.sources.file_rows import PLACE, read_files, surviving
from tidegate.ingest.sources.files import InputFile, list_files
from tidegate.jvm.within import settings
from tidegate.plan.columns.undeclared import FoundColumn
from tidegate.project.object_store import put_whole, read_json
from tidegate.sql.dialect.inner_names import inner, unless_taken
from tidegate.store.holding import UNKNOWN_PARTITION
from tidegate.tasks.decode.columns import stored_columns
from tidegate.tasks.smaller import LEAST_ROWS, Size, sparing

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from tidegate.project import Project
    from tidegate.sql.catalog.objects import Relation
    from tidegate.sql.options.connectors import ReplayOptions

#: Inside: the task that has a row, and the row's place in it.
_TASK, _PLACE = inner("task"), inner("place")
#: Small row groups, so that a batch reads little more than its own rows.
_ROW_GROUP_BYTES = 4 << 20


class ReplayConnector(Connector):
    """Plans by rows: each batch takes the next `max_rows_per_batch` of the arrival order."""

    def __init__(
        self,
        spark: SparkSession,
        project: Project,
        relation: Relation,
        options: ReplayOptions,
        consumed: Callable[[], Iterable[ConsumedFile]],
        played: int,
        max_rows: int | None = None,
    ) -> None:
        self._spark, self._project, self._relation, self._options = spark, project, relation, options
        self._consumed = consumed
        self._next = played
        self.size = Size(max_rows or options.max_rows_per_batch, LEAST_ROWS)
        self._total = 0
        self._partitions: list[str] = []
        self._undeclared: dict[str, str] = {}
        self._crashed: list[list[Any]] = []
        self._stage = ""
        self._sequence = unless_taken("_seq", [c.name for c in relation.columns])

    def pending(self) -> Pending:
        """Stage the recording if that is not done yet; what of it has not been played."""
        if self._partitions:
            # Looked at again in live mode: nothing is added to a recording.
            return Pending(self._partitions, rows=self._total - self._next)
        files = list_files(self._project, self._relation.name, self._options.path)
        if not files:
            raise no_input(self._relation.name, self._options.path)
        fingerprint = fingerprint_of(self._relation, self._options, files)
        before = next((f.path for f in self._consumed()), None)
        if before is not None and before != f"replay:{fingerprint}":
            raise TidegateError(
                "TG505",
                (
                    f'the recording of source "{self._relation.name}" was changed after its first rows '
                    "were played"
                ),
                hint=(
                    f"DROP SOURCE {self._relation.name}, and the next run plays the new recording from "
                    "its beginning"
                ),
                location=self._relation.location,
            )
        self._stage = fingerprint
        filesystem, folder = self._project.storage.filesystem(self._place(fingerprint))
        marker = f"{folder}/_staged.json"
        if not filesystem.get_file_info(marker).is_file:
            undeclared = check_files(self._spark, self._project, self._relation, files)
            facts = self._write_surviving(files) | {"undeclared": undeclared}
            put_whole(filesystem, marker, json.dumps(facts).encode())
        facts = read_json(filesystem, marker)
        self._total, self._partitions = facts["rows"], facts["partitions"]
        # A copy of an earlier version says nothing of these.
        self._undeclared, self._crashed = facts.get("undeclared", {}), facts.get("crashed", [])
        return Pending(self._partitions, rows=self._total - self._next)

    def plan(self, epoch: int, arrival: datetime) -> BatchPlan | None:
        if not self.waits():
            return None
        start, self._next = self._next, min(self._next + self.size.next(), self._total)
        self.size.planned(self._next - start)
        units = [{"stage": self._stage, "from": start, "until": self._next}]
        # Wherever they are in it: they were rejected when the copy was made, and the first batch says so.
        return BatchPlan(epoch, arrival.isoformat(), units, crashed=self._crashed if start == 0 else [])

    def waits(self) -> bool:
        return self._next < self._total

    def adopt(self, plan: BatchPlan) -> bool:
        self._next = plan.units[0]["until"]
        return True

    def read(self, plan: BatchPlan) -> BatchRows:
        from pyspark.sql import functions as F

        (unit,) = plan.units
        staged = self._staged(unit["stage"])
        place = F.col(self._sequence)
        staged = staged.where((place >= unit["from"]) & (place < unit["until"]))
        frame = add_generated(staged, self._relation)
        frame = frame.withColumn("_arrival", self._arrival(plan))
        undeclared = {name: FoundColumn(path) for name, path in self._undeclared.items()}
        return BatchRows(lambda: frame, ("_offset",), numbering=False, undeclared=undeclared)

    def smaller(self, plan: BatchPlan) -> BatchPlan | None:
        (unit,) = plan.units
        rows = unit["until"] - unit["from"]
        if rows <= 1:
            return None
        self._next = unit["from"] + (rows + 1) // 2
        self.size.shrink((rows + 1) // 2)
        return replace(plan, units=[unit | {"until": self._next}])

    def smallest(self, plan: BatchPlan) -> str:
        return "one row of the recording"

    def consumed(self, plan: BatchPlan) -> list[ConsumedFile]:
        (unit,) = plan.units
        return [ConsumedFile(f"replay:{unit['stage']}", 0, 0, unit["until"] - unit["from"])]

    def recount(self) -> int | None:
        from pyspark.sql import functions as F

        stage = next((f.path.removeprefix("replay:") for f in self._consumed()), None)
        if stage is None:
            return 0
        return self._staged(stage).where(F.col(self._sequence) < self._next).count()

    def _staged_columns(self) -> dict[str, str]:
        """What a staged copy has beside the recording's columns, with Spark's types."""
        names = {"_source_partition": "string", "_offset": "bigint", self._sequence: "bigint"}
        # Copies that earlier versions made have no `_why`.
        return names | {"_raw": "string", "_why": "string"}

    def _staged(self, fingerprint: str) -> DataFrame:
        # With its schema given: to look it up would be a Spark job for every batch.
        fields = [f"{quote(c.name)} {c.type}" for c in stored_columns(self._relation)]
        fields += [f"{quote(name)} {kind}" for name, kind in self._staged_columns().items()]
        return self._spark.read.schema(", ".join(fields)).parquet(self._place(fingerprint))

    def _arrival(self, plan: BatchPlan) -> Column:
        """The recorded arrival where the first order column is a time, else the clock."""
        from pyspark.sql import functions as F

        name = self._options.order_columns[0] if self._options.order_columns else None
        column = self._relation.column(name) if name else None
        clock = F.lit(plan.arrived)
        if column is not None and column.type in ("timestamp", "timestamp_ntz"):
            return F.coalesce(F.col(quote(column.name)).cast("timestamp"), clock)
        return clock

    def _place(self, fingerprint: str) -> str:
        return stage_uri(self._project, self._relation, fingerprint)

    def _write_surviving(self, files: list[InputFile]) -> dict[str, object]:
        """The copy without the rows that end the process that decodes them (X2)."""
        crashed: list[list[Any]] = []

        def write(some: list[InputFile], care: int) -> dict[str, object]:
            return self._write_stage([f.uri for f in some], crashed, care)

        facts = surviving(self._spark, self._project, self._relation, files, crashed, write)
        return facts | {"crashed": crashed} if crashed else facts

    def _write_stage(self, uris: list[str], crashed: Iterable[Sequence[Any]], care: int) -> dict[str, object]:
        """Sort once, number, write; how many rows, and which partitions, there are."""
        with settings(self._spark, sparing(care)):
            return self._written(read_files(self._spark, self._project, self._relation, uris, crashed, care))

    def _written(self, rows: DataFrame) -> dict[str, object]:
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        rows = add_generated(rows, self._relation)
        if self._options.filter:
            # A row that does not parse is not filtered away: it has to end in the rejected rows.
            rows = rows.where(F.col("_why").isNotNull() | F.expr(self._options.filter))
        columns = self._options.partition_columns
        rows = rows.withColumn("_source_partition", partition_name(columns) if columns else F.lit("0"))
        order = [F.col(quote(c)) for c in self._options.order_columns] + [F.col(c) for c in PLACE]
        keep = [quote(c.name) for c in stored_columns(self._relation)]
        ordered = rows.orderBy(*order).select(*keep, "_source_partition", "_raw", "_why")
        # A global number without a global task: place inside the sorted task, plus the rows of all tasks before.
        ordered = ordered.select(
            "*", F.spark_partition_id().alias(_TASK), F.monotonically_increasing_id().alias(_PLACE)
        ).persist()
        try:
            # Bounded: tasks × source partitions, once for a recording.
            counts = ordered.groupBy(_TASK, "_source_partition").count().collect()
            before, total = {}, 0
            for task in sorted({row[_TASK] for row in counts}):
                before[task] = total
                total += sum(row["count"] for row in counts if row[_TASK] == task)
            pairs = (before or {0: 0}).items()  # a recording may be empty
            starts = F.create_map(*[F.lit(x) for pair in pairs for x in pair])
            place = F.col(_PLACE).bitwiseAND(F.lit((1 << 33) - 1))
            numbered: DataFrame = ordered.withColumn(
                self._sequence, F.element_at(starts, F.col(_TASK)) + place
            )
            by_partition = Window.partitionBy("_source_partition").orderBy(self._sequence)
            numbered = numbered.withColumn("_offset", (F.row_number().over(by_partition) - 1).cast("bigint"))
            (
                numbered.select(*keep, *self._staged_columns())
                .repartitionByRange(self._sequence)
                .sortWithinPartitions(self._sequence)
                .write.mode("overwrite")
                .option("parquet.block.size", _ROW_GROUP_BYTES)
                .parquet(self._place(self._stage))
            )
        finally:
            ordered.unpersist()
        partitions = {row["_source_partition"] for row in counts} - {UNKNOWN_PARTITION}
        return {"rows": total, "partitions": sorted(partitions)}


def fingerprint_of(relation: Relation, options: ReplayOptions, files: list[InputFile]) -> str:
    """Changes with the files and with everything that decides their order, not with the batch size."""
    facts = {
        "files": [(f.path, f.size, f.modified) for f in files],
        "columns": [(c.name, c.type, c.generated) for c in relation.columns],
        "partition": options.partition_columns,
        "order": options.order_columns,
        "filter": options.filter,
        "format": str(relation.format),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def stage_uri(project: Project, relation: Relation, fingerprint: str) -> str:
    """Where the sorted copy of a recording is."""
    storage = project.storage
    return f"{storage.warehouse}/_replay/{storage.settings.namespace}/{relation.name}/{fingerprint}"
