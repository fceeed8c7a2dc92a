"""Which files hold the rows of some time: what a session remembers of a table, against all that its manifests say."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests.inprocess.test_conformance import session
from tests.inprocess.test_conformance_upkeep import log
from tidegate.iceberg.planned import AddedFiles, Content, Planned, PlannedFile, added_only
from tidegate.iceberg.tables import SparkTables
from tidegate.tasks.writer import WriteTask, run_task

if TYPE_CHECKING:
    from tidegate.iceberg.tables import StoredTable
    from tidegate.session.session import Session

__all__ = ["session"]

TIME, NAME = 3, "catalog.space.log"


def content(path: str, outcome: str, least: int | None, greatest: int | None) -> dict[str, Any]:
    """A data file in Iceberg's JSON; without bounds where they are None."""
    sides = {
        side: {"keys": [1, TIME], "values": ["00", struct.pack("<q", value).hex()]}
        for side, value in (("lower-bounds", least), ("upper-bounds", greatest))
        if value is not None
    }
    return {"file-path": path, "record-count": 1 + len(path), "partition": {"1000": outcome}, **sides}


@dataclass(frozen=True)
class State:
    """A snapshot: what it has added, if that is all, and all files; those of `deleted` have deleted rows beside
    them."""

    parent: int | None
    added: tuple[Content, ...] | None
    files: tuple[Content, ...] = ()
    deleted: frozenset[str] = frozenset()


@dataclass
class Table:
    """A table and its history. `read`: whether all manifests were read, or those of one snapshot;
    `known`: how often bounds are."""

    table: str
    chance: random.Random
    numbers: list[int]
    field_id: int = TIME
    known: float = 0.9
    states: dict[int, State] = field(default_factory=dict)
    current: int | None = None
    clock: int = 0
    read: list[str] = field(default_factory=list)

    # -- what `Planned` asks -----------------------------------------------------------------------------------

    def all(self, snapshot: int, low: int | None) -> list[Content] | None:
        self.read.append("all")
        state = self.states[snapshot]
        found = [c for c in state.files if c["partition"]["1000"] == "on_time"]
        found = [c for c in found if PlannedFile.of(c, TIME).reaches(low)]
        return None if any(c["file-path"] in state.deleted for c in found) else found

    def step(self, snapshot: int) -> AddedFiles | None:
        self.read.append("step")
        state = self.states.get(snapshot)
        if state is None or state.added is None or state.deleted:
            return None
        return AddedFiles(state.parent, state.added)

    # -- what happens to it ------------------------------------------------------------------------------------

    def put(
        self, added: tuple[Content, ...] | None, files: tuple[Content, ...], deleted: frozenset[str]
    ) -> int:
        self.numbers[0] += 1
        snapshot = self.numbers[0] * 7919 % 100_003
        self.states[snapshot] = State(self.current, added, files, deleted)
        self.current = snapshot
        return snapshot

    def now(self) -> State:
        return State(None, ()) if self.current is None else self.states[self.current]

    def new_files(self) -> tuple[Content, ...]:
        found = []
        for _ in range(self.chance.randrange(4)):
            self.numbers[0] += 1
            least = self.clock + self.chance.randrange(-30, 20)
            known = self.chance.random() < self.known
            outcome = self.chance.choice(["on_time", "on_time", "late", "watermark"])
            greatest = least + self.chance.randrange(20)
            path = f"file-{self.numbers[0]}"
            found.append(content(path, outcome, *((least, greatest) if known else (None, None))))
        self.clock += self.chance.randrange(15)
        return tuple(found)

    def append(self) -> tuple[int, AddedFiles]:
        before, added = self.current, self.new_files()
        snapshot = self.put(added, (*self.now().files, *added), self.now().deleted)
        return snapshot, AddedFiles(before, added)

    def rewrite(self) -> None:
        """A compaction, a statement that deletes, or what removes files that have expired."""
        files = list(self.now().files)
        gone = [f for f in files if self.chance.random() < 0.5]
        kept = [f for f in files if f not in gone]
        if gone and self.chance.random() < 0.7:
            self.numbers[0] += 1
            bounds = [PlannedFile.of(f, TIME) for f in gone if f["partition"]["1000"] == "on_time"]
            if bounds and all(b.least is not None and b.greatest is not None for b in bounds):
                least, greatest = min(b.least or 0 for b in bounds), max(b.greatest or 0 for b in bounds)
                kept.append(content(f"file-{self.numbers[0]}", "on_time", least, greatest))
        self.put(None, tuple(kept), self.now().deleted & {f["file-path"] for f in kept})

    def mark(self) -> None:
        """Rows are deleted beside their file."""
        files = self.now().files
        if files:
            path = self.chance.choice(files)["file-path"]
            self.put(None, files, self.now().deleted | {path})

    def expire(self) -> None:
        for snapshot in list(self.states):
            if snapshot != self.current and self.chance.random() < 0.7:
                del self.states[snapshot]

    def roll_back(self) -> None:
        self.current = self.chance.choice([*self.states])


def truth(table: Table, snapshot: int, low: int | None, high: int | None) -> set[PlannedFile]:
    files = [f for f in table.states[snapshot].files if f["partition"]["1000"] == "on_time"]
    listed = [PlannedFile.of(f, TIME) for f in files]
    return {f for f in listed if f.reaches(low) and f.begins_before(high)}


@pytest.mark.parametrize("seed", range(300))
def test_what_is_remembered_is_what_the_manifests_say(seed: int) -> None:
    """Two sessions of two machines, of which either commits; views at different frontiers; and all that upkeep and
    people do to a table in between."""
    chance = random.Random(seed)
    numbers = [0]
    table = Table("first", chance, numbers)
    sessions = [Planned(), Planned()]
    frontier = [0, 0]
    for _ in range(60):
        action = chance.random()
        if action < 0.55 or not table.states:
            snapshot, step = table.append()
            if chance.random() < 0.7:
                chance.choice(sessions).committed(NAME, snapshot, step)
        elif action < 0.62:
            table.rewrite()
        elif action < 0.65:
            table.mark()
        elif action < 0.70:
            table.expire()
        elif action < 0.72:
            table.roll_back()
        elif action < 0.74:
            # Dropped, and made anew under its name.
            table = Table(f"made at {numbers[0]}", chance, numbers)
            continue
        which = chance.randrange(2)
        low: int | None = max(frontier[which], table.clock - chance.randrange(60))
        if chance.random() < 0.1:
            low = chance.choice([None, chance.randrange(-20, table.clock + 1)])
        high = chance.choice([None, (low or 0) + chance.randrange(40)])
        snapshot = chance.choice([*table.states]) if chance.random() < 0.1 else table.current or 0
        found = chance.choice(sessions).files(NAME, table, snapshot, low, high)
        expected = truth(table, snapshot, low, high)
        deleted = table.states[snapshot].deleted
        if found is None:
            reaching = truth(table, snapshot, low, None)
            assert any(f.path in deleted for f in reaching)
        else:
            assert set(found) == expected
            assert len(found) == len(expected)
            assert not any(f.path in deleted for f in found)
        frontier[which] = max(frontier[which], (low or 0) - chance.randrange(10))


def test_a_commit_of_this_process_reads_nothing_and_one_of_another_its_own_manifests() -> None:
    table = Table("first", random.Random(1), [0])
    planned = Planned()
    table.append()
    planned.files(NAME, table, table.current or 0, 0, None)
    assert table.read == ["all"]
    for _ in range(20):
        snapshot, step = table.append()
        planned.committed(NAME, snapshot, step)
        assert planned.files(NAME, table, snapshot, table.clock, None) is not None
    assert table.read == ["all"]
    table.append()
    snapshot, step = table.append()
    planned.committed(NAME, snapshot, step)
    planned.files(NAME, table, snapshot, table.clock, None)
    assert table.read == ["all", "step"]
    # From further away than what is remembered of commits, all is planned.
    for _ in range(40):
        table.append()
    planned.files(NAME, table, table.current or 0, table.clock, None)
    assert table.read[-1] == "all"


def test_files_that_nobody_asks_for_any_more_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.iceberg.planned.KEPT_FILES", 30)
    table = Table("first", random.Random(2), [0], known=1.0)
    planned = Planned()
    for _ in range(500):
        snapshot, step = table.append()
        planned.committed(NAME, snapshot, step)
        low = table.clock - 40
        found = planned.files(NAME, table, snapshot, low, None)
        assert found is not None
        assert set(found) == truth(table, snapshot, low, None)
    kept = planned._known[(NAME, TIME)]
    assert len(kept.files) <= 30
    # Where more than that is wanted, nothing is kept.
    assert planned.files(NAME, table, table.current or 0, None, None) is not None
    assert (NAME, TIME) not in planned._known


@pytest.mark.parametrize(
    ("operation", "summary", "only"),
    [
        ("append", {"added-data-files": "2", "total-delete-files": "0"}, True),
        ("overwrite", {"added-data-files": "2", "total-data-files": "9"}, True),
        ("overwrite", {"deleted-data-files": "1"}, False),
        ("append", {"total-delete-files": "1"}, False),
        ("replace", {}, False),
        ("delete", {}, False),
    ],
)
def test_only_a_snapshot_that_adds_files_is_followed(
    operation: str, summary: dict[str, str], only: bool
) -> None:
    assert added_only(summary, operation) is only


def commit(
    session: Session, table: StoredTable, epoch: int, outcomes: tuple[str, ...] = ("on_time", "late")
) -> None:
    """Rows of an epoch: ids around 10,000,000,000 times it, which are more than 32 bits."""
    target = table.target(session.project.storage, "_outcome", "at", ("_epoch", "id"))
    rows = [(epoch * 10**10 + place, outcome) for outcome in outcomes for place in range(3)]
    frame = session.spark.createDataFrame(rows, "id bigint, _outcome string").coalesce(1)
    frame = frame.selectExpr(
        "id", "DATE '2026-01-01' AS at", "_outcome", f"CAST({epoch} AS BIGINT) AS _epoch"
    )
    files = [file for files in run_task(frame, WriteTask(target)) for file in files]
    table.append(files, target, {"tidegate.epoch": str(epoch)}, table.current())


def found_by(session: Session, tables: SparkTables, identifier: str, low: int) -> set[tuple[Any, ...]] | None:
    table = tables.open(identifier)
    snapshot = table.current().id
    assert snapshot is not None
    number = table.target(session.project.storage, reading=True).field_id("id")
    files = table.files(snapshot, "id", number, low * 10**10, None)
    return None if files is None else {tuple(file.values()) for file in files}


def test_on_iceberg_what_is_remembered_is_what_is_planned(session: Session) -> None:
    """Commits of this session and of another one, upkeep, expiry, a rollback, and a table made anew."""
    identifier = log(session)
    mine, other = SparkTables(session.spark), SparkTables(session.spark)

    def same(low: int = 1) -> set[tuple[Any, ...]]:
        expected = found_by(session, SparkTables(session.spark), identifier, low)
        assert expected is not None
        assert found_by(session, mine, identifier, low) == expected
        assert found_by(session, other, identifier, low) == expected
        return expected

    for epoch in range(1, 4):
        commit(session, mine.open(identifier), epoch)
        assert len(same()) == epoch
    for epoch in range(4, 6):
        commit(session, other.open(identifier), epoch)
    assert {file[1] for file in same()} == {3}
    assert len(same(3)) == 3
    commit(session, mine.open(identifier), 6, ("late",))
    assert len(same(2)) == 4
    session.tables.upkeep(identifier).compact(least_files=2)
    (whole,) = same(2)
    assert whole[1:] == (15, 10**10, 5 * 10**10 + 2)
    commit(session, mine.open(identifier), 7)
    assert len(same(2)) == 2
    table = mine.open(identifier)
    table.delete_rows("_epoch = 7", {"tidegate.epoch": "7"}, table.current())
    assert len(same(2)) == 1
    commit(session, other.open(identifier), 8)
    session.tables.upkeep(identifier).expire(2**62, 1)
    commit(session, mine.open(identifier), 9)
    assert len(same(8)) == 2
    session.tables.drop_table(identifier)
    assert log(session) == identifier
    commit(session, mine.open(identifier), 8)
    first = mine.open(identifier).current().id
    assert len(same(8)) == 1
    commit(session, other.open(identifier), 9)
    assert len(same(8)) == 2
    mine.open(identifier).java.manageSnapshots().rollbackTo(first).commit()
    assert len(same(8)) == 1
    commit(session, other.open(identifier), 10)
    assert len(same(8)) == 2
