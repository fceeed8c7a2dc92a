"""E9: views that only count and sum rows are computed again from those that are left (`tidegate erase --recompute`)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.conftest import Workbench
from tests.inprocess.failpoints import Killed
from tests.maintenance.people import WHERE, WHO, arrive, define, stored, there
from tests.maintenance.test_erase_views import HOURS, TOTALS, VIEWS
from tidegate.amend.run import amend
from tidegate.audit.view import audit_view
from tidegate.errors import TidegateError
from tidegate.maintenance.erase import erase
from tidegate.maintenance.erase_recompute import _needs_earlier
from tidegate.plan.versions import kept_versions
from tidegate.sql.catalog.objects import View
from tidegate.views.versions.build import VersionBuild

pytestmark = pytest.mark.runner("inprocess")

SINK = "CREATE SINK out FROM days WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON;"


def test_E9_counts_and_sums_are_computed_from_the_rows_that_are_left(workbench: Workbench) -> None:
    define(workbench.root, TOTALS, VIEWS)
    arrive(workbench.root, 1, 2, 3)
    session = workbench.session()
    session.run()
    before = {name: stored(session, name) for name in ("totals", "days")}
    # What was built before has counted the rows.
    view = session.catalog.get("totals")
    assert isinstance(view, View)
    version = VersionBuild(session, view)
    while version.advance():
        pass
    asked: list[str] = []
    session.confirm = lambda what: bool(asked.append(what)) or True
    done = {t.table: t for t in erase(session, "orders", WHERE, (WHO,), recompute=True).tables}
    assert "totals: is recomputed from the rows that are left" in asked[0]
    assert [(done[name].recomputed, done[name].marked) for name in before] == [(True, 0), (True, 0)]
    assert not done["hourly"].recomputed
    assert there(workbench.root) == set()
    now = {name: stored(session, name) for name in before}
    assert all(now[name] != before[name] for name in before)
    # They are what their queries say; nothing is left that counts more.
    assert [report.windows for report in amend(session, list(before), from_late=False)] == [0, 0]
    for name in before:
        found = audit_view(session, name)
        assert (found.ok, found.erased or 0) == (True, 0), found
        table = session.tables.open(session.identifier(name))
        assert (len(table.snapshot_ids()), kept_versions(table.properties())) == (1, ())
    arrive(workbench.root, 4)
    session.run()
    assert all(audit_view(session, name).ok for name in before)
    # Where no window holds such rows, nothing is computed.
    done = {t.table: t for t in erase(session, "orders", "customer = 'nobody'", recompute=True).tables}
    assert not done["totals"].recomputed


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("avg(id)", "count(id)"), r"TG506.*totals"),
        (("avg(id)", "avg(id)"), r"TG542.*\"out\" delivers \"days\""),
    ],
)
def test_E9_what_can_not_be_recomputed_refuses_all_of_it(
    workbench: Workbench, change: tuple[str, str], why: str
) -> None:
    sink = "" if "TG506" in why else SINK
    define(workbench.root, TOTALS, sink)
    arrive(workbench.root, 1, 2)
    workbench.session().run()
    define(workbench.root, TOTALS.replace(*change), sink)
    session = workbench.session()
    session.confirm = lambda what: True
    before = stored(session)
    with pytest.raises(TidegateError, match=why):
        erase(session, "orders", WHERE, (WHO,), recompute=True)
    assert stored(session) == before
    if sink:
        define(workbench.root, TOTALS, sink.replace("WITH (", "WITH (on_change = 'replay', "))
        session = workbench.session()
        session.confirm = lambda what: True
        assert erase(session, "orders", WHERE, (WHO,), recompute=True).rows == 10
        session.run()


def test_R2_E9_who_was_ended_between_two_views_has_the_other_one_recomputed(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    define(workbench.root, TOTALS)
    arrive(workbench.root, 1, 2, 3)
    session = workbench.session()
    session.run()
    session.confirm = lambda what: True
    swapped = VersionBuild.swapped

    def ended(version: VersionBuild, facts: Any = None) -> bool:
        if version.name == "days":
            raise Killed
        return swapped(version, facts)

    with monkeypatch.context() as during:
        during.setattr(VersionBuild, "swapped", ended)
        with pytest.raises(Killed):
            erase(session, "orders", WHERE, (WHO,), recompute=True)
    session = workbench.session()
    done = {t.table: t for t in erase(session, "orders").tables}
    assert (done["totals"].recomputed, done["days"].recomputed) == (False, True)
    assert [report.windows for report in amend(session, ["totals", "days"], from_late=False)] == [0, 0]
    for name in ("totals", "days"):
        table = session.tables.open(session.identifier(name))
        assert (audit_view(session, name).ok, kept_versions(table.properties())) == (True, ())


def test_E9_open_windows_that_are_shown_count_no_erased_row_either(workbench: Workbench) -> None:
    shown = f"CREATE MATERIALIZED VIEW shown AS SELECT window_end, count(*) AS n {HOURS} GROUP BY window_end;"
    over = "CREATE MATERIALIZED VIEW over_it AS SELECT window_end, n + 0 AS n FROM shown;"
    define(workbench.root, shown, over)
    arrive(workbench.root, 1, 2)
    session = workbench.session()
    session.run()
    query = "SELECT max(window_end) AS e, sum(n) AS n FROM {}"
    [(last, before)] = session.execute(query.format("shown")).rows()
    session.confirm = lambda what: True
    # Rows of the last hour, which is open, so that no window is marked.
    done = erase(session, "orders", f"at >= TIMESTAMP '{last - timedelta(hours=1)}'", recompute=True)
    assert done.tables[0].on_time > 0
    for name in ("shown", "over_it"):
        [(_, now)] = session.execute(query.format(name)).rows()
        assert now == before - done.tables[0].on_time, name


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ("connector = 'iceberg', table = 'x', amendments = 'upsert'", False),
        ("connector = 'iceberg', table = 'x'", True),
        ("connector = 'iceberg', table = 'x', on_change = 'replay'", False),
    ],
)
def test_E6_E9_a_sink_that_needs_no_earlier_version_lets_its_view_be_recomputed(
    workbench: Workbench, options: str, refused: bool
) -> None:
    define(workbench.root, TOTALS, f"CREATE SINK out FROM totals WITH ({options});")
    session = workbench.session()
    [sink] = session.catalog.sinks.of("totals")
    assert _needs_earlier(sink) == refused
