"""The port to stored tables (`tidegate/iceberg/tables.py`): the same answers from Iceberg's Java and from the tests'
own implementation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow.fs import FileSelector

from tests.conftest import Workbench
from tests.support import catalogs
from tidegate.errors import TidegateError
from tidegate.iceberg.layout import NewTable
from tidegate.iceberg.protocol import Snapshot, going_on
from tidegate.project.owner import OWNER, Owner
from tidegate.store.version import NEWEST, STORAGE_VERSION
from tidegate.tasks.writer import WriteTask, run_task

if TYPE_CHECKING:
    from tidegate.iceberg.tables import StoredTable
    from tidegate.session.session import Session

pytestmark = pytest.mark.runner("inprocess", "spark")

EPOCH = "tidegate.epoch"
FAR = 10**12
MINE, OTHER = Owner("mine", "local"), Owner("other", "prod")


@pytest.fixture
def session(workbench: Workbench) -> Session:
    opened = workbench.session()
    opened.execute("CREATE TABLE exists_only_for_its_namespace (ts TIMESTAMP) APPEND ONLY")
    opened.execute("INSERT INTO exists_only_for_its_namespace VALUES ('2026-01-01')")
    return opened


def made(session: Session, name: str = "t", **properties: str) -> str:
    identifier = session.identifier(name)
    columns = (("id", "bigint"), ("name", "string"), ("_open", "boolean"), ("_window_end", "bigint"))
    facts = {"format-version": "2", STORAGE_VERSION: str(NEWEST), **properties}
    session.tables.create_table(NewTable(identifier, columns, ("_open",), facts))
    return identifier


def written(session: Session, table: StoredTable, rows: list[tuple[int, str | None, bool | None]]) -> Any:
    """Files with these rows, which nobody has committed, and what they were written for."""
    target = table.target(session.project.storage, "_open", None, ("_window_end",))
    frame = session.spark.createDataFrame(rows, "id bigint, name string, _open boolean")
    frame = frame.selectExpr("*", "id AS _window_end").coalesce(1)
    return [file for files in run_task(frame, WriteTask(target)) for file in files], target


def added(
    session: Session,
    table: StoredTable,
    rows: list[tuple[int, str | None, bool | None]],
    base: Snapshot | None = None,
    facts: dict[str, str] | None = None,
    **more: Any,
) -> int:
    """Commit rows on top of `base` (None: the newest)."""
    files, target = written(session, table, rows)
    return table.append(files, target, facts or {EPOCH: "1"}, base or table.current(), **more)


def shown(session: Session, identifier: str, snapshot: int | None = None) -> list[tuple]:
    rows = session.tables.rows(identifier, snapshot)
    return sorted(map(tuple, rows.select("id", "name", "_open").collect()))


def files_below(session: Session, location: str) -> list[str]:
    """The files in a folder of the warehouse."""
    filesystem, path = session.project.storage.filesystem(location)
    found = filesystem.get_file_info(FileSelector(path, recursive=True, allow_not_found=True))
    return [file.path for file in found if file.is_file]


def test_a_table_is_made_once_and_dropped_with_its_rows(session: Session) -> None:
    tables, identifier = session.tables, session.identifier("t")
    assert not tables.exists(identifier)
    made(session)
    assert tables.exists(identifier)
    table = tables.open(identifier)
    assert (table.current(), table.snapshot_ids(), table.totals()) == (Snapshot(None, {}), set(), {})
    assert shown(session, identifier) == []
    added(session, table, [(1, "a", False)])
    made(session)  # nothing happens to one that is there
    assert shown(session, identifier) == [(1, "a", False)]
    was, location = table.uuid, table.location
    assert tables.open(identifier).uuid == was
    assert files_below(session, location)
    tables.drop_table(identifier)
    tables.drop_table(identifier)
    assert not tables.exists(identifier)
    assert not files_below(session, location)
    made(session)
    assert shown(session, identifier) == []
    assert tables.open(identifier).uuid != was


def test_R2_commits_are_fenced_and_each_snapshot_can_be_read(session: Session) -> None:
    identifier = made(session)
    table, late = session.tables.open(identifier), session.tables.open(identifier)
    empty = table.current()
    first = added(session, table, [(1, "a", False)], facts={EPOCH: "1", "tidegate.x": "y"})
    with pytest.raises(TidegateError) as caught:
        added(session, late, [(9, "late", False)], empty)
    assert caught.value.code == "TG502"
    assert shown(session, identifier) == [(1, "a", False)]
    second = added(session, table, [(2, None, False), (3, "c", True)], facts={EPOCH: "2"})
    with pytest.raises(TidegateError) as caught:
        added(session, late, [(9, "late", False)], late.at(first))
    assert caught.value.code == "TG502"
    assert shown(session, identifier) == [(1, "a", False), (2, None, False), (3, "c", True)]
    assert shown(session, identifier, first) == [(1, "a", False)]
    now = table.current()
    assert (now.id, now.commit, now.integer(EPOCH)) == (second, second, 2)
    assert table.at(first).summary["tidegate.x"] == "y"
    assert table.snapshot_ids() == {first, second}
    assert {id_: s[EPOCH] for id_, s in table.summaries().items()} == {first: "1", second: "2"}
    assert (table.totals()["total-records"], table.totals()["added-records"]) == ("3", "2")


def test_R2_a_writer_that_slept_through_many_commits_is_told_that_others_were_faster(
    session: Session,
) -> None:
    """Of a table in a folder the metadata that it knows is gone by then: 20 versions are kept (`iceberg/layout.py`)."""
    kept = {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "1",
    }
    identifier = made(session, **kept)
    table, late = session.tables.open(identifier), session.tables.open(identifier)
    base = late.current()
    for number in range(4):
        added(session, table, [(number, None, False)], facts={EPOCH: str(number)})
    with pytest.raises(TidegateError) as caught:
        late.append([], None, {EPOCH: "1"}, base)
    assert caught.value.code == "TG502"
    assert (late.current().integer(EPOCH), len(late.snapshot_ids())) == (3, 4)


def test_R2_a_commit_without_rows_stops_one_on_an_older_snapshot(session: Session) -> None:
    """The tick of a view that closes nothing says how far it has come, and nothing may go back behind that."""
    identifier = made(session)
    table, late = session.tables.open(identifier), session.tables.open(identifier)
    base = late.current()
    for number in range(2):
        table.append([], None, {EPOCH: str(number)}, table.current())
        with pytest.raises(TidegateError) as caught:
            late.append([], None, {EPOCH: "99"}, base)
        assert caught.value.code == "TG502"
        with pytest.raises(TidegateError) as caught:
            added(session, late, [(9, "late", False)], base)
        assert caught.value.code == "TG502"
        base = late.current()
        assert base.integer(EPOCH) == number
    assert (shown(session, identifier), len(table.snapshot_ids())) == ([], 2)


def test_R2_rows_of_others_that_came_in_between_stop_a_commit(session: Session) -> None:
    from tests.support.by_hand import by_hand

    identifier = made(session)
    table = session.tables.open(identifier)
    added(session, table, [(1, "a", False)])
    base = table.current()
    by_hand(
        session, f"INSERT INTO {identifier} SELECT 2 AS id, 'b' AS name, FALSE AS _open, 2 AS _window_end"
    )
    with pytest.raises(TidegateError) as caught:
        added(session, table, [(3, "c", False)], base)
    assert caught.value.code == "TG502"
    assert shown(session, identifier) == [(1, "a", False), (2, "b", False)]


@pytest.mark.runner("spark")
def test_what_was_committed_is_not_read_back_and_is_what_others_read(session: Session) -> None:
    identifier = made(session)
    table = session.tables.open(identifier)

    def read(handle: StoredTable) -> dict[str, Any]:
        known = handle.java.operations().current()
        parser = session.spark._jvm.org.apache.iceberg.TableMetadataParser
        place = str(known.metadataFileLocation()).removeprefix("file:").replace("///", "/")
        found = json.loads(parser.toJson(known)) | {"place": place, "changes": known.changes().size()}
        # Where they are and since when is in the answer of a server, which is not parsed.
        only_of_server = ("place", "last-updated-ms") if catalogs.kind() == "rest" else ()
        return {key: value for key, value in found.items() if key not in only_of_server}

    for number in range(3):
        added(session, table, [(number, "a", number == 1)], replaced=(True,), facts={EPOCH: str(number)})
        before = table.java.operations().current()
        assert table.current().integer(EPOCH) == number
        if catalogs.kind() != "rest":
            assert table.java.operations().current() == before
        assert read(table) == read(session.tables.open(identifier))
    # Of what others commit nothing is known before.
    session.tables.open(identifier).set_properties({"of": "others"})
    added(session, table, [(9, "a", False)], facts={EPOCH: "9"})
    assert (table.property("of"), read(table)) == ("others", read(session.tables.open(identifier)))
    session.tables.upkeep(identifier).merge_manifests()
    added(session, table, [(10, "a", False)], table.at(table.current().id or 0), facts={EPOCH: "10"})
    assert read(table) == read(session.tables.open(identifier))


def test_a_commit_without_files_says_something(session: Session) -> None:
    identifier = made(session)
    table = session.tables.open(identifier)
    made_of_nothing = table.append([], None, {EPOCH: "7"}, table.current())
    assert (table.current().id, table.current().integer(EPOCH)) == (made_of_nothing, 7)
    assert shown(session, identifier) == []


def test_open_rows_are_replaced_and_named_files_are_removed(session: Session) -> None:
    identifier = made(session)
    table = session.tables.open(identifier)
    added(session, table, [(1, "closed", False), (2, "open", True), (3, "carried", None)])
    added(session, table, [(4, "open", True)], replaced=(True,))
    assert shown(session, identifier) == [(1, "closed", False), (3, "carried", None), (4, "open", True)]
    added(session, table, [(5, "closed", False), (6, "carried", None)], replaced=(True, None))
    assert shown(session, identifier) == [(1, "closed", False), (5, "closed", False), (6, "carried", None)]
    now = table.current()
    assert now.id is not None
    by_file = {row["id"]: row["_file"] for row in session.tables.rows(identifier, with_file=True).collect()}
    (closed,) = table.files_named({by_file[1], by_file[6]}, now.id, 0, 10)
    assert closed.recordCount() == 1
    (nobodys,) = table.files_among({by_file[1], by_file[6]}, now.id)
    added(session, table, [(7, "closed", False)], removed=[closed, nobodys])
    assert shown(session, identifier) == [(5, "closed", False), (7, "closed", False)]
    # One that is gone already: nothing is committed.
    with pytest.raises(TidegateError) as caught:
        added(session, table, [(8, "closed", False)], now, removed=[closed])
    assert caught.value.code == "TG502"
    assert shown(session, identifier) == [(5, "closed", False), (7, "closed", False)]


def test_what_others_commit_on_top_is_seen_and_not_in_the_way(session: Session) -> None:
    from tests.support.by_hand import by_hand

    identifier = made(session)
    table = session.tables.open(identifier)
    added(session, table, [(1, "a", False), (2, "b", False)], facts={EPOCH: "1"})
    base = table.current()
    by_hand(session, f"DELETE FROM {identifier} WHERE id = 1")
    now = table.current()
    assert (now.summary[EPOCH], now.commit) == ("1", base.commit)
    assert now.id != base.id
    assert EPOCH not in table.totals()
    assert going_on(base, table.current()) == now
    added(session, table, [(3, "c", False)], going_on(base, table.current()), {EPOCH: "2"})
    assert shown(session, identifier) == [(2, "b", False), (3, "c", False)]
    # What tidegate has committed meanwhile can't be passed over.
    assert going_on(base, table.current()) == base


def test_properties_tags_and_later_releases(session: Session) -> None:
    identifier = made(session, **{"tidegate.kind": "test"})
    table = session.tables.open(identifier)
    table.tag("nothing")  # there is no snapshot yet
    assert (table.property("tidegate.kind"), table.property("tidegate.none")) == ("test", None)
    table.set_properties({"tidegate.kind": "tested", "tidegate.more": "'quoted' \\ text"})
    again = session.tables.open(identifier)
    assert (
        again.properties().items()
        >= {
            "tidegate.kind": "tested",
            "tidegate.more": "'quoted' \\ text",
        }.items()
    )
    added(session, table, [(1, "a", False)])
    table.tag("kept")
    added(session, table, [(2, "b", False)])
    assert tagged(session, identifier, "kept") == 1
    table.tag("kept")
    assert tagged(session, identifier, "kept") == 2
    table.set_properties({STORAGE_VERSION: str(NEWEST + 1)})
    with pytest.raises(TidegateError) as caught:
        session.tables.open(identifier)
    assert caught.value.code == "TG622"


def tagged(session: Session, identifier: str, name: str) -> int:
    """How many rows a tag has."""
    from tests.inprocess.stored.tables import InProcessTables

    if isinstance(session.tables, InProcessTables):
        return session.tables.rows(identifier, session.tables.open(identifier).tags()[name]).count()
    return session.spark.read.option("versionAsOf", name).table(identifier).count()


def test_X3_only_the_owner_commits(session: Session) -> None:
    identifier = made(session, **{OWNER: MINE.to_text()})
    mine, others = session.tables.open(identifier, MINE), session.tables.open(identifier, OTHER)
    added(session, mine, [(1, "a", False)])
    with pytest.raises(TidegateError) as caught:
        others.current()
    assert caught.value.code == "TG531"
    assert shown(session, identifier) == [(1, "a", False)]
    others.refresh()
    assert others.property(OWNER) == MINE.to_text()


def test_files_with_their_bounds(session: Session) -> None:
    identifier = session.identifier("log")
    columns = (("id", "bigint"), ("_outcome", "string"))
    session.tables.create_table(NewTable(identifier, columns, ("_outcome",), {"format-version": "2"}))
    table = session.tables.open(identifier)
    target = table.target(session.project.storage, "_outcome", None, ("id",))
    for ids in ([1, 5], [10], [None]):
        # Beyond 32 bits, as times are.
        rows = [(None if i is None else i * FAR, "on_time") for i in ids] + [(3 * FAR, "late")]
        frame = session.spark.createDataFrame(rows, "id bigint, _outcome string").coalesce(1)
        files = [file for files in run_task(frame, WriteTask(target)) for file in files]
        table.append(files, target, {EPOCH: "1"}, table.current())
    snapshot = table.current().id
    assert snapshot is not None

    def found(low: int | None, high: int | None) -> set[tuple]:
        """Those that are known, and not to be left out."""
        low, high = (None if n is None else n * FAR for n in (low, high))
        files = table.files(snapshot, "id", target.field_id("id"), low, high)
        assert files is not None
        assert (1, None, None) in {(f["rows"], f["least"], f["greatest"]) for f in files}
        known = [f for f in files if f["least"] is not None]
        return {(f["rows"], f["least"] // FAR, f["greatest"] // FAR) for f in known}

    assert found(None, None) == {(2, 1, 5), (1, 10, 10)}
    assert found(6, None) == {(1, 10, 10)}
    assert found(None, 10) == {(2, 1, 5)}
    assert found(5, 11) == {(2, 1, 5), (1, 10, 10)}


def test_a_column_that_comes_later_is_NULL_in_rows_that_were_there(session: Session, runner: str) -> None:
    identifier = made(session)
    table = session.tables.open(identifier)
    added(session, table, [(1, "a", False)])
    session.tables.add_stored_column(identifier, "`more of it`", "struct<x: int>")
    session.tables.add_stored_column(identifier, "`more of it`.`y`", "decimal(38,0)")
    rows = session.tables.rows(identifier)
    assert rows.columns == ["id", "name", "_open", "_window_end", "more of it"]
    assert [f.name for f in rows.schema["more of it"].dataType.fields] == ["x", "y"]  # type: ignore[attr-defined]
    assert [tuple(row) for row in rows.collect()] == [(1, "a", False, 1, None)]
    again = session.tables.open(identifier)
    added(session, again, [(2, "b", False)])
    assert shown(session, identifier) == [(1, "a", False), (2, "b", False)]
