"""Does a log add up: raw = on time + late + rejected (and what retention and erasures have removed, on record) for each
partition, no offset twice, none missing (A1, W5, E9)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tidegate.errors import TidegateError
from tidegate.iceberg.retire import Gone, retired
from tidegate.ingest.erased import erased
from tidegate.ingest.ingest import StoredLog
from tidegate.session.run import connect
from tidegate.sql.options.connectors import LogOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from tidegate.session.session import Session
    from tidegate.sql.catalog.objects import Relation

_SHOWN = 20


@dataclass(frozen=True)
class PartitionAudit:
    """One partition: rows found in the log, rows that the committed counters say, and offsets that do not fit.

    `missing` lists ranges ("17", "20-25") of offsets that were committed and are not in the log; for sources whose
    offsets are not tidegate's own, gaps can be theirs, and are no problem (`gaps_allowed`). `retired`: rows
    that retention has removed, `erased`: that were erased, as they wrote down; their offsets are not missing.
    """

    partition: str
    raw: int
    on_time: int
    late: int
    rejected: int
    counted: int
    repeated: int
    missing: list[str]
    gaps_allowed: bool
    retired: int = 0
    erased: int = 0

    @property
    def read(self) -> int:
        """Rows that were ever in the log, whatever has removed them."""
        return self.raw + self.retired + self.erased

    @property
    def ok(self) -> bool:
        complete = self.read == self.counted
        return complete and not self.repeated and (self.gaps_allowed or not self.missing)


@dataclass(frozen=True)
class SourceAudit:
    """A whole log. `source_rows`: the same rows counted in the source itself, None where that cannot be."""

    name: str
    partitions: list[PartitionAudit]
    source_rows: int | None

    @property
    def raw(self) -> int:
        return sum(p.raw for p in self.partitions)

    @property
    def retired(self) -> int:
        """Rows that retention has removed from the log."""
        return sum(p.retired for p in self.partitions)

    @property
    def erased(self) -> int:
        """Rows that were erased from the log (E9)."""
        return sum(p.erased for p in self.partitions)

    @property
    def read(self) -> int:
        """Rows that were ever in the log."""
        return sum(p.read for p in self.partitions)

    @property
    def ok(self) -> bool:
        agrees = self.source_rows is None or self.source_rows == self.read
        return agrees and all(p.ok for p in self.partitions)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        sums = {"raw": self.raw, "retired": self.retired, "erased": self.erased, "ok": self.ok}
        return asdict(self) | sums


def audit_source(session: Session, name: str, recount: bool = True) -> SourceAudit:
    """Count the log's rows anew and compare with its committed counters and, with `recount`, with the source.

    One Spark job over three columns of the log; what comes back is bounded by the number of partitions.
    """
    from pyspark.sql import functions as F

    relation = session.relation(name)
    stored = session.stored(name)
    if stored is None:
        raise TidegateError("TG512", f'"{name}" has no log yet', hint=f"tidegate run {name}")
    log = StoredLog(session.tables, session.project.storage, relation, stored)
    rows = session.tables.rows(stored).where(F.col("_outcome") != "watermark")
    # A rejected repetition of an offset is the source's own, kept on purpose: a topic or file has given it twice.
    judged = F.when(F.col("_outcome") != "rejected", F.col("_offset"))
    counts = rows.groupBy("_source_partition").agg(
        *[F.count_if(F.col("_outcome") == o).alias(o) for o in ("on_time", "late", "rejected")],
        (F.count(judged) - F.count_distinct(judged)).alias("repeated"),
        *[
            f("_offset").alias(n)
            for n, f in (("low", F.min), ("high", F.max), ("distinct", F.count_distinct))
        ],
    )
    own_offsets = bool(getattr(relation.connector, "order_column", None))
    # A topic has offsets without a message (transactions, compaction): there the broker's own count decides.
    gaps_allowed = own_offsets or bool(log.progress.sightings)
    partitions = []
    # Bounded: a row for each source partition.
    found = {row["_source_partition"]: row for row in counts.collect()}
    storage = session.project.storage
    gone, taken = retired(log.table, storage).partitions, erased(log.table, storage).partitions
    for partition in sorted({*found, *log.progress.states}):
        row = found.get(partition)
        state = log.progress.states.get(partition)
        outcome = {o: row[o] if row else 0 for o in ("on_time", "late", "rejected")}
        next_offset = state.next_offset if state else 0
        repeated = row["repeated"] if row else 0
        left, out = gone.get(partition, Gone()), taken.get(partition, Gone())
        offsets = left.offsets + out.offsets
        partitions.append(
            PartitionAudit(
                partition=partition,
                raw=sum(outcome.values()),
                **outcome,
                counted=state.on_time + state.late + state.rejected if state else 0,
                repeated=repeated,
                missing=_missing(rows, partition, row, None if gaps_allowed else next_offset, offsets),
                gaps_allowed=gaps_allowed,
                retired=left.rows,
                erased=out.rows,
            )
        )
    return SourceAudit(name, partitions, _recounted(session, relation, log) if recount else None)


def _recounted(session: Session, relation: Relation, log: StoredLog) -> int | None:
    """The rows in the source itself; None where that cannot be."""
    connector = connect(session, log)
    found = connector.recount() if connector is not None else None
    options = relation.connector
    if found is None or not isinstance(options, LogOptions):
        return found
    # What a gate of WATERMARK(…) has read may be beyond the retention of the log that it follows, or erased from it.
    upstream = session.stored(options.relation)
    assert upstream is not None
    table, storage = session.tables.open(upstream), session.project.storage
    return found + retired(table, storage).on_time + erased(table, storage).on_time


def _missing(
    rows: DataFrame, partition: str, found: Row | None, next_offset: int | None, gone: int
) -> list[str]:
    """The first ranges of offsets that are not there; with `next_offset`, between 0 and it. None if there are just as
    many as have `gone` by retention and erasures: they are no range, and only their number is known."""
    distinct: int = found["distinct"] if found else 0
    if gone and next_offset is not None and next_offset - distinct == gone:
        return []
    if found is None or found["low"] is None:
        return [_range(0, next_offset - 1)] if next_offset else []
    low, high = found["low"], found["high"]
    ranges = [(0, low - 1)] if next_offset is not None and low > 0 else []
    if high - low + 1 != distinct:
        ranges += _holes(rows, partition)
    if next_offset is not None and high < next_offset - 1:
        ranges.append((high + 1, next_offset - 1))
    return [_range(*bounds) for bounds in ranges]


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _holes(rows: DataFrame, partition: str) -> list[tuple[int, int]]:
    """The first ranges of offsets that are missing between the first and the last."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    following = F.lead("_offset").over(Window.partitionBy("_source_partition").orderBy("_offset"))
    holes = (
        rows.where((F.col("_source_partition") == partition) & F.col("_offset").isNotNull())
        .select("_source_partition", "_offset")
        .distinct()
        .withColumn("next", following)
        .where(F.col("next") > F.col("_offset") + 1)
        .orderBy("_offset")
        .limit(_SHOWN)
    )
    # Bounded: _SHOWN rows.
    return [(row["_offset"] + 1, row["next"] - 1) for row in holes.collect()]
