"""X3, E5: what a branch has computed of production's log becomes production's, and is what production would compute."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from tests.conftest import SPARK
from tests.inprocess.failpoints import Failpoints, Killed
from tests.inprocess.session import session_on
from tidegate.amend.run import amend
from tidegate.audit.view import audit_view
from tidegate.cli.invocation import Invocation
from tidegate.cli.main import app
from tidegate.errors import TidegateError
from tidegate.maintenance.upkeep import maintain
from tidegate.project import Project
from tidegate.project.jobs.maintenance import Policy
from tidegate.session.session import Session
from tidegate.sql.catalog.objects import View
from tidegate.store.status import read_status
from tidegate.views.amend import promote as promoting
from tidegate.views.amend.promote import promote
from tidegate.views.amend.rebuild import rebuild
from tidegate.views.view_table import ViewTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.iceberg.protocol import Snapshot

pytestmark = pytest.mark.runner("inprocess")

SOURCES = """
CREATE TABLE t (k VARCHAR, n INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE TABLE names (k VARCHAR PRIMARY KEY, name VARCHAR);
CREATE TABLE keyed (k VARCHAR PRIMARY KEY, ts TIMESTAMP, WATERMARK FOR ts AS ts WITH TTL);
"""
OLD = """
CREATE MATERIALIZED VIEW v AS SELECT window_end, count(*) AS x FROM TUMBLE(t, ts, INTERVAL '1 hour')
GROUP BY window_end EMIT ON WINDOW CLOSE;
"""
NEW = """
CREATE MATERIALIZED VIEW v AS SELECT window_end, sum(n) AS x, max(k) AS k FROM TUMBLE(t, ts, INTERVAL '1 hour')
GROUP BY window_end EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW visits AS SELECT window_start, window_end, k, count(*) AS n
FROM SESSION(t, ts, k, INTERVAL '2 hours') GROUP BY window_start, window_end, k EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW sorted AS SELECT ts, n FROM t EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW shown AS SELECT window_end, sum(n) AS x FROM TUMBLE(t, ts, INTERVAL '1 hour')
GROUP BY window_end;
"""
#: What a branch can't vouch for.
OTHERS = """
CREATE MATERIALIZED VIEW named AS SELECT t.ts, names.name FROM t JOIN names ON t.k = names.k EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW over_it AS SELECT ts, name FROM named EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW gated AS SELECT ts, n FROM WATERMARK(t, ts, ts - INTERVAL '1 hour') EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW over_key AS SELECT window_end, count(*) AS n FROM TUMBLE(keyed, ts, INTERVAL '1 hour')
GROUP BY window_end EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW counted AS SELECT k, count(*) AS n FROM t GROUP BY k;
"""
FOUR = ["v", "visits", "sorted", "shown"]


@pytest.fixture
def opened(tmp_path: Path, runner: str, request: pytest.FixtureRequest) -> Callable[..., Session]:
    """Sessions on a project where `local` has run, and `dev` is a branch of it; with these views."""
    spark: SparkSession | None = request.getfixturevalue("spark") if runner == SPARK else None
    root = tmp_path / "shop"
    for folder in ("assets", "resources"):
        (root / folder).mkdir(parents=True)
    (root / "resources" / "dev.yaml").write_text("reads: local\nwarehouse: {namespace: dev_ada}\n")
    (root / "assets" / "sources.sql").write_text(SOURCES)

    def on(env: str, views: str = NEW) -> Session:
        (root / "assets" / "views.sql").write_text(views)
        project = Project.load(root, env)
        session = session_on(project) if spark is None else Session.open(project=project, spark=spark)
        session.confirm = lambda text: True
        return session

    production = on("local", OLD)
    days(production, 1, 2, 3)
    production.run()
    return on


def days(session: Session, *numbers: int) -> None:
    for day in numbers:
        rows = [
            f"('{'abc'[hour % 3]}', {day * 10 + hour}, '2026-01-{day:02} {hour:02}:30:00')"
            for hour in (0, 1, 9)
        ]
        session.execute(f"INSERT INTO t VALUES {', '.join(rows)}")


def rows(session: Session, view: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in session.execute(f"SELECT * FROM {view}").rows())


def all_rows(session: Session) -> dict[str, list[tuple[Any, ...]]]:
    return {view: rows(session, view) for view in FOUR}


@pytest.mark.runner("inprocess", "spark", long_run="spark")
def test_X3_E5_what_a_branch_has_computed_is_taken_and_continued(
    opened: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = rows(opened("local", OLD), "v")
    dev = opened("dev")
    dev.run()
    stood = dev.tables.open(dev.identifier("v")).current().integer("tidegate.frontier")
    production = opened("local")
    days(production, 4)
    begun: list[int | None] = []
    ticked = ViewTable._tick

    def tick(table: ViewTable, base: Snapshot) -> Any:
        begun.append(base.integer("tidegate.frontier"))
        return ticked(table, base)

    monkeypatch.setattr(ViewTable, "_tick", tick)
    done = promote(production, dev.project)
    assert [(one.view, one.tag) for one in done] == [
        ("v", "generation_1"),
        *((one, None) for one in FOUR[1:]),
    ]
    # What came since is computed, behind the frontier of the branch, and nothing before it.
    assert set(begun) == {stood}
    production = opened("local")
    assert rows(production, '"v$v1"') == old
    production.run()
    found = {view: rows(production, view) for view in FOUR}
    assert len(found["v"]) == len(old) + 3
    assert all(audit_view(production, view).ok for view in FOUR)
    # It is what production computes from the beginning.
    for view in FOUR:
        production.execute(f"DROP MATERIALIZED VIEW {view}")
    anew = opened("local")
    anew.run()
    assert {view: rows(anew, view) for view in FOUR} == found
    assert promote(anew, dev.project) == []


def test_R2_E5_killed_anywhere_a_promotion_is_there_or_not(opened: Callable[..., Session]) -> None:
    old = rows(opened("local", OLD), "v")
    dev = opened("dev")
    dev.run()
    new = rows(dev, "v")
    killed, points = True, 0
    while killed:
        killed = False
        production = opened("local")
        try:
            with Failpoints(points).armed():
                promote(production, dev.project, ["v"])
        except Killed:
            killed, points = True, points + 1
        table = production.tables.open(production.identifier("v"))
        table.refresh()
        is_new = table.property("tidegate.generation") == "2"
        shown = rows(opened("local", NEW if is_new else OLD), "v")
        assert shown == (new if is_new else old)
        assert points < 40
    assert points > 4


@pytest.mark.parametrize("by", ["promote", "run"])
def test_R2_E5_what_another_machine_has_made_meanwhile_gets_no_row_twice(
    opened: Callable[..., Session], monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """Two machines promote a new view, or one of them runs it: what was not there as the other one looked is there as
    it begins. Leases of a folder do not reach from one machine to another one here."""
    dev = opened("dev")
    dev.run()
    monkeypatch.setattr(Session, "lease", lambda *_: nullcontext())

    def made_first(context: Session, view: View) -> ViewTable:
        monkeypatch.setattr(promoting, "ViewTable", ViewTable)
        other = opened("local")
        other.run(["sorted"], upstream=False) if by == "run" else promote(other, dev.project, ["sorted"])
        return ViewTable(context, view)

    monkeypatch.setattr(promoting, "ViewTable", made_first)
    with pytest.raises(TidegateError, match="TG502"):
        promote(opened("local"), dev.project, ["sorted"])
    assert rows(opened("local"), "sorted") == rows(dev, "sorted")
    assert audit_view(opened("local"), "sorted").ok
    # The same command finds it then.
    assert promote(opened("local"), dev.project, ["sorted"]) == []


def test_E5_what_a_branch_can_not_vouch_for_is_named_and_left_alone(opened: Callable[..., Session]) -> None:
    dev = opened("dev", NEW + OTHERS)
    dev.run()
    production = opened("local", NEW + OTHERS)
    done = {one.view: one.why for one in promote(production, dev.project) if not one.generation}
    assert done == {
        "over_it": 'it reads "named", of which "local" has no results of the present definitions',
        "named": "it looks rows up as they are at each run",
        "gated": "it reads WATERMARK(…), which each environment has for itself",
        "over_key": "it reads a table with a PRIMARY KEY",
        "counted": "no result of it is ever final",
    }
    with pytest.raises(TidegateError, match=r"TG536.*looks rows up"):
        promote(production, dev.project, ["named"])
    with pytest.raises(TidegateError, match=r'TG536.*"local" is no branch of "local"'):
        promote(production, production.project)
    with pytest.raises(TidegateError, match="TG509"):
        promote(production, dev.project, ["t"])
    # Another definition than the branch's, and one that it has amended.
    other = NEW.replace("sum(n)", "sum(n + 1)")
    with pytest.raises(TidegateError, match=r"TG536.*of another definition"):
        promote(opened("local", other), dev.project, ["v"])
    rebuild(opened("dev", other), ["v"])
    local = opened("local", other)
    local.execute("INSERT INTO t VALUES ('late', 0, '2026-01-02 00:10:00')")
    [amended] = amend(opened("dev", other), ["v"])
    assert amended.windows == 1
    with pytest.raises(TidegateError, match=r"TG536.*has amended"):
        promote(opened("local", other), dev.project, ["v"])
    # Nor is anything taken that reads what the branch looks up for itself, though production has it by now.
    local = opened("local", NEW + OTHERS)
    local.run(["named"])
    with pytest.raises(TidegateError, match=r'TG536.*"over_it".*"named".*can\'t vouch: it looks rows up'):
        promote(local, dev.project, ["over_it"])


def test_R5_E5_a_promotion_keeps_what_nobody_can_compute(opened: Callable[..., Session]) -> None:
    old = dict(rows(opened("local", OLD), "v"))
    dev = opened("dev", NEW)
    dev.run(["v"])
    new = {end: (end, x, k) for end, x, k in rows(dev, "v")}
    production = opened("local")
    policy = Policy(retention=86_400, keep_snapshots=86_400 * 365, settle=0)
    maintain(opened("local", OLD), "t", policy)
    production = opened("local")
    [done] = promote(production, dev.project, ["v"])
    assert done.tag == "generation_1"
    production = opened("local")
    edge = datetime(2026, 1, 2)
    assert rows(production, "v") == [
        new[end] if end > edge else (end, count, None) for end, count in sorted(old.items())
    ]
    [status] = read_status(production.project, ["v"]).views
    assert status.valid_from == "2026-01-02 01:00:00"
    assert audit_view(production, "v").ok
    # Once the snapshot that the branch has read is gone, nothing tells that its log is this one.
    maintain(production, "t", Policy(keep_snapshots=0, settle=0))
    other = NEW.replace("sum(n)", "sum(n + 1)")
    rebuild(opened("dev", other), ["v"])
    days(opened("local", other), 5, 6)
    maintain(opened("local", other), "t", Policy(keep_snapshots=0, settle=0))
    with pytest.raises(TidegateError, match=r"TG536.*has expired"):
        promote(opened("local", other), dev.project, ["v"])


@pytest.mark.parametrize("is_made", [False, True])
def test_R5_E5_what_a_branch_has_kept_of_its_earlier_query_is_not_taken(
    opened: Callable[..., Session], is_made: bool
) -> None:
    """Production has never had that query, and has no result of this view yet."""
    counts = NEW.replace("sum(n) AS x", "count(*) AS x").replace("VIEW v ", "VIEW w ")
    sums = counts.replace("count(*) AS x", "sum(n) AS x")
    opened("dev", OLD + counts).run(["w"])
    maintain(opened("local", OLD), "t", Policy(retention=86_400, keep_snapshots=86_400 * 365, settle=0))
    dev = opened("dev", OLD + sums)
    rebuild(dev, ["w"])
    [status] = read_status(dev.project, ["w"]).views
    assert status.valid_from == "2026-01-02 01:00:00"
    production = opened("local", OLD + sums)
    if is_made:
        view = production.catalog.get("w")
        assert isinstance(view, View)
        ViewTable(production, view)
    promote(production, dev.project, ["w"])
    found = rows(opened("local", OLD + sums), "w")
    assert found == [row for row in rows(dev, "w") if row[0] > datetime(2026, 1, 2)] != []
    assert audit_view(production, "w").ok
    # It is what production computes itself.
    production.execute("DROP MATERIALIZED VIEW w")
    anew = opened("local", OLD + sums)
    anew.run(["w"])
    assert rows(anew, "w") == found


def test_the_command_names_the_branch(
    opened: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    dev = opened("dev", NEW)
    dev.run(["v"])
    monkeypatch.setattr(Invocation, "project", lambda call: Project.load(dev.project.root, call.env))
    monkeypatch.setattr(Invocation, "session", lambda call, project: session_on(project))

    def call(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["promote", *arguments])

    assert "TG536" in call().stderr
    assert "TG535" in call("--env", "dev", "v").stderr
    done = call("--env", "dev", "--yes", "--json")
    found = json.loads(done.stdout)
    assert (done.exit_code, found["environment"], found["branch"]) == (0, "local", "dev")
    assert {one["view"]: bool(one["generation"]) for one in found["views"]} == {
        "v": True,
        **dict.fromkeys(FOUR[1:], False),
    }
    assert "the branch has no results of it; tidegate apply sorted --env local" in call("--env", "dev").stdout
