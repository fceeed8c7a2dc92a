"""Sinks: final rows, append-only, in the order of closing."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import pytest

from tests.conftest import Workbench
from tests.sinks.made import FILES, TABLE, VIEW, delivered, insert, starts
from tidegate.errors import TidegateError
from tidegate.plan.events import Event, RowsDelivered, SinkDelivered
from tidegate.session.deployed import changed_definitions
from tidegate.store import read_status

if TYPE_CHECKING:
    from tidegate.session.session import Session


def test_C2_a_sink_delivers_each_closed_window_once_in_the_order_of_closing(
    session: Session, workbench: Workbench
) -> None:
    insert(session, 1, 2, 12)
    session.execute("FLUSH")
    created = session.execute(f"CREATE SINK s FROM v {FILES.format('JSON')}")
    assert created.message == "created sink s: 2 rows delivered"
    out = workbench.root / "out"
    first = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    assert len(first) == 1
    assert sorted(delivered(out), key=lambda row: row["k"]) == [
        {"window_start": "2026-01-01T10:00:00.000000", "k": "k0", "total": 2},
        {"window_start": "2026-01-01T10:00:00.000000", "k": "k1", "total": 1},
    ]
    insert(session, 25, 41)
    report = session.run()
    assert [(sink.name, sink.rows) for sink in report.sinks] == [("s", 2)]
    assert starts(delivered(out)) == ["10:00", "10:00", "10:10", "10:20"]
    # Append-only: what was delivered is not touched, and nothing waits, so nothing comes.
    assert {name: (out / name).read_bytes() for name in first} == first
    assert session.run().sinks[0].rows == 0
    assert starts(delivered(out)) == ["10:00", "10:00", "10:10", "10:20"]


@pytest.mark.runner("inprocess")
def test_R4_check_and_status_know_of_a_sink_that_delivers_elsewhere_or_something_else_now(
    workbench: Workbench,
) -> None:
    def told() -> dict[str, str]:
        session = workbench.session()
        found = changed_definitions(session.project, session.project.catalog())
        return {name: warning.message for name, warning in found.items()}

    def define(upstream: str, path: str) -> None:
        sink = f"CREATE SINK s FROM {upstream} {FILES.format('JSON').replace('out', path)};"
        other = VIEW.replace("VIEW v", "VIEW w")
        workbench.assets(a=f"{TABLE}\n{VIEW} EMIT ON WINDOW CLOSE;\n{other} EMIT ON WINDOW CLOSE;\n{sink}")

    define("v", "out/a")
    session = workbench.session()
    insert(session, 1, 12)
    session.run()
    assert told() == {}
    define("v", "out/b")
    assert told() == {
        "s": '"s" has changed since it was deployed: it has delivered "v" to filesystem out/a until now'
    }
    workbench.session().run()
    assert told() == {}
    define("w", "out/b")
    assert told() == {
        "s": '"s" has changed since it was deployed: it has delivered "v" to filesystem out/b until now'
    }
    with pytest.raises(TidegateError) as refused:
        workbench.session().run()
    assert refused.value.code == "TG542"
    assert "the definition of the sink has changed" in refused.value.message
    session = workbench.session()
    session.execute("DROP SINK s")
    assert told() == {}


@pytest.mark.runner("inprocess")
def test_a_console_sink_shows_the_first_rows_and_counts_the_rest(session: Session) -> None:
    told: list[Event] = []
    session.listener = told.append
    session.execute("CREATE SINK s FROM t WITH (connector = 'console', rows = 2)")
    insert(session, 1, 2, 3)
    session.execute("FLUSH")
    shown = (("k1", "2026-01-01 10:01:00", "1"), ("k0", "2026-01-01 10:02:00", "2"))
    assert told == [RowsDelivered("s", ("k", "ts", "n"), shown, 1)]
    told.clear()
    insert(session, 4)
    session.run(on_event=told.append)
    rows, done = (event for event in told if isinstance(event, RowsDelivered | SinkDelivered))
    assert rows == RowsDelivered("s", ("k", "ts", "n"), (("k0", "2026-01-01 10:04:00", "4"),), 0)
    assert (done.sink, done.connector, done.rows) == ("s", "console", 1)


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(FILES.format("JSON"), id="filesystem", marks=pytest.mark.runner("inprocess")),
        pytest.param("WITH (connector = 'console')", id="console", marks=pytest.mark.runner("inprocess")),
        pytest.param("WITH (connector = 'iceberg')", id="iceberg"),
    ],
)
def test_status_says_what_is_delivered_and_what_waits(session: Session, place: str) -> None:
    def status() -> tuple[bool, int | None, int | None, int | None, int, int | None, bool]:
        (s,) = read_status(session.project, ["s"]).sinks
        return s.ran, s.tick, s.newest, s.behind, s.delivered, s.waiting, s.current

    insert(session, 1, 12)
    session.execute("FLUSH")
    session.execute(f"CREATE SINK s FROM v {place.replace('WITH (', 'WITH (snapshot = false, ')}")
    # One window was there before; it is neither delivered nor waiting.
    assert status() == (True, 1, 1, 0, 0, 0, True)
    insert(session, 25, 26, 37)
    session.run(["v"])
    assert status() == (True, 1, 2, 1, 0, 3, False)
    session.run(["s"])
    assert status() == (True, 2, 2, 0, 3, 0, True)
    session.run()
    assert status() == (True, 2, 2, 0, 3, 0, True)
    session.forget("v")
    session.run(["v"])
    (again,) = read_status(session.project, ["s"]).sinks
    assert (again.made_anew, again.behind, again.waiting, again.current) == (True, None, None, False)


def test_W5_a_sink_of_a_relation_delivers_its_on_time_rows_in_order(
    session: Session, workbench: Workbench
) -> None:
    session.execute(f"CREATE SINK s FROM t {FILES.format('CSV')}")
    insert(session, 5, 3)
    insert(session, 9, 1)
    session.run(["s"])
    insert(session, 8, 11)
    session.run(["s"])
    files = sorted(path for path in (workbench.root / "out").iterdir() if path.is_file())
    rows = [row for path in files for row in csv.DictReader(path.open())]
    # 3, 1 and 8 are late.
    assert [(row["k"], row["ts"], row["n"]) for row in rows] == [
        ("k1", "2026-01-01T10:05:00.000000", "5"),
        ("k1", "2026-01-01T10:09:00.000000", "9"),
        ("k1", "2026-01-01T10:11:00.000000", "11"),
    ]


@pytest.mark.runner("inprocess")
def test_C2_open_windows_are_not_delivered(workbench: Workbench) -> None:
    session = workbench.session()
    for sql in (TABLE, VIEW, f"CREATE SINK s FROM v {FILES.format('JSON')}"):
        session.execute(sql)
    insert(session, 1, 12)
    session.run()
    insert(session, 14, 25)
    session.run()
    assert session.execute("SELECT count(*) FROM v").rows() == [(3,)]
    rows = delivered(workbench.root / "out")
    assert [(row["window_start"][11:16], row["k"], row["total"]) for row in rows] == [
        ("10:00", "k1", 1),
        ("10:10", "k0", 26),
    ]


@pytest.mark.runner("inprocess")
def test_a_sink_with_a_query_has_a_view_of_its_own_that_nobody_lists(
    session: Session, workbench: Workbench
) -> None:
    insert(session, 1, 12)
    query = "SELECT window_end, count(*) AS n FROM TUMBLE(t, ts, INTERVAL '5 minutes') GROUP BY window_end"
    session.execute(f"CREATE SINK s AS {query} EMIT ON WINDOW CLOSE {FILES.format('PARQUET')}")
    insert(session, 25)
    again = workbench.session()
    again.run(["s"])
    rows = again.spark.read.parquet(str(workbench.root / "out"))
    assert sorted((str(row[0]), row[1]) for row in rows.collect()) == [
        ("2026-01-01 10:05:00", 1),
        ("2026-01-01 10:15:00", 1),
    ]
    assert [row[0] for row in again.execute("SHOW MATERIALIZED VIEWS")] == ["v"]
    assert list(again.execute("SHOW SINKS")) == [("s", "t", "filesystem")]
    again.execute("DROP SINK s", yes=True)
    assert again.stored("s$rows") is None
    assert workbench.session().catalog.names() == ["t", "v"]


@pytest.mark.runner("inprocess")
@pytest.mark.parametrize("how", ["run", "FLUSH"])
def test_a_sink_may_leave_out_what_is_there_already(session: Session, workbench: Workbench, how: str) -> None:
    insert(session, 1, 12)
    session.execute("FLUSH")
    files = FILES.format("JSON").replace("path", "snapshot = false, path")
    workbench.assets(s=f"CREATE SINK s FROM v {files}")
    again = workbench.session()
    for minute in (25, 37):
        insert(again, minute)
        again.run() if how == "run" else again.execute("FLUSH")
    # What was closed when the sink was first seen is not delivered, what is closed from then on is.
    assert starts(delivered(workbench.root / "out")) == ["10:10", "10:20"]


@pytest.mark.runner("inprocess")
def test_R4_what_was_made_anew_is_not_delivered_again(session: Session) -> None:
    insert(session, 1, 12)
    session.execute("FLUSH")
    session.execute(f"CREATE SINK s FROM v {FILES.format('JSON')}")
    with pytest.raises(TidegateError) as refused:
        session.execute("DROP MATERIALIZED VIEW v")
    assert (refused.value.code, refused.value.hint) == ("TG511", "DROP SINK s first")
    session.forget("v")
    with pytest.raises(TidegateError) as refused:
        session.run()
    assert refused.value.code == "TG542"


def test_a_sink_does_not_write_into_the_place_of_somebody_else(
    session: Session, workbench: Workbench
) -> None:
    insert(session, 1, 12)
    session.execute("FLUSH")
    workbench.json_lines("out/orders.json", [{"a": 1}])
    for place in (FILES.format("JSON"), "WITH (connector = 'iceberg', table = 'v')"):
        with pytest.raises(TidegateError) as refused:
            session.execute(f"CREATE SINK s FROM v {place}")
        assert refused.value.code == "TG541"
        # The statement failed as a whole.
        assert "s" not in session.catalog
    session.execute(f"CREATE SINK s FROM v {FILES.format('JSON').replace('out', 'new')}")
    with pytest.raises(TidegateError) as refused:
        session.execute(f"CREATE SINK other FROM v {FILES.format('JSON').replace('out', 'new')}")
    assert refused.value.code == "TG541"


def test_formats_keep_nulls_names_and_microseconds(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute('CREATE TABLE t (id INT, "a, b" VARCHAR, at TIMESTAMPTZ, d DATE, x STRUCT<y INT>)')
    session.execute("INSERT INTO t (id, at) VALUES (1, '2026-01-01 10:00:00.000001+00:00')")
    session.execute("""INSERT INTO t (id, "a, b", d) VALUES (2, 'say "hi", you', '2026-01-02')""")
    session.execute(
        "CREATE SINK j FROM t WITH (connector = 'filesystem', path = 'j') FORMAT PLAIN ENCODE JSON"
    )
    at = "2026-01-01T10:00:00.000001Z"
    assert delivered(workbench.root / "j") == [
        {"id": 1, "a, b": None, "at": at, "d": None, "x": None},
        {"id": 2, "a, b": 'say "hi", you', "at": None, "d": "2026-01-02", "x": None},
    ]
    session.execute('CREATE TABLE u (id INT, "a; b" VARCHAR, at TIMESTAMPTZ)')
    session.execute("INSERT INTO u VALUES (1, 'x;y', '2026-01-01 10:00:00.000001+00:00'), (2, NULL, NULL)")
    session.execute(
        "CREATE SINK c FROM u WITH (connector = 'filesystem', path = 'c') "
        "FORMAT PLAIN ENCODE CSV (delimiter = ';', null_value = 'none')"
    )
    (file,) = (path for path in (workbench.root / "c").iterdir() if path.is_file())
    assert file.read_text() == f'id;"a; b";at\n1;"x;y";{at}\n2;none;none\n'
