"""Which file of a source a file is: files that changed, moved or can't be read; and Parquet
of other types than declared."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from tests.conftest import Workbench
from tidegate import TidegateError
from tidegate.audit.source import audit_source
from tidegate.iceberg import layout
from tidegate.iceberg.progress import ConsumedFile, FilesRead
from tidegate.ingest.connector import BatchPlan
from tidegate.ingest.sources.file_batches import undeclared_in
from tidegate.ingest.sources.filesystem import FilesystemConnector
from tidegate.plan.columns.undeclared import FoundColumn
from tidegate.project import Project
from tidegate.session.up_to_date import up_to_date
from tidegate.tasks.parquet.footers import EDGE, Looker, surely_same

SOURCE = """CREATE SOURCE s (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1 hour')
WITH (connector = 'filesystem', path = 'input') FORMAT PLAIN ENCODE JSON;
"""


def line(number: int) -> dict:
    return {"id": number, "ts": f"2026-01-01 00:{number:02d}:00"}


def later(path: Path, seconds: int = 60) -> None:
    """As if the file had been written so much later."""
    when = path.stat().st_mtime + seconds
    os.utime(path, (when, when))


class Folder:
    """A source of JSON lines on a folder, and what is in its log."""

    def __init__(self, root: Path, sql: str = SOURCE) -> None:
        (root / "assets").mkdir()
        (root / "assets" / "s.sql").write_text(sql, encoding="utf-8")
        self.path = root / "input"
        self.path.mkdir()
        self.project = Project.load(root)
        self.log: list[ConsumedFile] = []

    def write(self, name: str, *numbers: int) -> Path:
        (self.path / name).write_text("".join(f"{json.dumps(line(n))}\n" for n in numbers), encoding="utf-8")
        return self.path / name

    def connector(self) -> FilesystemConnector:
        relation = self.project.catalog().get("s")
        # Fewer files than it takes Spark for.
        return FilesystemConnector(None, self.project, relation, relation.connector, lambda: self.log)  # type: ignore[arg-type]

    def read(self) -> tuple[list[str], list[tuple[str | None, str]]]:
        """What a run reads, and what it says of files that it leaves."""
        connector = self.connector()
        connector.pending()
        names = []
        while (plan := connector.plan(1, datetime.now(UTC))) is not None:
            self.log += connector.consumed(BatchPlan.from_json(plan.to_json()))
            names += [unit["path"] for unit in plan.units]
        return names, [(problem.code, problem.message) for problem in connector.problems()]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_files_are_surely_the_same_if_all_of_them_was_looked_at_or_their_store_says_so() -> None:
    assert surely_same("aa", "aa", 2 * EDGE)
    assert not surely_same("aa", "aa", 2 * EDGE + 1)
    assert surely_same("aa/e1", "aa/e1", 1 << 40)
    assert not surely_same("aa/e1", "aa/e2", 1 << 40)
    assert not surely_same("aa", "bb", 1)
    assert not surely_same(None, "aa", 1)


def test_a_file_that_changed_is_named_and_all_others_are_read(folder: Folder) -> None:
    for number in range(3):
        folder.write(f"{number}.json", number)
    assert folder.read() == (["0.json", "1.json", "2.json"], [])
    first = (folder.path / "0.json").read_bytes()

    # As many bytes, another time, other rows; the same rows at another time; more rows.
    later(folder.write("0.json", 9))
    later(folder.path / "1.json")
    folder.write("2.json", 2, 5)
    folder.write("4.json", 4)
    names, problems = folder.read()
    assert names == ["4.json"]
    size = len(first)
    assert problems == [
        (
            "TG505",
            f'source "s": 0.json was written again after it was read; it still has {size} bytes, but may contain other '
            "rows",
        ),
        ("TG505", f'source "s": 2.json had {size} bytes when it was read, but has {2 * size} now'),
    ]
    connector = folder.connector()
    connector.pending()
    hint = str(connector.problems()[0].hint)
    assert all(
        way in hint
        for way in ("restore the file as it was", "remove it, and write its new rows", "DROP SOURCE s")
    )
    # It stays so until it is in order: as it was, or away.
    (folder.path / "0.json").write_bytes(first)
    (folder.path / "2.json").unlink()
    assert folder.read() == ([], [])


def test_columns_that_the_source_does_not_declare_are_in_the_plan_of_their_file(tmp_path: Path) -> None:
    folder = Folder(tmp_path, SOURCE.replace("JSON", "CSV"))
    files = {
        "1": b"ts,ID\n1,2\n",
        "2": b"\nmore,id,day,ts,\n",
        "3": b"\xef\xbb\xbfts,id,a\x1b b",
        "4": b"1,2026-01-01 00:00:00,secret\n",  # no header, or one without a column of the source
        "5": b'id,ts,"open\n' * 9_999,
        "6.gz": gzip.compress(b"id,ts,packed\n"),
        "7.gz": b"no archive",
    }
    for name, data in files.items():
        (folder.path / name).write_bytes(data)
    connector = folder.connector()
    connector.pending()
    plan = connector.plan(1, datetime.now(UTC))
    assert plan is not None
    plan = BatchPlan.from_json(plan.to_json())
    assert [[*unit.get("undeclared", ())] for unit in plan.units] == [
        *([], ["more", "day"], ["a? b"], [], [], ["packed"], [])
    ]
    places = {"more": "2", "day": "2", "a? b": "3", "packed": "6.gz"}
    assert connector.read(plan).undeclared == {
        name: FoundColumn(file, "string") for name, file in places.items()
    }
    # A plan of an earlier release has the names alone, and a file of another type than one before it has none.
    units = [{"path": "1", "undeclared": ["more"]}, {"path": "2", "undeclared": {"id": "int", "n": "int"}}]
    units += [
        {"path": "3", "undeclared": {"n": "bigint", "x": "int"}},
        {"path": "4", "undeclared": {"x": "string"}},
    ]
    assert undeclared_in(replace(plan, units=units), folder.project.catalog().get("s")) == {
        "more": FoundColumn("1"),
        "n": FoundColumn("3", "bigint"),
        "x": FoundColumn("4"),
    }

    pq.write_table(pa.table({name: pa.nulls(1) for name in ("ts", "ID", "more", "")}), tmp_path / "p")
    (look,) = Looker(pafs.LocalFileSystem(), ("id", "ts"))([(str(tmp_path / "p"), 1)])
    assert look.undeclared == {"more": None, "": None}


def test_a_large_file_at_another_time_may_hold_other_rows(folder: Folder) -> None:
    """Its edges are the same, and say nothing of what is between them."""
    large = folder.write("large.json", *range(6000))
    assert large.stat().st_size > 2 * EDGE
    assert folder.read() == (["large.json"], [])
    when = large.stat().st_mtime
    later(large)
    assert [code for code, _ in folder.read()[1]] == ["TG505"]
    os.utime(large, (when, when))
    assert folder.read() == ([], [])


def test_a_file_that_was_moved_is_not_read_again_and_a_copy_is(folder: Folder) -> None:
    for number in range(3):
        folder.write(f"{number}.json", number)
    folder.read()
    (folder.path / "1.json").rename(folder.path / "z.json")
    later(folder.path / "z.json")  # as an object store does
    shutil.copy(folder.path / "2.json", folder.path / "copy.json")
    names, problems = folder.read()
    assert names == ["copy.json"]
    assert [code for code, _ in problems] == ["TG517"]
    assert "z.json has the content of 1.json" in problems[0][1]
    (folder.path / "z.json").rename(folder.path / "1.json")
    assert folder.read() == ([], [])
    (folder.path / "_read").mkdir()
    (folder.path / "1.json").rename(folder.path / "_read" / "1.json")
    assert folder.read() == ([], [])


def test_what_an_earlier_version_has_read_is_known_by_path_and_size_and_a_moved_one_by_its_time(
    folder: Folder,
) -> None:
    for number in range(3):
        folder.write(f"{number}.json", number)
    folder.read()
    folder.log = [ConsumedFile(f.path, f.size, f.modified, f.rows) for f in folder.log]
    later(folder.write("0.json", 9))
    (folder.path / "1.json").rename(folder.path / "z.json")
    assert [code for code, _ in folder.read()[1]] == ["TG517"]
    folder.write("2.json", 2, 3)
    assert sorted(code for code, _ in folder.read()[1]) == ["TG505", "TG517"]


def test_a_plan_of_files_that_changed_before_anything_of_it_was_committed_is_made_anew(
    folder: Folder,
) -> None:
    folder.write("0.json", 0)
    connector = folder.connector()
    connector.pending()
    plan = connector.plan(1, datetime.now(UTC))
    assert plan is not None
    again = folder.connector()
    again.pending()
    assert again.adopt(plan)
    assert not again.waits()
    later(folder.path / "0.json")
    changed = folder.connector()
    changed.pending()
    assert not changed.adopt(plan)
    assert changed.waits()


def test_E8_a_log_of_the_first_release_is_read_on_without_complaint(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its progress has no contents of files, and no times in the sum over them."""
    workbench.assets(s=SOURCE)
    for number in range(2):
        workbench.json_lines(f"input/{number}.json", [line(number)])
    with monkeypatch.context() as before:
        before.setattr(layout, "PROGRESS_TYPE", layout.PROGRESS_TYPE.replace(",content:string", ""))
        before.setattr(layout, "PROGRESS_ADDED", {})
        sizes = [(f"{n}.json", (workbench.root / f"input/{n}.json").stat().st_size, 0) for n in range(2)]
        text = FilesRead(timed=False).and_files(sizes).to_text()
        before.setattr(FilesRead, "to_text", lambda self: text)
        workbench.session().run()
    project = Project.load(workbench.root)
    later(workbench.root / "input/0.json")
    assert up_to_date(project, project.catalog()) is not None
    session = workbench.session()
    assert session.run().sources[0].epochs == 0
    # What is read from now on is remembered with its content and time.
    workbench.json_lines("input/2.json", [line(2)])
    assert session.run().sources[0].on_time == 1
    files = session.log(session.relation("s")).consumed_files()
    assert sorted((f.path, f.content is None) for f in files) == [
        ("0.json", True),
        ("1.json", True),
        ("2.json", False),
    ]
    later(workbench.root / "input/2.json")
    assert up_to_date(project, project.catalog()) is None
    assert sorted(row["id"] for row in session.table("s").collect()) == [0, 1, 2]


TYPED = """CREATE SOURCE s (day DATE, id INT NOT NULL, amount DECIMAL(10, 2), note VARCHAR, ts TIMESTAMP{more},
    WATERMARK FOR ts AS ts - INTERVAL '1 hour')
WITH (connector = 'filesystem', path = 'input') FORMAT PLAIN ENCODE PARQUET;
"""
NOON = datetime(2026, 1, 1, 12)


def write(root: Path, name: str, **columns: pa.Array) -> None:
    path = root / "input" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def write_odd_files(root: Path) -> None:
    """Values of other types than the declared ones, some of which fit."""
    # As pandas writes: nanoseconds, a column without values, integers of 64 bits; the day is in the folder's name.
    nanos = pa.array([NOON, None], pa.timestamp("us")).cast(pa.timestamp("ns"))
    write(
        root,
        "day=2026-01-01/1.parquet",
        id=pa.array([1, 2], pa.int64()),
        amount=pa.array([5, 6], pa.uint8()),
        note=pa.nulls(2),
        ts=nanos,
    )
    # An integer with NULLs that became floating point; one that does not fit; a value of another type.
    write(
        root,
        "day=2026-01-02/2.parquet",
        id=pa.array([3.0, 4.5, None]),
        amount=pa.array([Decimal("1.00"), None, Decimal("2.345")]),
        note=pa.array(["a", "b", "c"]),
        ts=pa.array([NOON] * 3, pa.timestamp("s")),
    )
    write(
        root,
        "day=2026-01-03/3.parquet",
        id=pa.array(["6"]),
        amount=pa.array([Decimal("1.5")]),
        note=pa.array([{"x": 1}]),
        ts=pa.array([NOON], pa.timestamp("us", tz="UTC")),
    )


@pytest.mark.parametrize("more", ["", ", half INT AS id / 2"])
def test_parquet_is_read_where_its_values_fit_and_rejected_by_row_where_not(
    workbench: Workbench, more: str
) -> None:
    """By the gate's own tasks, and (with a column that is computed) by Spark."""
    workbench.assets(s=TYPED.format(more=more))
    root = workbench.root
    write_odd_files(root)
    # What no row can be read of is set aside: no Parquet, a column that is missing. So is it if it is in no folder.
    (root / "input/day=2026-01-01/4.parquet").write_bytes(
        (root / "input/day=2026-01-01/1.parquet").read_bytes()[:-9]
    )
    session = workbench.session()
    with pytest.raises(TidegateError) as caught:
        session.run()
    assert caught.value.code == "TG513"
    assert "4.parquet is not a Parquet file" in caught.value.message
    (root / "input/day=2026-01-01/4.parquet").unlink()
    write(root, "5.parquet", id=pa.array([7]), amount=pa.nulls(1), note=pa.nulls(1), ts=pa.array([NOON]))
    with pytest.raises(TidegateError) as caught:
        session.run()
    assert caught.value.code == "TG504"
    assert '5.parquet has no column "day"' in caught.value.message
    (root / "input/5.parquet").unlink()
    # A folder's name that is no date.
    write(
        root,
        "day=soon/6.parquet",
        id=pa.array([8]),
        amount=pa.nulls(1),
        note=pa.nulls(1),
        ts=pa.array([NOON]),
    )
    session.run()
    raw = session.table("s$raw").collect()
    assert [tuple(r)[:5] for r in raw if r["outcome"] == "on_time"] in (
        [
            (date(2026, 1, 1), 1, Decimal("5.00"), None, NOON),
            (date(2026, 1, 2), 3, Decimal("1.00"), "a", NOON),
        ],
        [
            (date(2026, 1, 2), 3, Decimal("1.00"), "a", NOON),
            (date(2026, 1, 1), 1, Decimal("5.00"), None, NOON),
        ],
    )
    rejected = {
        (r["partition"], r["offset"]): (r["reason"], r["raw"]) for r in raw if r["outcome"] == "rejected"
    }
    reasons = {place: reason for place, (reason, _) in rejected.items()}
    assert reasons == {
        ("day=2026-01-01", 1): "null_event_time",
        ("day=2026-01-02", 1): 'unparseable: column "id" wants INT',
        ("day=2026-01-02", 2): 'unparseable: column "amount" wants DECIMAL(10, 2)',
        ("day=2026-01-03", 0): 'unparseable: column "id" wants INT',
        ("day=soon", 0): 'unparseable: column "day" wants DATE',
    }
    text = json.loads(rejected["day=2026-01-02", 1][1])
    assert text == {"id": 4.5, "amount": None, "note": "b", "ts": "2026-01-01 12:00:00.000"}
    assert audit_source(session, "s").ok
