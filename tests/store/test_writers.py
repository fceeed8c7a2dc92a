"""Who holds a lease, read from its lock without touching it; and which commits tell the history of a log."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.store.tables import HadoopTable, progress_row, write_progress
from tidegate.project import Project
from tidegate.store.history import chosen, read_history
from tidegate.store.metadata import StoredCommit, load_table
from tidegate.store.writers import read_writer


def lock(folder: Path, pid: int, host: str | None = None, since: datetime | None = None) -> None:
    at = (since or datetime.now(UTC)).isoformat(timespec="seconds")
    facts = {"pid": pid, "host": host or socket.gethostname(), "since": at}
    (folder / "s.lock").write_text(json.dumps(facts))


def test_held_ended_killed_and_unknown(tmp_path: Path) -> None:
    assert read_writer(tmp_path, "s").state == "unknown"
    lock(tmp_path, os.getpid())
    held = read_writer(tmp_path, "s")
    assert (held.state, held.pid) == ("held", os.getpid())
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    lock(tmp_path, gone.pid)
    assert read_writer(tmp_path, "s").state == "killed"
    lock(tmp_path, os.getpid(), host="elsewhere")
    assert read_writer(tmp_path, "s").state == "unknown"
    (tmp_path / "s.lock").write_text("{half")
    assert read_writer(tmp_path, "s").state == "unknown"
    (tmp_path / "s.lock").write_text("")
    ended = read_writer(tmp_path, "s")
    assert ended.state == "ended"
    assert ended.at == pytest.approx(time.time(), abs=60)


def test_a_number_that_another_process_has_now_holds_nothing(tmp_path: Path) -> None:
    lock(tmp_path, os.getpid(), since=datetime(2020, 1, 1, tzinfo=UTC))
    assert read_writer(tmp_path, "s").state == "killed"


def commits(*seconds: int) -> list[StoredCommit]:
    """Newest first."""
    return [StoredCommit(s, s * 1000, {"tidegate.progress": f"p{s}"}) for s in sorted(seconds, reverse=True)]


@pytest.mark.parametrize(
    ("seconds", "span", "picked"),
    [
        ((), 60, []),
        ((5,), 60, [5]),
        ((0, 100, 200), 60, [100, 200]),
        (range(0, 2_000, 10), 900, [1090, 1270, 1450, 1630, 1810, 1990]),
        ((0, 10, 20, 30), 900, [0, 10, 20, 30]),
    ],
)
def test_few_commits_tell_the_history(seconds: tuple[int, ...], span: float, picked: list[int]) -> None:
    assert [c.snapshot_id for c in chosen(commits(*seconds), span)] == picked


def test_history_reads_the_progress_of_each_commit_and_survives_a_lost_file(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "s.sql").write_text(
        "CREATE TABLE s (t TIMESTAMP, WATERMARK FOR t AS t) APPEND ONLY;"
    )
    project = Project.load(tmp_path)
    folder = tmp_path / ".tidegate" / "warehouse" / "main" / "s"
    table = HadoopTable(folder)
    files = []
    for n in range(3):
        file = write_progress(
            folder / "data" / f"p{n}.parquet", [progress_row("a", on_time=n), progress_row(None)]
        )
        table.commit({"tidegate.epoch": n + 1, "tidegate.progress": file}, at_ms=n * 1_000)
        files.append(file)
    state = load_table(project.storage, "s")
    assert state is not None
    assert [c.at_ms for c in state.commits] == [2_000, 1_000, 0]
    history = read_history(project.storage, state, span=60)
    assert [(at, [p.on_time for p in parts]) for at, parts in history] == [(0.0, [0]), (1.0, [1]), (2.0, [2])]
    files[1].write_bytes(b"damaged")
    assert [at for at, _ in read_history(project.storage, state, span=60)] == [0.0, 2.0]
