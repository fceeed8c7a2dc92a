"""E8: tables carry a storage version; those of a later release are refused, by readers without a JVM, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store.tables import HadoopTable
from tidegate.cli.diagnosis import examine
from tidegate.errors import TidegateError
from tidegate.iceberg.layout import new_log, new_state, new_view_table
from tidegate.project import Project
from tidegate.sql.catalog.objects import Relation, View
from tidegate.store import load_table, read_status
from tidegate.store.version import NEWEST, STORAGE_VERSION, storage_version

SQL = """
CREATE TABLE t (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE TABLE k (id INT PRIMARY KEY);
CREATE MATERIALIZED VIEW v AS SELECT ts, id FROM t EMIT ON WINDOW CLOSE;
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "all.sql").write_text(SQL)
    return Project.load(tmp_path)


def stored(project: Project, name: str, **properties: str) -> Path:
    """A table without rows; its folder."""
    folder = project.root / ".tidegate" / "warehouse" / "main" / name
    HadoopTable(folder, {"tidegate.kind": "x", **properties}).commit()
    return folder


def test_E8_every_table_is_made_with_the_version(project: Project) -> None:
    catalog = project.catalog()
    t, k, v = (catalog.get(name) for name in "tkv")
    assert isinstance(t, Relation)
    assert isinstance(k, Relation)
    assert isinstance(v, View)
    for table in (new_log(t, "x"), new_state(k, "x"), new_view_table(v, v.columns, "x")):
        sql = table.sql()
        assert f"'{STORAGE_VERSION}' = '{NEWEST}'" in sql


def test_E8_a_table_of_the_first_release_has_version_1() -> None:
    assert storage_version({}) == 1
    assert storage_version({STORAGE_VERSION: str(NEWEST)}) == NEWEST
    assert storage_version({STORAGE_VERSION: "2b"}) is None


@pytest.mark.parametrize("version", [str(NEWEST + 1), "99", "0", "next", "-1", "٣"])
def test_E8_a_later_one_is_refused_without_a_JVM(project: Project, version: str) -> None:
    stored(project, "t", **{STORAGE_VERSION: version})
    for read in (lambda: load_table(project.storage, "t"), lambda: read_status(project)):
        with pytest.raises(TidegateError, match=f"storage version {version}") as caught:
            read()
        assert caught.value.code == "TG622"


def test_E8_doctor_shows_the_versions(project: Project) -> None:
    def found() -> tuple[str, str]:
        return next((f.state, f.found) for f in examine(project, None) if f.check == "tables")

    assert all(f.check != "tables" for f in examine(project, None))
    stored(project, "t")
    stored(project, "k", **{STORAGE_VERSION: "2"})
    stored(project, "k$state", **{STORAGE_VERSION: "2"})
    assert found() == ("ok", "1 with storage version 1, 2 with storage version 2")
    stored(project, "v", **{STORAGE_VERSION: "99"})
    assert found() == ("bad", f"storage version later than {NEWEST}: v (99)")
