"""Files that were read under another name: rotated, renamed, compressed or decompressed in place; and files that were
empty at first."""

from __future__ import annotations

import bz2
import gzip
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from tests.conftest import Workbench
from tests.ingest.files.test_files import SOURCE, Folder, later, line
from tidegate.audit.source import audit_source
from tidegate.iceberg.progress import ConsumedFile
from tidegate.ingest.sources.file_looks import look_at, problem_of
from tidegate.ingest.sources.files import list_files
from tidegate.session.up_to_date import up_to_date
from tidegate.sql.catalog.objects import Relation
from tidegate.tasks.parquet.footers import EDGE, content_of, unpacked_content


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def hints(folder: Folder) -> list[str]:
    connector = folder.connector()
    connector.pending()
    return [str(problem.hint) for problem in connector.problems()]


def packed(path: Path) -> Path:
    """As gzip does it."""
    target = path.with_name(path.name + ".gz")
    target.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return target


def test_a_log_that_is_rotated_after_it_was_read_is_not_counted_twice(folder: Folder) -> None:
    app = folder.write("app.json", 1)
    assert folder.read() == (["app.json"], [])
    app.rename(folder.path / "app.1.json")
    later(folder.write("app.json", 2))
    names, problems = folder.read()
    assert names == []
    assert [code for code, _ in problems] == ["TG505", "TG517"]
    assert "app.1.json has the content of app.json, which was read and holds other rows now" in problems[1][1]
    # Once more: what was read as app.json is at a third place.
    (folder.path / "app.1.json").rename(folder.path / "app.2.json")
    app.rename(folder.path / "app.1.json")
    later(folder.write("app.json", 3, 4))
    assert folder.read()[0] == ["app.1.json"]  # row 2, which nobody has read
    assert sorted(code for code, _ in folder.read()[1]) == ["TG505", "TG517"]


def test_a_log_of_an_earlier_version_knows_a_rotated_file_by_its_time(folder: Folder) -> None:
    app = folder.write("app.json", 1)
    folder.read()
    folder.log = [ConsumedFile(f.path, f.size, f.modified, f.rows) for f in folder.log]
    app.rename(folder.path / "app.1.json")
    later(folder.write("app.json", 2))
    names, problems = folder.read()
    assert (names, [code for code, _ in problems]) == ([], ["TG517"])
    assert "app.1.json has the same size and time as app.json" in problems[0][1]


def test_a_copy_beside_a_file_that_was_written_again_with_the_same_rows_is_read(folder: Folder) -> None:
    first = folder.write("1.json", *range(6000))
    assert first.stat().st_size > 2 * EDGE
    folder.read()
    later(first)
    shutil.copy(first, folder.path / "copy.json")
    names, problems = folder.read()
    assert (names, [code for code, _ in problems]) == (["copy.json"], ["TG505"])


def test_what_is_said_of_a_large_file_is_only_what_is_known_of_it(folder: Folder) -> None:
    """Its size, its beginning and its end are those of a file that was read; the rows between them are others."""
    rows = list(range(6000))
    first = folder.write("f1.json", *rows)
    folder.read()
    rows[3000:3002] = [3001, 3000]
    second = folder.write("f2.json", *rows)
    assert (second.stat().st_size, second.read_bytes()) > (2 * EDGE, first.read_bytes())
    first.unlink()
    names, problems = folder.read()
    assert names == []
    assert problems == [
        (
            "TG517",
            'source "s": the file f2.json has the same size, beginning and end as f1.json, which was read and no '
            "longer exists: f2.json is taken for the file that was read, and is not read again",
        )
    ]
    assert "an empty line at the end is enough" in hints(folder)[0]
    with second.open("a", encoding="utf-8") as file:
        file.write("\n")
    assert folder.read() == (["f2.json"], [])


@pytest.mark.parametrize("rows", [3, 6000])
def test_a_file_that_is_compressed_in_place_is_not_counted_twice(folder: Folder, rows: int) -> None:
    plain = folder.write("f.json", *range(rows))
    shutil.copy(plain, folder.path / "other.json")
    assert folder.read()[0] == ["f.json", "other.json"]
    packed(plain)
    names, problems = folder.read()
    assert (names, [code for code, _ in problems]) == ([], ["TG517"])
    likeness = "holds, when it is decompressed, the content of f.json"
    if rows > 3:
        likeness = "has, when it is decompressed, the same size, beginning and end as f.json"
    assert likeness in problems[0][1]
    assert "so that the size, the beginning or the end differs" in hints(folder)[0]
    # Other rows, or damage: it can't be the file that was read.
    (folder.path / "f.json.gz").write_bytes(gzip.compress(b'{"id": 7}\n'))
    (folder.path / "other.json").rename(folder.path / "other.json.bz2")
    with (folder.path / "other.json.bz2").open("ab") as file:
        file.write(b"no archive")
    assert folder.read() == (["f.json.gz", "other.json.bz2"], [])


@pytest.mark.parametrize("rows", [1, 6000])
def test_a_log_that_is_rotated_and_compressed_at_once_is_not_counted_twice(folder: Folder, rows: int) -> None:
    app = folder.write("app.log", *range(rows))
    assert folder.read() == (["app.log"], [])
    packed(app).rename(folder.path / "app.log.1.gz")
    later(folder.write("app.log", 7, 8))
    # As large as what was read, and with other rows; and what is no archive.
    (folder.path / "app.log.2.gz").write_bytes(gzip.compress(b"\n" * folder.log[0].size))
    (folder.path / "app.log.3.gz").write_bytes(b"x")
    names, problems = folder.read()
    assert (names, [code for code, _ in problems]) == (["app.log.2.gz", "app.log.3.gz"], ["TG505", "TG517"])
    assert "app.log.1.gz h" in problems[1][1]
    assert "app.log, which was read and holds other rows now" in problems[1][1]


def test_a_compressed_copy_beside_its_file_is_another_file(folder: Folder) -> None:
    plain = folder.write("f.json", 1)
    folder.read()
    (folder.path / "f.json.gz").write_bytes(gzip.compress(plain.read_bytes()))
    assert folder.read() == (["f.json.gz"], [])


def test_a_file_that_is_decompressed_in_place_is_not_counted_twice(folder: Folder) -> None:
    """What was in it is not remembered: its name must do."""
    archive = packed(folder.write("f.json", 1))
    assert folder.read() == (["f.json.gz"], [])
    rows = gzip.decompress(archive.read_bytes())
    archive.unlink()
    (folder.path / "f.json").write_bytes(rows)
    (folder.path / "f.json.bz2").write_bytes(bz2.compress(rows))
    names, problems = folder.read()
    assert (names, [code for code, _ in problems]) == ([], ["TG517", "TG517"])
    assert "f.json has, apart from the ending of a compressed file, the name of f.json.gz" in problems[0][1]
    (folder.path / "f.json").rename(folder.path / "g.json")
    assert folder.read()[0] == ["g.json"]


def test_an_earlier_version_remembered_only_the_size_of_what_was_compressed_later(folder: Folder) -> None:
    plain = folder.write("f.json", 1)
    folder.read()
    folder.log = [ConsumedFile(f.path, f.size, f.modified, f.rows) for f in folder.log]
    packed(plain)
    names, problems = folder.read()
    assert (names, [code for code, _ in problems]) == ([], ["TG517"])
    assert "holds, when it is decompressed, as many bytes as f.json" in problems[0][1]
    assert "a name that differs in more than the ending" in hints(folder)[0]
    # The size alone says too little of a file with another name.
    (folder.path / "f.json.gz").rename(folder.path / "g.json.gz")
    assert folder.read() == (["g.json.gz"], [])


@pytest.mark.parametrize("size", [0, 1, EDGE - 1, EDGE, EDGE + 1, 2 * EDGE, 2 * EDGE + 1, 3 << 20])
def test_the_edges_of_a_file_are_the_same_when_it_is_compressed(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "f").write_bytes(data)
    (tmp_path / "f.gz").write_bytes(gzip.compress(data))
    local = pafs.LocalFileSystem()
    content = content_of(local, str(tmp_path / "f"), size)
    assert unpacked_content(local, str(tmp_path / "f.gz"), size) == content
    assert unpacked_content(local, str(tmp_path / "f.gz"), size + 1) is None
    assert size == 0 or unpacked_content(local, str(tmp_path / "f.gz"), size - 1) is None
    (tmp_path / "f.gz").write_bytes(gzip.compress(data)[:-9])
    assert unpacked_content(local, str(tmp_path / "f.gz"), size) is None
    assert unpacked_content(local, str(tmp_path / "absent.gz"), size) is None


def test_a_file_that_was_empty_at_first_is_read_when_it_is_filled(folder: Folder) -> None:
    (folder.path / "p").mkdir()
    (folder.path / "p" / "f.json").touch()
    connector = folder.connector()
    # Its folder takes part before its first row comes (W6).
    assert list(connector.pending().partitions) == ["p"]
    assert connector.plan(1, datetime.now(UTC)) is None
    assert folder.read() == ([], [])
    later(folder.write("p/f.json", 1))
    assert folder.read() == (["p/f.json"], [])
    later(folder.write("p/f.json", 1, 2))
    assert [code for code, _ in folder.read()[1]] == ["TG505"]


def test_what_an_earlier_version_read_of_an_empty_file_is_nothing(folder: Folder) -> None:
    empty = ConsumedFile("f.json", 0, 1, 0, "aa")
    folder.log = [empty]
    folder.write("f.json", 1)
    assert folder.read() == (["f.json"], [])
    # Whatever comes first of a log.
    folder.log = [folder.log[1], empty]
    assert folder.read() == ([], [])


def problem(folder: Folder) -> tuple[str, str | None]:
    """What a first look at the only file of a folder finds."""
    relation = folder.project.catalog().get("s")
    assert isinstance(relation, Relation)
    files = list_files(folder.project, "s", "input")
    (look,) = look_at(None, folder.project, relation, files)  # type: ignore[arg-type]
    found = problem_of(relation, look)
    assert found is not None
    return found.code, found.hint


def test_an_empty_parquet_file_is_no_parquet_file(tmp_path: Path) -> None:
    folder = Folder(tmp_path, SOURCE.replace("JSON", "PARQUET"))
    (folder.path / "1.parquet").touch()
    assert problem(folder)[0] == "TG513"


def test_a_column_that_another_declared_column_reads_is_no_suggestion(tmp_path: Path) -> None:
    folder = Folder(tmp_path, SOURCE.replace("JSON", "PARQUET").replace("id INT,", "id INT, i INT,"))
    columns = {"id": pa.array([1]), "ts": pa.array([datetime(2026, 1, 1)])}
    pq.write_table(pa.table(columns), folder.path / "1.parquet")
    assert problem(folder) == ("TG504", "its columns: id, ts")
    pq.write_table(pa.table(columns | {"ii": pa.array([2])}), folder.path / "1.parquet")
    assert problem(folder) == ("TG504", 'did you mean "ii"?')


def test_a_run_reads_nothing_of_empty_files_and_counts_what_came_into_them(workbench: Workbench) -> None:
    workbench.assets(s=SOURCE)
    workbench.json_lines("input/1.json", [line(1)])
    empty = workbench.root / "input" / "2.json"
    empty.touch()
    session = workbench.session()
    assert session.run().sources[0].on_time == 1
    project = session.project
    assert up_to_date(project, project.catalog()) is not None
    workbench.json_lines("input/2.json", [line(2)])
    assert up_to_date(project, project.catalog()) is None
    assert session.run().sources[0].on_time == 1
    assert up_to_date(project, project.catalog()) is not None
    assert sorted(row["id"] for row in session.table("s").collect()) == [1, 2]
    assert audit_source(session, "s").ok
