"""Tables with a PRIMARY KEY: their rows as of the last change of each key (T rules), kept beside the log.

The log holds every change, judged once by the gate. What it means is a pure function of it (`lives.py`): the state
table holds the last change of each life. Any number of epochs can be applied at once, between two resets of the
watermark.

The state says in its snapshot summary up to which epoch it is applied. After a crash between the two commits the
missing epochs are applied when the log is opened next (R2).
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tidegate.errors import TidegateError
from tidegate.iceberg.attempt import overtaken
from tidegate.iceberg.layout import new_state, quote, relation_identity
from tidegate.iceberg.merge import Merge
from tidegate.iceberg.protocol import Snapshot
from tidegate.iceberg.table_change import TableChange
from tidegate.plan.columns.changes import ColumnStep
from tidegate.plan.columns.changes import steps as steps_of
from tidegate.plan.gaps import RETAINED_FROM
from tidegate.plan.resets import Step, steps, until
from tidegate.project.owner import Owner
from tidegate.tables.lives import (
    CONTINUES,
    GOES_ON,
    Applied,
    CleanedRows,
    applied_of,
    joined_lives,
    lives,
    lost_rows,
    on_time_changes,
    state_identifier,
    state_names,
)
from tidegate.watermark import TimeKind
from tidegate.watermark.timekind import DAY_MICROS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame

    from tidegate.iceberg.tables import StoredTable, Tables
    from tidegate.sql.catalog.objects import Relation

#: A state is compacted where more rows than this share, and this number, are replaced; and after so many merges.
_REPLACED_SHARE, _REPLACED_ROWS, _MERGES = 0.2, 100_000, 100
#: Snapshots that expiry keeps in any case, and for how long (seconds) all of them, for those who still read one.
KEEP_SNAPSHOTS = 5
KEEP_SECONDS = 3600
#: As the lowest event time that is needed: nothing may go.
EVERYTHING = -(2**63)
#: From this many snapshots on a run expires them.
MANY_SNAPSHOTS = 20


@dataclass(frozen=True)
class Cleaned:
    """What a cleanup did: up to which event time rows went (None: none), and the data files before and after."""

    table: str
    upto: int | None
    files_before: int
    files_after: int


class KeyedTable:
    """The state of one table, open for applying changes; its caller holds the table's lease."""

    def __init__(
        self,
        tables: Tables,
        relation: Relation,
        log: str,
        clock: Callable[[], datetime],
        owner: Owner | None = None,
        changes: str | None = None,
    ) -> None:
        """`changes`: of the columns of its log, as that records them (`plan/columns/changes.py`)."""
        self.relation, self._clock = relation, clock
        self._tables, self._log, self._owner = tables, log, owner
        self.identifier = state_identifier(log)
        tables.create_table(new_state(relation, self.identifier, owner))
        self.table = tables.open(self.identifier, owner)
        if not self._follow(steps_of(changes)):
            raise TidegateError(
                "TG506",
                f'the definition of "{relation.name}" has changed since its table was made',
                hint=f'DROP "{relation.name}" and run again to read everything again',
            )

    def _follow(self, changes: Sequence[ColumnStep]) -> bool:
        """Have the columns that the log has, each step in a commit of its own (E7): a crash between the log's commit
        and this one leaves a state that its identity says to be of before. Whether it is of the relation's definition
        then."""
        wanted, identity = relation_identity(self.relation), self.table.property("tidegate.identity")
        # It is one step behind at most (the log of before is opened before the next step), and a log may have had the
        # same columns before: so the last one counts.
        behind = [number for number, step in enumerate(changes) if step.before == identity]
        for step in changes[behind[-1] :] if behind and identity != wanted else ():
            order = state_names(self.relation) if step.after == wanted else []
            change = TableChange.of(step.changes, order, {"tidegate.identity": step.after})
            base = self.table.current()
            if self.table.property("tidegate.identity") != step.before:
                continue  # Another process has followed since.
            self.table.append([], None, _text(applied_of(base).facts()), base, change=change)
            self.table = self._tables.open(self.identifier, self._owner)
        return self.table.property("tidegate.identity") == wanted

    def _now(self, table: StoredTable) -> Snapshot:
        """What the state, or its log, said last. Raises TG502 if it has got other columns since it was opened."""
        found = table.current()
        if table.property("tidegate.identity") not in (None, relation_identity(self.relation)):
            raise overtaken(table.identifier)
        return found

    def applied(self) -> Applied:
        """Where the state stands."""
        return applied_of(self.table.current())

    def catch_up(self) -> int:
        """Apply the changes of every epoch that the state does not hold yet, in one MERGE between two resets of the
        watermark. How many epochs.

        To apply one again would change nothing, unless the watermark was reset since.
        """
        stood, applied = self._now(self._tables.open(self._log)), self.applied().epoch
        epoch = stood.integer("tidegate.epoch") or 0
        for step in steps(stood.summary):
            if step.epoch is not None and applied < step.epoch <= epoch:
                self._apply(stood, step.epoch - 1)
                self._go_back(stood, step)
        self._apply(stood, epoch)
        if epoch > applied and self._is_worn():
            self.compact()
        return max(epoch - applied, 0)

    def _apply(self, log: Snapshot, upto: int) -> None:
        """Apply the changes of the epochs up to this one; of these, none is a reset."""
        base = self._now(self.table)
        before = applied_of(base)
        if upto <= before.epoch:
            return
        changes = on_time_changes(self._tables, self._log, log.id, before.epoch, upto)
        # What `G` was before the newest commit is not known; a lower one only lets a merge read more.
        newest = upto == log.integer("tidegate.epoch")
        watermark = log.integer("tidegate.watermark") if newest else before.watermark
        after = replace(before, epoch=upto, watermark=watermark, merges=before.merges + 1)
        self._merge(lives(self.relation, changes), base, after)
        self._note_unless(after, base)

    def _go_back(self, stood: Snapshot, step: Step) -> None:
        """Take back what a poisoned watermark has done to the lives (W9); what cleanup has taken stays away."""
        base = self._now(self.table)
        before = applied_of(base)
        after = replace(
            before,
            epoch=step.epoch or before.epoch,
            watermark=None if before.watermark is None else min(before.watermark, step.mark),
            cleaned=self.cleaned_behind(step, stood)[0],
            merges=before.merges + 1,
            resets=until(stood.summary, step.epoch or 0),
        )
        if base.id is not None:
            changes = joined_lives(self.relation, self._rows(base.id), step.mark)
            keys = [*(quote(k) for k in self.relation.primary_key), "_source_partition", "_offset"]
            same = " AND ".join(f"t.{k} = s.{k}" for k in keys)
            matched = ((f"s.{quote(GOES_ON)}", None), (None, ("_since",)))
            self.table.merge_rows(Merge(changes, same, matched, summary=_text(after.facts())), base)
        self._note_unless(after, base)

    def _note_unless(self, after: Applied, base: Snapshot) -> None:
        """Where there was nothing to merge, Spark has committed nothing: that the epochs are applied is a fact all the
        same."""
        if self.applied().epoch != after.epoch:
            self._note(replace(after, merges=applied_of(base).merges).facts(), base)

    def cleaned_behind(self, step: Step, stood: Snapshot) -> tuple[int | None, CleanedRows | None]:
        """Up to where rows may be gone by cleanup once the watermark is reset, and which of later times are gone that
        the reset does not bring back (W9), as far as the log, at `stood`, still has them."""
        applied = self.applied()
        if applied.cleaned is None or applied.cleaned <= step.mark:
            return applied.cleaned, None
        assert step.epoch is not None
        resets = [s for s in steps(stood.summary) if s.epoch is not None and s.epoch < step.epoch]
        changes = on_time_changes(self._tables, self._log, stood.id, upto=step.epoch - 1)
        state = self._rows(applied.snapshot)
        lost = lost_rows(self.relation, changes, state, [*resets, step], applied.cleaned)
        edge = self._tables.open(self._log).property(RETAINED_FROM)
        # Of rows that the log does not have any more nobody knows which were cleaned.
        marks = [step.mark, *([lost.last] if lost else [])]
        return max([*marks, *([min(applied.cleaned, int(edge) - 1)] if edge else [])]), lost

    def _rows(self, snapshot: int | None) -> DataFrame:
        return self._tables.rows(self.identifier, snapshot)

    def cleanup(self, keep_from: int | None = None, rewrite: bool = True) -> Cleaned:
        """Delete what nobody needs any more: rows with an event time at or below `G` (T2) that lie before `keep_from`,
        the lowest event time that a reader still needs (None: nobody needs expired rows; EVERYTHING: all; T3).

        `rewrite`: also rows in files that hold others too; otherwise only whole days go, without reading a row.
        """
        base = self._now(self.table)
        now, files = applied_of(base), self._files()
        upto = _cleanable(self.relation, now, keep_from, rewrite)
        if upto is None:
            return Cleaned(self.relation.name, None, files, files)
        assert self.relation.watermark is not None
        kind, column = self.relation.watermark.kind, quote(self.relation.watermark.column)
        facts = replace(now, cleaned=upto).facts()
        # "< the next tick" instead of "<=": at a day's start it takes whole partitions, which are dropped unread.
        self.table.delete_rows(f"{column} < {kind.spark_literal(upto + 1)}", _text(facts), base)
        if self.applied().cleaned != upto:
            self._note(facts, base)
        return Cleaned(self.relation.name, upto, files, self._files())

    def compact(self) -> None:
        """Rewrite small files of a partition into one, and those that have rows marked as deleted. Where a commit of
        somebody else is in the way, which always wins, it is left to the next time: no row depends on it."""
        upkeep = self._tables.upkeep(self.identifier, self._owner)
        try:
            gone, _ = upkeep.compact(least_files=2)
        except Exception as error:
            if not upkeep.is_conflict(error):
                raise
            return
        base = self.table.current()
        now = applied_of(base)
        if gone or now.merges:
            # Also where there was nothing to rewrite: it need not be looked for again so soon.
            with unless_overtaken():
                self._note(replace(now, merges=0).facts(), base)

    def expire_snapshots(self, keep_seconds: float = KEEP_SECONDS, many: int = 0) -> None:
        """Expire snapshots older than `keep_seconds`, except for the newest few, and remove the files that they alone
        held; nothing happens below `many` snapshots."""
        self.table.current()
        if len(self.table.snapshot_ids()) > max(many, KEEP_SNAPSHOTS):
            upkeep = self._tables.upkeep(self.identifier, self._owner)
            bound = upkeep.shape().bound(self._clock().timestamp(), keep_seconds, None)
            if bound is not None:
                upkeep.expire(bound, KEEP_SNAPSHOTS)

    def _merge(self, changes: DataFrame, base: Snapshot, after: Applied) -> None:
        """On `base`. No row at or below the watermark `G` before these changes is touched, so its files are not
        read."""
        relation, watermark = self.relation, applied_of(base).watermark
        keys = [f"t.{quote(k)} = s.{quote(k)}" for k in relation.primary_key]
        stored = [quote(c) for c in state_names(relation)]
        replaced = tuple(c for c in stored if c != "`_since`")
        matched: tuple[tuple[str | None, tuple[str, ...] | None], ...] = ((None, replaced),)
        if relation.ttl:
            assert relation.watermark is not None
            column = f"t.{quote(relation.watermark.column)}"
            # The life that the change goes on with; or the change itself, if it is there already.
            goes_on = f"s.{quote(CONTINUES)} AND (s._since IS NULL OR {column} > s._since)"
            keys += ["t._source_partition = s._source_partition", "t._offset <= s._offset"]
            keys.append(f"(t._offset = s._offset OR ({goes_on}))")
            if watermark is not None:
                keys.append(f"{column} > {relation.watermark.kind.spark_literal(watermark)}")
            missing = ""
        else:
            # Without event time nothing would ever clean a tombstone, and the newest change always wins.
            matched = (("s._tombstone", None), *matched)
            missing = "NOT s._tombstone"
        on, summary = " AND ".join(keys), _text(after.facts())
        self.table.merge_rows(Merge(changes, on, matched, tuple(stored), missing, summary), base)

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
        return int(self.table.totals().get(key) or 0)

    def _note(self, facts: dict[str, Any], base: Snapshot) -> None:
        """A commit without files, for its summary. Raises TG502 if somebody has committed since `base`."""
        self.table.append([], None, _text(facts), base)


def needs_upkeep(tables: Tables, relation: Relation, log: str, keep_from: int | None) -> bool:
    """Whether a run has expired rows to delete at its end, or old snapshots to expire; costs no Spark job."""
    table = tables.open(state_identifier(log))
    if _cleanable(relation, applied_of(table.current()), keep_from, rewrite=False) is not None:
        return True
    return len(table.snapshot_ids()) > 2 * MANY_SNAPSHOTS


def note_again(table: StoredTable, compacted: int) -> None:
    """Where files of a state were compacted, say again what was said of it last, in a snapshot of its own. A compaction
    itself says nothing: it may be committed on top of changes that came after the look at the facts."""
    base = table.current()
    if compacted:
        with unless_overtaken():
            table.append([], None, base.facts, base)


@contextmanager
def unless_overtaken() -> Iterator[None]:
    """For a commit that only repeats what was said before: whoever was faster has said more."""
    try:
        yield
    except TidegateError as error:
        if error.code != "TG502":
            raise


def _cleanable(relation: Relation, now: Applied, keep_from: int | None, rewrite: bool) -> int | None:
    """Up to which event time rows can go; None if no more than is gone already. See `KeyedTable.cleanup`."""
    if relation.watermark is None or not relation.ttl or now.watermark is None or keep_from == EVERYTHING:
        return None
    upto = now.watermark if keep_from is None else min(now.watermark, keep_from - 1)
    if not rewrite and relation.watermark.kind in (TimeKind.TIMESTAMP, TimeKind.TIMESTAMPTZ):
        upto = (upto + 1) // DAY_MICROS * DAY_MICROS - 1
    return upto if now.cleaned is None or upto > now.cleaned else None


def _text(facts: dict[str, Any]) -> dict[str, str]:
    return {f"tidegate.{key}": str(value) for key, value in facts.items() if value is not None}
