"""Tables with a PRIMARY KEY, and WITH TTL: changes, what SELECT shows, expiry, cleanup, recovery (T1–T4, W5, R2)."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest

from tests.conftest import Workbench
from tidegate import TidegateError
from tidegate.audit.source import audit_source
from tidegate.iceberg.table_commit import TableCommit
from tidegate.iceberg.upkeep_table import SparkUpkeep
from tidegate.session.session import Session
from tidegate.tables.lives import applied_of, state_identifier
from tidegate.tables.table import KeyedTable

pytestmark = pytest.mark.runner("inprocess")

#: The documentation's table, with INSERTs in the place of Kafka.
DEPOSITS = """
CREATE TABLE deposits_src (
    trx_id VARCHAR PRIMARY KEY,
    created_at TIMESTAMP,
    deposit_status VARCHAR,
    WATERMARK FOR created_at AS created_at - INTERVAL '5' DAY WITH TTL
);
"""
DAILY = """
CREATE MATERIALIZED VIEW daily AS
SELECT window_start, count(*) AS n, max(deposit_status) AS status
FROM TUMBLE(deposits_src, created_at, INTERVAL '1 day') GROUP BY window_start EMIT ON WINDOW CLOSE;
"""
DEVICES = """
CREATE TABLE devices (id INT PRIMARY KEY, place VARCHAR, seen TIMESTAMP,
    WATERMARK FOR seen AS seen - INTERVAL '1 minute' WITH TTL)
WITH (connector = 'filesystem', path = 'input', max_files_per_batch = 1) FORMAT PLAIN ENCODE JSON
"""


def rows(session: Session, sql: str) -> list[tuple]:
    return [
        tuple(str(v) if isinstance(v, datetime) else v for v in row) for row in session.execute(sql).rows()
    ]


def shown(session: Session) -> list[tuple]:
    return rows(
        session, "SELECT trx_id, CAST(created_at AS DATE) || '', deposit_status FROM deposits_src ORDER BY 1"
    )


def state(session: Session, name: str) -> list:
    return session.tables.rows(state_identifier(session.identifier(name))).collect()


@pytest.mark.runner("inprocess", "spark", long_run="spark")
def test_T1_T2_the_documentations_deposits(workbench: Workbench) -> None:
    """5 days: changes of expired rows are ignored, counted and kept as late, and the table loses them."""
    session = workbench.session()
    session.execute(DEPOSITS)
    assert shown(session) == []
    message = session.execute(
        "INSERT INTO deposits_src VALUES ('a', '2026-01-01', 'new'), ('b', '2026-01-03', 'new'), "
        "('a', '2026-01-01', 'paid'), (NULL, '2026-01-03', 'no key')"
    ).message
    assert message == "inserted 4: 3 on time, 0 late, 1 rejected; watermark 2025-12-29 00:00:00"
    assert shown(session) == [("a", "2026-01-01", "paid"), ("b", "2026-01-03", "new")]
    assert rows(session, 'SELECT reason, op, deposit_status FROM "deposits_src$rejected"') == [
        ('not_null: column "trx_id" is NULL', "upsert", "no key")
    ]
    # The watermark comes to stand exactly at a's time: at it is expired (T1), so a is absent.
    session.execute("INSERT INTO deposits_src VALUES ('c', '2026-01-06', 'new')")
    assert shown(session) == [("b", "2026-01-03", "new"), ("c", "2026-01-06", "new")]
    assert session.execute("DELETE FROM deposits_src WHERE trx_id = 'a'").message.startswith("deleted 0;")
    late = "INSERT INTO deposits_src VALUES ('a', '2026-01-01', 'late'), ('a', '2026-01-01 00:00:01', 'anew')"
    assert session.execute(late).message.startswith("inserted 2: 1 on time, 1 late, 0 rejected")
    assert shown(session) == [
        ("a", "2026-01-01", "anew"),
        ("b", "2026-01-03", "new"),
        ("c", "2026-01-06", "new"),
    ]
    # An update that would move a row to an expired time is ignored.
    moved = session.execute("UPDATE deposits_src SET created_at = created_at - INTERVAL '4 days'").message
    assert moved == "updated 1 of 3 rows: 2 expired, 0 rejected; watermark 2026-01-01 00:00:00"
    assert shown(session) == [
        ("a", "2026-01-01", "anew"),
        ("b", "2026-01-03", "new"),
        ("c", "2026-01-02", "new"),
    ]
    session.execute("DELETE FROM deposits_src WHERE deposit_status = 'anew'")
    assert shown(session) == [("b", "2026-01-03", "new"), ("c", "2026-01-02", "new")]
    assert rows(
        session,
        'SELECT trx_id, op, watermark, CAST(late_by AS STRING) FROM "deposits_src$late" ORDER BY "offset"',
    ) == [
        ("a", "upsert", "2026-01-01 00:00:00", "INTERVAL '0 00:00:00' DAY TO SECOND"),
        ("a", "upsert", "2026-01-01 00:00:00", "INTERVAL '3 23:59:59' DAY TO SECOND"),
        ("b", "upsert", "2026-01-01 00:00:00", "INTERVAL '2 00:00:00' DAY TO SECOND"),
    ]
    # Every change ends in one place (W5), and the audit says so.
    outcomes = 'SELECT outcome, count(*) FROM "deposits_src$raw" GROUP BY 1 ORDER BY 1'
    assert rows(session, outcomes) == [("late", 3), ("on_time", 7), ("rejected", 1)]
    assert audit_source(session, "deposits_src").ok


@pytest.mark.parametrize("cuts", [(), (1,), (1, 2)], ids=["one batch", "two batches", "three batches"])
def test_T2_W4_a_life_ends_where_its_row_is_exactly_at_the_watermark(
    workbench: Workbench, cuts: tuple[int, ...]
) -> None:
    """The change after it begins another life: the row of the first stays in its day, however the changes are cut."""
    session = workbench.session()
    session.execute(DEPOSITS + DAILY)
    # The second makes the watermark stand exactly at the time of the first.
    changes = ["('a', '2026-01-01', 'first')", "('b', '2026-01-06', 'x')", "('a', '2026-01-02', 'second')"]
    for start, end in pairwise((0, *cuts, len(changes))):
        session.execute(f"INSERT INTO deposits_src VALUES {', '.join(changes[start:end])}")
    session.execute("INSERT INTO deposits_src VALUES ('c', '2026-01-09', 'x'); FLUSH")
    found = rows(session, "SELECT CAST(window_start AS DATE) || '', n, status FROM daily ORDER BY 1")
    assert found == [("2026-01-01", 1, "first"), ("2026-01-02", 1, "second")]


def test_T2_T3_cleanup_leaves_results_and_what_views_need(workbench: Workbench, runner: str) -> None:
    session = workbench.session()
    session.execute(DEPOSITS + DAILY)
    session.execute(
        "INSERT INTO deposits_src VALUES ('a', '2026-01-01 01:00:00', 'x'), ('b', '2026-01-02', 'x')"
    )
    session.execute("UPDATE deposits_src SET deposit_status = 'y' WHERE trx_id = 'a'")
    session.execute("INSERT INTO deposits_src VALUES ('c', '2026-01-07 12:00:00', 'z')")
    session.execute("INSERT INTO deposits_src VALUES ('a', '2026-01-07 13:00:00', 'z')")
    # a has expired and come anew. No view has counted the old one yet, so it may not go.
    assert shown(session) == [("a", "2026-01-07", "z"), ("c", "2026-01-07", "z")]
    assert session.cleanup()[0].upto is None
    assert sorted(r.deposit_status for r in state(session, "deposits_src")) == ["x", "y", "z", "z"]
    session.execute("FLUSH")
    closed = [("2026-01-01 00:00:00", 1, "y")]
    assert rows(session, "SELECT * FROM daily ORDER BY 1") == closed
    # The frontier is 2026-01-02 13:00, and a window is a day long.
    assert session.cleanup(["deposits_src"])[0].upto == ticks("2026-01-01 13:00")
    assert sorted(r.deposit_status for r in state(session, "deposits_src")) == ["x", "z", "z"]
    for day in (8, 9, 10):
        session.execute(f"INSERT INTO deposits_src VALUES ('c', '2026-01-{day:02}', 'w'); FLUSH")
    session.cleanup(keep_seconds=0)
    stored = state_identifier(session.identifier("deposits_src"))
    snapshots = session.tables.open(stored).snapshot_ids()
    assert len(snapshots) == 5
    folder = Path(session.project.storage.local_warehouse) / session.project.env.warehouse.namespace
    present = {p.name for p in (folder / "deposits_src$state" / "data").rglob("*.parquet")}
    rows_held = [
        session.tables.rows(stored, at, with_file=True).select("_file").collect() for at in snapshots
    ]
    held = {row[0].rpartition("/")[2] for found in rows_held for row in found}
    # No file that the kept snapshots do not know: what they hold; in Iceberg's Java also what the oldest has removed.
    known = set(held)
    if runner == "spark":
        entries = session.spark.sql(
            f"SELECT DISTINCT data_file.file_path FROM {stored}.all_entries"
        ).collect()
        known |= {row[0].rpartition("/")[2] for row in entries}
    assert held <= present <= known
    session.execute("INSERT INTO deposits_src VALUES ('d', '2026-02-01', 'v'); FLUSH")
    # What closes later is the last state of each row, wherever it was before.
    assert rows(session, "SELECT CAST(window_start AS DATE) || '', n, status FROM daily ORDER BY 1") == [
        ("2026-01-01", 1, "y"),
        ("2026-01-02", 1, "x"),
        ("2026-01-07", 1, "z"),
        ("2026-01-10", 1, "w"),
    ]


def test_a_lookup_table_has_no_time(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(
        "CREATE TABLE plans (name VARCHAR, country VARCHAR, price DECIMAL(8, 2), doubled DECIMAL(9, 2) AS price * 2, "
        "PRIMARY KEY (name, country));"
        "INSERT INTO plans VALUES ('basic', 'de', 1), ('basic', 'at', 2), ('basic', 'de', 3), ('pro', 'de', 9)"
    )
    table = "SELECT name, country, CAST(doubled AS INT) FROM plans ORDER BY 1, 2"
    assert rows(session, table) == [("basic", "at", 4), ("basic", "de", 6), ("pro", "de", 18)]
    assert session.execute("UPDATE plans SET price = price + 1 WHERE country = 'de'").message == "updated 2"
    assert (
        session.execute("DELETE FROM plans WHERE price = (SELECT max(price) FROM plans)").message
        == "deleted 1"
    )
    assert rows(session, table) == [("basic", "at", 4), ("basic", "de", 8)]
    session.execute("INSERT INTO plans VALUES ('pro', 'de', 5)")
    assert rows(session, table) == [("basic", "at", 4), ("basic", "de", 8), ("pro", "de", 10)]
    # What does not convert is rejected with its text, and the row stays as it is.
    message = session.execute("UPDATE plans SET price = 'much' WHERE country = 'at'").message
    assert message == "updated 0 of 1 rows: 0 expired, 1 rejected"
    wrong = ('unparseable: column "price" wants DECIMAL(8, 2)', "upsert")
    assert rows(session, 'SELECT reason, op FROM "plans$rejected"') == [wrong]
    assert rows(session, table)[0] == ("basic", "at", 4)
    session.execute("DELETE FROM plans")
    assert rows(session, table) == []
    assert state(session, "plans") == []
    session.execute("DROP TABLE plans", yes=True)
    assert not session.spark.catalog.tableExists(state_identifier(session.identifier("plans")))


def devices(workbench: Workbench, file: str, *found: tuple[int, str, str]) -> None:
    workbench.json_lines(
        f"input/{file}.json",
        [{"id": i, "place": place, "seen": f"2026-01-01 00:{time}"} for i, place, time in found],
    )


def test_T4_a_table_with_a_connector(workbench: Workbench) -> None:
    """Rows are upserts; of one key in two partitions (folders) the larger event time wins."""
    workbench.assets(devices=DEVICES)
    devices(workbench, "north/1", (1, "n", "01:00"), (2, "n", "01:30"))
    devices(workbench, "south/1", (1, "s", "00:30"), (3, "s", "01:00"), (3, "t", "01:10"))
    session = workbench.session()
    report = session.run()
    assert (report.sources[0].on_time, report.sources[0].late) == (5, 0)
    table = "SELECT id, place FROM devices ORDER BY id"
    assert rows(session, table) == [(1, "n"), (2, "n"), (3, "t")]
    devices(workbench, "south/2", (1, "s", "01:20"), (3, "late", "00:05"))
    session.run()
    assert rows(session, table) == [(1, "s"), (2, "n"), (3, "t")]
    assert rows(session, 'SELECT id, partition FROM "devices$late"') == [(3, "south")]
    with pytest.raises(TidegateError) as refused:
        session.execute("DELETE FROM devices")
    assert refused.value.code == "TG213"


@pytest.mark.parametrize("name", ["devices", "plain"])
def test_R2_a_crash_between_log_and_state(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The log has the changes, the state does not: the next one who opens the log applies them, once."""
    definition = (
        DEVICES
        if name == "devices"
        else DEVICES.replace("devices", "plain").replace(
            ",\n    WATERMARK FOR seen AS seen - INTERVAL '1 minute' WITH TTL", ""
        )
    )
    workbench.assets(**{name: definition})
    devices(workbench, "1", (1, "a", "01:00"), (2, "a", "01:00"))
    devices(workbench, "2", (1, "b", "01:10"))
    devices(workbench, "3", (2, "c", "01:20"), (1, "c", "01:20"))

    class Died(Exception):
        pass

    def die(self: KeyedTable) -> int:
        raise Died

    session = workbench.session()
    table = f"SELECT id, place FROM {name} ORDER BY id"
    for _ in range(
        2
    ):  # the second run dies before it has read anything: it could not apply what the first one left
        with monkeypatch.context() as patch:
            patch.setattr(KeyedTable, "catch_up", die)
            with pytest.raises(Died):
                session.run()
        assert rows(session, table) == []
    again = workbench.session()
    again.run()
    assert rows(again, table) == [(1, "c"), (2, "c")]
    raw = rows(again, f'SELECT epoch, id FROM "{name}$raw" ORDER BY epoch, "offset"')
    assert raw == [(1, 1), (1, 2), (2, 1), (3, 2), (3, 1)]
    assert len(state(again, name)) == 2

    # Also by a run that finds nothing to read.
    devices(workbench, "4", (1, "d", "01:30"))
    with monkeypatch.context() as patch:
        patch.setattr(KeyedTable, "catch_up", die)
        with pytest.raises(Died):
            workbench.session().run()
    assert rows(again, table) == [(1, "c"), (2, "c")]
    workbench.session().run()
    assert rows(again, table) == [(1, "d"), (2, "c")]


def test_R4_another_key_is_another_table(workbench: Workbench) -> None:
    workbench.assets(t="CREATE TABLE t (a INT, b INT, PRIMARY KEY (a))")
    workbench.session().execute("INSERT INTO t VALUES (1, 1)")
    workbench.assets(t="CREATE TABLE t (a INT, b INT, PRIMARY KEY (a, b))")
    with pytest.raises(TidegateError) as refused:
        workbench.session().execute("INSERT INTO t VALUES (1, 2)")
    assert refused.value.code == "TG506"


@pytest.mark.parametrize(
    ("kind", "first", "second", "third"),
    [
        pytest.param("DATE", "2026-01-01", "2026-01-02", "2026-01-04", marks=pytest.mark.long_run),
        ("TIMESTAMPTZ", "2026-01-01 00:00:00+01", "2026-01-02 00:00:00+01", "2026-01-04 00:00:00+01"),
        pytest.param("INT", "1", "2", "4", marks=pytest.mark.long_run),
    ],
)
@pytest.mark.runner("spark")
def test_W10_every_kind_of_event_time(
    workbench: Workbench, kind: str, first: str, second: str, third: str
) -> None:
    """Names and keys that need quotes, too."""
    length = "2" if kind == "INT" else "INTERVAL '2 days'"
    session = workbench.session()
    session.execute(
        f'CREATE TABLE "my t" ("the key" BOOLEAN PRIMARY KEY, "a `t`" {kind}, v INT, '
        f'WATERMARK FOR "a `t`" AS "a `t`" - {length} WITH TTL)'
    )
    for key, time in ((True, first), (False, second), (False, third)):
        session.execute(f"INSERT INTO \"my t\" VALUES ({key}, '{time}', 1)")
    assert rows(session, 'SELECT "the key" FROM "my t"') == [(False,)]
    session.execute('UPDATE "my t" SET v = v + 1')
    assert rows(session, 'SELECT v FROM "my t"') == [(2,)]
    assert len(state(session, "my t")) == 2
    session.cleanup()
    assert [r.v for r in state(session, "my t")] == [2]


def ticks(text: str) -> int:
    return int((datetime.fromisoformat(text) - datetime(1970, 1, 1)).total_seconds()) * 1_000_000


@pytest.mark.long_run
@pytest.mark.runner("spark")
def test_T4_rows_that_are_replaced_are_written_anew_when_they_are_many(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change marks the row that it replaces; files full of marks are rewritten, and nothing else changes."""
    session = workbench.session()
    session.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    session.execute(f"INSERT INTO t VALUES {', '.join(f'({i}, 0)' for i in range(20))}")

    def marked() -> int:
        return int(session.tables.open(identifier).java.currentSnapshot().summary()["total-delete-files"])

    identifier = state_identifier(session.identifier("t"))
    session.execute("UPDATE t SET v = 1 WHERE id < 5")
    assert marked() > 0
    before = rows(session, "SELECT * FROM t ORDER BY id")
    monkeypatch.setattr("tidegate.tables.table._REPLACED_ROWS", 6)
    session.execute("UPDATE t SET v = 2 WHERE id >= 18")
    assert marked() == 0
    assert rows(session, "SELECT * FROM t ORDER BY id") == [*before[:18], (18, 2), (19, 2)]
    monkeypatch.setattr("tidegate.tables.table._MERGES", 1)
    session.execute("UPDATE t SET v = 3 WHERE id = 19")
    assert marked() == 0
    session.execute("UPDATE t SET v = 2 WHERE id = 19")
    # What is applied is still known: the next change builds on it.
    session.execute("DELETE FROM t WHERE id = 0")
    assert rows(session, "SELECT count(*), sum(v) FROM t") == [(19, 8)]
    assert audit_source(session, "t").ok


@pytest.mark.runner("spark")
def test_R2_a_compaction_that_meets_another_machines_is_left_to_the_next_run(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the run has stored is stored: that the files of its state are put together later is no error of it."""
    session = workbench.session()
    session.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    insert = (
        "INSERT INTO t VALUES " + ", ".join(f"({n}, 0)" for n in range(first, first + 40))
        for first in (0, 40, 80)
    )
    session.execute(next(insert))
    session.execute(next(insert))
    identifier = state_identifier(session.identifier("t"))
    # After it has looked at the files, and before it commits.
    real, gone = SparkUpkeep._put_rewritten, []

    def meanwhile(upkeep: SparkUpkeep, commit: TableCommit) -> None:
        monkeypatch.setattr(SparkUpkeep, "_put_rewritten", real)
        gone.append(session.tables.upkeep(identifier).compact(least_files=2)[0])
        real(upkeep, commit)

    monkeypatch.setattr(SparkUpkeep, "_put_rewritten", meanwhile)
    monkeypatch.setattr("tidegate.tables.table._MERGES", 1)
    session.execute(next(insert))
    assert (gone > [0], rows(session, "SELECT count(*), sum(v) FROM t")) == (True, [(120, 0)])
    assert applied_of(session.tables.open(identifier).current()).merges == 3
    session.execute("UPDATE t SET v = 1 WHERE id = 0")
    assert applied_of(session.tables.open(identifier).current()).merges == 0
    assert rows(session, "SELECT count(*), sum(v) FROM t") == [(120, 1)]
