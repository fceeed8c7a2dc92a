"""E5, R4: what a build waits for, when it begins anew, and what has to leave its rows and files alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.conftest import Workbench
from tests.views.test_version_lives import CLOSE, HOURS, begun, inserted, opened, values, view_of
from tests.views.test_versions import TABLE, rows_of
from tidegate.errors import TidegateError
from tidegate.iceberg.data_files import in_spec
from tidegate.iceberg.versions.numbering import partitioned
from tidegate.maintenance.upkeep import due, maintain
from tidegate.project.jobs.maintenance import Policy
from tidegate.session.session import Session
from tidegate.tables.table import EVERYTHING
from tidegate.views.amend.rebuild import rebuild
from tidegate.views.retention import needed_from
from tidegate.views.revisions import comparable
from tidegate.views.versions import build
from tidegate.views.versions import finish as finishing
from tidegate.views.versions.build import VersionBuild
from tidegate.views.versions.finish import finish

pytestmark = pytest.mark.runner("inprocess")


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "ROWS_OF_A_SLICE", 1)


@pytest.mark.usefixtures("small_slices")
def test_R4_slices_that_close_no_window_are_passed_over(workbench: Workbench) -> None:
    session = opened(workbench, "count(*)")
    inserted(session, *(f"{h:02}:{m:02}" for h in range(3) for m in (0, 20, 40)))
    session.run()
    version = begun(session := opened(workbench, "sum(n)"))
    # While it is built, the rows that its slices read stay, whatever the current version has done with them (R5).
    table = session.relation("t")
    assert needed_from(session, table) == EVERYTHING
    reached = []
    while version.advance():
        reached.append(version.frontier())
    assert len(reached) == 3
    assert sorted(set(reached)) == reached
    needed = needed_from(session, table)
    assert needed is not None
    assert needed > EVERYTHING


@pytest.mark.usefixtures("small_slices")
def test_E3_a_change_of_a_column_during_a_build_begins_it_anew(workbench: Workbench) -> None:
    session = opened(workbench, "count(*)")
    inserted(session, "00:00", "01:00", "02:00")
    session.run()
    begun(opened(workbench, "sum(n)")).advance()
    workbench.assets(t=TABLE.replace("n INT", "n BIGINT"), v=HOURS.format(what="sum(n)", emit=CLOSE))
    workbench.session().run(["t"])
    assert [one.view for one in rebuild(workbench.session(), ["v"])] == ["v"]
    assert values(workbench.session(), "v") == [5, 5]


GROUPED = "CREATE MATERIALIZED VIEW v AS SELECT k, {what} AS x FROM t GROUP BY k;"


def test_E5_a_query_without_a_clock_waits_for_no_frontier(workbench: Workbench) -> None:
    session = opened(workbench, "count(*)")
    inserted(session, "00:00", "01:00", "02:00")
    session.run()
    workbench.assets(v=GROUPED.format(what="count(*)"))
    version = begun(session := workbench.session())
    version.advance()
    # But readers do not go back behind rows that the current version has read (O1).
    inserted(session, "03:00")
    session.run(["v"])
    assert not version.swapped()
    version.advance()
    newest = version.table.table.current()
    assert not version._is_behind(version.current.current(), newest)


def grouped(workbench: Workbench) -> Session:
    """A view of groups, with one row, and its next definition."""
    workbench.assets(t=TABLE, v=GROUPED.format(what="count(*)"))
    session = workbench.session()
    inserted(session, "00:00")
    session.run()
    workbench.assets(t=TABLE, v=GROUPED.format(what="sum(n)"))
    return workbench.session()


def after_each_slice(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    advanced = VersionBuild.advance

    def advance(version: VersionBuild) -> bool:
        found = advanced(version)
        happens()
        return found

    monkeypatch.setattr(VersionBuild, "advance", advance)


@pytest.mark.runner("inprocess", "spark", long_run="spark")
def test_E5_a_version_without_a_clock_is_swapped_in_beside_a_busy_source(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are always rows that the new version has not read; the current one has not shown them either."""
    session = grouped(workbench)
    after_each_slice(monkeypatch, lambda: inserted(session, "01:00"))
    assert [one.view for one in rebuild(session)] == ["v"]
    assert values(session, "v") == [5]
    session.run()
    assert values(session, "v") == [10]


@pytest.mark.long_run
def test_E5_a_version_without_a_clock_gives_way_to_who_has_read_more(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = begun(session := grouped(workbench))
    news = iter(range(1, 60))

    def read_more() -> None:
        inserted(session, f"01:{next(news):02}")
        session.run(["v"])

    with monkeypatch.context() as during:
        during.setattr(finishing, "_GIVES_WAY", 99)
        after_each_slice(during, read_more)
        with pytest.raises(
            TidegateError, match=r"TG502.*the current one has read rows that the new one has not"
        ):
            finish(version)
        assert values(session, "v") == [next(news)]
    # What the current version has read has expired meanwhile; it was read before the new one has read all.
    inserted(session, "02:00")
    maintain(session, "t", Policy(keep_snapshots=0, settle=0))
    finish(version)
    assert values(session, "v") == [5 * next(news)]


def test_E5_a_version_of_another_time_does_not_wait_for_its_windows_to_close(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last tick has read all, and has closed nothing: so it is not committed."""
    epochs = "CREATE TABLE e (n INT, at BIGINT, WATERMARK FOR at AS at) APPEND ONLY;"
    session = opened(workbench, "count(*)", e=epochs)
    inserted(session, "00:00", "01:00")
    session.execute("INSERT INTO e VALUES (1, 0), (1, 3600)")
    session.run()
    workbench.assets(
        v=HOURS.format(what="count(*)", emit=CLOSE).replace("t, ts, INTERVAL '1 hour'", "e, at, 3600")
    )
    version, swaps = begun(session := workbench.session()), list[int]()
    version.advance()
    session.execute("INSERT INTO e VALUES (1, 3601)")
    # (The tables of these tests take no other type of `_window_end`.)
    monkeypatch.setattr(VersionBuild, "_swap", lambda *_: swaps.append(1))
    finish(version)
    assert (swaps, version.frontier()) == ([1], 3600)


def test_E5_a_version_that_never_gets_there_says_what_it_waits_for(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened(workbench, "count(*)")
    inserted(session, "00:00", "02:00")
    session.run()
    version = begun(opened(workbench, "sum(n)"))
    monkeypatch.setattr(type(version), "_is_behind", lambda *_: True)
    with pytest.raises(
        TidegateError, match=r"final up to 2026-01-01 02:00:00, .* current one up to"
    ) as caught:
        finish(version)
    assert caught.value.code == "TG502"


def test_E5_C2_a_version_of_longer_windows_does_not_wait_for_their_end(workbench: Workbench) -> None:
    session = opened(workbench, "count(*)")
    inserted(session, "00:00", "02:30")
    session.run()
    workbench.assets(v=HOURS.format(what="count(*)", emit=CLOSE).replace("1 hour", "1 day"))
    version = begun(workbench.session())
    version.advance()
    # The current version goes on. No day ends there, so no tick of the next version says that it has come as far.
    inserted(session, "03:30")
    session.run()
    stood = version.current.current().integer("tidegate.frontier")
    finish(version)
    assert version.current.current().integer("tidegate.frontier") == stood
    assert values(workbench.session(), "v") == []
    session = workbench.session()
    session.execute("INSERT INTO t VALUES ('a', 5, '2026-01-02 00:30:00')")
    session.run()
    assert values(session, "v") == [3]


def test_E5_a_build_that_was_given_up_goes(workbench: Workbench) -> None:
    session = opened(workbench, "count(*)")
    inserted(session, "00:00", "02:00")
    session.run()
    begun(opened(workbench, "sum(n)")).advance()
    back = opened(workbench, "count(*)")
    with workbench.session().lease("v", "$next"):
        # Somebody is at work on it: that is no error of a view that needs nothing.
        assert rebuild(back) == []
    assert back.is_building("v")
    assert rebuild(workbench.session()) == []
    assert not workbench.session().is_building("v")


def test_E5_a_build_that_was_given_up_goes_with_upkeep_and_holds_no_rows(workbench: Workbench) -> None:
    session = opened(workbench, "count(*)")
    inserted(session, "00:00", "02:00")
    session.run()
    begun(opened(workbench, "sum(n)"))
    policy, table = Policy(orphans_after=86_400), session.relation("t")
    day, now = timedelta(days=1), session.clock()

    def left(what: str, after: timedelta) -> tuple[bool, bool]:
        current = opened(workbench, what)
        maintain(current, "v", policy, now=(now + after).timestamp())
        return current.is_building("v"), needed_from(current, table) == EVERYTHING

    # Of the definition in the file it is continued, however long ago it was begun.
    assert left("sum(n)", 9 * day) == (True, True)
    # Of another one it may be: somebody may be about to edit the file.
    assert left("count(*)", day / 2) == (True, True)
    with workbench.session().lease("v", "$next"):
        assert left("count(*)", 2 * day) == (True, True)
    late = (now + 2 * day).timestamp()
    assert "v: a new version that was given up" in due(workbench.session(), "v", policy, late)
    assert left("count(*)", 2 * day) == (False, False)


def test_R2_a_build_whose_files_somebody_has_removed_begins_anew(workbench: Workbench) -> None:
    session = opened(workbench, "count(*)")
    inserted(session, "00:00", "02:00")
    session.run()
    version = begun(session := opened(workbench, "sum(n)"))
    while version.advance():
        pass
    files = session.tables.upkeep(session.identifier("v$next")).data_files("_tick").collect()
    filesystem, path = session.project.storage.filesystem(files[0]["file_path"])
    filesystem.delete_file(path)
    clock = session.clock
    session.clock = lambda: clock() + timedelta(days=2)
    assert not version.swapped()
    finish(version)
    assert rows_of(session, session.identifier("v")) == [("01:00:00", "5")]


def test_E5_what_an_earlier_version_has_looked_up_is_no_state_of_the_present_one(
    workbench: Workbench,
) -> None:
    names = "CREATE TABLE names (k VARCHAR, name VARCHAR, PRIMARY KEY (k));"
    joined = """CREATE MATERIALIZED VIEW v AS SELECT t.ts, names.name AS x, t.n + {plus} AS n FROM t
    LEFT JOIN names FOR SYSTEM_TIME AS OF PROCTIME() AS names ON t.k = names.k EMIT ON WINDOW CLOSE;"""
    workbench.assets(t=TABLE, names=names, v=joined.format(plus=0))
    session = workbench.session()
    session.execute("INSERT INTO names VALUES ('a', 'one')")
    inserted(session, "00:00", "01:00")
    session.run()
    session.execute("INSERT INTO names VALUES ('a', 'two')")
    inserted(session, "02:00")
    session.run()

    def stretches(session: Session) -> list[Any]:
        return comparable._states(session.tables.open(session.identifier("v")), ["names"], [], None)

    before = stretches(session)
    assert len(before) == 2
    workbench.assets(v=joined.format(plus=1))
    rebuild(session := workbench.session())
    # All of it was computed with the newest names.
    (found,) = stretches(session)
    assert found[2] == before[-1][2]
    session.execute("INSERT INTO names VALUES ('a', 'three')")
    inserted(session, "03:00")
    session.run()
    assert [one[2] == before[-1][2] for one in stretches(session)] == [True, False]
    assert view_of(session, "v").inputs


def test_E2_partition_values_have_the_ids_of_the_fields_of_the_table() -> None:
    """Else a changed type of `_window_end` makes each file's day NULL, and filters leave out all of them."""
    before = [
        {
            "spec-id": 0,
            "fields": [_field("_open", 4, 1000, "identity"), _field("_window_end_day", 3, 1001, "day")],
        }
    ]
    schema = {"fields": [{"name": "_open", "id": 4}, {"name": "_window_end", "id": 1009}]}
    spec = partitioned(before, schema, ["_open", "days(_window_end)"])
    ids = [field["field-id"] for field in spec["fields"]]
    assert ids == [1000, 1002]
    file = {"spec-id": 0, "partition": {"1000": False, "1001": "2026-01-01"}}
    assert in_spec(file, 7, ids) == {"spec-id": 7, "partition": {"1000": False, "1002": "2026-01-01"}}


def _field(name: str, source: int, number: int, transform: str) -> dict[str, Any]:
    return {"name": name, "source-id": source, "field-id": number, "transform": transform}
