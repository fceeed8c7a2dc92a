"""E1, E2, E5, E7: a change follows from the two definitions, in whatever letters names are written, whatever options
name a column, whatever has stored it, and however a table stores its type."""

from __future__ import annotations

import pytest

from tests.conftest import Workbench
from tests.evolve.test_apply import shown
from tests.views.test_valid_from import retired
from tidegate.errors import TidegateError
from tidegate.evolve.planning import planned
from tidegate.views.amend.rebuild import rebuild

pytestmark = pytest.mark.runner("inprocess")

TABLE = "CREATE TABLE t ({}, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;"


@pytest.mark.parametrize("kind", ["INT", "VARCHAR"])
def test_E2_renamed_from_is_understood_in_any_case_of_its_letters(workbench: Workbench, kind: str) -> None:
    session = workbench.assets(t=TABLE.format("page VARCHAR, x INT")).session()
    session.execute("INSERT INTO t VALUES ('a', 1, '2026-01-01 10:00:00')")
    session = workbench.assets(t=TABLE.format(f"x INT, url {kind} RENAMED FROM PAGE")).session()
    [plan] = planned(session.project, session.catalog)
    if kind == "INT":
        # It is no rename that can be made; by no means is the column dropped.
        assert plan.effect == "refused", plan.what
        return
    assert (plan.effect, plan.what[0].partition(";")[0]) == ("in place", 'column "page" is renamed to "url"')
    session.run()
    assert shown(session, "SELECT url FROM t") == [("a",)]


def test_E1_not_null_of_what_an_inline_gate_has_stored_is_relaxed_in_both(workbench: Workbench) -> None:
    """The gate would reject rows that the table has taken."""
    table = "CREATE TABLE t (k INT{}, ts TIMESTAMP) APPEND ONLY;"
    view = (
        "CREATE MATERIALIZED VIEW v AS SELECT window_end, count(*) AS n FROM "
        "TUMBLE(WATERMARK(t, ts, INTERVAL '5 seconds'), ts, INTERVAL '1 minute') GROUP BY window_end "
        "EMIT ON WINDOW CLOSE;"
    )
    session = workbench.assets(t=table.format(" NOT NULL"), v=view).session()
    session.execute("INSERT INTO t VALUES (1, '2026-01-01 12:10:00'), (1, '2026-01-01 12:12:00')")
    session.run()
    session = workbench.assets(t=table.format("")).session()
    assert {one.name: one.effect for one in planned(session.project, session.catalog)}["t"] == "in place"
    session.execute("INSERT INTO t VALUES (NULL, '2026-01-01 12:14:00'), (1, '2026-01-01 12:16:00')")
    report = session.run()
    assert [(one.on_time, one.rejected) for one in report.sources if one.name != "t"] == [(2, 0)]
    assert shown(session, "SELECT count(*) FROM v") == [(3,)]


@pytest.mark.parametrize("option", ["order.column = 'k'", "partition.columns = 'K'"])
def test_E1_E2_a_column_that_an_option_names_does_not_become_another_one(
    workbench: Workbench, option: str
) -> None:
    source = (
        f"CREATE SOURCE t ({{}}, ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH (connector = 'filesystem', path = 'in', "
        f"{option}) FORMAT PLAIN ENCODE JSON;"
    )
    row = '{{"k": {}, "m": {}, "ts": "2026-01-01 12:10:0{}"}}'.format
    workbench.json_lines("in/1.json", [row(11, 1, 1), row(12, 2, 2)])
    session = workbench.assets(t=source.format("k BIGINT, m BIGINT")).session()
    session.run()
    changed = source.format("old BIGINT RENAMED FROM k, k BIGINT AS m, m BIGINT")
    session = workbench.assets(t=changed).session()
    [plan] = planned(session.project, session.catalog)
    assert plan.effect == "refused", plan.what


@pytest.mark.runner("inprocess", "spark", long_run="spark")
def test_E7_a_column_whose_name_has_a_dot_is_added(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(TABLE.format("a INT"))
    session.execute("INSERT INTO t VALUES (1, '2026-01-01 10:00:00')")
    session.execute('ALTER TABLE t ADD COLUMN "user.id" INT')
    session.execute("INSERT INTO t (a, \"user.id\", ts) VALUES (2, 7, '2026-01-01 10:00:01')")
    assert shown(session, 'SELECT a, "user.id" FROM t ORDER BY a') == [(1, None), (2, 7)]
    session.execute('ALTER TABLE t DROP COLUMN "user.id"')
    assert shown(session, "SELECT a FROM t ORDER BY a") == [(1,), (2,)]


def test_E1_E7_a_column_that_the_table_can_not_have_is_refused_before_it_is_kept(
    workbench: Workbench,
) -> None:
    session = workbench.session()
    session.execute(TABLE.format("a INT"))
    session.execute("INSERT INTO t VALUES (1, '2026-01-01 10:00:00')")
    with pytest.raises(TidegateError, match=r'(?s)TG506.*column "v" is of type VARIANT'):
        session.execute("ALTER TABLE t ADD COLUMN v VARIANT")
    session = workbench.session()
    session.execute("INSERT INTO t VALUES (2, '2026-01-01 10:00:01')")
    assert shown(session, "SELECT a FROM t ORDER BY a") == [(1,), (2,)]


@pytest.mark.parametrize("kind", ["INT", "SMALLINT", "TINYINT"])
def test_E5_results_are_kept_whatever_their_columns_are_stored_as(workbench: Workbench, kind: str) -> None:
    view = (
        "CREATE MATERIALIZED VIEW v AS SELECT window_end, a, {} AS n FROM TUMBLE(t, ts, INTERVAL '1 minute') "
        "GROUP BY window_end, a EMIT ON WINDOW CLOSE;"
    )
    session = workbench.assets(t=TABLE.format(f"a {kind}"), v=view.format("count(*)")).session()
    session.run()
    for day in range(1, 8):
        session.execute(
            f"INSERT INTO t VALUES (1, '2026-01-0{day} 10:00:00'), (2, '2026-01-0{day} 10:01:00')"
        )
    session.run()
    assert retired(session)
    session = workbench.assets(v=view.format("count(*) + 1")).session()
    session.confirm = lambda text: True
    assert planned(session.project, session.catalog)[-1].effect == "new version"
    rebuild(session, ["v"])
    found = shown(session, "SELECT n, count(*) FROM v GROUP BY n ORDER BY n")
    assert [n for n, _ in found] == [1, 2]
