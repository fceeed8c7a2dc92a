"""R1: commands whose commits are not answered, by a catalog that is a server: deliveries into Iceberg tables, the first
rows of tables, their removal, new versions of views, and erasures. Part of `make catalogs`."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.conftest import Workbench
from tests.iceberg.test_projects_in_catalogs import (
    are_whole,
    files_in,
    location_of,
    lossy,
    over_a_network,
)
from tests.sinks import test_sink_amendments as amendments
from tests.views import test_versions as versions
from tidegate.amend.run import amend
from tidegate.maintenance.erase import erase
from tidegate.store.listing import table_names
from tidegate.views.amend.rebuild import rebuild

pytestmark = [pytest.mark.slow, over_a_network]

SINK = "CREATE SINK s{0} FROM m WITH (connector = 'iceberg', table = 's{0}', amendments = 'upsert');"
KEYED = "CREATE TABLE k{0} (k INT PRIMARY KEY, n INT);"


def test_R2_B2_each_row_is_delivered_once_and_a_branch_that_is_lost_is_removed(workbench: Workbench) -> None:
    """A first delivery makes five commits, each other one three, and one of an amendment four. Of each sink the answer
    to another one of them is lost."""
    numbers = range(5)
    sinks = "".join(SINK.format(number) for number in numbers)
    workbench.assets(all=amendments.TABLE + amendments.SMALL + sinks)
    with lossy(workbench) as (session, lose, has_lost):
        rounds = [
            (5, [("a", 1, "01:10"), ("b", 2, "02:20"), ("z", 1, "05:00")]),
            (3, [("a", 1, "05:10"), ("b", 2, "06:20"), ("z", 1, "08:00")]),
            (4, [("c", 4, "02:15")]),
        ]
        for commits, rows in rounds:
            amendments.insert(session, *rows)
            session.run(["m"])
            amend(session)
            for number in numbers:
                lose(number)
                with suppress(Exception):
                    session.run([f"s{number}"])
                assert has_lost() == (number < commits), (commits, number)
            session.run()
            assert [n for n in numbers if not amendments.same_as_view(session, f"s{n}", "m")] == []
        assert are_whole(session) == 2 + len(numbers)


def test_R1_the_first_rows_of_a_table_are_there_once_and_a_version_is_in_force_once(
    workbench: Workbench,
) -> None:
    keyed = "".join(KEYED.format(number) for number in range(4))
    workbench.assets(t=versions.TABLE, v=versions.VIEW.format(what=versions.COUNT, emit=""), keyed=keyed)
    with lossy(workbench) as (session, lose, has_lost):
        versions.inserted(session, *range(4))
        session.run(["v"])
        for number in range(4):
            lose(number)
            with suppress(Exception):
                session.execute(f"INSERT INTO k{number} VALUES (1, 10), (2, 20)")
            assert has_lost()
            session.execute(f"INSERT INTO k{number} VALUES (2, 30)")
            session.execute(f"INSERT INTO k{number} VALUES (1, 10)")
            assert sorted(session.execute(f"SELECT k, n FROM k{number}")) == [(1, 10), (2, 30)]
        # A table, what makes it a version, its rows, and the swap.
        for number, what in enumerate((versions.WORDS, versions.COUNT) * 2):
            workbench.assets(v=versions.VIEW.format(what=what, emit=""))
            again = workbench.session()
            lose(number)
            with suppress(Exception):
                rebuild(again)
            assert has_lost()
            rebuild(again)
            found = versions.rows_of(again, again.identifier("v"))
            assert found[:3] == versions.expected(4, what, 3), number
            assert not again.is_building("v")
        assert are_whole(session) == 2 + 2 * 4


def test_E9_an_erasure_whose_commits_are_not_answered_leaves_no_file_of_what_has_expired(
    workbench: Workbench,
) -> None:
    """Its third commit is the expiry of what came before. Iceberg would take that for another one's, and leave its
    files."""
    workbench.assets(all=KEYED.format(""))
    with lossy(workbench) as (session, lose, has_lost):
        session.confirm = lambda text: True
        session.execute("INSERT INTO k VALUES (1, 10), (2, 20), (3, 30)")
        for key in (1, 2):
            lose(key + 1)
            done = erase(session, "k", f"k = {key}")
            assert has_lost(), key
            assert (done.tables[0].rows, done.tables[0].orphans) == (1, 0)
        assert sorted(session.execute("SELECT k FROM k")) == [(3,)]
        assert are_whole(session) == 2


def test_R1_a_removal_that_is_not_answered_has_happened(workbench: Workbench) -> None:
    workbench.assets(all="".join(KEYED.format(number) for number in range(2)))
    with lossy(workbench, drops=True) as (session, lose, has_lost):
        for number in range(2):
            session.execute(f"INSERT INTO k{number} VALUES (1, 10)")
            storage = session.project.storage
            places = [location_of(storage, f"k{number}{state}") for state in ("", "$state")]
            assert all(files_in(storage, place) for place in places)
            lose(number)
            session.execute(f"DROP TABLE k{number}", yes=True)
            assert has_lost()
            assert [files_in(storage, place) for place in places] == [[], []]
            session.execute(f"DROP TABLE k{number}", yes=True)
        assert table_names(session.project.storage, "main") == []
