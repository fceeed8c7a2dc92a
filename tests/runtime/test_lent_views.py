"""A branch takes the results of views that it did not change from the environment that it reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runtime.test_reads import BRANCH, SOURCES, VIEWS, files, opened, rows
from tidegate.audit.view import audit_view
from tidegate.errors import TidegateError
from tidegate.evolve.planning import exit_code, planned
from tidegate.project import Project
from tidegate.session.apply import apply
from tidegate.session.session import Session
from tidegate.views.amend.rebuild import rebuild

__all__ = ["opened"]

pytestmark = pytest.mark.runner("inprocess")

DAILY = """
CREATE MATERIALIZED VIEW daily AS SELECT window_end, count(*) AS hours FROM TUMBLE(hourly, window_end, INTERVAL '1 day')
GROUP BY window_end EMIT ON WINDOW CLOSE;
"""


@pytest.mark.runner("inprocess", "spark", long_run="spark")
def test_X3_a_branch_computes_only_views_that_differ(opened: Callable[[str], Session]) -> None:
    root = opened("local").project.root
    definitions = root / "assets" / "views.sql"
    definitions.write_text(VIEWS + DAILY)
    dev = opened("dev")
    warehouse = Path(dev.project.storage.warehouse.removeprefix("file://"))
    assert effects(dev) == {
        "orders": "unchanged",
        "prices": "unchanged",
        "hourly": "unchanged",
        "daily": "new",
    }
    assert [v.name for v in dev.run().views] == ["daily"]
    assert {name.split("/")[1] for name in files(warehouse) if name.startswith("dev_ada/")} == {"daily"}
    assert rows(dev, "SELECT n FROM hourly") == [(2,)]
    assert exit_code(planned(dev.project, dev.project.catalog())) == 0
    # One that is asked for has its results already; whoever would write them is refused.
    assert dev.run(["hourly"], upstream=False).views == []
    for attempt in (lambda: dev.execute("DROP MATERIALIZED VIEW hourly"), lambda: rebuild(dev, ["hourly"])):
        with pytest.raises(TidegateError) as caught:
            attempt()
        assert caught.value.code == "TG515"
    assert audit_view(dev, "hourly").ok
    # Production continues, and the branch with it.
    live = opened("local")
    live.execute("INSERT INTO orders VALUES (9, '2026-03-02 11:30:00')")
    live.run(["hourly"])
    assert [v.name for v in dev.run().views] == ["daily"]
    assert rows(dev, "SELECT hours FROM daily") == [(2,)]
    # What differs is computed here from then on, and what reads it has a new version.
    definitions.write_text(BRANCH + DAILY)
    edited = opened("dev")
    assert effects(edited)["hourly"] == "new"
    edited.run(["hourly"])
    assert effects(opened("dev"))["daily"] == "new version"


def test_X3_a_branch_does_not_take_results_that_production_has_replaced_since(
    opened: Callable[[str], Session],
) -> None:
    definitions = opened("local").project.root / "assets" / "views.sql"
    definitions.write_text(VIEWS + DAILY)
    dev = opened("dev")
    definitions.write_text(BRANCH)
    production = opened("local")
    production.confirm = lambda what: True
    rebuild(production, ["hourly"])
    definitions.write_text(VIEWS + DAILY)
    with pytest.raises(TidegateError, match='has other results of "hourly" now') as caught:
        dev.run()
    assert caught.value.code == "TG516"
    # Another session computes its own.
    again = opened("dev")
    assert effects(again)["hourly"] == "new"
    again.confirm = lambda what: True
    apply(again)
    assert rows(again, "SELECT n FROM hourly") == [(2,)]
    assert rows(again, "SELECT hours FROM daily") == []


def test_X3_the_plan_of_a_branch_says_that_a_changed_source_has_to_be_changed_there_first(
    opened: Callable[[str], Session],
) -> None:
    sources = opened("local").project.root / "assets" / "sources.sql"
    sources.write_text(SOURCES.replace("id BIGINT, at", "id BIGINT, note VARCHAR, at") + NEW_SOURCE)
    project = Project.load(sources.parents[1], "dev")
    found = {one.name: (one.effect, one.what) for one in planned(project, project.catalog())}
    assert found["orders"] == ("refused", ('environment "local" has another definition of it',))
    assert found["refunds"] == ("refused", ('environment "local" has no log of it',))
    assert found["prices"] == ("unchanged", ())
    # There, both are changes that a run makes.
    production = Project.load(project.root)
    there = {one.name: one.effect for one in planned(production, production.catalog())}
    assert (there["orders"], there["refunds"]) == ("in place", "new")


NEW_SOURCE = "CREATE TABLE refunds (id BIGINT, at TIMESTAMP, WATERMARK FOR at AS at) APPEND ONLY;\n"


def effects(session: Session) -> dict[str, str]:
    return {one.name: one.effect for one in planned(session.project, session.project.catalog())}


def test_X3_E5_a_branch_continues_its_views_while_production_s_logs_have_other_columns(
    opened: Callable[[str], Session],
) -> None:
    """The logs are production's, and so is the record of their earlier columns; the results are the branch's own."""
    dev = opened("dev")
    dev.run()
    root = dev.project.root
    sources = SOURCES.replace("id BIGINT, at", "number BIGINT RENAMED FROM id, id VARCHAR, at")
    sources = sources.replace("price INT", "cents INT RENAMED FROM price")
    (root / "assets" / "sources.sql").write_text(sources)
    edited = BRANCH.replace("o.id", "o.number").replace("p.price", "p.cents")
    (root / "assets" / "views.sql").write_text(edited)
    production = opened("local")
    production.execute("INSERT INTO prices VALUES (3, 30)")
    for number, time in ((4, "11:10"), (3, "12:20")):
        production.execute(f"INSERT INTO orders VALUES ({number}, 'x', '2026-03-01 {time}:00')")
    dev = opened("dev")
    report = dev.run(fail_fast=False)
    assert [(one.name, one.error["code"]) for one in report.failed] == [
        ("hourly", "TG506"),
        ("priced", "TG506"),
    ]
    assert rows(dev, "SELECT n, ids FROM hourly") == [(1, 3), (1, 4), (2, 3)]
    assert rows(dev, "SELECT id, price FROM priced") == [(1, 10), (2, 20), (3, 30)]
    assert audit_view(dev, "hourly").ok
    dev = opened("dev")
    dev.confirm = lambda what: True
    apply(dev)
    assert not dev.run(fail_fast=False).failed
    assert rows(dev, "SELECT n, ids FROM hourly") == [(1, 3), (1, 4), (2, 3)]
