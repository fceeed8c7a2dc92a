"""Commits side by side (row 6 of the table of risks): threads that commit to tables of their own and to a shared one,
while another thread keeps these tables small, and others read them.

Each commit adds a file with one row. Whatever upkeep does in between, a reader finds the rows of the first so many
commits of a thread, never fewer than before; and at the end each commit is there once.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field

import pyarrow as pa

from tests.inprocess.test_conformance import EPOCH, made
from tidegate.errors import TidegateError
from tidegate.iceberg.tables import StoredTable
from tidegate.jvm.within import active
from tidegate.session.session import Session
from tidegate.store.metadata import load_table
from tidegate.tasks.writer import WriteTarget, WriteTask

SHARED = "shared"
#: One of so many commits of each thread is to the shared table.
_TO_SHARED = 5
#: Snapshots that upkeep leaves of a table: more than commits are made while a reader is at one of them.
_KEPT = 100
_READERS = 2
_OPEN = "_open"


@dataclass
class Seen:
    """What became of it: commits that others were faster than (`lost`), what upkeep did, and what was read."""

    lost: int = 0
    upkeep: Counter[str] = field(default_factory=Counter)
    reads: int = 0
    seconds: float = 0.0


class SideBySide:
    """`opened`: a session of its own for each thread, closed by it. `threads` of them make `commits` each."""

    def __init__(self, opened: Callable[[], Session], threads: int, commits: int) -> None:
        self._opened, self._threads, self._commits = opened, threads, commits
        self._over, self._lock = threading.Event(), threading.Lock()
        self.seen = Seen()
        self.names = [*(f"own{number}" for number in range(threads)), SHARED]

    def run(self) -> Seen:
        """Everything; raises what a thread has raised, and AssertionError for what was found wrong."""
        with closing(self._opened()) as session, active(session.spark):
            for name in self.names:
                made(session, name)
            began = time.monotonic()
            with ThreadPoolExecutor(self._threads + 1 + _READERS) as pool:
                writers = [pool.submit(self._ends, self._write, number) for number in range(self._threads)]
                others = [pool.submit(self._ends, self._keep_small)]
                others += [pool.submit(self._ends, self._read, number) for number in range(_READERS)]
                try:
                    for writer in writers:
                        writer.result()
                finally:
                    self._over.set()
                for other in others:
                    other.result()
            self.seen.seconds = time.monotonic() - began
            self._require_all(session)
        return self.seen

    def _ends(self, work: Callable[..., None], *given: int) -> None:
        """In a session of the thread; what ends with an error ends all others."""
        try:
            with closing(self._opened()) as session, active(session.spark):
                work(session, *given)
        except BaseException:
            self._over.set()
            raise

    def _write(self, session: Session, number: int) -> None:
        tables = {name: session.tables.open(session.identifier(name)) for name in (f"own{number}", SHARED)}
        targets = {name: _target(session, table) for name, table in tables.items()}
        for commit in range(self._commits):
            name = SHARED if commit % _TO_SHARED == _TO_SHARED - 1 else f"own{number}"
            table, id_ = tables[name], _id(number, commit)
            files = _written(targets[name], id_)
            while not _committed(table, files, targets[name], {EPOCH: str(commit), "tidegate.id": str(id_)}):
                with self._lock:
                    self.seen.lost += 1
            if self._over.is_set():
                return

    def _keep_small(self, session: Session) -> None:
        for turn in range(1_000_000):
            name = self.names[turn % len(self.names)]
            upkeep = session.tables.upkeep(session.identifier(name))
            try:
                files, _ = upkeep.compact(least_files=10)
                upkeep.expire(int(time.time() * 1000), _KEPT)
                upkeep.merge_manifests()
                self.seen.upkeep.update({"rounds": 1, "files put together": files})
            except Exception as error:
                if not upkeep.is_conflict(error):
                    raise
                self.seen.upkeep["given up for another's commit"] += 1
            if self._over.wait(0.2):
                return

    def _read(self, session: Session, reader: int) -> None:
        """By Spark, and without it."""
        before: Counter[str] = Counter()
        for turn in range(1_000_000):
            number = (turn + reader) % self._threads
            name = f"own{number}"
            if reader % 2:
                table = load_table(session.project.storage, name)
                found = [] if table is None or table.current_snapshot_id is None else [table.integer(EPOCH)]
                assert all(epoch is not None and epoch >= before[name] for epoch in found), (name, found)
                before[name] = max([before[name], *(epoch or 0 for epoch in found)])
            else:
                rows = session.tables.rows(session.identifier(name)).select("id").collect()
                own = sorted(row[0] for row in rows)
                assert own == self._own(number)[: len(own)], (name, own)
                assert len(own) >= before[name], (name, len(own), before[name])
                before[name] = len(own)
            with self._lock:
                self.seen.reads += 1
            if self._over.is_set():
                return

    def _require_all(self, session: Session) -> None:
        shared = sorted(
            _id(number, commit)
            for number in range(self._threads)
            for commit in range(_TO_SHARED - 1, self._commits, _TO_SHARED)
        )
        for number, name in enumerate(self.names):
            rows = session.tables.rows(session.identifier(name)).select("id").collect()
            expected = shared if name == SHARED else self._own(number)
            assert sorted(row[0] for row in rows) == expected, name

    def _own(self, number: int) -> list[int]:
        """What a thread commits to its own table, in the order of the commits."""
        return [_id(number, n) for n in range(self._commits) if n % _TO_SHARED != _TO_SHARED - 1]


def _id(number: int, commit: int) -> int:
    return number * 1_000_000 + commit


def _target(session: Session, table: StoredTable) -> WriteTarget:
    return table.target(session.project.storage, _OPEN, None, ("_window_end",))


def _written(target: WriteTarget, id_: int) -> list[dict[str, object]]:
    """A file with a row, which nobody has committed."""
    rows = pa.table(
        {
            "id": pa.array([id_], pa.int64()),
            "name": ["a"],
            _OPEN: [False],
            "_window_end": pa.array([id_], pa.int64()),
        }
    )
    (report,) = WriteTask(target)(iter(rows.to_batches()))
    found: list[dict[str, object]] = json.loads(report.column(0)[0].as_py())
    return found


def _committed(
    table: StoredTable, files: list[dict[str, object]], target: WriteTarget, facts: dict[str, str]
) -> bool:
    """Whether nobody was faster."""
    try:
        table.append(files, target, facts, table.current())
    except TidegateError as error:
        if error.code != "TG502":
            raise
        return False
    return True
