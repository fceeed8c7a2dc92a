"""Does a log add up: raw = on time + late + rejected for each partition, no offset twice, none missing (A1, W5)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tidegate.engine.run import connect
from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from tidegate.engine.session import Session

_SHOWN = 20


@dataclass(frozen=True)
class PartitionAudit:
    """One partition: rows found in the log, rows that the committed counters say, and offsets that do not fit.

    `missing` lists ranges ("17", "20-25") of offsets that were committed and are not in the log; for sources whose
    offsets come from a column of their own, gaps can be theirs, and are no problem (`gaps_allowed`).
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

    @property
    def ok(self) -> bool:
        return self.raw == self.counted and not self.repeated and (self.gaps_allowed or not self.missing)


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
    def ok(self) -> bool:
        agrees = self.source_rows is None or self.source_rows == self.raw
        return agrees and all(p.ok for p in self.partitions)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self) | {"raw": self.raw, "ok": self.ok}


def audit_source(session: Session, name: str, recount: bool = True) -> SourceAudit:
    """Count the log's rows anew and compare with its committed counters and, with `recount`, with the source.

    One Spark job over three columns of the log; what comes back is bounded by the number of partitions.
    """
    from pyspark.sql import functions as F

    relation = session.relation(name)
    stored = session.stored(name)
    if stored is None:
        raise TidegateError("TG512", f'"{name}" has no log yet', hint=f"tidegate run {name}")
    log = session.log(relation)
    rows = session.spark.table(stored).where(F.col("_outcome") != "watermark")
    counts = rows.groupBy("_source_partition").agg(
        *[F.count_if(F.col("_outcome") == o).alias(o) for o in ("on_time", "late", "rejected")],
        (F.count("_offset") - F.count_distinct("_offset")).alias("repeated"),
        *[
            f("_offset").alias(n)
            for n, f in (("low", F.min), ("high", F.max), ("distinct", F.count_distinct))
        ],
    )
    gaps_allowed = bool(getattr(relation.connector, "order_column", None))
    partitions = []
    found = {row["_source_partition"]: row for row in counts.collect()}
    for partition in sorted({*found, *log.progress.states}):
        row = found.get(partition)
        state = log.progress.states.get(partition)
        outcome = {o: row[o] if row else 0 for o in ("on_time", "late", "rejected")}
        next_offset = state.next_offset if state else 0
        # A rejected repetition of an offset is a repetition of the source's, kept on purpose.
        repeated = row["repeated"] if row and not gaps_allowed else 0
        partitions.append(
            PartitionAudit(
                partition=partition,
                raw=sum(outcome.values()),
                **outcome,
                counted=state.on_time + state.late + state.rejected if state else 0,
                repeated=repeated,
                missing=_missing(rows, partition, row, None if gaps_allowed else next_offset),
                gaps_allowed=gaps_allowed,
            )
        )
    connector = connect(session, relation, log) if recount else None
    return SourceAudit(name, partitions, connector.recount() if connector else None)


def _missing(rows: DataFrame, partition: str, found: Row | None, next_offset: int | None) -> list[str]:
    """The first ranges of offsets that are not there; with `next_offset`, between 0 and it."""
    low, high = (found["low"], found["high"]) if found else (None, None)
    if low is None:
        return [_range(0, next_offset - 1)] if next_offset else []
    ranges = [(0, low - 1)] if next_offset is not None and low > 0 else []
    if high - low + 1 != found["distinct"]:
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
    return [(row["_offset"] + 1, row["next"] - 1) for row in holes.collect()]
