"""What a commit of a batch costs a driver, in a log with few snapshots and in one with many, by turns.

`python -m tests.benchmarks.engines.run_commits SPEC.json`. The project's sources, one for each number of snapshots, are
read once, so that their logs are as tidegate makes them. Then each log gets its snapshots at once, and commits of
batches follow, with a copy of the first batch's file each. Only `IcebergTable.append` is measured; the look at the
table before it is not.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import tidegate
from tests.benchmarks.meter import cpu_of, ended_children, with_children
from tidegate.iceberg.commit import IcebergTable
from tidegate.iceberg.table_commit import TableCommit
from tidegate.store.metadata import load_table
from tidegate.tasks.writer import WriteTarget

EPOCH = "tidegate.epoch"


@dataclass
class Batch:
    """The first commit of a log: its files, what they were written for, and its summary."""

    files: list[dict[str, Any]]
    target: WriteTarget
    summary: dict[str, str]
    copies: list[list[dict[str, Any]]] = field(default_factory=list)

    def copy(self, times: int) -> None:
        """Copies of its files that were never committed."""
        for _ in range(times):
            self.copies.append([self._copied(file) for file in self.files])

    def _copied(self, file: dict[str, Any]) -> dict[str, Any]:
        name = file["uri"].rpartition("/")[2]
        uri = file["uri"].removesuffix(name) + f"{uuid.uuid4().hex}-{name}"
        place, of = self.target.data_path, self.target.data_uri
        self.target.filesystem.copy_file(file["uri"].replace(of, place, 1), uri.replace(of, place, 1))
        return file | {"uri": uri}


class Log:
    """A log whose snapshots are kept at `size`, or a little more. `since`: commits since the last expiry."""

    def __init__(self, session: Any, name: str, batch: Batch) -> None:
        self.name, self._session, self.batch = name, session, batch
        self.size = int(name.removeprefix("log"))
        self.table: IcebergTable = session.tables.open(session.identifier(name))
        self.epoch, self.since = 1, 0

    def fill(self) -> None:
        """With commits of notes that say what batches say, all of them in one commit of the catalog."""
        missing = self.size - len(self.table.snapshot_ids())
        self.table.current()
        commit = TableCommit(self._session.spark._jvm, self.table.java)
        for _ in range(missing):
            self.epoch += 1
            update = commit.transaction.newFastAppend()
            for key, value in self._summary().items():
                update = update.set(key, value)
            update.commit()
        commit.commit()

    def expire(self) -> None:
        """The oldest snapshots, where there are too many: it reads the lists of manifests of all others."""
        if self.since <= self.size // 10:
            return
        self.since = 0
        self._session.tables.upkeep(self.table.identifier).expire(int(time.time() * 1000) + 1, self.size)
        self.table.current()

    def _summary(self) -> dict[str, str]:
        return self.batch.summary | {EPOCH: str(self.epoch)}

    def commit(self, measured: Callable[[Callable[[], Any]], None]) -> None:
        """A batch."""
        base = self.table.current()
        self.epoch += 1
        files, summary = self.batch.copies.pop(), self._summary()
        measured(lambda: self.table.append(files, self.batch.target, summary, base))
        self.since += 1

    def made(self) -> set[tuple[str, int]]:
        """The files that commits have made, with their sizes."""
        from pyarrow.fs import FileSelector

        storage = self._session.project.storage
        filesystem, path = storage.filesystem(f"{self.table.location}/metadata")
        return {(file.path, file.size) for file in filesystem.get_file_info(FileSelector(path))}

    def wrong(self, batches: int) -> dict[str, Any]:
        """What is not as it should be after so many batches, as a new handle and another program read it."""
        storage, table = self._session.project.storage, self._session.tables.open(self.table.identifier)
        now, read = table.current(), load_table(storage, self.name)
        epochs = sorted(int(summary[EPOCH]) for summary in table.summaries().values())
        rows = sum(file["rows"] for file in self.batch.files) * batches
        found = {
            "snapshots": len(table.snapshot_ids()),
            "epochs": epochs == list(range(self.epoch - self.size - self.since + 1, self.epoch + 1)),
            "rows": self._session.spark.table(table.identifier).count(),
            "newest": now.integer(EPOCH),
            "read by pyiceberg": None if read is None else read.integer(EPOCH),
        }
        right = [self.size + self.since, True, rows, self.epoch, self.epoch]
        return {
            name: value for (name, value), other in zip(found.items(), right, strict=True) if value != other
        }


def first_batches(session: Any) -> dict[str, Batch]:
    """Run, and keep what the engine commits for each source."""
    found: dict[str, Batch] = {}
    append = IcebergTable.append

    def kept(table: IcebergTable, files: Any, target: Any, summary: Any, *more: Any, **named: Any) -> int:
        found[table.identifier.split("`")[-2]] = Batch(files, target, summary)
        return append(table, files, target, summary, *more, **named)

    with patch.object(IcebergTable, "append", kept):
        session.run()
    return found


class Meter:
    """CPU seconds of commits: this process's, the JVM's, that of processes which the JVM has started and waited for,
    and the server's with the processes that it has for its clients. `windows`: from when to when each of them was."""

    def __init__(self, jvm: int, servers: Sequence[int]) -> None:
        self._jvm = jvm
        self._servers = [process for server in servers for process in with_children(server)]
        self.cpu = [0.0, 0.0, 0.0, 0.0]
        self.windows: list[tuple[float, float]] = []

    def __call__(self, work: Callable[[], Any]) -> None:
        before, began = self._now(), time.monotonic()
        work()
        self.windows.append((began, time.monotonic()))
        self.cpu = [all_ + now - then for all_, now, then in zip(self.cpu, self._now(), before, strict=True)]

    def _now(self) -> tuple[float, float, float, float]:
        servers = sum(cpu_of(process) for process in self._servers)
        return time.process_time(), cpu_of(self._jvm), ended_children(self._jvm), servers


def main() -> None:
    spec = json.loads(Path(sys.argv[1]).read_text())
    session = tidegate.connect(project=spec["project"])
    jvm = session.spark._jvm.java.lang.ProcessHandle.current().pid()
    batches = first_batches(session)
    logs = [Log(session, name, batch) for name, batch in sorted(batches.items())]
    for log in logs:
        log.fill()
    blocks: list[dict[str, Any]] = []
    for number in range(spec["warm"] + spec["blocks"]):
        for log in logs:
            log.batch.copy(spec["block"])
            log.expire()
            before, meter = log.made() if spec["list"] else set(), Meter(jvm, spec["servers"])
            for _ in range(spec["block"]):
                log.commit(meter)
            written = sum(size for _, size in log.made() - before) if spec["list"] else 0
            block = {"snapshots": log.size, "cpu": meter.cpu, "windows": meter.windows, "written": written}
            if number >= spec["warm"]:
                blocks.append(block)
        print("MARK", number, flush=True)
    done = 1 + spec["block"] * (spec["warm"] + spec["blocks"])
    wrong = {log.name: found for log in logs if (found := log.wrong(done))}
    Path(spec["out"]).write_text(json.dumps({"blocks": blocks, "wrong": wrong}))
    session.close(stop_spark=True)


if __name__ == "__main__":
    main()
