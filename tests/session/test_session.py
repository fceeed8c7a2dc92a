"""The Python API and SQL statements on a real session: the documents' examples, definitions, leases, fences."""

from __future__ import annotations

import multiprocessing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidegate
from tests.conftest import Workbench
from tests.support.by_hand import by_hand
from tidegate import TidegateError
from tidegate.ingest.connector import BatchRows
from tidegate.runtime.lease import lease

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.session.session import Session

pytestmark = pytest.mark.runner("inprocess")

BLOG = """
CREATE TABLE orders_wm (
order_id BIGINT,
amount DECIMAL,
event_time TIMESTAMPTZ,
WATERMARK FOR event_time AS event_time - INTERVAL '5 seconds'
) APPEND ONLY;
INSERT INTO orders_wm VALUES
(1, 100.0, '2026-05-22 10:00:00+00'),
(2, 200.0, '2026-05-22 10:00:30+00'),
(3, 150.0, '2026-05-22 10:01:00+00'),
(4, 300.0, '2026-05-22 10:01:30+00'),
(5, 250.0, '2026-05-22 10:02:00+00');
CREATE MATERIALIZED VIEW orders_per_minute AS
SELECT window_start, window_end, COUNT(*) AS num_orders, SUM(amount) AS total_amount
FROM TUMBLE(orders_wm, event_time, INTERVAL '1 minute')
GROUP BY window_start, window_end;
SELECT num_orders, total_amount FROM orders_per_minute ORDER BY window_start;
"""
EVENTS = """
CREATE TABLE events (name VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '10 seconds') APPEND ONLY;
CREATE MATERIALIZED VIEW per_hour AS
SELECT window_start, window_end, count(*) AS n FROM TUMBLE(events, ts, INTERVAL '1 hour')
GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
"""


@pytest.mark.runner("inprocess", "spark")
def test_the_blog_gives_its_documented_result(workbench: Workbench) -> None:
    session = workbench.session()
    rows = session.execute(BLOG).rows()
    assert rows == [(2, Decimal(300)), (2, Decimal(450)), (1, Decimal(250))]
    assert list(session.execute("SELECT order_id FROM orders_wm ORDER BY order_id")) == [
        (i,) for i in range(1, 6)
    ]
    watermark = session.execute('SELECT max(published) FROM "orders_wm$watermarks"')
    assert watermark.rows()[0][0].isoformat().startswith("2026-05-22T")
    # Definitions made by statements are there in the next session.
    again = workbench.session()
    assert again.execute("SHOW TABLES").rows() == [("orders_wm", None)]
    assert again.execute("SELECT count(*) FROM orders_per_minute").rows() == [(3,)]


@pytest.mark.runner("spark")
def test_X1_what_spark_would_take_for_a_variable_is_a_text(workbench: Workbench) -> None:
    texts = ["${env:HOME}", "${system:user.home}", "${spark.app.name}", "${hiveconf:x}", "${x}"]
    workbench.assets(
        t="""CREATE TABLE t (id INT, `${env:HOME}` VARCHAR, g VARCHAR AS '${env:HOME}', ts TIMESTAMP,
            WATERMARK FOR ts AS ts) APPEND ONLY;
        CREATE MATERIALIZED VIEW v AS SELECT ts, `${env:HOME}`, g, '${spark.app.name}' AS name FROM t
        EMIT ON WINDOW CLOSE;"""
    )
    session = workbench.session()
    shown = ", ".join(f"'{text}'" for text in texts)
    assert session.execute(f"SELECT {shown}").rows() == [tuple(texts)]
    session.execute(
        "INSERT INTO t VALUES (1, '${system:user.home}', '2026-01-01'), (2, '', '2026-01-02'); FLUSH"
    )
    found = session.execute("SELECT `${env:HOME}`, g, name FROM v").rows()
    assert found == [("${system:user.home}", "${env:HOME}", "${spark.app.name}")]


def test_the_documentations_events_f_g_h_i(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(EVENTS)
    for name, time in (("F", "11:59:30"), ("G", "12:00:00"), ("H", "12:00:11"), ("I", "11:59:50")):
        session.execute(f"INSERT INTO events VALUES ('{name}', '2026-01-01 {time}')")
    assert session.execute("FLUSH").message == "flushed 1 view: 1 row closed"
    assert session.execute("SELECT name FROM events ORDER BY ts").rows() == [("F",), ("G",), ("H",)]
    late = session.execute('SELECT name, watermark, CAST(late_by AS STRING) FROM "events$late"').rows()
    assert late == [("I", datetime(2026, 1, 1, 12, 0, 1), "INTERVAL '0 00:00:11' DAY TO SECOND")]
    history = session.execute(
        "SELECT watermark FROM \"events$watermarks\" WHERE partition = '0' ORDER BY epoch"
    )
    assert [f"{r[0]:%H:%M:%S}" for r in history.rows()] == ["11:59:20", "11:59:50", "12:00:01", "12:00:01"]
    assert session.table("per_hour").select("n").collect()[0][0] == 1


def test_rows_that_do_not_convert_are_rejected_with_their_text(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute("CREATE TABLE t (a INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY")
    message = session.execute(
        "INSERT INTO t VALUES (1, '2026-01-01'), ('x', '2026-01-02'), (3, NULL)"
    ).message
    assert message == "inserted 3: 1 on time, 0 late, 2 rejected; watermark 2026-01-01 00:00:00"
    rejected = session.execute('SELECT reason, raw FROM "t$rejected" ORDER BY offset').rows()
    assert rejected == [
        ('unparseable: column "a" wants INT', '{"a":"x","ts":"2026-01-02"}'),
        ("null_event_time", None),
    ]


def test_R4_a_changed_definition_is_not_continued(workbench: Workbench) -> None:
    workbench.assets(events=EVENTS)
    session = workbench.session()
    session.execute("INSERT INTO events VALUES ('F', '2026-01-01 11:59:30')")
    session.run()
    # A comment or a line break is no change.
    workbench.assets(events=EVENTS.replace("GROUP BY", "-- by hour\n  GROUP BY"))
    workbench.session().run()
    workbench.assets(events=EVENTS.replace("INTERVAL '1 hour'", "INTERVAL '2 hours'"))
    with pytest.raises(TidegateError) as caught:
        workbench.session().run()
    assert caught.value.code == "TG506"
    session = workbench.session()
    session.execute("DROP MATERIALIZED VIEW per_hour", yes=True)
    session.execute("INSERT INTO events VALUES ('H', '2026-01-01 12:00:11')")
    session.run()
    assert session.table("per_hour").collect()[0]["window_end"] == datetime(2026, 1, 1, 12)


@pytest.mark.runner("inprocess")
def test_R4_a_table_of_other_columns_is_not_continued(workbench: Workbench) -> None:
    workbench.assets(events=EVENTS)
    workbench.session().execute("INSERT INTO events VALUES ('F', '2026-01-01 11:59:30')")
    workbench.assets(events=EVENTS.replace("name VARCHAR", "name INT"))
    session = workbench.session()
    with pytest.raises(TidegateError, match='the definition of "events" has changed') as caught:
        session.execute("INSERT INTO events VALUES (1, '2026-01-01 12:00:11')")
    assert caught.value.code == "TG506"
    workbench.assets(events=EVENTS)
    assert workbench.session().table("events$raw").count() == 1


def test_drop_refuses_while_a_filled_view_reads_it(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(EVENTS + "INSERT INTO events VALUES ('F', '2026-01-01 11:59:30'); FLUSH;")
    with pytest.raises(TidegateError) as caught:
        session.execute("DROP TABLE events")
    assert caught.value.code == "TG511"
    session.execute(
        "DROP MATERIALIZED VIEW per_hour; DROP TABLE events; DROP TABLE IF EXISTS events", yes=True
    )
    assert session.catalog.names() == []
    assert workbench.session().catalog.names() == []


@pytest.mark.runner("spark")
def test_what_spark_refuses_stops_before_anything_runs(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(EVENTS.partition("CREATE MATERIALIZED")[0])
    with pytest.raises(TidegateError) as caught:
        session.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT window_start, sum(map(name, 1)) AS s "
            "FROM TUMBLE(events, ts, INTERVAL '1 hour') GROUP BY window_start"
        )
    assert caught.value.code == "TG507"
    assert session.stored("v") is None


@pytest.mark.runner("spark")
def test_a_generated_column_that_spark_refuses_is_not_an_unexpected_error(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute("CREATE TABLE t (a INT, b VARCHAR AS substring()) APPEND ONLY")
    with pytest.raises(TidegateError, match="substring") as caught:
        session.execute("INSERT INTO t VALUES (1)")
    assert caught.value.code == "TG507"
    assert list(session.table("t$raw").collect()) == []


def _hold(
    folder: str, held: multiprocessing.synchronize.Event, done: multiprocessing.synchronize.Event
) -> None:
    with lease(Path(folder), "events"):
        held.set()
        done.wait(60)


def test_one_writer_for_each_log_the_second_says_who_holds_it(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(EVENTS)
    context = multiprocessing.get_context("spawn")
    held, done = context.Event(), context.Event()
    folder = workbench.root / ".tidegate" / "locks" / "main"
    holder = context.Process(target=_hold, args=(str(folder), held, done))
    holder.start()
    try:
        assert held.wait(60)
        with pytest.raises(TidegateError) as caught:
            session.execute("INSERT INTO events VALUES ('F', '2026-01-01 11:59:30')")
        assert caught.value.code == "TG508"
        assert f"process {holder.pid} on " in str(caught.value)
    finally:
        done.set()
        holder.join(60)
    session.execute("INSERT INTO events VALUES ('F', '2026-01-01 11:59:30')")


@pytest.mark.parametrize("batches", [0, 1], ids=["an empty log", "a log with a batch"])
def test_R2_a_run_that_overlaps_another_commits_nothing(workbench: Workbench, batches: int) -> None:
    """The fence, without the lock: two writers opened at the same commit; the second one's batch is not kept."""
    from tidegate.ingest.insert import insert

    session = workbench.session()
    session.execute(EVENTS)
    for _ in range(batches):
        session.execute("INSERT INTO events VALUES ('E', '2026-01-01 11:59:00')")
    first, second = (session.log(session.relation("events")) for _ in range(2))
    insert(session.spark, first, "SELECT 'F' AS name, '2026-01-01 11:59:30' AS ts", datetime.now(UTC))
    with pytest.raises(TidegateError) as caught:
        insert(session.spark, second, "SELECT 'F' AS name, '2026-01-01 11:59:30' AS ts", datetime.now(UTC))
    assert caught.value.code == "TG502"
    assert session.table("events$raw").count() == batches + 1


@pytest.mark.runner("inprocess")
def test_R2_a_commit_of_another_run_right_after_its_own_is_noticed(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between a commit and the next look at the table: the batch after it would have the epoch of the other's."""
    from tidegate.ingest.insert import insert

    session = workbench.session()
    session.execute(EVENTS + "INSERT INTO events VALUES ('E', '2026-01-01 11:59:00');")
    mine = session.log(session.relation("events"))
    append = type(mine.table).append

    def appended(self: Any, *given: Any, **named: Any) -> int:
        own = append(self, *given, **named)
        monkeypatch.undo()
        insert(
            session.spark,
            session.log(session.relation("events")),
            "SELECT 'O' AS name, '2026-01-01 12:00:00' AS ts",
            datetime.now(UTC),
        )
        return own

    monkeypatch.setattr(type(mine.table), "append", appended)
    insert(session.spark, mine, "SELECT 'M' AS name, '2026-01-01 11:59:30' AS ts", datetime.now(UTC))
    with pytest.raises(TidegateError) as caught:
        insert(session.spark, mine, "SELECT 'M' AS name, '2026-01-01 12:00:30' AS ts", datetime.now(UTC))
    assert caught.value.code == "TG502"
    assert sorted(row.name for row in session.table("events$raw").select("name").collect()) == ["E", "M", "O"]


@pytest.mark.runner("inprocess")
def test_R2_a_batch_that_does_not_follow_the_last_one_is_not_committed(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(EVENTS + "INSERT INTO events VALUES ('F', '2026-01-01 11:59:30');")
    log = session.log(session.relation("events"))
    for epoch in (1, 3):
        with pytest.raises(AssertionError, match=f"epoch {epoch} does not follow 1"):
            log.add(epoch, BatchRows(None, (), numbering=True), datetime.now(UTC))
    assert session.log(session.relation("events")).progress.epoch == 1


@pytest.mark.runner("spark")
def test_connect_uses_the_callers_session_and_leaves_its_settings(
    workbench: Workbench, spark: SparkSession
) -> None:
    before = spark.conf.get("spark.sql.ansi.enabled"), spark.conf.get("spark.sql.session.timeZone")
    with tidegate.connect(project=workbench.root, spark=spark) as session:
        session.execute(EVENTS)
        assert session.spark.sparkContext is spark.sparkContext
        assert session.table("events").columns == ["name", "ts"]
    assert (spark.conf.get("spark.sql.ansi.enabled"), spark.conf.get("spark.sql.session.timeZone")) == before


def test_a_temporary_project_is_gone_after_close(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with tidegate.connect(spark=spark) as session:
        root = session.project.root
        session.execute(EVENTS)
        assert root.is_dir()
    assert not root.exists()


def newest_summary(session: Session, name: str) -> dict[str, str]:
    table = session.tables.open(session.identifier(name))
    table.refresh()
    return table.totals()


def test_R2_somebody_elses_commit_does_not_make_us_forget(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(
        EVENTS
        + "INSERT INTO events VALUES ('F', '2026-01-01 11:59:30'), ('H', '2026-01-01 12:00:11'); FLUSH;"
    )
    for name in ("events", "per_hour"):
        # As maintenance does: a commit that says nothing of epochs and frontiers.
        stored = session.identifier(name)
        by_hand(session, f"INSERT INTO {stored} SELECT * FROM {stored} LIMIT 0")
        assert not [k for k in newest_summary(session, name) if k.startswith("tidegate.")]
    session.execute("INSERT INTO events VALUES ('J', '2026-01-01 13:00:11'); FLUSH;")
    assert [
        tuple(r) for r in session.table("events$raw").select("offset", "name").orderBy("offset").collect()
    ] == [
        (0, "F"),
        (1, "H"),
        (2, "J"),
    ]
    assert [r["n"] for r in session.table("per_hour").orderBy("window_end").collect()] == [1, 1]


def test_a_system_column_gives_way_to_a_column_of_the_same_name(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(
        'CREATE TABLE t ("offset" INT, reason VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY'
    )
    session.execute("INSERT INTO t VALUES (7, 'mine', NULL)")
    assert session.table("t$rejected").columns == [
        *("offset", "reason", "ts"),
        *("_reason", "raw", "partition", "_offset", "arrival", "epoch"),
    ]
    row = session.execute('SELECT offset, _offset, reason, _reason FROM "t$rejected"').rows()
    assert row == [(7, 0, "mine", "null_event_time")]


def test_C2_a_watermark_of_zero_is_a_watermark(workbench: Workbench) -> None:
    """0 is a time like any other: what closes there is not closed again."""
    session = workbench.session()
    session.execute(
        "CREATE TABLE t (ts BIGINT, WATERMARK FOR ts AS ts) APPEND ONLY;"
        "CREATE MATERIALIZED VIEW v AS SELECT window_end, count(*) AS n FROM TUMBLE(t, ts, 5) "
        "GROUP BY window_end EMIT ON WINDOW CLOSE;"
    )
    for time in (-12, -7, 0, 6):
        session.execute(f"INSERT INTO t VALUES ({time}); FLUSH;")
    rows = session.execute("SELECT window_end, n FROM v ORDER BY window_end").rows()
    assert rows == [(-10, 1), (-5, 1), (5, 1)]
