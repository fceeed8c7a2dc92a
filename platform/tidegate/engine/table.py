"""Tables with a PRIMARY KEY: their rows as of the last change of each key (T rules), kept beside the log.

The log holds every change, judged once by the gate. What it means is a pure function of it: per key and source
partition the changes form lives, and the state table holds the last change of each life. A life ends where its row
had expired when the next change was judged: at or below the bar of that change, max(Wp, G) as the log recorded it
(`_wm`). T2 says `G`; the bar is the same for a single partition, it is never below `G`, T1 expires changes by it, and
unlike `G` it does not depend on how the log was cut into batches (W4). So any number of epochs can be applied at once.

The state says in its snapshot summary up to which epoch it is applied. After a crash between the two commits the
missing epochs are applied when the log is opened next (R2).
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tidegate.engine.commit import IcebergTable, Snapshot
from tidegate.engine.layout import ON_TIME, create_state, quote, relation_identity, state_columns
from tidegate.engine.spark import settings
from tidegate.engine.upkeep_table import Shape, compact, expire
from tidegate.errors import TidegateError
from tidegate.project.owner import Owner
from tidegate.sql.inner_names import inner
from tidegate.watermark import TimeKind
from tidegate.watermark.timekind import DAY_MICROS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.sql.catalog import Relation

#: Beside a state's columns: whether the life goes on.
CONTINUES = inner("continues")
#: Inside, beside the columns of changes or of a state.
_BEGINS, _FIRST, _ENDS, _PLACE, _RANK, _REPLACED = (
    inner(name) for name in ("begins", "first", "ends", "place", "rank", "replaced")
)
_PROPERTY = "spark.sql.iceberg.snapshot-property."
#: A state is compacted where more rows than this share, and this number, are replaced; and after so many merges.
_REPLACED_SHARE, _REPLACED_ROWS, _MERGES = 0.2, 100_000, 100
#: Snapshots that vacuuming keeps in any case, and for how long (seconds) all of them, for those who still read one.
KEEP_SNAPSHOTS = 5
KEEP_SECONDS = 3600
#: As the lowest event time that is needed: nothing may go.
EVERYTHING = -(2**63)
#: From this many snapshots on a run vacuums.
MANY_SNAPSHOTS = 20


@dataclass(frozen=True)
class Applied:
    """A state to read: `snapshot` of the state table (None: still empty), the log's `epoch` up to which it holds every
    change, and `G` after that epoch. `cleaned`: rows with an event time at or below it may be gone. `merges`: how many
    there were since its files were last written anew."""

    snapshot: int | None
    epoch: int
    watermark: int | None
    cleaned: int | None
    merges: int = 0

    def facts(self) -> dict[str, Any]:
        """What a snapshot's summary says of it."""
        return {
            "applied-epoch": self.epoch,
            "applied-watermark": self.watermark,
            "cleaned": self.cleaned,
            "merges": self.merges,
        }


@dataclass(frozen=True)
class Cleaned:
    """What a cleanup did: up to which event time rows went (None: none), and the data files before and after."""

    table: str
    upto: int | None
    files_before: int
    files_after: int


class TableState:
    """The state of one table, open for applying changes; its caller holds the table's lease."""

    def __init__(self, spark: SparkSession, relation: Relation, log: str, owner: Owner | None = None) -> None:
        self.relation = relation
        self._spark, self._log = spark, log
        self.identifier = state_identifier(log)
        spark.sql(create_state(relation, self.identifier, owner))
        self.table = IcebergTable(spark, self.identifier, owner)
        stored = self.table.property("tidegate.identity")
        if stored != relation_identity(relation):
            raise TidegateError(
                "TG506",
                f'the definition of "{relation.name}" has changed since its table was made',
                hint=f'DROP "{relation.name}" and run again to build it anew',
            )

    def applied(self) -> Applied:
        """Where the state stands."""
        return _applied(self.table.current())

    def catch_up(self) -> int:
        """Apply the changes of every epoch that the state does not hold yet, in one MERGE. How many epochs.

        To apply one again would change nothing.
        """
        log = IcebergTable(self._spark, self._log).current()
        base = self.table.current()
        before = _applied(base)
        epoch = log.integer("tidegate.epoch") or 0
        if epoch <= before.epoch:
            return 0
        changes = on_time_changes(self._spark, self._log, log.id, before.epoch)
        after = replace(
            before, epoch=epoch, watermark=log.integer("tidegate.watermark"), merges=before.merges + 1
        )
        facts = after.facts()
        with self._summary(facts):
            self._merge(lives(self.relation, changes), before.watermark)
        if self.applied().epoch != epoch:
            # Nothing to merge, so Spark committed nothing; that the epochs are applied is a fact all the same.
            self._note(replace(after, merges=before.merges).facts(), base)
        if self._is_worn():
            self.compact()
        return epoch - before.epoch

    def cleanup(self, keep_from: int | None = None, rewrite: bool = True) -> Cleaned:
        """Delete what nobody needs any more: rows with an event time at or below `G` (T2) that lie before `keep_from`,
        the lowest event time that a reader still needs (None: nobody needs expired rows; EVERYTHING: all; T3).

        `rewrite`: also rows in files that hold others too; otherwise only whole days go, without reading a row.
        """
        base = self.table.current()
        now, files = _applied(base), self._files()
        upto = _cleanable(self.relation, now, keep_from, rewrite)
        if upto is None:
            return Cleaned(self.relation.name, None, files, files)
        assert self.relation.watermark is not None
        kind, column = self.relation.watermark.kind, quote(self.relation.watermark.column)
        facts = replace(now, cleaned=upto).facts()
        # "< the next tick" instead of "<=": at a day's start it takes whole partitions, which are dropped unread.
        with self._summary(facts):
            self._spark.sql(f"DELETE FROM {self.identifier} WHERE {column} < {kind.spark_literal(upto + 1)}")
        if self.applied().cleaned != upto:
            self._note(facts, base)
        return Cleaned(self.relation.name, upto, files, self._files())

    def compact(self) -> None:
        """Rewrite small files of a partition into one, and those that have rows marked as deleted."""
        facts = replace(self.applied(), merges=0).facts()
        compact(self._spark, self.table, least_files=2, properties=_text(facts))
        if self.applied().merges:
            # There was nothing to rewrite, so nothing was committed: it need not be looked for again so soon.
            self._note(facts, self.table.current())

    def vacuum(self, keep_seconds: float = KEEP_SECONDS, many: int = 0) -> None:
        """Forget snapshots older than `keep_seconds`, except for the newest few, and remove the files that they alone
        held; nothing happens below `many` snapshots."""
        shape = Shape.of(self.table)
        if len(shape.snapshots) > max(many, KEEP_SNAPSHOTS):
            expire(self.table, shape.bound(time.time(), keep_seconds, None), KEEP_SNAPSHOTS)

    def tidy(self, keep_from: int | None) -> Cleaned:
        """What a run does after its views: whole days go, old snapshots go where many have gathered."""
        cleaned = self.cleanup(keep_from, rewrite=False)
        self.vacuum(many=MANY_SNAPSHOTS)
        return cleaned

    def _merge(self, changes: DataFrame, watermark: int | None) -> None:
        """`watermark`: `G` before these changes; no row at or below it is touched, so its files are not read."""
        relation = self.relation
        changes.createOrReplaceTempView(_CHANGES)
        keys = [f"t.{quote(k)} = s.{quote(k)}" for k in relation.primary_key]
        stored = [quote(c) for c in state_names(relation)]
        replaced = [c for c in stored if c != "`_since`"]
        matched = f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{c} = s.{c}' for c in replaced)}"
        if relation.ttl:
            assert relation.watermark is not None
            column = f"t.{quote(relation.watermark.column)}"
            # The life that the change goes on with; or the change itself, if it is there already.
            goes_on = f"s.{quote(CONTINUES)} AND (s._since IS NULL OR {column} > s._since)"
            keys += ["t._source_partition = s._source_partition", "t._offset <= s._offset"]
            keys.append(f"(t._offset = s._offset OR ({goes_on}))")
            if watermark is not None:
                keys.append(f"{column} > {relation.watermark.kind.spark_literal(watermark)}")
            missing = "WHEN NOT MATCHED THEN"
        else:
            # Without event time nothing would ever clean a tombstone, and the newest change always wins.
            matched = f"WHEN MATCHED AND s._tombstone THEN DELETE {matched}"
            missing = "WHEN NOT MATCHED AND NOT s._tombstone THEN"
        self._spark.sql(
            f"MERGE INTO {self.identifier} t USING {_CHANGES} s ON {' AND '.join(keys)} {matched} "
            f"{missing} INSERT ({', '.join(stored)}) VALUES ({', '.join(f's.{c}' for c in stored)})"
        )

    def _is_worn(self) -> bool:
        """Whether so many rows are replaced, and still in the files they were in, or so many small files have come,
        that to write them anew costs less than to read past them from now on."""
        gone = self._total("total-position-deletes")
        most = max(_REPLACED_ROWS, int(_REPLACED_SHARE * self._total("total-records")))
        return gone > most or self.applied().merges >= _MERGES

    def _files(self) -> int:
        return self._total("total-data-files")

    def _total(self, key: str) -> int:
        """A total of the table as its newest snapshot has it."""
        current = self.table.java.currentSnapshot()
        return int(current.summary().get(key) or 0) if current is not None else 0

    def _note(self, facts: dict[str, Any], base: Snapshot) -> None:
        """A commit without files, for its summary. Raises TG502 if somebody has committed since `base`."""
        self.table.append([], None, _text(facts), base)

    def _summary(self, facts: dict[str, Any]) -> AbstractContextManager[None]:
        """Statements inside commit with these facts in their snapshot's summary."""
        return settings(self._spark, {_PROPERTY + key: value for key, value in _text(facts).items()})


#: What MERGE reads its changes from.
_CHANGES = "_tidegate_changes"


def state_identifier(log: str) -> str:
    """Identifier of the state table that belongs to a log: of `a.b.t` it is `a.b.t$state`. No user's name has a $."""
    assert log.endswith("`")
    return f"{log[:-1]}$state`"


def state_names(relation: Relation) -> list[str]:
    """The columns of a state table."""
    return [name for name, _ in state_columns(relation)]


def on_time_changes(spark: SparkSession, log: str, snapshot: int | None, after: int = 0) -> DataFrame:
    """The changes that count, at a snapshot of the log, of the epochs later than `after`."""
    from pyspark.sql import functions as F

    rows = spark.read.option("versionAsOf", snapshot).table(log)
    return rows.where((F.col("_outcome") == ON_TIME) & (F.col("_epoch") > after))


def lives(relation: Relation, changes: DataFrame) -> DataFrame:
    """The last change of every life in `changes`: the state's columns, and `CONTINUES`: whether the life may have
    begun before (it goes on if the stored row was above `_since`, the bar of its first change in here).

    Over a whole log this is the state as if it had never been cleaned. Without a watermark a key has one life, and its
    last change is that of the larger (epoch, partition, offset).
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    keys = [F.col(quote(k)) for k in relation.primary_key]
    changes = changes.withColumn("_tombstone", F.col("_op") == "delete")
    if not relation.ttl:
        latest = Window.partitionBy(*keys).orderBy(
            F.desc("_epoch"), F.desc("_source_partition"), F.desc("_offset")
        )
        last = changes.withColumn(_RANK, F.row_number().over(latest)).where(F.col(_RANK) == 1)
        return last.select(*[quote(c) for c in state_names(relation)])
    assert relation.watermark is not None
    column = F.col(quote(relation.watermark.column))
    order = Window.partitionBy(*keys, "_source_partition").orderBy("_offset")
    place = F.row_number().over(order)
    expired = F.coalesce(F.lag(column).over(order) <= F.col("_wm"), F.lit(False))
    marked = changes.withColumn(_PLACE, place).withColumn(_BEGINS, (F.col(_PLACE) == 1) | expired)
    so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    # In a struct, because the bar itself may be NULL (no watermark yet).
    first = F.last(F.when(F.col(_BEGINS), F.struct("_wm", _PLACE)), ignorenulls=True).over(so_far)
    marked = marked.withColumn(_FIRST, first)
    marked = marked.withColumn(_ENDS, F.coalesce(F.lead(_BEGINS).over(order), F.lit(True))).where(
        F.col(_ENDS)
    )
    marked = marked.withColumn("_since", F.col(f"{_FIRST}._wm"))
    return marked.select(
        *[quote(c) for c in state_names(relation)], (F.col(f"{_FIRST}.{_PLACE}") == 1).alias(CONTINUES)
    )


def current_rows(
    spark: SparkSession, relation: Relation, log: str, *system: str, snapshot: int | None = None
) -> DataFrame:
    """The table as SELECT shows it: the last change of each key that has not expired (T2, T4), without deleted keys.
    `system`: columns of the state to add. `snapshot`: of the state (`Applied.snapshot`), None is the newest."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    state = state_identifier(log)
    if not spark.catalog.tableExists(state):
        return spark.table(log).where("false").select(*[quote(c.name) for c in relation.columns], *system)
    stored = IcebergTable(spark, state)
    reader = spark.read if snapshot is None else spark.read.option("versionAsOf", snapshot)
    rows = reader.table(state)
    if relation.ttl:
        assert relation.watermark is not None
        now = _applied(stored.current() if snapshot is None else stored.at(snapshot))
        column = F.col(quote(relation.watermark.column))
        if now.watermark is not None:
            rows = rows.where(column > F.expr(relation.watermark.kind.spark_literal(now.watermark)))
        if relation.connector is not None:
            # Only a connector has several partitions; in one partition what is not expired is one row per key.
            keys = [quote(k) for k in relation.primary_key]
            order = Window.partitionBy(*keys).orderBy(
                column.desc(), F.desc("_source_partition"), F.desc("_offset")
            )
            rows = rows.withColumn(_RANK, F.row_number().over(order)).where(F.col(_RANK) == 1)
    return rows.where(~F.col("_tombstone")).select(*[quote(c.name) for c in relation.columns], *system)


def changes_frame(
    spark: SparkSession,
    relation: Relation,
    log: str,
    snapshot: int | None = None,
    low: int | None = None,
    high: int | None = None,
) -> DataFrame:
    """What a view over the table reads: the rows with event time in [`low`, `high`) (None: no bound) as they were when
    their life ended or as they are now, expired ones that cleanup has left included; the relation's columns,
    `_source_partition`, `_offset` and `_arrival`. `snapshot`: of the state (`Applied.snapshot`), None is the newest.

    Once the watermark has passed a window, no change can touch its rows any more (T1, T2), so closed results never
    change. Of one key in several partitions, a row counts unless another partition holds a larger one (T4) in a life
    that began before the row had expired by that partition's own watermark: a rule that no cut into batches changes.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    assert relation.watermark is not None
    reader = spark.read if snapshot is None else spark.read.option("versionAsOf", snapshot)
    rows = reader.table(state_identifier(log))
    kind, column = relation.watermark.kind, F.col(quote(relation.watermark.column))
    if low is not None:
        rows = rows.where(column >= F.expr(kind.spark_literal(low)))
    if relation.connector is not None:
        keys = [quote(k) for k in relation.primary_key]
        order = Window.partitionBy(*keys).orderBy(column, "_source_partition", "_offset")
        larger = order.rowsBetween(1, Window.unboundedFollowing)
        # An undefined bar is below every time; a later life of the same partition began above this row's time.
        unbounded = F.coalesce(F.max(F.col("_since").isNull()).over(larger), F.lit(False))
        replaced = unbounded | F.coalesce(F.min("_since").over(larger) < column, F.lit(False))
        rows = rows.withColumn(_REPLACED, replaced).where(~F.col(_REPLACED))
    if high is not None:
        rows = rows.where(column < F.expr(kind.spark_literal(high)))
    rows = rows.where(~F.col("_tombstone"))
    return rows.select(*[quote(c.name) for c in relation.columns], "_source_partition", "_offset", "_arrival")


def is_untidy(spark: SparkSession, relation: Relation, log: str, keep_from: int | None) -> bool:
    """Whether `TableState.tidy` has something to do; costs no Spark job."""
    table = IcebergTable(spark, state_identifier(log))
    if _cleanable(relation, _applied(table.current()), keep_from, rewrite=False) is not None:
        return True
    return sum(1 for _ in table.java.snapshots()) > 2 * MANY_SNAPSHOTS


def _cleanable(relation: Relation, now: Applied, keep_from: int | None, rewrite: bool) -> int | None:
    """Up to which event time rows can go; None if no more than is gone already. See `TableState.cleanup`."""
    if relation.watermark is None or not relation.ttl or now.watermark is None or keep_from == EVERYTHING:
        return None
    upto = now.watermark if keep_from is None else min(now.watermark, keep_from - 1)
    if not rewrite and relation.watermark.kind in (TimeKind.TIMESTAMP, TimeKind.TIMESTAMPTZ):
        upto = (upto + 1) // DAY_MICROS * DAY_MICROS - 1
    return upto if now.cleaned is None or upto > now.cleaned else None


def applied_state(spark: SparkSession, log: str) -> Applied:
    """Where the state of a log stands, for readers."""
    return _applied(IcebergTable(spark, state_identifier(log)).current())


def _applied(snapshot: Snapshot) -> Applied:
    return Applied(
        snapshot.id,
        snapshot.integer("tidegate.applied-epoch") or 0,
        snapshot.integer("tidegate.applied-watermark"),
        snapshot.integer("tidegate.cleaned"),
        snapshot.integer("tidegate.merges") or 0,
    )


def _text(facts: dict[str, Any]) -> dict[str, str]:
    return {f"tidegate.{key}": str(value) for key, value in facts.items() if value is not None}
