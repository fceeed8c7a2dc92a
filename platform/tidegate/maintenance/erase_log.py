"""The rows of one log that a condition finds: found and left out by tasks, and recorded as numbers (E9, W5).

The files that have such rows are written again without them, and replace them in one commit with the record. Of the
log's state nothing changes: epoch, watermarks, positions and counters stand, and whoever follows the log by its
epochs finds none that is new (E4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from tidegate.iceberg.data_files import progress_again
from tidegate.iceberg.layout import PROGRESS, REJECTED, quote, ticks_of
from tidegate.iceberg.retire import OUTCOMES, Gone
from tidegate.ingest.erased import RECORD, ErasedRows, forget_superseded, recorded
from tidegate.ingest.ingest import log_target
from tidegate.maintenance.erase_files import GOES, write_without
from tidegate.sql.dialect.inner_names import inner
from tidegate.tasks.decode.raw_text import BASE64
from tidegate.watermark import TimeKind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidegate.ingest.ingest import StoredLog
    from tidegate.maintenance.erasing import Erasing
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import Relation
    from tidegate.sql.statements.row_condition import RowsCondition

_HOUR_MICROS = 3_600_000_000
#: Inside, beside the columns of the log.
_HOUR = inner("hour")
_PLACE = ("_source_partition", "_offset")
_BYTEWISE, _WHOLE = "ISO-8859-1", (1 << 31) - 1


@dataclass(frozen=True)
class FoundRows:
    """The rows that a condition finds in a log, as of a snapshot. `files`: those that have such rows. `entries`: by
    partition and hour of event time. `undecoded`: rejected rows of which only a raw text is there, so that the
    condition can't tell."""

    files: tuple[str, ...] = ()
    entries: dict[tuple[str, int | None], Gone] = field(default_factory=dict)
    undecoded: int = 0

    @property
    def sum(self) -> Gone:
        return reduce(Gone.plus, self.entries.values(), Gone())


class LogErasure:
    """Works on the log as of its last commit, which is `base`; whoever changes it holds its lease. `raw`: a rejected
    row goes as well if its raw text, its reason or its key has one of these texts."""

    def __init__(
        self, context: Context, log: StoredLog, condition: RowsCondition, raw: Sequence[str]
    ) -> None:
        from pyspark.sql import functions as F

        self._context, self._log, self._table = context, log, log.table
        # The condition is on the columns of this definition.
        self.base = log.current()
        told = F.expr(condition.sql)
        texts = [text for given in raw for text in _texts_with(log.relation, given)]
        goes = [F.coalesce(told, F.lit(False)), *((F.col("_outcome") == REJECTED) & text for text in texts)]
        self._goes = F.coalesce(reduce(or_, goes), F.lit(False))
        # A condition may give an answer for a row that has no columns, too: coalesce(customer, '') = 'ann'.
        own = {column.name for column in log.relation.columns}
        unknown = [F.col(quote(name)).isNull() for name in condition.columns if name in own]
        untold = reduce(or_, [told.isNull(), *unknown])
        self._untold = (F.col("_outcome") == REJECTED) & F.col("_raw").isNotNull() & untold

    def find(self) -> FoundRows:
        """Nothing is changed. What comes back is bounded by the files, partitions and hours that have such rows."""
        from pyspark.sql import functions as F

        if self.base.id is None:
            return FoundRows()
        rows = self._rows()
        counts = [F.count_if(F.col("_outcome") == outcome).alias(outcome) for outcome in OUTCOMES]
        without_time = F.count_if(self._timeless()).alias("without_time")
        marked = rows.where(F.col(GOES))
        # Bounded: by files, partitions and hours of the log, and not by its rows.
        by_file = marked.groupBy("_file", "_source_partition", _HOUR).agg(*counts, without_time).collect()
        offsets = self._offsets(rows) if by_file else {}
        entries: dict[tuple[str, int | None], Gone] = {}
        for _, partition, hour, on_time, late, rejected, timeless in by_file:
            key = (partition or "", hour)
            entries[key] = entries.get(key, Gone()).plus(Gone(on_time, late, rejected, 0, timeless))
        for key, count in offsets.items():
            entries[key] = entries[key].plus(Gone(offsets=count))
        undecoded = rows.where(self._untold & ~F.col(GOES)).count()
        return FoundRows(tuple(sorted({row[0] for row in by_file})), entries, undecoded)

    def going(self, time_column: str) -> DataFrame:
        """The event times and outcomes of the rows that go."""
        from pyspark.sql import functions as F

        return self._rows().where(F.col(GOES)).select(quote(time_column), "_outcome")

    def _rows(self) -> DataFrame:
        """Every row that was judged, with its file, its hour, and whether it goes."""
        from pyspark.sql import functions as F

        rows = self._stored().where(F.col("_outcome") != PROGRESS)
        return rows.withColumns({GOES: self._goes, _HOUR: self._hour()})

    def _stored(self) -> DataFrame:
        """All that is in the log, with its file."""
        return self._context.tables.rows(self._table.identifier, self.base.id, with_file=True)

    def _hour(self) -> Column:
        from pyspark.sql import functions as F

        mark = self._log.relation.watermark
        if mark is None or mark.kind is TimeKind.EPOCH:
            return F.lit(None).cast("bigint")
        ticks = ticks_of(mark.column, mark.kind)
        return ticks if mark.kind is TimeKind.DATE else ticks - F.pmod(ticks, F.lit(_HOUR_MICROS))

    def _timeless(self) -> Column:
        from pyspark.sql import functions as F

        mark = self._log.relation.watermark
        return F.lit(False) if mark is None else F.col(quote(mark.column)).isNull()

    def _offsets(self, rows: DataFrame) -> dict[tuple[str, int | None], int]:
        """How many offsets the log does not have any more once its rows have gone; of one that a rejected repetition
        has as well it keeps the other row."""
        from pyspark.sql import functions as F

        going = rows.where(F.col(GOES)).groupBy(*_PLACE).agg(F.min(_HOUR).alias(_HOUR))
        staying = rows.where(~F.col(GOES)).select(*_PLACE)
        lost = going.join(staying, list(_PLACE), "left_anti")
        found = lost.groupBy("_source_partition", _HOUR).count().collect()  # Bounded: as the entries.
        return {(row[0] or "", row[1]): row[2] for row in found}

    def remove(self, found: FoundRows, erasing: Erasing) -> int:
        """Write the files again without the rows, and replace them in one commit with the record; how many files there
        were. Raises TG502 if another process has committed to the log since it was looked at."""
        moved = self._moved_progress()
        if not found.files and not moved:
            return 0
        storage = self._context.project.storage
        target = log_target(self._table, storage, self._log.relation)
        record = recorded(storage, self._table, _entries(found, erasing)) if found.files else {}
        files, gone = {*found.files, *moved}, found.sum.rows + sum(moved.values())
        beside = [progress_again(self.base, target)] if moved else []
        said = {"tidegate.progress": str(beside[0]["uri"])} if beside else {}
        rows = self._every_row(bool(moved))
        before = self._table.property(RECORD)
        removed, self.base = write_without(
            self._context, self._table, self.base, rows, sorted(files), gone, target, record, beside, said
        )
        if record:
            forget_superseded(storage, self._table, (before, record[RECORD]))
        return removed

    def _moved_progress(self) -> dict[str, int]:
        """By file how many rows of the newest commit's progress are there, if a compaction has moved them: the file
        that the commit names is kept by its snapshot alone, which goes with all others."""
        from pyspark.sql import functions as F

        name = self.base.summary.get("tidegate.progress")
        if name is None or self.base.id is None:
            return {}
        rows = self._stored().where(self._of_progress())
        # Bounded: the rows of one commit's progress are in one file, or in a few.
        found = {row[0]: row[1] for row in rows.groupBy("_file").agg(F.count(F.lit(1))).collect()}
        return {} if set(found) == {name} else found

    def _of_progress(self) -> Column:
        """Of the newest commit."""
        from pyspark.sql import functions as F

        return (F.col("_outcome") == PROGRESS) & (F.col("_epoch") == self.base.integer("tidegate.epoch"))

    def _every_row(self, moves: bool) -> DataFrame:
        """As `_rows`, with the progress, of which that of the newest commit goes if it `moves` into a file of its
        own."""
        from pyspark.sql import functions as F

        judged = self._goes & (F.col("_outcome") != PROGRESS)
        return self._stored().withColumn(GOES, judged | self._of_progress() if moves else judged)


def _entries(found: FoundRows, erasing: Erasing) -> Iterator[ErasedRows]:
    at = datetime.fromisoformat(erasing.at)
    for (partition, hour), gone in found.entries.items():
        yield ErasedRows(erasing.id, at, erasing.by, partition, hour, gone)


def _texts_with(relation: Relation, text: str) -> Iterator[Column]:
    """Whether what is kept of a row that could not be decoded has a text somewhere, also among bytes that are none."""
    from pyspark.sql import functions as F

    # A character for each byte, so that no byte is in the way.
    coded = F.when(F.col("_raw").startswith(BASE64), F.substring("_raw", len(BASE64) + 1, _WHOLE))
    told = F.decode(F.try_to_binary(coded, F.lit("base64")), _BYTEWISE)
    yield F.coalesce(told.contains(text.encode().decode(_BYTEWISE)), F.lit(False))
    kept = [
        "_raw",
        "_reason",
        *(name for name, _ in relation.message_columns if name in ("_key", "_headers")),
    ]
    for name in kept:
        column = F.col(name) if name in ("_raw", "_reason") else F.col(name).cast("string")
        yield F.coalesce(column.contains(text), F.lit(False))
