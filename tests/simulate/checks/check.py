"""What must hold in every state that a reader can see, and at the end of a history: by the oracles alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyiceberg.table import Table as Stored
from pyiceberg.table.metadata import TableMetadata

from tests.inprocess.broker import Message
from tests.oracles.columns import Columns
from tests.oracles.oracle import Row
from tests.oracles.tables import Table
from tests.simulate.checks import keyed
from tests.simulate.checks.deliveries import Deliveries
from tests.simulate.checks.erasures import Erasures
from tests.simulate.checks.leftovers import BESIDE, files_are_known, live_files
from tests.simulate.checks.logs import Log
from tests.simulate.checks.sink_topic import SinkTopic
from tests.simulate.checks.topic_check import SourceChecks, SourceTopic
from tests.simulate.checks.wrong import Wrong, few
from tests.simulate.scripts.pipelines import Pipeline, mark, seconds
from tests.simulate.scripts.views import VIEWS, View
from tests.simulate.world.driver import World
from tests.simulate.world.tables import Identifier
from tidegate.plan.versions import GENERATION, VALID_FROM
from tidegate.session.session import Session


@dataclass(frozen=True)
class Life:
    """Results of a view from one rebuild to the next: of which query, and of which columns of the source."""

    view: View
    generation: int
    columns: Columns | None


@dataclass
class Checks:
    """Everything that readers have seen of one world. `wrong`: the first promise that was broken."""

    world: World
    pipeline: Pipeline
    emitted: dict[str, Counter[tuple[Any, ...]]] = field(default_factory=dict)
    #: What each view has held at some commit, with what amendments made of it.
    shown: dict[str, Counter[tuple[Any, ...]]] = field(default_factory=lambda: defaultdict(Counter))
    frontiers: dict[str, int | None] = field(default_factory=dict)
    wrong: Wrong | None = None
    #: Whether the rows that views emit stay as they were: nothing amends them.
    exact: bool = True
    #: What the sink delivers into, where that is a topic.
    sink: SinkTopic | None = None
    deliveries: Deliveries = field(init=False)
    erasures: Erasures = field(init=False)
    #: As views are written now, and what their stored results are of.
    views: dict[str, View] = field(init=False)
    lives: dict[str, Life] = field(default_factory=dict)
    #: Of each view, by their numbers; and the view that goes back to an earlier one now.
    known: dict[str, dict[int, Life]] = field(default_factory=lambda: defaultdict(dict))
    goes_back: str | None = None
    born: dict[str, Life] = field(default_factory=dict)
    #: Views whose results nobody compares any more: a part of them is of another query, whose rows have expired (E5).
    mixed: set[str] = field(default_factory=set)
    #: By the names of sources.
    logs: dict[str, Log] = field(init=False)
    _files: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    #: What the newest snapshot of each table is made of.
    _live: dict[Identifier, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.deliveries = Deliveries(self)
        self.views = {name: VIEWS[name] for name in self.pipeline.views}
        self.logs = {name: Log(name, self.world, self.pipeline.strategy) for name in self.pipeline.sources}
        self.erasures = self.events.erasures = Erasures(self)

    @property
    def source(self) -> SourceTopic | None:
        """What the first source reads, where that is a topic."""
        return self.events.source

    @property
    def events(self) -> Log:
        """The log of the first source."""
        return self.logs["events"]

    def alone(self, alone: bool) -> None:
        """Whether, from now on, no other driver does the same."""
        for log in self.logs.values():
            log.alone = alone

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
            if after is None and table[-1].endswith(BESIDE):
                self._live.pop(table, None)
                return
            if after is None:
                raise Wrong(f"{table[-1]} was dropped")
            with self.world.outside.looking():
                self._looked(table, after)
        except Wrong as wrong:
            self.wrong = self.wrong or wrong

    def _looked(self, table: Identifier, after: TableMetadata) -> None:
        name = table[-1]
        if name in self.pipeline.views:
            # (Of what its table was made for, whenever the first rows come, until it is replaced: E5.)
            self.born.setdefault(name, self._made(name, 1))
        if after.current_snapshot_id is None:
            return
        summary = _said(self.world.catalog.table(table, after))
        rows = self._rows(table, after)
        if VALID_FROM in after.properties:
            self.mixed.add(name)
        elif name in self.pipeline.views and name not in self.mixed:
            self._look_at_view(name, rows, summary, after.properties)
        elif name in self.logs:
            self.logs[name].look(rows, summary, after.schema(), after.properties)

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

    def _look_at_view(
        self, name: str, rows: list[dict[str, Any]], summary: dict[str, str], properties: Mapping[str, str]
    ) -> None:
        view = self._life(name, properties).view
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
        most = view.clock({of: self.logs[of].published for of in view.reads})
        if frontier is not None and (most is None or frontier > most):
            raise Wrong(f"D2: the frontier of {name} is {frontier}, and its inputs allow {most}")
        self.frontiers[name] = frontier
        for right, followed in self.erasures.may_show(view, frontier):
            if followed:
                self.erasures.followed(name)
            elif gone := self.emitted.get(name, Counter()) - right:
                raise Wrong(f"C2: {name} had emitted {few(gone)}, which is not so any more")
            self.emitted[name] = right
            if revised and "window_start" not in view.columns:
                return
            # (A window that was amended is looked at when every late row is absorbed.)
            kept = Counter({row: n for row, n in right.items() if view.window(row) not in revised})
            if shown == kept:
                return
        extra, missing = shown - kept, kept - shown
        raise Wrong(f"C2: {name} at {frontier}: too much {few(extra)}, too little {few(missing)}")

    def look_again(self) -> None:
        """At every table, as it is now. Raises Wrong."""
        with self.world.outside.looking():
            for table, versions in self.world.catalog.tables.items():
                self._looked(table, versions[-1])

    def _life(self, name: str, properties: Mapping[str, str]) -> Life:
        """R4, E5: what is stored of a view is of one definition, until all of it is replaced at once, by results that
        are not behind."""
        generation, known = int(properties.get(GENERATION) or 1), self.lives.get(name)
        if known is None or generation != known.generation:
            if known is not None and generation != known.generation + 1:
                raise Wrong(f"R4: the results of {name} are version {generation} after {known.generation}")
            for seen in (self.emitted, self.shown):
                seen.pop(name, None)
            life = self.born[name] if generation == 1 else self._made(name, generation)
            if name == self.goes_back and known is not None:
                # (The last one that is kept is the one before.)
                life = replace(self.known[name][generation - 2], generation=generation)
            self.lives[name] = self.known[name][generation] = life
        if self.lives[name].view.sql not in properties["tidegate.definition"]:
            raise Wrong(f"R4: the results of {name} are of {properties['tidegate.definition']}")
        return self.lives[name]

    def _made(self, name: str, generation: int) -> Life:
        """Of the present definitions."""
        versions = self.events.versions
        return Life(
            self.views[name], generation, versions[-1][1] if versions else self.events.definition.columns
        )

    def requeried(self, name: str, query: str) -> None:
        """A view gets the query of another one."""
        self.views[name] = replace(VIEWS[query], name=name)

    def on_time(self, view: View) -> list[Row]:
        """The rows of logs that a view counts."""
        columns = self.lives[view.name].columns if view.name in self.lives else None
        rows = [row for name in view.reads for row in self.logs[name].judged("on_time", columns)]
        return keyed.counted(self._table(), rows) if self.pipeline.ttl else rows

    def late(self, view: View) -> list[Row]:
        """The rows that came late for it."""
        columns = self.lives[view.name].columns if view.name in self.lives else None
        return [row for name in view.reads for row in self.logs[name].judged("late", columns)]

    def _table(self) -> Table:
        """Of a table WITH TTL, as the oracle has it."""
        log = self.events
        keys = {n: row["k"] for n, row in log.given.items()}
        return keyed.replay(log.rows, log.marks, keys, self.world.store.has_hidden())

    def _file(self, what: str, path: str) -> None:
        """Deliveries grow by rows that the view has emitted, and by nothing else."""
        if known := [table for table, live in self._live.items() if path in live]:
            became = "removed" if what == "went" else "written again"
            self.wrong = self.wrong or Wrong(f"R1: {known[0][-1]} has a file that was {became}: {path}")
        for log in self.logs.values():
            self._compared(partial(log.look_at_plan, what, path))
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

    def read(self) -> None:
        """R1: after a run that has ended well, every row that was there is in the logs."""
        for log in self.logs.values():
            log.read()

    # -- at the end --------------------------------------------------------------------------------------------

    def finish(self, session: Session) -> None:
        """After a run of this session that no fault has met; where not `exact`, it has let every view absorb its late
        rows. Raises Wrong."""
        if self.wrong is not None:
            raise self.wrong
        published = {name: self._decided(name, session) for name in self.logs}
        for view in [one for name, one in self.views.items() if name not in self.mixed]:
            if view.name in self.lives and self.lives[view.name].view != view:
                raise Wrong(f"R4: the results of {view.name} are of an earlier query")
            clock = view.clock(published)
            right, emitted = self.erasures.right(view, clock), self.emitted.get(view.name, Counter())
            if right != emitted:
                raise Wrong(
                    f"C2: {view.name} has not emitted {few(right - emitted)} at {clock}, or too early "
                    f"{few(emitted - right)}"
                )
            if not self.exact:
                self._amended(view, session, clock)
        self.deliveries.finish()
        files_are_known(self.world)

    def _decided(self, name: str, session: Session) -> int | None:
        """W1 to W9: what a source has published, where all of its rows are decided by the rules."""
        log = self.logs[name]
        if self.pipeline.evolves and name == "events":
            log.columns(session)
        if log.source is not None:
            checks = SourceChecks(log.source, log.strategy)
            published = checks.follow(log.rows, log.recorded, log.repeats)
            checks.all_read()
            return published
        log.every_row_once()
        return self._of_table(session) if self.pipeline.ttl else log.decisions()

    def _amended(self, view: View, session: Session, clock: int | None) -> None:
        """B1, B3: every window that is closed holds its late rows, too."""
        if view.amended is None:
            return
        rows = session.table(view.name).select(*view.columns).collect()
        self._with_late(
            view, clock, Counter(tuple(seconds(value) for value in row) for row in rows), "amended"
        )
        if self.sink is not None and self.pipeline.upserts and view.name == self.pipeline.views[0]:
            kept = self.sink.kept()
            if kept is not None:
                self._with_late(view, clock, kept, "as its sink has it", once=True)

    def _with_late(
        self, view: View, clock: int | None, shown: Counter[tuple[Any, ...]], where: str, once: bool = False
    ) -> None:
        """Compare rows with those that the view has to have where every late row is absorbed. `once`: of equal rows,
        which a topic may have twice, one is kept, since they have the same key."""
        assert view.amended is not None
        on_time, late = self.on_time(view), self.late(view)
        right = Counter(view.amended(on_time, late, clock))
        right = Counter(right.keys()) if once else right
        for key, start, end, *_ in view.waiting([*on_time, *late], clock):
            for row in [row for row in shown if row[0] == key and start <= row[1] and row[2] <= end]:
                del shown[row]
        if shown != right:
            extra, missing = shown - right, right - shown
            raise Wrong(f"B1: {view.name}, {where}: too much {few(extra)}, too little {few(missing)}")

    def _of_table(self, session: Session) -> int | None:
        """Of a table WITH TTL: T1 to T4, and the published watermark."""
        table = self._table()
        keyed.shown(table, session)
        return table.g


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
