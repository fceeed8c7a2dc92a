"""`connector = 'filesystem'`: a folder of JSON lines, CSV or Parquet files, each read once.

A file is known by its path, size and time; what its edges hold tells whether it is the same after all. One that has
changed, or can't be read, is set aside: all others are read.

Partition and order come from named columns, else from folder, file name and row position. The order trap: Spark
packs files into tasks by size, so rows of one partition can meet the gate from two tasks, or out of order. Here a
batch is sorted by partition and order before the gate unless every file is alone with its partition; the tasks'
reports prove it either way (`ingest.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from tidegate.engine.layout import quote
from tidegate.engine.progress import ConsumedFile
from tidegate.engine.shape import add_generated, partition_name
from tidegate.engine.sources.connector import BatchPlan, Connector, Direct, Pending, Rows
from tidegate.engine.sources.file_looks import look_at, problem_of
from tidegate.engine.sources.file_rows import crashed_in, crashed_rows, read_files, surviving
from tidegate.engine.sources.files import InputFile, changed, folder_of, list_files, moved, paths_of
from tidegate.engine.sources.footers import Look, surely_same
from tidegate.engine.sources.limits import limits_of
from tidegate.engine.sources.parquet import ParquetReader, Unit
from tidegate.engine.sources.parquet_layout import layout_of
from tidegate.engine.sources.place import PATH, PLACE
from tidegate.engine.sources.tasks import numbered, tasks_of
from tidegate.errors import TidegateError
from tidegate.sql.dialect.inner_names import inner
from tidegate.store.holding import UNKNOWN_PARTITION
from tidegate.watermark import TimeKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.project import Project
    from tidegate.sql.catalog.objects import Relation
    from tidegate.sql.options.connectors import FilesystemOptions

T = TypeVar("T")

_ORDER = inner("order")


@dataclass
class _Survey:
    """What a first look at the waiting files found: per file its rows, and per partition its offset range."""

    rows: dict[str, int]
    ranges: dict[str, dict[str, tuple[int, int]]]


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
        self._known = {f.path: f for f in consumed()}
        self._queue: list[list[InputFile]] = []
        self._survey: _Survey | None = None
        self._looks: dict[tuple[str, int, int], Look] = {}
        self._aside: list[TidegateError] = []
        self._crashed: list[list[Any]] = []

    def pending(self) -> Pending:
        """List the folder, look at partitions and offsets where columns name them, and line up the batches."""
        files = self._waiting()
        if not files:
            self._queue, self._survey = [], None
            return Pending(files=0)
        if not self._options.partition_columns:
            self._queue = self._cut([[f] for f in files])
            return Pending(sorted({f.folder for f in files}), files=len(files))
        # Of a backlog in live mode only what came since the last look is new; what is planned is forgotten.
        survey = _Survey({}, {})
        if self._survey is not None:
            waiting = {f.path for f in files} & self._survey.ranges.keys()
            survey = _Survey(*({p: known[p] for p in waiting} for known in vars(self._survey).values()))
        if unseen := [f for f in files if f.path not in survey.ranges]:
            found = self._look(unseen)
            # A file without a row is looked at once, too.
            survey.rows.update({f.path: found.rows[f.path] for f in unseen})
            survey.ranges.update({f.path: found.ranges[f.path] for f in unseen})
        self._survey = survey
        self._queue = self._cut(self._groups(files, survey))
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
        batch = self._queue.pop(0)
        rows = self._survey.rows if self._survey else {}
        looks = {f.path: self._looks[_facts(f)] for f in batch}
        units: list[dict[str, Any]] = [
            vars(f) | {"rows": rows.get(f.path, -1), "content": looks[f.path].content} for f in batch
        ]
        for unit in units:
            if names := looks[unit["path"]].undeclared:
                unit["undeclared"] = names
        crashed = [row for row in self._crashed if row[0] in {f.uri for f in batch}]
        plan = BatchPlan(epoch, arrival.isoformat(), units, crashed=crashed)
        self._taken(plan)
        return plan

    def waits(self) -> bool:
        return bool(self._queue)

    def adopt(self, plan: BatchPlan) -> bool:
        planned = {(unit["path"], unit["size"], unit["modified"]) for unit in plan.units}
        if not planned <= {_facts(f) for batch in self._queue for f in batch}:
            return False  # a file was taken away, or changed, before anything of it was committed
        taken = {path for path, _, _ in planned}
        rest = [[f for f in batch if f.path not in taken] for batch in self._queue]
        self._queue = [batch for batch in rest if batch]
        self._taken(plan)
        return True

    def problems(self) -> list[TidegateError]:
        return self._aside

    def read(self, plan: BatchPlan) -> Rows:
        direct = self._direct(plan)
        if self._options.order_column:
            # An offset that is there twice: the first file and row have it, whoever reads them.
            order, numbering = ("_offset", *PLACE), False
        else:
            order, numbering = tuple(PLACE), True
        aligned = self._alone(plan) and not numbering
        undeclared = {name: unit["path"] for unit in plan.units for name in unit.get("undeclared", ())}
        return Rows(lambda: self._read(plan), order, numbering, aligned, direct=direct, undeclared=undeclared)

    def _read(self, plan: BatchPlan) -> DataFrame:
        """By Spark: of any format, whatever it has to convert."""
        from pyspark.sql import functions as F

        frame = self._frame(((unit["uri"], unit["path"]) for unit in plan.units), plan.crashed)
        order = self._options.order_column
        offset = F.col(quote(order)) if order else F.lit(None)
        return frame.withColumns({"_arrival": F.lit(plan.arrived), "_offset": offset.cast("bigint")})

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
        dealt = tasks_of(partitions, sizes, self._spark.sparkContext.defaultParallelism)
        tasks = tuple(tuple(files[path][0] for path in task) for task in dealt)
        arrival = TimeKind.TIMESTAMPTZ.clock(plan.arrived)
        assert arrival is not None
        reader = ParquetReader(filesystem, layout, tasks, arrival, limits_of(self._project))
        return Direct(numbered(self._spark, len(tasks)), reader)

    def consumed(self, plan: BatchPlan) -> list[ConsumedFile]:
        # A plan of an earlier version says nothing of contents.
        return [
            ConsumedFile(u["path"], u["size"], u["modified"], u["rows"], u.get("content")) for u in plan.units
        ]

    def recount(self) -> int | None:
        present = {f.path: f for f in self._listed()}
        if not self._known.keys() <= present.keys():
            return None
        files = [present[path] for path in self._known]
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
        new = [f for f in listed if f.path not in known]
        other = [f for f in listed if f.path in known and not _stands_for(known[f.path], f)]
        self._look_again([*new, *other])
        present = {f.path for f in listed}
        gone = {
            _as_content(k.size, k.content, k.modified): k.path
            for k in known.values()
            if k.path not in present
        }
        self._aside, waiting = [], []
        for file in other:
            look, read = self._looks[_facts(file)], known[file.path]
            if read.size != file.size or not surely_same(read.content, look.content, file.size):
                self._aside.append(changed(self._relation, read, file))
        for file in new:
            look = self._looks[_facts(file)]
            if look.content is None:
                continue  # it was taken away again
            before = gone.get(_as_content(file.size, look.content)) or gone.get(
                _as_content(file.size, None, file.modified)
            )
            if before is not None and file.size:
                self._aside.append(moved(self._relation, before, file))
            elif (problem := problem_of(self._relation, look)) is not None:
                self._aside.append(problem)
            else:
                waiting.append(file)
        return waiting

    def _look_again(self, files: list[InputFile]) -> None:
        """Look at those of the files that are not known as they are now, and forget all others."""
        looks = {facts: self._looks[facts] for f in files if (facts := _facts(f)) in self._looks}
        unseen = [f for f in files if _facts(f) not in looks]
        given = self._spark, self._project, self._relation, unseen, self._layout
        found = self._surviving(unseen, lambda: look_at(*given, self._crashed))
        self._looks = looks | {_facts(f): look for f, look in zip(unseen, found, strict=True)}

    def _frame(self, files: Iterable[tuple[str, str]], crashed: Iterable[Sequence[Any]] = ()) -> DataFrame:
        """Rows of files, given as (URI, path below the base), with `PATH` and `_source_partition`."""
        from pyspark.sql import functions as F

        files = list(files)
        frame = read_files(self._spark, self._project, self._relation, [uri for uri, _ in files], crashed)
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

    def _look(self, files: list[InputFile]) -> _Survey:
        """What W6 needs before the first row is judged: from a first look at the files, or by a pass over them."""
        if self._layout is None:
            return self._surviving(files, lambda: self._look_at_rows(files))
        looks = {f.path: self._looks[_facts(f)] for f in files}
        return _Survey(
            {path: look.rows for path, look in looks.items()},
            {path: look.ranges or {} for path, look in looks.items()},
        )

    def _surviving(self, files: list[InputFile], look: Callable[[], T]) -> T:
        """See `surviving`: the plans of these files name what has crashed before any of their rows is judged."""
        uris = [f.uri for f in files]
        return surviving(self._spark, self._project, self._relation, uris, self._crashed, look)

    def _look_at_rows(self, files: list[InputFile]) -> _Survey:
        """By Spark, in one job."""
        from pyspark.sql import functions as F

        by_uri = {f.uri: f.path for f in files}
        frame = self._frame(((f.uri, f.path) for f in files), self._crashed)
        order = (
            F.col(quote(self._options.order_column)).cast("bigint")
            if self._options.order_column
            else F.lit(0)
        )
        # Bounded: files that wait × partitions in each (docs/sizing.md).
        rows = (
            frame.withColumn(_ORDER, order)
            .groupBy(PATH, "_source_partition")
            .agg(F.count(F.lit(1)), F.min(_ORDER), F.max(_ORDER))
            .collect()
        )
        survey = _Survey(defaultdict(int), defaultdict(dict))
        for path, partition, count, low, high in rows:
            name = by_uri[path]
            survey.rows[name] += count
            if low is not None:
                survey.ranges[name][partition] = (low, high)
            else:
                survey.ranges[name].setdefault(partition, (0, -1))
        return survey

    def _groups(self, files: list[InputFile], survey: _Survey) -> list[list[InputFile]]:
        """Files in reading order; those whose offset ranges overlap stay together, so that any cut is clean (W4)."""
        if not self._options.order_column:
            return [[f] for f in files]

        def first(file: InputFile) -> tuple[int, str]:
            lows = [low for low, high in survey.ranges[file.path].values() if high >= low]
            return (min(lows, default=0), file.path)

        groups: list[list[InputFile]] = []
        reach: dict[str, tuple[int, int]] = {}  # partition -> (highest offset so far, its group)
        for file in sorted(files, key=first):
            ranges = {p: r for p, r in survey.ranges[file.path].items() if r[1] >= r[0]}
            # Everything from the earliest group that this file overlaps becomes one group.
            joins = [reach[p][1] for p, (low, _) in ranges.items() if p in reach and low <= reach[p][0]]
            if joins:
                start = min(joins)
                groups[start:] = [[f for group in groups[start:] for f in group] + [file]]
                reach = {p: (high, min(g, start)) for p, (high, g) in reach.items()}
            else:
                groups.append([file])
            at = len(groups) - 1
            for partition, (_, high) in ranges.items():
                reach[partition] = (max(high, reach.get(partition, (high, at))[0]), at)
        return groups

    def _cut(self, groups: list[list[InputFile]]) -> list[list[InputFile]]:
        """Batches of whole groups within the limits (a group larger than a limit is a batch of its own)."""
        batches: list[list[InputFile]] = []
        size = 0
        for group in groups:
            weight = sum(f.size for f in group)
            full = batches and (
                len(batches[-1]) + len(group) > self._options.max_files_per_batch
                or size + weight > self._options.max_bytes_per_batch
            )
            if not batches or full:
                batches.append([])
                size = 0
            batches[-1] += group
            size += weight
        return batches

    def _alone(self, plan: BatchPlan) -> bool:
        """Whether each file holds one partition and each partition is in one file: then no shuffle is needed."""
        if self._survey is None:
            return False
        found = [p for unit in plan.units for p in self._survey.ranges.get(unit["path"], {})]
        return len(found) == len(plan.units) == len(set(found))


def _facts(file: InputFile) -> tuple[str, int, int]:
    """What a listing knows a file by."""
    return file.path, file.size, file.modified


def _stands_for(known: ConsumedFile, file: InputFile) -> bool:
    """Whether a file that is there is the one that was read. An earlier version remembered no contents, and compared no
    times."""
    return known.size == file.size and (known.content is None or known.modified == file.modified)


def _as_content(size: int, content: str | None, modified: int = 0) -> tuple[int, str]:
    """What a file is known by under any name: what its edges hold, or its time, which a rename keeps, where an earlier
    version did not look at those."""
    return size, content.partition("/")[0] if content is not None else f"at {modified}"
