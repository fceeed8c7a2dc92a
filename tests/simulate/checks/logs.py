"""What must hold of the log of one source in every state that a reader can see: rows, decisions, watermarks, plans."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.oracles.columns import Columns
from tests.oracles.oracle import Oracle, Row
from tests.simulate.checks.topic_check import Recorded, SourceTopic
from tests.simulate.checks.wrong import Judged, Place, Wrong, few
from tests.simulate.scripts.changes import FIELDS, Change, Definition, held
from tests.simulate.scripts.pipelines import mark, seconds
from tests.simulate.world.driver import World
from tests.simulate.world.outside import HUNG

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

    from tests.simulate.checks.erasures import Erasures
    from tidegate.session.session import Session

#: The types of columns as Iceberg calls them.
_TYPES = {"INT": "int", "BIGINT": "long"}
_PLAN = re.compile(r"/_streams/[^/]+/([^/]+)/plans/plan-(\d+)$")
#: Why a message is rejected that was given twice.
REPEATED = "offset_not_increasing"


@dataclass
class Log:
    """Everything that readers have seen of one log. `given`: every row that the source was given, by its id; `source`:
    what it reads, where that is a topic; `alone`: whether no other driver does the same."""

    name: str
    world: World
    strategy: Callable[[Row], int | None]
    source: SourceTopic | None = None
    alone: bool = True
    given: dict[int, dict[str, Any]] = field(default_factory=dict)
    rows: dict[Place, Judged] = field(default_factory=dict)
    epoch: int = 0
    #: By epoch: the watermark of each partition that the log knows, and the published one.
    marks: dict[int, tuple[dict[str, int | None], int | None]] = field(default_factory=dict)
    #: By epoch and partition what the log says of it; of rows of topics, how often one was given again.
    recorded: dict[int, dict[str | None, Recorded]] = field(default_factory=dict)
    repeats: Counter[Place] = field(default_factory=Counter)
    #: The columns that change: as somebody has written them last; and those that the log has had, each with the epoch
    #: of the commit that has changed them.
    definition: Definition = field(default_factory=Definition)
    versions: list[tuple[int, Columns]] = field(default_factory=list)
    #: Rows that were erased: they were decided, and are nowhere any more (E9).
    erased: set[Place] = field(default_factory=set)
    erasures: Erasures | None = None
    _plans: dict[int, dict[str, Any]] = field(default_factory=dict)

    def look(
        self,
        rows: list[dict[str, Any]],
        summary: dict[str, str],
        schema: Schema,
        properties: Mapping[str, str],
    ) -> None:
        """At a commit. Raises Wrong."""
        columns = [(one.name, str(one.field_type)) for one in schema.fields if one.name in FIELDS]
        self._look_at_columns(columns, int(summary.get("tidegate.epoch", self.epoch)))
        log: dict[Place, Judged] = {}
        repeats = Counter[Place]()
        # (What was rejected as given once more is what it repeats, in another order.)
        for row in sorted(rows, key=lambda row: row.get("_reason") == REPEATED):
            if row["_outcome"] == "watermark":
                continue
            place = (row["_source_partition"], row["_offset"])
            judged = Judged(
                row.get("id"), row["_outcome"], row["_epoch"], seconds(row.get("ts")), row.get("_reason")
            )
            if place not in log:
                log[place] = judged
            elif self.source is None or judged.outcome != "rejected":
                raise Wrong(f"R2: row {place} is there twice")
            else:
                repeats[place] += 1
        for place, judged in log.items():
            if judged.at is None and judged.outcome != "rejected":
                raise Wrong(f"W5: row {place} has no time, and is {judged.outcome}")
        self._look_at_erased(log, properties)
        for place, judged in self.rows.items():
            if place not in self.erased and log.get(place) != judged:
                raise Wrong(f"R2: row {place} was {judged}, and is {log.get(place)}")
        if gone := self.repeats - repeats:
            raise Wrong(f"R2: repeats of {few(gone)} are not there any more")
        epoch = int(summary.get("tidegate.epoch", self.epoch))
        if epoch not in (self.epoch, self.epoch + 1):
            raise Wrong(f"R2: epoch {epoch} after {self.epoch}")
        self.rows = log | {place: self.rows[place] for place in self.erased}
        self.epoch, self.repeats = epoch, repeats
        self._note_marks(rows)
        if self.source is not None:
            self.source.reached(self.recorded[epoch])

    def _look_at_erased(self, log: dict[Place, Judged], properties: Mapping[str, str]) -> None:
        """E9, W5: rows go only where somebody erases them, none comes back, and the same commit says how many."""
        if back := self.erased & log.keys():
            raise Wrong(f"E9: rows {sorted(back)[:3]} were erased, and are there again")
        gone = self.rows.keys() - log.keys() - self.erased
        if gone and self.erasures is not None:
            self.erasures.goes([self.rows[place] for place in sorted(gone)], log.values())
            self.erased |= gone
        told = int(properties.get("tidegate.erased-rows", 0))
        if told != len(self.erased):
            raise Wrong(f"W5: {told} rows are said to be erased, and {len(self.erased)} are")

    def _look_at_columns(self, stored: list[tuple[str, str]], epoch: int) -> None:
        """E7: the columns are those of before, or all of those of the newest definition."""
        for at, columns in (
            (None, self.versions[-1][1] if self.versions else None),
            (epoch, self.definition.columns),
        ):
            if columns is not None and stored in ([], [(one.name, _TYPES[one.kind]) for one in columns]):
                if at is not None:
                    self.versions.append((epoch if self.versions else 0, columns))
                return
        raise Wrong(f"E7: the log has the columns {stored}, and its definition {self.definition.columns}")

    def edited(self, change: Change) -> Definition | None:
        """The definition after an edit; None where the log does not have that of before yet."""
        if not self.versions or self.versions[-1][1] != self.definition.columns:
            return None
        after = self.definition.after(change, len(self.versions))
        after = after if after is not None and after.columns else None
        self.definition = after or self.definition
        return after

    def decoded(self, epoch: int) -> Columns:
        """The columns by which the rows of an epoch were decoded."""
        later = [columns for since, columns in self.versions[1:] if since < epoch]
        return later[-1] if later else self.versions[0][1]

    def columns(self, session: Session) -> None:
        """E2, E3: each value is under its own column, and nowhere else. Raises Wrong."""
        now = self.versions[-1][1] if self.versions else ()
        if now != self.definition.columns:
            raise Wrong(f"E7: the log has the columns {now}, and its definition {self.definition.columns}")
        names = [column.name for column in now]
        epochs = {one.id: one.epoch for one in self.rows.values() if one.outcome == "on_time"}
        for row in session.table(self.name).select("id", *names).collect():
            right = held(row["id"], self.decoded(epochs[row["id"]]), now)
            if (shown := {name: row[name] for name in names}) != right:
                raise Wrong(f"E2: row {row['id']} shows {shown}, by the rules {right}")

    def _note_marks(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            if row["_outcome"] != "watermark" or row["_epoch"] in self.marks:
                continue
            same = [r for r in rows if r["_outcome"] == "watermark" and r["_epoch"] == row["_epoch"]]
            known = {r["_source_partition"]: mark(r["_progress"]["watermark"]) for r in same}
            known.pop(None, None)
            published = [r["_progress"]["published"] for r in same if r["_source_partition"] is None]
            self.recorded[row["_epoch"]] = {
                r["_source_partition"]: Recorded(r["_arrival"], r["_progress"]) for r in same
            }
            self.marks[row["_epoch"]] = (known, mark(published[0]) if published else None)
            # (The commit that changes columns judges nothing.)
            judges = self.source is None and row["_epoch"] != self.versions[-1][0]
            missing = self._partitions() - known.keys() if judges else set()
            if missing and not self.world.store.has_hidden():
                raise Wrong(f"W6: epoch {row['_epoch']} was judged without partitions {sorted(missing)}")

    @property
    def published(self) -> int | None:
        """The watermark that the newest commit has published."""
        return self.marks[max(self.marks)][1] if self.marks else None

    def _partitions(self) -> set[str]:
        """Those of every row that was given."""
        return {row["p"] for row in self.given.values()}

    def judged(self, outcome: str, columns: Columns | None = None) -> list[Row]:
        """The rows with this outcome, and what `columns` show of them (None: those of today)."""
        return [
            Row(place[0], place[1], judged.at, None, self._payload(judged.id, judged.epoch, columns))
            for place, judged in sorted(self.rows.items())
            if judged.outcome == outcome and judged.id is not None and place not in self.erased
        ]

    def _payload(self, number: int, epoch: int, columns: Columns | None) -> dict[str, Any]:
        now = self.versions[-1][1] if columns is None else columns
        return {**self.given[number], **held(number, self.decoded(epoch), now)}

    # -- plans -------------------------------------------------------------------------------------------------

    def look_at_plan(self, what: str, path: str) -> None:
        """W4: what a plan says stands until its batch is committed, unless a file that it reads is missing. Raises
        Wrong; other files are none of its business."""
        found = _PLAN.search(path)
        epoch = int(found[2]) if found and found[1] == self.name else 0
        if epoch <= self.epoch:
            return
        if what == "went":
            raise Wrong(f"W4: the plan of epoch {epoch} went before it was committed")
        try:
            now = json.loads(self.world.store.files[path])
        except ValueError:
            raise Wrong(f"R2: half of the plan of epoch {epoch} is there") from None
        before, self._plans[epoch] = self._plans.get(epoch, now), now
        if now != before and self.alone and not self._may_be_planned_anew(before):
            raise Wrong(f"W4: the plan of epoch {epoch} was {before}, and is {now}")

    def _may_be_planned_anew(self, plan: dict[str, Any]) -> bool:
        """Where a file is missing, or retention has removed something; or where a worker has ended: with less, or
        without the rows that do it (X2)."""
        if any(fault.kind == HUNG for fault in self.world.outside.met):
            return True
        if self.source is None:
            return self.world.store.has_hidden()
        return self.source.is_gone(plan["units"]) or self.source.has_hostile(plan["units"])

    # -- after runs --------------------------------------------------------------------------------------------

    def read(self) -> None:
        """R1: after a run that has ended well, every row that was there is in the log. Raises Wrong."""
        if self.alone and self.source is None and not self.world.store.has_hidden():
            self.every_row_once()

    def every_row_once(self) -> None:
        """R1, R2. Raises Wrong."""
        found = Counter(judged.id for judged in self.rows.values())
        given = Counter[int | None](self.given.keys())
        if found != given:
            raise Wrong(f"R1: lost {few(given - found)}, more than once {few(found - given)}")

    def decisions(self) -> int | None:
        """W1 to W6, batch by batch as the log says that they were cut; the published watermark. Raises Wrong."""
        oracle, gone = Oracle(self.strategy), set[str]()
        for epoch in range(1, self.epoch + 1):
            known, published = self.marks.get(epoch, ({}, None))
            rows = sorted((place, one) for place, one in self.rows.items() if one.epoch == epoch)
            gone -= {partition for (partition, _), _ in rows}
            known = {name: watermark for name, watermark in known.items() if name not in gone}
            oracle.enumerate(sorted(known))
            for (partition, offset), one in rows:
                reject = None if one.at is not None else "no time"
                payload = self.given.get(one.id or 0, {})
                decision = oracle.read(Row(partition, offset, one.at, reject, payload))
                if decision.outcome != one.outcome:
                    place, right = (partition, offset), decision.outcome
                    raise Wrong(f"W1: row {place} at {one.at} is {one.outcome}, by the rules {right}")
            oracle.flush()
            if known and oracle.wp != known:
                raise Wrong(f"W2: after epoch {epoch} the watermarks are {known}, by the rules {oracle.wp}")
            if oracle.g != published and self.world.store.has_hidden():
                # A partition all of whose files are missing for a while has no rows, for who lists them then.
                gone |= {name for name, watermark in known.items() if watermark is None}
                oracle.wp = {name: oracle.wp[name] for name in oracle.wp if name not in gone}
                oracle.flush()
            if oracle.g != published:
                raise Wrong(f"W6: after epoch {epoch} {published} was published, by the rules {oracle.g}")
        return oracle.g
