"""What must hold in every state that a reader can see, and at the end of a history: by the oracles alone."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyiceberg.table import Table as Stored
from pyiceberg.table.metadata import TableMetadata

from tests.inprocess.broker import Message
from tests.oracles.oracle import Oracle, Row
from tests.oracles.tables import Table
from tests.simulate.checks import keyed
from tests.simulate.checks.deliveries import Deliveries
from tests.simulate.checks.leftovers import files_are_known, live_files
from tests.simulate.checks.topic_check import Recorded, SinkTopic, SourceChecks, SourceTopic
from tests.simulate.checks.wrong import Judged, Place, Wrong
from tests.simulate.scripts.pipelines import VIEWS, Pipeline, mark, seconds
from tests.simulate.world.driver import World
from tests.simulate.world.outside import HUNG
from tests.simulate.world.tables import Identifier
from tidegate.session.session import Session

_PLAN = re.compile(r"/plans/plan-(\d+)$")
#: Why a message is rejected that was given twice.
REPEATED = "offset_not_increasing"


@dataclass
class Checks:
    """Everything that readers have seen of one world. `wrong`: the first promise that was broken."""

    world: World
    pipeline: Pipeline
    log: dict[Place, Judged] = field(default_factory=dict)
    epoch: int = 0
    #: By epoch: the watermark of each partition that the log knows, and the published one.
    marks: dict[int, tuple[dict[str, int | None], int | None]] = field(default_factory=dict)
    emitted: dict[str, Counter[tuple[Any, ...]]] = field(default_factory=dict)
    #: What each view has held at some commit, with what amendments made of it.
    shown: dict[str, Counter[tuple[Any, ...]]] = field(default_factory=lambda: defaultdict(Counter))
    frontiers: dict[str, int | None] = field(default_factory=dict)
    wrong: Wrong | None = None
    #: Whether the rows that views emit stay as they were: nothing amends them.
    exact: bool = True
    #: Whether no other driver does the same.
    alone: bool = True
    #: What the source reads, and the sink delivers into, where these are topics.
    source: SourceTopic | None = None
    sink: SinkTopic | None = None
    deliveries: Deliveries = field(init=False)
    #: By epoch and partition what the log says of it; of rows of topics, how often one was given again.
    recorded: dict[int, dict[str | None, Recorded]] = field(default_factory=dict)
    repeats: Counter[Place] = field(default_factory=Counter)
    _files: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _plans: dict[int, dict[str, Any]] = field(default_factory=dict)
    #: What the newest snapshot of each table is made of.
    _live: dict[Identifier, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.deliveries = Deliveries(self)

    def watch(self) -> None:
        """Look at every commit, and at every delivery."""
        self.world.catalog.watcher = self._committed
        self.world.store.watcher = self._file
        self.world.broker.watcher = self._sent

    # -- at every commit ---------------------------------------------------------------------------------------

    def _committed(
        self, table: Identifier, before: TableMetadata | None, after: TableMetadata | None
    ) -> None:
        try:
            if after is None:
                raise Wrong(f"{table[-1]} was dropped")
            with self.world.outside.looking():
                self._looked(table, after)
        except Wrong as wrong:
            self.wrong = self.wrong or wrong

    def _looked(self, table: Identifier, after: TableMetadata) -> None:
        if after.current_snapshot_id is None:
            return
        name = table[-1]
        summary = _said(self.world.catalog.table(table, after))
        rows = self._rows(table, after)
        if name in self.pipeline.views:
            self._look_at_view(name, rows, summary)
        elif name == "events":
            self._look_at_log(rows, summary)

    def _rows(self, table: Identifier, metadata: TableMetadata) -> list[dict[str, Any]]:
        """Of the newest snapshot."""
        catalog, found = self.world.catalog, []
        paths = live_files(self.world, table, metadata)
        self._live[table] = set(paths)
        for path in paths:
            if path not in self._files:
                content = self.world.store.files.get(path)
                if content is None:
                    raise Wrong(f"R1: {table[-1]} has a file that is not there: {path}")
                try:
                    self._files[path] = catalog.parsed(path, content).to_pylist()
                except pa.ArrowException as error:
                    raise Wrong(f"R1: {table[-1]} has a file that is not whole: {path}") from error
            found += self._files[path]
        return found

    def _look_at_log(self, rows: list[dict[str, Any]], summary: dict[str, str]) -> None:
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
        for place, judged in self.log.items():
            if log.get(place) != judged:
                raise Wrong(f"R2: row {place} was {judged}, and is {log.get(place)}")
        if gone := self.repeats - repeats:
            raise Wrong(f"R2: repeats of {_few(gone)} are not there any more")
        epoch = int(summary.get("tidegate.epoch", self.epoch))
        if epoch not in (self.epoch, self.epoch + 1):
            raise Wrong(f"R2: epoch {epoch} after {self.epoch}")
        self.log, self.epoch, self.repeats = log, epoch, repeats
        self._note_marks(rows)
        if self.source is not None:
            self.source.reached(self.recorded[epoch])

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
            missing = self.world.partitions() - known.keys() if self.source is None else set()
            if missing and not self.world.store.has_hidden():
                raise Wrong(f"W6: epoch {row['_epoch']} was judged without partitions {sorted(missing)}")

    def _look_at_view(self, name: str, rows: list[dict[str, Any]], summary: dict[str, str]) -> None:
        view = VIEWS[name]
        revised = {window_of(row) for row in _marks(rows)}
        _look_at_revisions(name, rows)
        closed = [row for row in rows if row["_open"] is False]
        values = [tuple(seconds(row[column]) for column in view.columns) for row in closed]
        shown = Counter(
            value
            for row, value in zip(closed, values, strict=True)
            if row.get("_revision") is None and window_of(row) not in revised
        )
        self.shown[name] |= Counter(values)
        frontier = mark(int(summary["tidegate.frontier"])) if "tidegate.frontier" in summary else None
        before = self.frontiers.get(name)
        if before is not None and (frontier is None or frontier < before):
            raise Wrong(f"C2: the frontier of {name} went from {before} back to {frontier}")
        self.frontiers[name] = frontier
        right = Counter(view.truth(self.on_time(), frontier))
        if gone := self.emitted.get(name, Counter()) - right:
            raise Wrong(f"C2: {name} had emitted {_few(gone)}, which is not so any more")
        self.emitted[name] = right
        if revised and view.amended is None:
            return
        # (A window that was amended is looked at when every late row is absorbed.)
        kept = Counter({row: n for row, n in right.items() if view.window(row) not in revised})
        if shown != kept:
            extra, missing = shown - kept, kept - shown
            raise Wrong(f"C2: {name} at {frontier}: too much {_few(extra)}, too little {_few(missing)}")

    def on_time(self) -> list[Row]:
        """The rows of the log that views count."""
        rows = self.judged("on_time")
        return keyed.counted(self._table(), rows) if self.pipeline.ttl else rows

    def _table(self) -> Table:
        """Of a table WITH TTL, as the oracle has it."""
        return keyed.replay(self.log, self.marks, {n: row["k"] for n, row in self.world.produced.items()})

    def judged(self, outcome: str) -> list[Row]:
        """The rows of the log with this outcome."""
        rows = self.world.produced
        return [
            Row(place[0], place[1], judged.at, None, rows[judged.id])
            for place, judged in sorted(self.log.items())
            if judged.outcome == outcome and judged.id is not None
        ]

    def _file(self, what: str, path: str) -> None:
        """Deliveries grow by rows that the view has emitted, and by nothing else."""
        if known := [table for table, live in self._live.items() if path in live]:
            became = "removed" if what == "went" else "written again"
            self.wrong = self.wrong or Wrong(f"R1: {known[0][-1]} has a file that was {became}: {path}")
        if plan := _PLAN.search(path):
            self._look_at_plan(what, int(plan[1]), path)
        out = f"{self.world.root}/out/"
        if not path.startswith(out) or "/_tidegate/" in path or self.wrong is not None:
            return
        if what == "went":
            self.wrong = Wrong(f"B1: the delivered file {path} went")
        else:
            self._compared(self.deliveries.came_out_of_nowhere)

    def _compared(self, look: Callable[[], None]) -> None:
        try:
            look()
        except Wrong as wrong:
            self.wrong = self.wrong or wrong

    def _sent(self, number: int, message: Message) -> None:
        """A topic is delivered into by rows that the view has emitted, and by nothing else."""
        self._compared(lambda: self.deliveries.came(number, message))

    def _look_at_plan(self, what: str, epoch: int, path: str) -> None:
        """W4: what a plan says stands until its batch is committed, unless a file that it reads is missing."""
        if epoch <= self.epoch:
            return
        if what == "went":
            self.wrong = self.wrong or Wrong(f"W4: the plan of epoch {epoch} went before it was committed")
            return
        try:
            now = json.loads(self.world.store.files[path])
        except ValueError:
            self.wrong = self.wrong or Wrong(f"R2: half of the plan of epoch {epoch} is there")
            return
        before = self._plans.setdefault(epoch, now)
        if now != before and self.alone and not self._may_be_planned_anew(before):
            self.wrong = self.wrong or Wrong(f"W4: the plan of epoch {epoch} was {before}, and is {now}")
        self._plans[epoch] = now

    def _may_be_planned_anew(self, plan: dict[str, Any]) -> bool:
        """Where a file is missing, or retention has removed something; or where a worker has ended: with less, or
        without the rows that do it (X2)."""
        if any(fault.kind == HUNG for fault in self.world.outside.met):
            return True
        if self.source is None:
            return self.world.store.has_hidden()
        return self.source.is_gone(plan["units"]) or self.source.has_hostile(plan["units"])

    def read(self) -> None:
        """R1: after a run that has ended well, every row that was there is in the log."""
        if self.alone and self.source is None and not self.world.store.has_hidden():
            self._every_row_once()

    # -- at the end --------------------------------------------------------------------------------------------

    def finish(self, session: Session) -> None:
        """After a run of this session that no fault has met; where not `exact`, it has let every view absorb its late
        rows. Raises Wrong."""
        if self.wrong is not None:
            raise self.wrong
        if self.source is None:
            self._every_row_once()
            published = self._of_table(session) if self.pipeline.ttl else self._decisions()
        else:
            checks = SourceChecks(self.source, self.pipeline.strategy)
            published = checks.follow(self.log, self.recorded, self.repeats)
            checks.all_read()
        for name in self.pipeline.views:
            right = Counter(VIEWS[name].truth(self.on_time(), published))
            if missing := right - self.emitted.get(name, Counter()):
                raise Wrong(f"C2: {name} has not emitted {_few(missing)} at {published}")
        if not self.exact:
            for name in self.pipeline.views:
                self._amended(name, session, published)
        self.deliveries.finish()
        files_are_known(self.world)

    def _amended(self, name: str, session: Session, published: int | None) -> None:
        """B1, B3: every window that is closed holds its late rows, too."""
        view = VIEWS[name]
        if view.amended is None:
            return
        on_time, late = self.judged("on_time"), self.judged("late")
        rows = session.table(name).select(*view.columns).collect()
        shown = Counter(tuple(seconds(value) for value in row) for row in rows)
        right = Counter(view.amended(on_time, late, published))
        for key, start, end, *_ in view.waiting([*on_time, *late], published):
            for row in [row for row in shown if row[0] == key and start <= row[1] and row[2] <= end]:
                del shown[row]
        if shown != right:
            extra, missing = shown - right, right - shown
            raise Wrong(f"B1: {name}, amended: too much {_few(extra)}, too little {_few(missing)}")

    def _every_row_once(self) -> None:
        found = Counter(judged.id for judged in self.log.values())
        given = Counter(self.world.produced.keys())
        if found != given:
            raise Wrong(f"R1: lost {_few(given - found)}, more than once {_few(found - given)}")

    def _of_table(self, session: Session) -> int | None:
        """Of a table WITH TTL: T1 to T4, and the published watermark."""
        table = self._table()
        keyed.shown(table, session)
        return table.g

    def _decisions(self) -> int | None:
        """W1 to W6, batch by batch as the log says that they were cut; the published watermark."""
        oracle = Oracle(self.pipeline.strategy)
        for epoch in range(1, self.epoch + 1):
            known, published = self.marks.get(epoch, ({}, None))
            oracle.enumerate(sorted(known))
            rows = sorted((place, one) for place, one in self.log.items() if one.epoch == epoch)
            for (partition, offset), one in rows:
                reject = None if one.at is not None else "no time"
                payload = self.world.produced.get(one.id or 0, {})
                decision = oracle.read(Row(partition, offset, one.at, reject, payload))
                if decision.outcome != one.outcome:
                    place, right = (partition, offset), decision.outcome
                    raise Wrong(f"W1: row {place} at {one.at} is {one.outcome}, by the rules {right}")
            oracle.flush()
            if known and oracle.wp != known:
                raise Wrong(f"W2: after epoch {epoch} the watermarks are {known}, by the rules {oracle.wp}")
            if oracle.g != published:
                raise Wrong(f"W6: after epoch {epoch} {published} was published, by the rules {oracle.g}")
        return oracle.g


def window_of(row: dict[str, Any]) -> tuple[Any, Any]:
    """The window of a stored row."""
    return seconds(row["_window_start"]), seconds(row["_window_end"])


def _marks(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What amendments say of windows: one row for each revision."""
    return [row for row in rows if (row.get("_revision") or {}).get("kind") == "window"]


def _look_at_revisions(name: str, rows: list[dict[str, Any]]) -> None:
    """B2: the live window is revision 1, and each amendment of it is the next one."""
    numbers: dict[tuple[Any, ...], list[int]] = {}
    for row in _marks(rows):
        numbers.setdefault((*window_of(row), row.get("k")), []).append(row["_revision"]["number"])
    for window, found in numbers.items():
        if sorted(found) != list(range(2, len(found) + 2)):
            raise Wrong(f"B2: {name} has revisions {sorted(found)} of {window}")


def _said(table: Stored) -> dict[str, str]:
    """What tidegate said last of a table: upkeep comes on top of it."""
    snapshot = table.current_snapshot()
    while snapshot is not None:
        facts = snapshot.summary.additional_properties if snapshot.summary is not None else {}
        if any(key.startswith("tidegate.") for key in facts):
            return facts
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)
    return {}


def _few(found: Counter[Any]) -> str:
    return f"{list(found.items())[:3]}"
