"""E9: the rows of views that come from a person's rows go with them, wherever a view shows by what they are found."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Workbench
from tests.maintenance.people import WHERE, WHO, arrive, audit, define, erased, stored, there
from tests.support.searching import kinds
from tidegate.amend.run import amend
from tidegate.audit.view import audit_view
from tidegate.errors import TidegateError
from tidegate.iceberg.layout import REVISION_TYPE
from tidegate.maintenance.erase import erase
from tidegate.maintenance.erase_log import LogErasure
from tidegate.maintenance.erasing import Erasing, ErasingFile
from tidegate.plan.versions import kept_versions
from tidegate.project import Project
from tidegate.session.session import Session
from tidegate.sql.catalog.objects import View
from tidegate.sql.views.passed_columns import counts_only
from tidegate.views.amend.rebuild import rebuild
from tidegate.views.amend.rollback import rollback

pytestmark = pytest.mark.runner("inprocess")

HOURS = "FROM TUMBLE(orders, at, INTERVAL '1 hour')"
VIEWS = f"""
CREATE MATERIALIZED VIEW hourly AS SELECT window_start, customer AS who, count(*) AS n, max(id) AS newest
{HOURS} GROUP BY window_start, customer EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW shown AS SELECT window_end, customer, count(*) AS n {HOURS} WHERE id > 0
GROUP BY window_end, customer;
CREATE MATERIALIZED VIEW sorted AS SELECT at, customer, upper(customer) AS loud FROM orders EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW often AS SELECT window_start, who AS name, n FROM hourly WHERE n >= 1 EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW everybody AS SELECT customer, count(*) AS n FROM orders GROUP BY customer;
"""
NAMES = ("hourly", "shown", "sorted", "everybody", "often")


@pytest.fixture
def session(workbench: Workbench) -> Session:
    """Three days; the windows of the first were amended by late rows, twice, the second time to nothing for the person,
    whose group has a tombstone."""
    define(workbench.root, VIEWS)
    opened = workbench.session()
    for number in (1, 2, 3):
        arrive(workbench.root, number)
        opened.run()
    assert sum(report.windows for report in amend(opened, ["hourly", "sorted"])) > 0
    opened.tables.open(opened.identifier("hourly")).tag("generation_1")
    return opened


def people(session: Session, name: str) -> list[Any]:
    return [row for row in session.execute(f"SELECT * FROM {name}").rows() if WHO in row]


def test_E9_rows_of_views_go_and_audits_and_backfills_find_no_difference(
    session: Session, workbench: Workbench
) -> None:
    assert all(people(session, name) for name in NAMES)
    before = {name: [row for row in stored(session, name) if WHO not in str(row)] for name in NAMES}
    assert {"rows", "statistics"} <= kinds(there(workbench.root))
    seen = erased(session, dry_run=True)
    done = erased(session)
    found = [(t.table, t.rows, t.files) for t in done.tables]
    assert found == [(t.table, t.rows, t.files) for t in seen.tables]
    assert [t.table for t in done.tables] == ["orders", *NAMES]
    assert all(t.rows and t.files for t in done.tables)
    assert there(workbench.root) == set()
    # No other row has changed.
    assert {name: stored(session, name) for name in NAMES} == before
    for name in NAMES:
        assert audit_view(session, name).ok, name
        assert len(session.tables.open(session.identifier(name)).snapshot_ids()) == 1
    repaired = amend(session, ["hourly", "sorted"], from_late=False)
    assert [report.windows for report in repaired] == [0] * len(repaired)


@pytest.mark.long_run
def test_R2_views_go_on_behind_an_erasure(session: Session, workbench: Workbench) -> None:
    erased(session)
    arrive(workbench.root, 4, 5)
    session.run()
    assert audit(session).erased == 15
    for name in NAMES:
        found = audit_view(session, name)
        assert found.ok, found
    assert people(session, "hourly")
    assert erased(session).rows == 10
    assert all(audit_view(session, name).ok for name in NAMES)
    assert there(workbench.root) == set()


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("most", f"SELECT window_end, max(customer) AS n {HOURS} GROUP BY window_end EMIT ON WINDOW CLOSE"),
        ("loud", f"SELECT window_end, upper(customer) AS c {HOURS} GROUP BY window_end, upper(customer)"),
        ("places", "SELECT customer, row_number() OVER (ORDER BY at) AS n FROM orders"),
        ("pairs", "SELECT a.customer, b.id FROM orders a JOIN orders b ON a.id = b.id AND a.at = b.at"),
        ("both", "SELECT customer FROM orders UNION ALL SELECT customer FROM orders"),
        ("over_it", "SELECT window_end, count(*) AS k FROM TUMBLE(hourly, window_start, INTERVAL '1 day') "
                    "GROUP BY window_end EMIT ON WINDOW CLOSE"),
    ],
)  # fmt: skip
def test_E9_a_view_whose_rows_depend_on_others_refuses_all_of_it(
    workbench: Workbench, name: str, query: str
) -> None:
    define(workbench.root, VIEWS, f"CREATE MATERIALIZED VIEW {name} AS {query};")
    arrive(workbench.root, 1, 2)
    session = workbench.session()
    session.run()
    before = stored(session)
    with pytest.raises(TidegateError, match=f"{name}: a view whose rows do not show customer as they are"):
        erased(session, keep_aggregates=True)
    assert stored(session) == before
    # By what every one of them shows, or by nothing, no row of a view is told from another.
    session.confirm = lambda text: True
    for condition in ("true", '"$offset" = 1'):
        with pytest.raises(TidegateError) as caught:
            erase(session, "orders", condition, keep_aggregates=True)
        assert caught.value.code == "TG571"


TOTALS = f"""
CREATE MATERIALIZED VIEW totals AS SELECT window_start, count(*) AS n, sum(id) AS ids, avg(id) AS mean
{HOURS} WHERE id <> 11 GROUP BY window_start EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW days AS SELECT window_end, sum(n) AS n FROM TUMBLE(totals, window_start, INTERVAL '1 day')
GROUP BY window_end EMIT ON WINDOW CLOSE;
"""


def test_E9_counts_and_sums_stay_if_somebody_says_so_and_their_windows_are_marked(
    workbench: Workbench,
) -> None:
    define(workbench.root, TOTALS, VIEWS)
    arrive(workbench.root, 1, 2, 3)
    session = workbench.session()
    session.run()
    before = {name: stored(session, name) for name in ("totals", "days")}
    whole = audit_view(session, "totals")
    with pytest.raises(TidegateError, match="totals: counts and sums over the rows"):
        erased(session)
    done = {t.table: t for t in erased(session, keep_aggregates=True).tables}
    # Of each day the hours of nine and eleven, but for the last hour, which is open; and the hour of the late rows.
    assert (done["totals"].marked, done["totals"].rows, done["days"].rows, done["days"].files) == (6, 0, 0, 0)
    assert there(workbench.root) == set()
    assert {name: stored(session, name) for name in before} == before
    found = audit_view(session, "totals")
    assert found.ok, found
    # Four of the eight it counts; one its WHERE has left out, and three were late.
    assert (found.raw, found.erased, found.counted) == (whole.raw - 4, 4, whole.counted)
    assert (found.filtered, found.late, audit_view(session, "days").ok) == (0, (whole.late or 0) - 3, True)
    # Nothing makes these windows anew, neither a backfill nor late rows.
    amend(session, ["totals"], from_late=False)
    amend(session, ["totals"])
    assert stored(session, "totals") == before["totals"]
    assert audit_view(session, "totals").ok
    arrive(workbench.root, 4)
    session.run()
    assert audit_view(session, "totals").ok
    assert erased(session, keep_aggregates=True).rows == 5
    assert audit_view(session, "totals").ok


def test_E9_a_window_that_is_marked_is_still_looked_at(workbench: Workbench) -> None:
    """More than what was erased it may not count."""
    define(workbench.root, TOTALS)
    arrive(workbench.root, 1, 2)
    session = workbench.session()
    session.run()
    erased(session, keep_aggregates=True)
    assert audit_view(session, "totals").ok
    session.confirm = lambda text: True
    table = session.tables.open(session.identifier("orders"))
    table.delete_rows("customer = 'bob'", table.current().facts, table.current())
    found = audit_view(session, "totals")
    assert (found.ok, bool(found.problems)) == (False, True)


HIDDEN = "CREATE MATERIALIZED VIEW v AS SELECT window_end, sum(id) AS n {} GROUP BY {} EMIT ON WINDOW CLOSE;"


def test_E9_a_key_that_is_not_shown_makes_sums_of_one_person_all_the_same(workbench: Workbench) -> None:
    for keys, counts in (
        ("window_end", True),
        ("window_end, customer", False),
        ("window_end, upper(customer)", False),
    ):
        define(workbench.root, HIDDEN.format(HOURS, keys))
        view = Project.load(workbench.root).catalog().get("v")
        assert isinstance(view, View)
        assert counts_only(view, {"customer"}) == counts, keys


def test_E9_marks_follow_their_windows_and_are_counted_once(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An erasure is interrupted behind its marks, with rows that have come since the first time; and a view goes back
    to the version that has the marked windows."""
    define(workbench.root, TOTALS)
    arrive(workbench.root, 1, 2)
    session = workbench.session()
    session.run()
    done = erased(session, keep_aggregates=True)
    arrive(workbench.root, 3)
    session.run()
    file, remove = ErasingFile(session.project.storage, "orders"), LogErasure.remove
    file.write(Erasing(done.id or "", WHERE, (WHO,), done.by or "", done.at or "", True))
    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(LogErasure, "remove", lambda *_: 1 // 0)
            with pytest.raises(ZeroDivisionError):
                erase(session, "orders")
    assert LogErasure.remove is remove
    assert erase(session, "orders").rows == 15
    before = audit_view(session, "totals")
    assert (before.ok, before.erased) == (True, 3)
    define(workbench.root, TOTALS.replace("avg(id) AS mean", "max(id) AS mean"))
    session = workbench.session()
    rebuild(session)
    assert (audit_view(session, "totals").ok, audit_view(session, "totals").erased) == (True, 0)
    session.confirm = lambda text: True
    rollback(session, "totals")
    define(workbench.root, TOTALS)
    assert audit_view(workbench.session(), "totals") == before


ONCE = f"""
CREATE MATERIALIZED VIEW totals AS SELECT window_start, customer, count(*) AS n {HOURS}
GROUP BY window_start, customer EMIT ON WINDOW CLOSE;
"""
OTHER = """
CREATE TABLE others (at TIMESTAMP, WATERMARK FOR at AS at) APPEND ONLY;
CREATE MATERIALIZED VIEW totals AS SELECT window_start, count(*) AS n FROM TUMBLE(others, at, INTERVAL '1 hour')
GROUP BY window_start EMIT ON WINDOW CLOSE;
"""


def test_E9_earlier_versions_of_views_go_too(workbench: Workbench) -> None:
    """A view that only counts now may have shown the person before."""
    define(workbench.root, ONCE)
    arrive(workbench.root, 1, 2)
    workbench.session().run()
    define(workbench.root, TOTALS)
    session = workbench.session()
    rebuild(session)
    table = session.tables.open(session.identifier("totals"))
    assert len(kept_versions(table.properties())) == 1
    assert any("/totals/data/" in place for place in there(workbench.root))
    erased(session, keep_aggregates=True)
    table.refresh()
    assert (there(workbench.root), kept_versions(table.properties())) == (set(), ())
    assert audit_view(session, "totals").ok
    session.run()


def test_E9_earlier_versions_of_views_that_read_something_else_now_are_found(workbench: Workbench) -> None:
    define(workbench.root, ONCE)
    arrive(workbench.root, 1, 2)
    workbench.session().run()
    define(workbench.root, OTHER)
    session = workbench.session()
    session.execute("INSERT INTO others VALUES ('2026-01-01'), ('2026-02-01')")
    rebuild(session)
    with pytest.raises(TidegateError, match="totals: earlier results of this view, which read it then"):
        erased(session)


def test_E9_a_view_that_got_a_column_which_no_commit_has_filled_yet(workbench: Workbench) -> None:
    define(workbench.root, VIEWS)
    session = workbench.session()
    arrive(workbench.root, 1)
    session.run()
    # As an amendment leaves it that was killed before its commit.
    session.tables.add_stored_column(session.identifier("hourly"), "_revision", REVISION_TYPE)
    before = [row for row in session.execute("SELECT * FROM hourly").rows() if WHO not in row]
    assert people(session, "hourly")
    erased(session)
    assert there(workbench.root) == set()
    assert list(session.execute("SELECT * FROM hourly").rows()) == before
    arrive(workbench.root, 2)
    session.run()
    assert audit_view(session, "hourly").ok
