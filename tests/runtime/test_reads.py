"""An environment with `reads:`: a branch's views over the logs of production, which nobody writes from there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import SPARK
from tests.inprocess.session import session_on
from tidegate.audit.source import audit_source
from tidegate.audit.view import audit_view
from tidegate.errors import TidegateError
from tidegate.evolve.planning import exit_code, planned
from tidegate.findings.look import look
from tidegate.maintenance.upkeep import maintain, maintain_all
from tidegate.project import Project
from tidegate.project.jobs.maintenance import Policy
from tidegate.runtime.context import Context
from tidegate.session.session import Session
from tidegate.store.status import read_status

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.runner("inprocess")

SOURCES = """\
CREATE TABLE orders (id BIGINT, at TIMESTAMP, WATERMARK FOR at AS at) APPEND ONLY;
CREATE TABLE prices (id BIGINT PRIMARY KEY, price INT);
"""
VIEWS = """\
CREATE MATERIALIZED VIEW hourly AS SELECT window_end, count(*) AS n FROM TUMBLE(orders, at, INTERVAL '1 hour')
GROUP BY window_end EMIT ON WINDOW CLOSE;
CREATE SINK exported FROM hourly WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON;
"""
BRANCH = """\
CREATE MATERIALIZED VIEW hourly AS SELECT window_end, count(*) AS n, sum(o.id) AS ids
FROM TUMBLE(orders, at, INTERVAL '1 hour') AS o GROUP BY window_end EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW priced AS SELECT o.at, o.id, p.price FROM orders AS o JOIN prices AS p ON o.id = p.id
EMIT ON WINDOW CLOSE;
CREATE SINK exported FROM hourly WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON;
"""


def test_X3_a_catalog_that_others_use_keeps_the_sinks_of_the_lender(opened: Callable[[str], Session]) -> None:
    session = opened("dev")
    catalog = session.project.catalog()
    # Of two commands of one worker, the second one is refused by the same error as the first.
    for _ in range(2):
        other = Context(session.project, session.runner, catalog)
        assert ("exported" in other.catalog.sinks, "exported" in other.foreign) == (False, True)
    assert "exported" in catalog.sinks


def files(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def rows(session: Session, sql: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in session.execute(sql).rows())


@pytest.fixture
def opened(tmp_path: Path, runner: str, request: pytest.FixtureRequest) -> Callable[[str], Session]:
    """Sessions on a project where `local` has run, and `dev` is a branch with other views."""
    spark: SparkSession | None = request.getfixturevalue("spark") if runner == SPARK else None

    def on(project: Project) -> Session:
        return session_on(project) if spark is None else Session.open(project=project, spark=spark)

    root = tmp_path / "shop"
    for folder in ("assets", "resources"):
        (root / folder).mkdir(parents=True)
    (root / "resources" / "dev.yaml").write_text("reads: local\nwarehouse: {namespace: dev_ada}\n")
    (root / "assets" / "sources.sql").write_text(SOURCES)
    (root / "assets" / "views.sql").write_text(VIEWS)
    session = on(Project.load(root))
    session.execute("INSERT INTO prices VALUES (1, 10), (2, 20)")
    session.execute(
        "INSERT INTO orders VALUES (1, '2026-03-01 09:10:00'), (2, '2026-03-01 09:40:00'), (3, '2026-03-01 10:05:00')"
    )
    session.run()
    (root / "assets" / "views.sql").write_text(BRANCH)
    return lambda env: on(Project.load(root, env))


@pytest.mark.runner("inprocess", "spark", long_run="spark")
def test_R4_a_branch_s_views_are_computed_from_production_s_log_and_production_does_not_notice(
    opened: Callable[[str], Session],
) -> None:
    dev = opened("dev")
    warehouse = Path(dev.project.storage.warehouse.removeprefix("file://"))
    out = dev.project.root / "out"
    before, delivered = files(warehouse), files(out)
    assert delivered
    report = dev.run()
    assert ([s.name for s in report.sources], [v.name for v in report.views]) == ([], ["hourly", "priced"])
    assert rows(dev, "SELECT n, ids FROM hourly") == [(2, 3)]
    assert rows(dev, "SELECT id, price FROM priced") == [(1, 10), (2, 20)]
    # Everything that was written is in the branch's own namespace, and its sink has delivered nothing.
    new = files(warehouse) - before
    assert {name.split("/")[0] for name in new} == {"dev_ada"}
    assert before <= files(warehouse)
    assert files(out) == delivered
    # Production goes on, and the branch sees it at its next run.
    production = dev.project.root / "assets" / "views.sql"
    production.write_text(VIEWS)
    live = opened("local")
    live.execute("INSERT INTO orders VALUES (9, '2026-03-01 11:30:00')")
    live.run()
    assert rows(live, "SELECT n FROM hourly") == [(1,), (2,)]
    production.write_text(BRANCH)
    again = opened("dev")
    again.run()
    assert rows(again, "SELECT n, ids FROM hourly") == [(1, 3), (2, 3)]


def test_E1_the_plan_of_a_branch_leaves_production_s_sinks_out(opened: Callable[[str], Session]) -> None:
    dev = opened("dev")
    dev.run()
    found = planned(dev.project, dev.project.catalog())
    assert {one.kind for one in found} == {"table", "view"}
    assert exit_code(found) == 0
    assert not any("exported" in one.readers for one in found)


def test_whatever_would_write_to_a_source_or_deliver_is_refused(opened: Callable[[str], Session]) -> None:
    dev = opened("dev")
    warehouse = Path(dev.project.storage.warehouse.removeprefix("file://"))
    before = files(warehouse)
    attempts: list[Callable[[], object]] = [
        lambda: dev.execute("INSERT INTO orders VALUES (4, '2026-03-01 12:00:00')"),
        lambda: dev.execute("DELETE FROM prices WHERE id = 1"),
        lambda: dev.execute("DROP TABLE prices"),
        lambda: dev.forget("orders"),
        lambda: dev.run(["orders"]),
        lambda: dev.run(["exported"]),
        lambda: dev.cleanup(["prices"]),
        lambda: maintain_all(dev, ["orders"]),
    ]
    for attempt in attempts:
        with pytest.raises(TidegateError) as caught:
            attempt()
        assert caught.value.code == "TG515"
    assert dev.cleanup() == []
    assert maintain_all(dev) == []
    # Reading is everybody's: an audit recounts the log, and writes nothing.
    assert audit_source(dev, "orders").ok
    assert audit_source(dev, "prices").ok
    assert files(warehouse) == before
    # What is made here is one's own.
    dev.execute("CREATE TABLE mine (at TIMESTAMP, WATERMARK FOR at AS at) APPEND ONLY")
    dev.execute("INSERT INTO mine VALUES ('2026-03-01 09:00:00')")
    assert {name.split("/")[0] for name in files(warehouse) - before} == {"dev_ada"}


SINK = "CREATE SINK own FROM hourly WITH ({}) FORMAT PLAIN ENCODE JSON"


def test_X3_a_branch_s_own_sink_delivers_into_places_of_its_own_only(
    opened: Callable[[str], Session],
) -> None:
    dev = opened("dev")
    warehouse = Path(dev.project.storage.warehouse.removeprefix("file://"))
    everything = dev.project.root
    # What production's Kafka sink has delivered into, whatever the files here say.
    position = warehouse / "_streams" / "main" / "sent" / "kafka-orders.out.json"
    position.parent.mkdir(parents=True)
    position.write_text("{}")
    before = files(everything)
    kafka = "connector = 'kafka', properties.bootstrap.server = '127.0.0.1:9092', topic = '{}'"
    refused = {
        "connector = 'iceberg', table = 'main.own'": "the namespace",
        "connector = 'filesystem', path = 'out'": 'the place of sink "exported"',
        "connector = 'filesystem', path = 'assets/../out/deeper'": 'the place of sink "exported"',
        "connector = 'filesystem', path = '.tidegate/warehouse/main/hourly/data'": "which has tables only",
        kafka.format("orders.out"): "the topic of a sink",
    }
    for options, what in refused.items():
        sql = SINK.format(options)
        with pytest.raises(TidegateError, match=what) as caught:
            dev.execute(sql.replace(" FORMAT PLAIN ENCODE JSON", "") if "iceberg" in options else sql)
        assert caught.value.code == ("TG614" if "which has tables only" in what else "TG515")
    assert files(everything) - before == {f for f in files(everything) if f.endswith(".lock")} - before
    dev.execute(SINK.format("connector = 'filesystem', path = 'mine'"))
    # It stays the branch's, and nobody else's, over sessions.
    assert [sink.name for sink in opened("dev").catalog.sinks] == ["own"]
    dev.run()
    assert [p.suffix for p in (everything / "mine").iterdir() if p.is_file()] == [".jsonl"]
    assert "own" not in opened("local").catalog.sinks


def test_W1_a_source_that_the_branch_judges_otherwise_is_refused_not_silently_read(
    opened: Callable[[str], Session],
) -> None:
    root = opened("local").project.root
    sources = root / "assets" / "sources.sql"
    for changed in ("WATERMARK FOR at AS at - INTERVAL '1 hour'", "n INT, WATERMARK FOR at AS at"):
        sources.write_text(SOURCES.replace("WATERMARK FOR at AS at", changed))
        with pytest.raises(TidegateError, match="another definition of") as caught:
            opened("dev").run(["hourly"])
        assert caught.value.code == "TG516"
    sources.write_text(SOURCES.replace("orders", "orders2"))
    (root / "assets" / "views.sql").write_text(
        VIEWS.replace("orders", "orders2").replace("hourly", "hourly2")
    )
    with pytest.raises(TidegateError, match="has no log of") as caught:
        opened("dev").run()
    assert caught.value.code == "TG516"


GATED = """\
CREATE MATERIALIZED VIEW gated AS SELECT window_end, count(*) AS n
FROM TUMBLE(WATERMARK(orders, at, INTERVAL '1 minute'), at, INTERVAL '1 hour') GROUP BY window_end EMIT ON WINDOW CLOSE;
"""


def test_W14_a_gate_over_another_environment_s_log_wants_it_there_and_of_the_same_definition(
    opened: Callable[[str], Session],
) -> None:
    root = opened("local").project.root
    sources, views = root / "assets" / "sources.sql", root / "assets" / "views.sql"
    changed = SOURCES.replace("WATERMARK FOR at AS at", "WATERMARK FOR at AS at - INTERVAL '1 hour'")
    for sql, name, what in (
        (changed, "orders", "another definition of"),
        (SOURCES.replace("orders", "orders2"), "orders2", "no log of"),
    ):
        sources.write_text(sql)
        views.write_text(GATED.replace("(orders,", f"({name},"))
        with pytest.raises(TidegateError, match=f'environment "local" has {what} "{name}"') as caught:
            opened("dev").run(["gated"])
        assert caught.value.code == "TG516"
        assert caught.value.location is not None
    sources.write_text(SOURCES)
    views.write_text(GATED)
    dev = opened("dev")
    dev.run(["gated"])
    assert rows(dev, "SELECT n FROM gated") == [(2,)]


HOLE = """\
CREATE MATERIALIZED VIEW hourly AS SELECT window_end, count(*) AS n, max(id) AS newest
FROM TUMBLE(orders, at, INTERVAL '1 hour') GROUP BY window_end EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW daily AS SELECT window_end, sum(n) AS n FROM TUMBLE(hourly, window_end, INTERVAL '1 day')
GROUP BY window_end EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW steps AS SELECT id, at, lag(id) OVER (PARTITION BY id % 2 ORDER BY at) AS before FROM orders
EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW gated AS SELECT window_end, count(*) AS n
FROM TUMBLE(WATERMARK((SELECT at + INTERVAL '1 hour' AS t FROM orders), t, INTERVAL '1 minute'), t, INTERVAL '1 hour')
GROUP BY window_end EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW timeless AS SELECT sent
FROM WATERMARK((SELECT CAST(CAST(at AS VARCHAR) AS TIMESTAMP) AS sent FROM orders), sent, INTERVAL '1 minute')
EMIT ON WINDOW CLOSE;
"""
VISITS = """\
CREATE MATERIALIZED VIEW visits AS SELECT window_end, count(*) AS n
FROM SESSION(WATERMARK(orders, at, INTERVAL '1 minute'), at, INTERVAL '1 hour')
GROUP BY window_end EMIT ON WINDOW CLOSE;
"""


def take_and_retire_orders(live: Session) -> None:
    """Orders of a week, of which the last three days are kept."""
    for day in (2, 4, 6, 8):
        live.execute(
            f"INSERT INTO orders VALUES ({day}, '2026-03-0{day} 10:10:00'), ({day + 10}, '2026-03-0{day} 12:10:00')"
        )
    maintain(live, "orders", Policy(retention=3 * 86_400, keep_snapshots=0, settle=0))


def test_R5_X3_a_branch_says_which_windows_production_s_retention_has_cut(
    opened: Callable[[str], Session],
) -> None:
    root = opened("dev").project.root
    (root / "assets" / "views.sql").write_text(HOLE)
    opened("dev").run()
    # Production goes on, and keeps a day.
    (root / "assets" / "views.sql").write_text("")
    take_and_retire_orders(opened("local"))
    (root / "assets" / "views.sql").write_text(HOLE)
    dev = opened("dev")
    before = {v.name: v for v in read_status(dev.project, ["hourly", "steps"]).views}
    assert (
        before["hourly"].missing == 'rows of "orders" before 2026-03-05 00:00:00 are beyond their retention'
    )
    kinds = {f"{f.kind} {f.asset}": f.severity for f in look(dev.project).findings}
    assert kinds["rows_gone hourly"] == kinds["rows_gone steps"] == "error"
    dev.run(["hourly", "daily", "gated"])
    # Nothing between what it had and the edge, and it says so; from there on, everything.
    assert rows(dev, "SELECT CAST(window_end AS STRING), n FROM hourly WHERE n < 2") == [
        ("2026-03-06 11:00:00", 1),
        ("2026-03-06 13:00:00", 1),
        ("2026-03-08 11:00:00", 1),
    ]
    after = {v.name: v for v in read_status(dev.project, ["hourly", "daily"]).views}
    assert after["hourly"].skipped == (("2026-03-01 10:05:00", "2026-03-05 00:59:59.999999"),)
    assert after["hourly"].missing is None
    audit = audit_view(dev, "hourly")
    assert audit.ok
    assert any(
        "not known: windows that ended after 2026-03-01 10:05:00" in note for note in audit.batch.notes
    )
    # Neither does one by a gate of its own, which had not read what went (W14).
    assert rows(dev, "SELECT CAST(window_end - INTERVAL '1 hour' AS STRING), n FROM gated WHERE n < 2") == [
        ("2026-03-06 11:00:00", 1),
        ("2026-03-06 13:00:00", 1),
        ("2026-03-08 11:00:00", 1),
    ]
    (gated,) = read_status(dev.project, ["gated"]).views
    assert gated.skipped == (("2026-03-01 11:04:00", "2026-03-05 01:59:59.999999"),)
    assert audit_view(dev, "gated").ok
    with pytest.raises(TidegateError, match="that it has not read are beyond") as unknown:
        dev.run(["timeless"])
    assert unknown.value.code == "TG543"
    # A view over it does not take the hole for hours without orders.
    days = rows(dev, "SELECT CAST(window_end AS STRING), n FROM daily")
    assert days == [("2026-03-07 00:00:00", 2)]
    assert len(after["daily"].skipped) == 1
    # lag() would take rows on both sides of the hole for neighbours.
    with pytest.raises(TidegateError) as refused:
        dev.run(["steps"])
    assert refused.value.code == "TG543"
    assert "it is not known to which results they belong" in refused.value.message
    kinds = {f"{f.kind} {f.asset}": f.severity for f in look(dev.project).findings}
    assert kinds["skipped hourly"] == "warning"
    # A session over what was gone before its gate began may have begun there, too.
    with pytest.raises(TidegateError, match="can't begin") as begun:
        dev.execute(VISITS)
    assert begun.value.code == "TG543"
