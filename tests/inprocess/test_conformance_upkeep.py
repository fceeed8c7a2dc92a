"""The port to the upkeep of stored tables (`tidegate/iceberg/tables.py`): the same answers from Iceberg's Java and from
the tests' own implementation."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from pyarrow.fs import FileSelector, FileSystem

from tests.inprocess.test_conformance import EPOCH, added, made, session, shown, tagged
from tidegate.errors import TidegateError
from tidegate.iceberg.layout import NewTable
from tidegate.iceberg.protocol import going_on
from tidegate.iceberg.shape import Rested
from tidegate.tasks.writer import WriteTask, run_task

if TYPE_CHECKING:
    from tidegate.iceberg.tables import StoredTable
    from tidegate.session.session import Session

__all__ = ["session"]
pytestmark = pytest.mark.runner("inprocess", "spark", long_run="spark")

#: Later than every snapshot and file.
FAR_AWAY = 1 << 50
LOG = (("id", "bigint"), ("at", "date"), ("_outcome", "string"), ("_epoch", "bigint"))


def log(session: Session) -> str:
    """A table that is partitioned as a log is."""
    identifier = session.identifier("log")
    session.tables.create_table(NewTable(identifier, LOG, ("_outcome", "days(at)"), {"format-version": "2"}))
    return identifier


def logged(session: Session, table: StoredTable, epoch: int, *rows: tuple[int, str, str]) -> int:
    """Commit rows (id, day, outcome) as an epoch."""
    target = table.target(session.project.storage, "_outcome", "at", ("_epoch",))
    frame = session.spark.createDataFrame(list(rows), "id bigint, at string, _outcome string").coalesce(1)
    frame = frame.selectExpr("id", "CAST(at AS DATE) AS at", "_outcome", f"CAST({epoch} AS BIGINT) AS _epoch")
    files = [file for files in run_task(frame, WriteTask(target)) for file in files]
    return table.append(files, target, {EPOCH: str(epoch)}, table.current())


def stored(session: Session, identifier: str) -> set[str]:
    """The names of the data files in the table's folder."""
    filesystem, root = folder(session, identifier)
    found = filesystem.get_file_info(FileSelector(f"{root}/data", recursive=True))
    names = {file.base_name for file in found if file.extension == "parquet"}
    return {name for name in names if not name.startswith(".")}


def folder(session: Session, identifier: str) -> tuple[FileSystem, str]:
    """Where a table's files are."""
    return session.project.storage.filesystem(session.tables.open(identifier).location)


def test_the_figures_of_a_table(session: Session) -> None:
    identifier = made(session, **{"tidegate.kind": "test"})
    upkeep = session.tables.upkeep(identifier)
    empty = upkeep.shape()
    assert (empty.snapshots, empty.files, empty.bytes, upkeep.manifests()) == ((), 0, 0, 0)
    assert empty.properties["tidegate.kind"] == "test"
    for number in range(3):
        added(session, upkeep.table, [(number, "a", False)], facts={EPOCH: str(number)})
    shape = upkeep.shape()
    assert (shape.files, len(shape.snapshots), upkeep.manifests()) == (3, 3, 3)
    assert shape.bytes > 0
    assert [ours for _, ours, _ in shape.snapshots] == [True] * 3
    assert [s["added-data-files"] for _, _, s in shape.snapshots] == ["1"] * 3
    assert abs(shape.snapshots[0][0] - time.time() * 1000) < 600_000
    assert (shape.last_before(EPOCH, time.time() + 600), shape.new_files(time.time() + 600, 0)) == (2, 3)
    upkeep.table.tag("kept")
    assert len(upkeep.shape().snapshots) == 2


@pytest.mark.runner("spark")
def test_T3_upkeep_that_comes_in_between_stops_no_commit(session: Session) -> None:
    """A tick may compute for minutes on the snapshot that it has begun with."""
    identifier = made(session)
    table = session.tables.open(identifier)
    for number in range(2):
        added(session, table, [(number, "a", False)], facts={EPOCH: str(number)})
    base = table.current()
    session.tables.upkeep(identifier).compact(least_files=2)
    added(session, table, [(2, "a", False)], base)
    session.tables.upkeep(identifier).merge_manifests()
    added(session, table, [(3, "a", False)], table.at(table.current().id or 0))
    assert shown(session, identifier) == [(number, "a", False) for number in range(4)]


def test_T3_files_are_put_together_by_partition_and_no_row_changes(session: Session) -> None:
    identifier = made(session)
    upkeep = session.tables.upkeep(identifier)
    for number in range(6):
        added(session, upkeep.table, [(number, "x", number % 2 == 0), (10 + number, None, False)])
    before, was = shown(session, identifier), upkeep.shape()
    assert was.files == 9
    # Of those with open rows there are too few.
    assert upkeep.compact() == (6, 1)
    shape = upkeep.shape()
    assert (shape.files, shown(session, identifier)) == (4, before)
    _, ours, summary = shape.snapshots[-1]
    assert (ours, summary["operation"]) == (False, "replace")
    keys = ("added-data-files", "deleted-data-files", "total-data-files", "total-records")
    assert [summary[key] for key in keys] == ["1", "6", "4", "12"]
    assert int(summary["total-files-size"]) < was.bytes
    assert shape.new_files(time.time() + 600, 0) == 0
    assert upkeep.compact() == (0, 0)
    assert len(upkeep.shape().snapshots) == len(shape.snapshots)
    assert upkeep.compact(least_files=2) == (3, 1)
    assert shown(session, identifier) == before


def test_only_what_rests_is_put_together_and_its_bounds_stay(session: Session) -> None:
    identifier = made(session)
    upkeep = session.tables.upkeep(identifier)
    rows: list[tuple[int, str | None, bool | None]]
    for number in range(1, 5):
        rows = [(number, "closed", False), (number, "open", True), (number, "carried", None)]
        added(session, upkeep.table, rows, facts={EPOCH: str(number)})
    before = shown(session, identifier)
    assert upkeep.compact(Rested("_window_end", 0, (False,)), least_files=2) == (0, 0)
    assert upkeep.compact(Rested("_window_end", 3, (False, None)), None, 2, ("_window_end",)) == (6, 2)
    assert shown(session, identifier) == before
    newest = {
        (r["split"], r["record_count"]): r["newest"] for r in upkeep.data_files("_window_end").collect()
    }
    assert (newest[False, 3], newest[None, 3], newest[False, 1], newest[None, 1]) == (3, 3, 4, 4)
    # The bounds say that nothing of it is in a file that is put together with the rest.
    assert upkeep.compact(Rested("_window_end", 0), least_files=2) == (0, 0)
    assert upkeep.compact(Rested("_window_end", 1), least_files=2) == (0, 0)
    assert upkeep.compact(Rested("_window_end", 4), least_files=2) == (8, 3)
    assert shown(session, identifier) == before


def test_rows_of_one_commit_keep_their_order_where_files_are_put_together(session: Session) -> None:
    identifier = made(session)
    upkeep = session.tables.upkeep(identifier)
    for start in (0, 10, 20):
        added(session, upkeep.table, [(start + n, "x", False) for n in (3, 1, 2)])
    assert upkeep.compact(least_files=2, bounds=("_window_end",)) == (3, 1)
    found = [row["id"] for row in session.tables.rows(identifier).select("id").collect()]
    for start in (0, 10, 20):
        assert [i - start for i in found if start <= i < start + 10] == [3, 1, 2]


def test_R2_what_expires_takes_the_files_that_it_alone_held(session: Session) -> None:
    identifier = made(session)
    upkeep = session.tables.upkeep(identifier)
    snapshots, opened = [], []
    for number in range(6):
        rows: list[tuple[int, str | None, bool | None]] = [(number, "open", True), (number, "x", False)]
        snapshots.append(added(session, upkeep.table, rows, replaced=(True,)))
        found = session.tables.rows(identifier, with_file=True).where("_open").collect()
        opened.append(found[0]["_file"].rpartition("/")[2])
        if number == 1:
            upkeep.table.tag("kept")
    was = {snapshot: shown(session, identifier, snapshot) for snapshot in snapshots}
    files = stored(session, identifier)
    assert len(files) == 12
    shape, later = upkeep.shape(), int(time.time() * 1000) + 600_000
    upkeep.expire(shape.snapshots[0][0])
    assert upkeep.table.snapshot_ids() == set(snapshots)
    upkeep.expire(later, retain_last=4)
    assert upkeep.table.snapshot_ids() == set(snapshots[1:])
    upkeep.expire(later)
    assert upkeep.table.snapshot_ids() == {snapshots[1], snapshots[5]}
    # What a snapshot that is kept has removed may stay until that one expires.
    assert (
        {opened[2], opened[3]} <= files - stored(session, identifier) <= set(opened) - {opened[1], opened[5]}
    )
    assert tagged(session, identifier, "kept") == 3
    for snapshot in (snapshots[1], snapshots[5]):
        assert shown(session, identifier, snapshot) == was[snapshot]
    # What is left is whole: the table is committed to.
    added(session, upkeep.table, [(9, "x", False)])
    assert len(shown(session, identifier)) == len(was[snapshots[5]]) + 1


def test_manifests_are_written_anew(session: Session) -> None:
    identifier = made(session)
    upkeep = session.tables.upkeep(identifier)
    upkeep.merge_manifests()
    assert upkeep.manifests() == 0
    for number in range(4):
        added(session, upkeep.table, [(number, "x", number % 2 == 0)], facts={EPOCH: str(number)})
    before, base = shown(session, identifier), upkeep.table.current()
    assert upkeep.manifests() == 4
    upkeep.merge_manifests()
    assert upkeep.manifests() == 1
    assert (shown(session, identifier), upkeep.shape().files) == (before, 4)
    assert upkeep.shape().snapshots[-1][2]["operation"] == "replace"
    assert upkeep.table.current().summary == base.summary
    upkeep.merge_manifests()
    assert len(upkeep.shape().snapshots) == 5
    assert upkeep.compact(least_files=2) == (4, 2)
    assert shown(session, identifier) == before


def test_R1_orphans_go_by_their_age_and_nothing_else_does(session: Session) -> None:
    identifier = made(session)
    upkeep = session.tables.upkeep(identifier)
    for number in range(3):
        added(session, upkeep.table, [(number, "x", False)], facts={EPOCH: str(number)})
    assert upkeep.compact(least_files=2) == (3, 1)
    before = shown(session, identifier)
    filesystem, root = folder(session, identifier)
    # (On S3 there are no folders: what is made in their place is an object, an orphan like others.)
    for name in ("data/below", "other") if filesystem.type_name == "local" else ():
        filesystem.create_dir(f"{root}/{name}")
    orphans = [f"{root}/data/below/killed.parquet", f"{root}/metadata/killed.avro"]
    for path in (*orphans, f"{root}/other/not_ours.parquet"):
        with filesystem.open_output_stream(path) as file:
            file.write(b"x")

    def there(paths: list[str]) -> list[bool]:
        return [found.is_file for found in filesystem.get_file_info(paths)]

    later, earlier = (int((time.time() + s) * 1000) for s in (600, -600))
    assert upkeep.remove_orphans(earlier) == 0
    assert there(orphans) == [True, True]
    assert upkeep.remove_orphans(later) == 2
    assert there([*orphans, f"{root}/other/not_ours.parquet"]) == [False, False, True]
    assert upkeep.remove_orphans(later) == 0
    # All snapshots are whole.
    for snapshot in upkeep.table.snapshot_ids():
        session.tables.rows(identifier, snapshot).collect()
    assert shown(session, identifier) == before
    again = session.tables.upkeep(identifier)
    added(session, again.table, [(9, "x", False)])
    assert len(shown(session, identifier)) == len(before) + 1


def test_R5_files_go_as_a_whole_with_what_is_said_of_them(session: Session) -> None:
    identifier = log(session)
    upkeep = session.tables.upkeep(identifier)
    logged(session, upkeep.table, 1, (1, "2026-01-01", "on_time"), (2, "2026-01-02", "on_time"))
    logged(session, upkeep.table, 2, (3, "2026-01-01", "late"), (4, "2026-01-02", "on_time"))

    def files() -> dict[tuple[Any, ...], str]:
        return {
            (row["split"], str(row["day"]), row["newest"], row["record_count"]): row["file_path"]
            for row in upkeep.data_files("_epoch").collect()
        }

    found = files()
    first, second = "2026-01-01", "2026-01-02"
    assert set(found) == {
        ("on_time", first, 1, 1),
        ("on_time", second, 1, 1),
        ("late", first, 2, 1),
        ("on_time", second, 2, 1),
    }
    gone = [path for (_, day, _, _), path in found.items() if day == first]
    before = upkeep.table.current()
    upkeep.remove_files(gone, {"tidegate.x": "1", "tidegate.y": "'quoted'"})
    assert sorted(r["id"] for r in session.tables.rows(identifier).collect()) == [2, 4]
    again = session.tables.upkeep(identifier)
    assert (again.table.property("tidegate.x"), again.table.property("tidegate.y")) == ("1", "'quoted'")
    assert again.shape().snapshots[-1][2]["operation"] == "delete"
    assert (len(files()), again.table.current().summary) == (2, before.summary)
    # What is gone can't go again, and then nothing is said.
    with pytest.raises(Exception) as caught:  # each implementation has one of its own
        again.remove_files(gone[:1], {"tidegate.x": "2"})
    assert again.is_conflict(caught.value)
    assert session.tables.open(identifier).property("tidegate.x") == "1"
    assert not again.is_conflict(ValueError("another"))


def test_R2_files_that_a_compaction_took_are_in_the_way(session: Session) -> None:
    """Of two who work at the same files the first wins; the other is told, and changes nothing."""
    identifier = log(session)
    upkeep = session.tables.upkeep(identifier)
    for epoch in (1, 2):
        logged(session, upkeep.table, epoch, (epoch, "2026-01-01", "on_time"))
    late = session.tables.upkeep(identifier)
    paths = [row["file_path"] for row in late.data_files("_epoch").collect()]
    assert upkeep.compact(least_files=2) == (2, 1)
    with pytest.raises(Exception) as caught:  # each implementation has one of its own
        late.remove_files(paths, {"tidegate.x": "1"})
    assert late.is_conflict(caught.value)
    assert sorted(r["id"] for r in session.tables.rows(identifier).collect()) == [1, 2]
    assert session.tables.open(identifier).property("tidegate.x") is None


def test_E9_of_the_past_nothing_is_left(session: Session) -> None:
    """Not a tag, not a snapshot, not a file, and not a word in a manifest."""
    identifier = made(session)
    upkeep = session.tables.upkeep(identifier)
    added(session, upkeep.table, [(1, "a", False), (2, "gone", True)], facts={EPOCH: "1"})
    upkeep.table.tag("kept")
    added(session, upkeep.table, [(3, "b", True)], facts={EPOCH: "2"}, replaced=(True,))
    before, base = shown(session, identifier), upkeep.table.current()
    old = stored(session, identifier)
    assert len(old) == 3
    # Whoever has looked at an older state has not seen everything.
    with pytest.raises(TidegateError, match="TG502"):
        upkeep.forget_removed(upkeep.table.at("kept"))
    assert (upkeep.table.current(), upkeep.forget_names(), upkeep.forget_names()) == (base, 1, 0)
    upkeep.forget_removed(base)
    upkeep.expire(FAR_AWAY)
    upkeep.remove_orphans(FAR_AWAY)
    assert len(upkeep.table.snapshot_ids()) == 1
    assert (shown(session, identifier), upkeep.table.current().facts) == (before, base.facts)
    assert len(stored(session, identifier)) == 2
    assert entries(session, identifier) == [0, 0]
    # Whoever has begun before goes on.
    now = going_on(base, upkeep.table.current())
    added(session, upkeep.table, [(4, "c", False)], now, facts={EPOCH: "3"})
    assert len(shown(session, identifier)) == len(before) + 1


def entries(session: Session, identifier: str) -> list[int]:
    """The status of every entry in the manifests that are stored: 0 existing, 1 added, 2 removed."""
    filesystem, root = folder(session, identifier)
    found = filesystem.get_file_info(FileSelector(f"{root}/metadata"))
    manifests = [f.path for f in found if f.extension == "avro" and not f.base_name.startswith("snap-")]
    status = []
    for path in manifests:
        with filesystem.open_input_file(path) as file:
            status += [entry["status"] for entry in fastavro.reader(file)]
    return status
