"""`connector = 'filesystem'`: a folder of JSON lines, CSV or Parquet files, each read once.

A file is known by its path, size and time; what its edges hold tells whether it is the same after all. One that has
changed, or can't be read, is set aside: all others are read.

Partition and order come from named columns, else from folder, file name and row position. The order trap: Spark
packs files into tasks by size, so rows of one partition can meet the gate from two tasks, or out of order. Here a
batch is sorted by partition and order before the gate unless every file is alone with its partition; the tasks'
reports prove it either way (`ingest.py`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from tidegate.errors import TidegateError
from tidegate.iceberg.layout import quote
from tidegate.iceberg.progress import ConsumedFile
from tidegate.ingest.connector import BatchPlan, BatchRows, Connector, Direct, Pending
from tidegate.ingest.shape import add_generated, partition_name
from tidegate.ingest.sources.file_batches import (
    Survey,
    files_of,
    overlapping_together,
    taken,
    undeclared_in,
)
from tidegate.ingest.sources.file_looks import look_at, problem_of
from tidegate.ingest.sources.file_rows import PATH, PLACE, crashed_in, crashed_rows, read_files, surviving
from tidegate.ingest.sources.files import InputFile, changed, folder_of, list_files, paths_of
from tidegate.ingest.sources.moved_files import ReadFiles, Unpacked, moved
from tidegate.jvm.spark import cores
from tidegate.jvm.within import settings
from tidegate.sql.dialect.inner_names import inner
from tidegate.store.holding import UNKNOWN_PARTITION
from tidegate.tasks.decode.limits import limits_of
from tidegate.tasks.decode.tasks import tasks_of
from tidegate.tasks.numbers import Numbers
from tidegate.tasks.parquet.footers import FileLook, surely_same
from tidegate.tasks.parquet.parquet import ParquetReader, Unit
from tidegate.tasks.parquet.parquet_layout import layout_of
from tidegate.tasks.smaller import LEAST_FILES, Size, rows_at_once, sparing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.plan.columns.undeclared import FoundColumn
    from tidegate.project import Project
    from tidegate.sql.catalog.objects import Relation
    from tidegate.sql.options.connectors import FilesystemOptions

T = TypeVar("T")

_ORDER = inner("order")


class FilesystemConnector(Connector):
    """Plans by files: each batch takes the next ones, up to `max_files_per_batch` and `max_bytes_per_batch`."""

    def __init__(
        self,
        spark: SparkSession,
        project: Project,
        relation: Relation,
        options: FilesystemOptions,
        consumed: Callable[[], Iterable[ConsumedFile]],
    ) -> None:
        self._spark, self._project, self._relation, self._options = spark, project, relation, options
        self._layout = layout_of(relation, options.partition_columns, options.order_column)
        # One that an earlier version has read while it was empty may be there once more.
        self._known = {f.path: f for f in sorted(consumed(), key=lambda f: f.size > 0)}
        #: Files that wait, in their order; those of a group are read in one batch.
        self._queue: list[list[InputFile]] = []
        self.size = Size(options.max_files_per_batch, LEAST_FILES)
        self._survey: Survey | None = None
        self._looks: dict[tuple[str, int, int], FileLook] = {}
        self._aside: list[TidegateError] = []
        by_name = relation.format is not None and relation.format.encode != "parquet"
        self._unpacked = Unpacked(project) if by_name else None
        #: Folders of new files that are empty.
        self._empty: set[str] = set()
        self._crashed: list[list[Any]] = []

    def pending(self) -> Pending:
        """List the folder, look at partitions and offsets where columns name them, and line up the batches."""
        files = self._waiting()
        folders = set() if self._options.partition_columns else self._empty | {f.folder for f in files}
        if not files:
            self._queue, self._survey = [], None
            return Pending(sorted(folders), files=0)
        if not self._options.partition_columns:
            self._queue = [[f] for f in files]
            return Pending(sorted(folders), files=len(files))
        # Of a backlog in live mode only what came since the last look is new; what is planned is forgotten.
        survey = Survey({}, {})
        if self._survey is not None:
            waiting = {f.path for f in files} & self._survey.ranges.keys()
            survey = Survey(*({p: known[p] for p in waiting} for known in vars(self._survey).values()))
        if unseen := [f for f in files if f.path not in survey.ranges]:
            survey.add(self._look(unseen))
        self._survey = survey
        self._queue = self._groups(files)
        seen = {p for ranges in survey.ranges.values() for p in ranges}
        declared = self._options.partitions or ()
        return Pending(
            sorted((seen | set(declared)) - {UNKNOWN_PARTITION}),
            rows=sum(survey.rows.values()),
            files=len(files),
        )

    def plan(self, epoch: int, arrival: datetime) -> BatchPlan | None:
        if not self._queue:
            return None
        batch = taken(self._queue, self.size.next(), self._options.max_bytes_per_batch)
        self.size.planned(len(batch))
        rows = self._survey.rows if self._survey else {}
        looks = {f.path: self._looks[f.facts] for f in batch}
        units: list[dict[str, Any]] = [
            vars(f) | {"rows": rows.get(f.path, -1), "content": looks[f.path].content} for f in batch
        ]
        for unit in units:
            if found := looks[unit["path"]].undeclared:
                unit["undeclared"] = dict(found)
        crashed = [row for row in self._crashed if row[0] in {f.uri for f in batch}]
        plan = BatchPlan(epoch, arrival.isoformat(), units, crashed=crashed)
        self._taken(plan)
        return plan

    def waits(self) -> bool:
        return bool(self._queue)

    def adopt(self, plan: BatchPlan) -> bool:
        planned = {file.facts for file in files_of(plan)}
        if not planned <= {f.facts for group in self._queue for f in group}:
            return False  # a file was taken away, or changed, before anything of it was committed
        rest = [[f for f in group if f.facts not in planned] for group in self._queue]
        self._queue = [group for group in rest if group]
        self._taken(plan)
        return True

    def problems(self) -> list[TidegateError]:
        return self._aside

    def read(self, plan: BatchPlan) -> BatchRows:
        direct = self._direct(plan)
        if self._options.order_column:
            # An offset that is there twice: the first file and row have it, whoever reads them.
            order, numbering = ("_offset", *PLACE), False
        else:
            order, numbering = tuple(PLACE), True
        aligned = self._alone(plan) and not numbering
        return BatchRows(
            lambda: self._read(plan),
            order,
            numbering,
            aligned,
            direct=direct,
            undeclared=self.undeclared(plan),
        )

    def undeclared(self, plan: BatchPlan) -> Mapping[str, FoundColumn]:
        return undeclared_in(plan, self._relation)

    def becomes(self, relation: Relation) -> None:
        self._relation = relation
        self._layout = layout_of(relation, self._options.partition_columns, self._options.order_column)

    def _read(self, plan: BatchPlan) -> DataFrame:
        """By Spark: of any format, whatever it has to convert."""
        from pyspark.sql import functions as F

        files = ((unit["uri"], unit["path"]) for unit in plan.units)
        frame = self._frame(files, plan.crashed, plan.care)
        order = self._options.order_column
        offset = F.col(quote(order)) if order else F.lit(None)
        return frame.withColumn("_offset", offset.cast("bigint"))

    def crashed(self, plan: BatchPlan) -> list[list[Any]]:
        uris = [unit["uri"] for unit in plan.units]
        return crashed_in(self._spark, self._project, self._relation, uris, plan.crashed)

    def _direct(self, plan: BatchPlan) -> Direct | None:
        """By the gate's own tasks, where nothing of the rows is Spark's to compute."""
        layout = self._layout
        if layout is None:
            return None
        filesystem, paths = paths_of(self._project, [unit["uri"] for unit in plan.units])
        known = self._survey.ranges if self._survey else {}
        aside = crashed_rows(plan.crashed)
        # What each path is read as, and which partitions are in it.
        files: dict[str, tuple[Unit, Iterable[str | None]]] = {}
        for path, unit in zip(paths, plan.units, strict=True):
            crashed = aside.get(unit["uri"], ())
            if layout.partition_columns:
                files[path] = Unit(path, crashed=crashed), known.get(unit["path"], {None})
            else:
                folder = folder_of(unit["path"])
                files[path] = Unit(path, folder, crashed=crashed), {folder}
        partitions = [(path, found) for path, (_, found) in files.items()]
        sizes = [unit["size"] for unit in plan.units]
        dealt = tasks_of(partitions, sizes, cores(self._spark))
        tasks = tuple(tuple(files[path][0] for path in task) for task in dealt)
        limits, rows = limits_of(self._project), rows_at_once(plan.care)
        reader = ParquetReader(filesystem, layout, tasks, limits, rows)
        return Direct(Numbers(self._spark, len(tasks), plan.care), reader)

    def smaller(self, plan: BatchPlan) -> BatchPlan | None:
        files = files_of(plan)
        # A look at the folder since then may have forgotten what was planned.
        self._look_at(files)
        ranges = self._survey.ranges if self._survey is not None else {}
        if self._survey is not None and (unseen := [f for f in files if f.path not in ranges]):
            self._survey.add(self._look(unseen))
        groups = self._groups(files)
        if len(groups) == 1:
            return None
        half = (len(groups) + 1) // 2
        first = {f.path for group in groups[:half] for f in group}
        for file in files:
            if file.path not in first:
                del self._known[file.path]
        self._queue[:0] = groups[half:]
        self.size.shrink(len(first))
        units = [unit for unit in plan.units if unit["path"] in first]
        uris = {unit["uri"] for unit in units}
        self._crashed += [row for row in plan.crashed if row[0] not in uris and row not in self._crashed]
        return replace(plan, units=units, crashed=[row for row in plan.crashed if row[0] in uris])

    def smallest(self, plan: BatchPlan) -> str:
        files = files_of(plan)
        more = f" and {len(files) - 1} more that have to be read together" if len(files) > 1 else ""
        return f"{files[0].path} ({files[0].size:,} bytes){more}"

    def consumed(self, plan: BatchPlan) -> list[ConsumedFile]:
        # A plan of an earlier version says nothing of contents.
        return [
            ConsumedFile(u["path"], u["size"], u["modified"], u["rows"], u.get("content")) for u in plan.units
        ]

    def recount(self) -> int | None:
        present = {f.path: f for f in self._listed()}
        read = [path for path, known in self._known.items() if known.size]
        if not present.keys() >= set(read):
            return None
        files = [present[path] for path in read]
        if not files or self._relation.format is None or self._relation.format.encode != "parquet":
            uris = [f.uri for f in files]
            return read_files(self._spark, self._project, self._relation, uris).count() if uris else 0
        looks = look_at(self._spark, self._project, self._relation, files)
        return sum(look.rows for look in looks) if all(look.error is None for look in looks) else None

    def _listed(self) -> list[InputFile]:
        return list_files(self._project, self._relation.name, self._options.path, self._known)

    def _taken(self, plan: BatchPlan) -> None:
        """What is planned is read, whatever the next look at the folder finds: its plan is durable."""
        self._known |= {file.path: file for file in self.consumed(plan)}

    def _waiting(self) -> list[InputFile]:
        """The files that are to be read; what is not, though it is there and new, is set aside with the reason."""
        listed, known = self._listed(), self._known
        # An empty file gives no row: it is read when it is filled. (An earlier version read it while it was empty.)
        new = [f for f in listed if f.path not in known or (f.size and not known[f.path].size)]
        other = [f for f in listed if f.path in known and not _stands_for(known[f.path], f)]
        other = [f for f in other if known[f.path].size]
        self._look_again([*new, *other])
        elsewhere = ReadFiles(known, listed, self._looks, self._unpacked)
        self._aside, self._empty, waiting = [], set(), []
        for file in other:
            look, read = self._looks[file.facts], known[file.path]
            if read.size != file.size or not surely_same(read.content, look.content, file.size):
                self._aside.append(changed(self._relation, read, file))
        for file in new:
            look = self._looks[file.facts]
            if look.content is None:
                continue  # it was taken away again
            before = elsewhere.before(file, look)
            if before is not None:
                self._aside.append(moved(self._relation, before, file))
            elif (problem := problem_of(self._relation, look)) is not None:
                self._aside.append(problem)
            elif not file.size:
                # What is written into it between this look and its reading must not be read as a part of it.
                self._empty.add(file.folder)
            else:
                waiting.append(file)
        return waiting

    def _look_again(self, files: list[InputFile]) -> None:
        """Look at those of the files that are not known as they are now, and forget all others."""
        self._looks = {facts: self._looks[facts] for f in files if (facts := f.facts) in self._looks}
        self._look_at(files)

    def _look_at(self, files: list[InputFile]) -> None:
        """Look at those of the files that are not known as they are now."""
        unseen = [f for f in files if f.facts not in self._looks]

        def look(some: list[InputFile], _: int) -> list[FileLook]:
            given = self._spark, self._project, self._relation, some, self._layout
            return look_at(*given, self._crashed)

        found = self._surviving(unseen, look, operator.add)
        self._looks |= {f.facts: look for f, look in zip(unseen, found, strict=True)}

    def _frame(
        self, files: Iterable[tuple[str, str]], crashed: Iterable[Sequence[Any]] = (), care: int = 0
    ) -> DataFrame:
        """Rows of files, given as (URI, path below the base), with `PATH` and `_source_partition`."""
        from pyspark.sql import functions as F

        files = list(files)
        uris = [uri for uri, _ in files]
        frame = read_files(self._spark, self._project, self._relation, uris, crashed, care)
        # Spark reports URIs, percent-encoded; decoded they sort as the listing does.
        decoded = F.url_decode(F.replace(PATH, F.lit("+"), F.lit("%2B")))
        frame = frame.withColumn(PATH, F.regexp_replace(decoded, "^file:/+", "file:///"))
        frame = add_generated(frame, self._relation)
        if self._options.partition_columns:
            return frame.withColumn("_source_partition", partition_name(self._options.partition_columns))
        folders = {uri.rpartition("/")[0]: folder_of(path) for uri, path in files}
        mapping = F.create_map(*[F.lit(text) for pair in folders.items() for text in pair])
        return frame.withColumn(
            "_source_partition", F.element_at(mapping, F.regexp_replace(PATH, "/[^/]*$", ""))
        )

    def _look(self, files: list[InputFile]) -> Survey:
        """What W6 needs before the first row is judged: from a first look at the files, or by a pass over them."""
        if self._layout is None:
            return self._surviving(files, self._look_at_rows, Survey.add)
        looks = {f.path: self._looks[f.facts] for f in files}
        return Survey(
            {path: look.rows for path, look in looks.items()},
            {path: look.ranges or {} for path, look in looks.items()},
        )

    def _surviving(
        self, files: list[InputFile], look: Callable[[list[InputFile], int], T], both: Callable[[T, T], T]
    ) -> T:
        """See `surviving`: the plans of these files name what has crashed before any of their rows is judged."""
        return surviving(self._spark, self._project, self._relation, files, self._crashed, look, both)

    def _look_at_rows(self, files: list[InputFile], care: int) -> Survey:
        """By Spark, in one job."""
        from pyspark.sql import functions as F

        by_uri = {f.uri: f.path for f in files}
        frame = self._frame(((f.uri, f.path) for f in files), self._crashed, care)
        order = (
            F.col(quote(self._options.order_column)).cast("bigint")
            if self._options.order_column
            else F.lit(0)
        )
        # Bounded: files that wait × partitions in each (docs/sizing.md).
        found = frame.withColumn(_ORDER, order).groupBy(PATH, "_source_partition")
        with settings(self._spark, sparing(care)):
            rows = found.agg(F.count(F.lit(1)), F.min(_ORDER), F.max(_ORDER)).collect()
        # A file without a row is looked at once, too.
        survey = Survey({f.path: 0 for f in files}, {f.path: {} for f in files})
        for path, partition, count, low, high in rows:
            name = by_uri[path]
            survey.rows[name] += count
            if low is not None:
                survey.ranges[name][partition] = (low, high)
            else:
                survey.ranges[name].setdefault(partition, (0, -1))
        return survey

    def _groups(self, files: list[InputFile]) -> list[list[InputFile]]:
        """Files in reading order; those of a group have to be read in one batch."""
        if not self._options.order_column or self._survey is None:
            return [[f] for f in files]
        return overlapping_together(files, self._survey.ranges)

    def _alone(self, plan: BatchPlan) -> bool:
        """Whether each file holds one partition and each partition is in one file: then no shuffle is needed."""
        if self._survey is None:
            return False
        found = [p for unit in plan.units for p in self._survey.ranges.get(unit["path"], {})]
        return len(found) == len(plan.units) == len(set(found))


def _stands_for(known: ConsumedFile, file: InputFile) -> bool:
    """Whether a file that is there is the one that was read. An earlier version remembered no contents, and compared no
    times."""
    return known.size == file.size and (known.content is None or known.modified == file.modified)
