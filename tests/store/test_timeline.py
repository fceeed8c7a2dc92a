"""The history that plots are drawn from, without a JVM. A real log's is read in tests/advise/test_measure.py."""

from __future__ import annotations

from pathlib import Path

from tests.store.tables import HadoopTable
from tidegate.project import Project
from tidegate.store import load_table
from tidegate.store.timeline import read_closes, read_timeline


def test_closes_are_the_commits_that_moved_the_frontier(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    project = Project.load(tmp_path)
    folder = project.storage.local_warehouse
    assert folder is not None
    table = HadoopTable(folder / project.env.warehouse.namespace / "v")
    for at, frontier in ((1000, None), (2000, 60), (3000, 60), (4000, 180)):
        table.commit(
            {"tidegate.tick": at} | ({} if frontier is None else {"tidegate.frontier": frontier}), at_ms=at
        )
    stored = load_table(project.storage, "v")
    assert stored is not None
    assert read_closes(stored) == [(2.0, 60), (4.0, 180)]
    assert read_timeline(project.storage, stored) == [], "not a log: it has no epochs"
