"""What of a status comes first, and that a status of many tables reads each of them once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.benchmarks.many.status import make_groups
from tests.store.tables import HadoopTable
from tidegate.errors import TidegateError
from tidegate.project import Project
from tidegate.store import load_table, metadata, read_status, sqlite_catalog
from tidegate.store.attention import first_of_all, wants_attention
from tidegate.store.once import read_once

SOURCE = "CREATE TABLE {0} (ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;"
VIEW = """CREATE MATERIALIZED VIEW v{0} AS SELECT window_end, count(*) AS n
    FROM TUMBLE({0}, ts, INTERVAL '1 minute') GROUP BY window_end EMIT ON WINDOW CLOSE;"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "assets").mkdir()
    names = ("a", "b", "c")
    text = "".join(SOURCE.format(name) + VIEW.format(name) for name in names)
    (tmp_path / "assets" / "all.sql").write_text(text)
    warehouse = tmp_path / ".tidegate" / "warehouse" / "main"
    for name in (*names, "va", "vb", "vc"):
        HadoopTable(warehouse / name).commit(
            {"tidegate.epoch": 1} | ({"tidegate.lost-totals": 2} if name == "vc" else {})
        )
    return Project.load(tmp_path)


def test_what_needs_attention_is_first_and_alone_where_only_that_is_asked_for(project: Project) -> None:
    found = read_status(project)
    assert [v.name for v in found.views if wants_attention(v)] == ["vc"], "final rows have lost their totals"
    assert [v.name for v in first_of_all(found).views] == ["vc", "va", "vb"]
    assert [r.name for r in first_of_all(found, ["b"]).relations] == ["b", "a", "c"]
    only = first_of_all(found, ["b"], only=True)
    assert [x.name for x in only.all] == ["b", "vc"]


def test_each_table_is_read_once(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    read: Counter[str] = Counter()
    whole = metadata._metadata

    def counting(storage: object, name: str, namespace: str | None) -> object:
        read[name] += 1
        return whole(storage, name, namespace)  # type: ignore[arg-type]

    monkeypatch.setattr(metadata, "_metadata", counting)
    with read_once():
        read_status(project)
        assert load_table(project.storage, "a") is load_table(project.storage, "a")
    views = ("va", "vb", "vc")
    # Whether a next version of a view is being built, its table says.
    assert read == dict.fromkeys(("a", "b", "c", *views, *(f"{view}$next" for view in views)), 1)
    read_status(project)
    assert read["a"] == 2, "and again in the next block"


def test_a_catalog_in_sqlite_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_groups(tmp_path, 3, busy=1, quiet=1)
    single: list[str] = []
    whole = sqlite_catalog.location

    def counting(file: Path, namespace: str, name: str) -> str | None:
        single.append(name)
        return whole(file, namespace, name)

    monkeypatch.setattr(sqlite_catalog, "location", counting)
    assert all(one.ran for one in read_status(project).all)
    assert single == [], "also not for next versions of views, of which there is none"
    with read_once():
        assert load_table(project.storage, "g000") is not None
        # A file that is gone has been superseded since: only then is its table looked up.
        table = tmp_path / "project" / ".tidegate" / "warehouse" / "main" / "g001" / "metadata"
        file = next(table.glob("*.metadata.json"))
        file.rename(table / "v9.metadata.json")
        with pytest.raises(TidegateError, match="is missing"):
            load_table(project.storage, "g001")
    assert single == ["g001"]
