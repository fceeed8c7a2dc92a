"""`tidegate verify`: a file that is missing, cut off, damaged or another one is found, in whatever snapshot it is."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.conftest import Workbench
from tidegate.audit.stored_files import VerifiedTable, verify_all
from tidegate.cli.main import app
from tidegate.project import Project

pytestmark = pytest.mark.runner("inprocess")

SQL = """CREATE TABLE t (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') APPEND ONLY;
CREATE MATERIALIZED VIEW v AS SELECT window_end, count(*) AS n FROM TUMBLE(t, ts, INTERVAL '10 seconds')
GROUP BY window_end EMIT ON WINDOW CLOSE;
"""


@pytest.fixture
def project(workbench: Workbench) -> Project:
    session = workbench.assets(t=SQL).session()
    for minute in range(3):
        session.execute(f"INSERT INTO t VALUES (1, '2026-01-01 10:0{minute}:00'), (2, NULL); FLUSH")
    return Project.load(workbench.root)


def verified(project: Project) -> dict[str, VerifiedTable]:
    return {one.name: one for one in verify_all(project.storage, project.owner)}


def data_file(project: Project) -> Path:
    """The oldest file of rows of the log; it has one row."""
    folder = Path(project.storage.filesystem(project.storage.table_uri("t"))[1])
    files = (file for file in folder.rglob("*.parquet") if not file.name.startswith("progress"))
    return min(files, key=lambda file: (file.stat().st_mtime_ns, file.name))


def problems(project: Project) -> list[tuple[str, str]]:
    found = verified(project)
    assert found["v"].ok
    return [(Path(one.file).name, one.what) for one in found["t"].problems]


def test_what_is_whole_is_complete(project: Project) -> None:
    found = verified(project)
    assert found.keys() == {"t", "v"}
    assert all(one.ok and not one.problems for one in found.values())
    assert (found["t"].snapshots, found["v"].snapshots >= 2) == (3, True)
    # On-time and rejected rows of each commit, and its progress.
    assert found["t"].files == 9
    assert found["t"].bytes > 0


def test_a_missing_file_is_found(project: Project) -> None:
    file = data_file(project)
    file.unlink()
    assert problems(project) == [(file.name, "it is missing")]


def test_a_file_that_is_cut_off_is_found(project: Project) -> None:
    file = data_file(project)
    length = file.stat().st_size
    file.write_bytes(file.read_bytes()[:-3])
    assert problems(project) == [(file.name, f"it has {length - 3} bytes instead of {length}")]


def test_a_file_of_the_same_length_is_read(project: Project) -> None:
    file = data_file(project)
    length = file.stat().st_size
    file.write_bytes(b"x" * length)
    ((name, what),) = problems(project)
    assert (name, what.startswith("it can't be read: ")) == (file.name, True)
    # Another Parquet file, filled up to the same length.
    for fill in range(length):
        table = pa.table({"a": ["", "", "x" * fill]})
        pq.write_table(
            table, file, use_dictionary=False, compression="none", write_statistics=False, store_schema=False
        )
        if file.stat().st_size >= length:
            break
    assert file.stat().st_size == length
    assert problems(project) == [(file.name, "it has 3 rows instead of 1")]


@pytest.mark.parametrize("pattern", ["snap-*.avro", "*-m0.avro"])
def test_a_missing_file_of_metadata_is_found(project: Project, pattern: str) -> None:
    folder = Path(project.storage.filesystem(project.storage.table_uri("t"))[1], "metadata")
    file = min(folder.glob(pattern), key=lambda one: one.stat().st_mtime_ns)
    file.unlink()
    assert file.name in {name for name, _ in problems(project)}


def test_the_command_says_so_and_ends_with_1(project: Project) -> None:
    def run(*options: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["--project", str(project.root), *options])
        return done.exit_code, done.stdout

    code, text = run("verify", "--files")
    assert (code, text.splitlines()[0]) == (0, "t: 3 snapshots, 9 files, 12 rows: complete")
    data_file(project).unlink()
    code, text = run("verify", "--files")
    assert code == 1
    assert "t: 3 snapshots, 9 files, 12 rows: 1 file MISSING OR DAMAGED" in text
    code, text = run("--json", "verify", "--files")
    found = {one["name"]: one for one in json.loads(text)["tables"]}
    assert (code, found["t"]["wrong"], found["v"]["ok"]) == (1, 1, True)
    assert found["t"]["problems"][0]["what"] == "it is missing"
