"""New versions of a stored table, from Iceberg's Java and from the tests' own implementation of the port
(`tidegate/iceberg/versions`)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.inprocess.test_conformance import FAR, added, files_below, made, session, shown, tagged
from tidegate.errors import TidegateError
from tidegate.iceberg.layout import NewTable
from tidegate.iceberg.protocol import LIFE, Commit, Found, GiveUp, continued, drive, going_on, stands
from tidegate.iceberg.versions.swap import BuiltVersion, VersionStart, VersionSwap
from tidegate.store.version import NEWEST, STORAGE_VERSION
from tidegate.tasks.writer import WriteTask, run_task

if TYPE_CHECKING:
    from tidegate.session.session import Session

pytestmark = pytest.mark.runner("inprocess", "spark", long_run="spark")
__all__ = ["session"]  # the fixture

COLUMNS = (("total", "bigint"), ("id", "string"), ("pairs", "array<struct<a: int>>"), ("_open", "boolean"))


def built(session: Session, identifier: str, bound: str = "bigint") -> str:
    """The table of a version with two rows: `id` has another type, `name` is gone."""
    version = session.identifier("t$next")
    columns = (*COLUMNS, ("_window_end", bound))
    parts = ("_open",) if bound == "bigint" else ("_open", "days(_window_end)")
    facts = {"format-version": "2", STORAGE_VERSION: str(NEWEST), "new": "yes"}
    new = NewTable(version, columns, parts, facts)
    session.tables.make_version(new, identifier, 2)
    session.tables.make_version(new, identifier, 2)  # one that is there stays as it is
    table = session.tables.open(version)
    target = table.target(session.project.storage, "_open", None if len(parts) == 1 else "_window_end")
    end = "5L" if bound == "bigint" else f"CAST('2026-01-02' AS {bound})"
    frame = session.spark.sql(
        f"SELECT 7L AS total, 'x' AS id, array(named_struct('a', 1)) AS pairs, false AS _open, {end} AS _window_end"
    )
    files = [file for some in run_task(frame, WriteTask(target)) for file in some]
    table.append(files, target, {"tidegate.tick": "1"}, table.current())
    return version


def swap(
    session: Session, identifier: str, version: str, tag: str = "v1", number: int = 2, tick: int = 9
) -> VersionSwap:
    made = session.tables.open(version)
    built = BuiltVersion(made.uuid, made.current().id, made.properties())
    before = session.tables.open(identifier).properties()
    facts, summary = {"tidegate.generation": str(number)}, {"tidegate.tick": str(tick)}
    return VersionSwap.of(tag, before, built, facts, summary)


def rows(session: Session, identifier: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in session.tables.rows(identifier).select("total", "id", "pairs.a").collect()]


@pytest.mark.runner("spark")
def test_E5_a_version_may_count_time_otherwise(session: Session) -> None:
    """(The tests' own writer of manifests knows one way to split a table.)"""
    takes_the_place(session, "timestamp_ntz")


def test_E5_a_version_takes_the_place_of_a_table_in_one_commit_without_a_copy(session: Session) -> None:
    takes_the_place(session, "bigint")


def takes_the_place(session: Session, bound: str) -> None:
    # One of the results, one of the table (X3), and a setting of an operator.
    own = {"tidegate.stale": "yes", "tidegate.adopted": "[]", "write.metadata.previous-versions-max": "7"}
    identifier = made(session, **own)
    table = session.tables.open(identifier)
    first = added(session, table, [(1, "a", False), (2, "b", False)])
    version = built(session, identifier, bound)
    # Until the swap nothing of it is to be seen.
    assert shown(session, identifier) == [(1, "a", False), (2, "b", False)]
    files = {file for file in files_below(session, table.location) if file.endswith(".parquet")}
    second = table.swap(version, swap(session, identifier, version), table.current())
    after = {file for file in files_below(session, table.location) if file.endswith(".parquet")}
    assert files == after
    now = table.current()
    assert (now.id, now.integer("tidegate.tick")) == (second, 9)
    found = table.properties()
    assert (found["new"], found["tidegate.generation"], found.get("tidegate.stale")) == ("yes", "2", None)
    assert (found["tidegate.adopted"], found["write.metadata.previous-versions-max"]) == ("[]", "7")
    assert now.summary[LIFE] == "2/9"
    assert "gc.enabled" not in found
    session.tables.end_version(version)
    assert not session.tables.exists(version)
    assert rows(session, identifier) == [(7, "x", [1])]
    # What it had stays readable, with the columns that it had.
    assert shown(session, identifier, first) == [(1, "a", False), (2, "b", False)]
    assert tagged(session, identifier, "v1") == 2
    again = session.tables.open(identifier)
    added_to_version(session, again, bound)
    assert sorted(rows(session, identifier)) == [(7, "x", [1]), (8, "y", None)]


def added_to_version(session: Session, table: Any, bound: str) -> None:
    target = table.target(session.project.storage, "_open", None if bound == "bigint" else "_window_end")
    end = "6L" if bound == "bigint" else f"CAST('2026-01-03' AS {bound})"
    frame = session.spark.sql(f"SELECT 8L AS total, 'y' AS id, false AS _open, {end} AS _window_end")
    files = [file for some in run_task(frame, WriteTask(target)) for file in some]
    table.append(files, target, {"tidegate.tick": "10"}, table.current())


def test_E5_a_version_that_is_let_go_of_takes_its_files_with_the_next_expiry(session: Session) -> None:
    identifier = made(session)
    table, late = session.tables.open(identifier), session.tables.open(identifier)
    first = added(session, table, [(1, "a", False)])
    version = built(session, identifier)
    stood = table.swap(version, swap(session, identifier, version), table.current())
    session.tables.end_version(version)
    late.current()
    upkeep = session.tables.upkeep(identifier)
    upkeep.expire(FAR * 1000)
    assert table.current().id == stood
    assert table.snapshot_ids() == {first, stood}
    table.set_properties({"another": "commit"})
    with pytest.raises(TidegateError) as caught:
        late.forget_tags(["v1"], {"left": "none"})
    assert caught.value.code == "TG502"
    # Nor is anything that somebody has let go of meanwhile said to be left.
    table.tag("v0")
    late.current()
    table.current()
    table.forget_tags(["v0"], {"left": "v1"})
    with pytest.raises(TidegateError) as caught:
        late.forget_tags(["v1"], {"left": "v0"})
    assert caught.value.code == "TG502"
    table.current()
    table.forget_tags(["v1"], {"left": "none"})
    assert table.property("left") == "none"
    session.tables.upkeep(identifier).expire(FAR * 1000)
    table.current()
    assert table.snapshot_ids() == {table.current().id}
    assert rows(session, identifier) == [(7, "x", [1])]


def test_E5_a_version_can_begin_with_the_rows_of_an_earlier_one(session: Session) -> None:
    identifier = made(session)
    table = session.tables.open(identifier)
    added(session, table, [(1, "a", False), (2, None, None)], facts={"tidegate.tick": "4"})
    version = built(session, identifier)
    table.swap(version, swap(session, identifier, version), table.current())
    session.tables.end_version(version)
    start = VersionStart("v1", table.at("v1").facts)
    old = (("id", "bigint"), ("name", "string"), ("_open", "boolean"), ("_window_end", "bigint"))
    facts = {"format-version": "2", STORAGE_VERSION: str(NEWEST)}
    new = NewTable(version, old, ("_open",), facts)
    for _ in range(2):
        session.tables.make_version(new, identifier, 3, start)
        assert shown(session, version) == [(1, "a", False), (2, None, None)]
    beside = session.tables.open(version)
    assert (beside.current().integer("tidegate.tick"), len(beside.snapshot_ids())) == (4, 1)
    added(session, beside, [(3, "c", False)], facts={"tidegate.tick": "5"})
    table.swap(version, swap(session, identifier, version, "v2", 3, 10), table.current())
    session.tables.end_version(version)
    assert shown(session, identifier) == [(1, "a", False), (2, None, None), (3, "c", False)]
    added(session, session.tables.open(identifier), [(4, "d", False)])
    assert len(shown(session, identifier)) == 4


def test_E5_a_swap_is_fenced(session: Session) -> None:
    identifier = made(session)
    table, late = session.tables.open(identifier), session.tables.open(identifier)
    added(session, table, [(1, "a", False)], facts={"tidegate.tick": "1"})
    version = built(session, identifier)
    base = late.current()
    added(session, table, [(2, "b", False)], facts={"tidegate.tick": "2"})
    with pytest.raises(TidegateError) as caught:
        late.swap(version, swap(session, identifier, version), base)
    assert caught.value.code == "TG502"
    assert shown(session, identifier) == [(1, "a", False), (2, "b", False)]
    # And nothing of before is put on a version.
    stood = late.current()
    table.swap(version, swap(session, identifier, version), table.current())
    with pytest.raises(TidegateError) as caught:
        late.append([], None, {"tidegate.tick": "3"}, stood)
    assert caught.value.code == "TG502"
    assert rows(session, identifier) == [(7, "x", [1])]


def test_E5_only_what_was_checked_is_swapped_in(session: Session) -> None:
    identifier = made(session)
    table = session.tables.open(identifier)
    added(session, table, [(1, "a", False)], facts={"tidegate.tick": "1"})
    version = built(session, identifier)

    def refused(planned: VersionSwap) -> None:
        with pytest.raises(TidegateError) as caught:
            table.swap(version, planned, table.current())
        assert caught.value.code == "TG502"
        assert shown(session, identifier) == [(1, "a", False)]

    # A commit to the version, a property of the table, and a version of another number.
    planned = swap(session, identifier, version)
    session.tables.open(version).append(
        [], None, {"tidegate.tick": "2"}, session.tables.open(version).current()
    )
    refused(planned)
    planned = swap(session, identifier, version)
    table.set_properties({"tidegate.stale": "u"})
    refused(planned)
    planned = swap(session, identifier, version)
    refused(replace(planned, properties={**planned.properties, "tidegate.generation": "3"}))
    # One that was made anew.
    session.tables.end_version(version)
    built(session, identifier)
    refused(planned)
    # An ordinary table is no version: its files go with it.
    session.tables.end_version(version)
    facts = {"format-version": "2", STORAGE_VERSION: str(NEWEST)}
    session.tables.create_table(NewTable(version, (*COLUMNS, ("_window_end", "bigint")), ("_open",), facts))
    refused(swap(session, identifier, version))


def test_E5_what_was_made_of_results_before_a_swap_is_not_committed_behind_it(session: Session) -> None:
    identifier = made(session)
    table = session.tables.open(identifier)
    # An amendment needs only that nobody has amended.
    added(session, table, [(1, "a", False)], facts={"tidegate.tick": "1"})
    late = Commit(table.current(), "amendments", looks=True)
    table.swap(
        built(session, identifier), swap(session, identifier, session.identifier("t$next")), table.current()
    )
    now = table.current()
    end = drive(late, lambda _: Found(now), lambda base: pytest.fail(str(base)))
    assert end == GiveUp("overtaken")
    assert not stands(late.stood, now)
    assert going_on(late.stood, now) is late.stood
    # Every later commit says which life it is of; one by others says nothing.
    table.append([], None, {"tidegate.tick": "10"}, now)
    assert table.current().summary[LIFE] == "2/9"
    assert continued(now, {}) == {}
