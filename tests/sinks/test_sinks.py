"""Sinks: final rows, append-only, in the order of closing, each exactly once, whatever breaks off in between (R2)."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import Workbench
from tidegate.errors import TidegateError
from tidegate.plan.events import Event, RowsDelivered, SinkDelivered
from tidegate.session.deployed import changed_definitions
from tidegate.sinks.console import ConsoleSink
from tidegate.sinks.filesystem import FilesystemSink
from tidegate.sinks.iceberg import IcebergSink
from tidegate.sinks.statefile import StateFile
from tidegate.store import read_status

if TYPE_CHECKING:
    from tidegate.session.session import Session

pytestmark = pytest.mark.spark

TABLE = "CREATE TABLE t (k VARCHAR, ts TIMESTAMP, n INT, WATERMARK FOR ts AS ts) APPEND ONLY;"
VIEW = (
    "CREATE MATERIALIZED VIEW v AS SELECT window_start, k, sum(n) AS total "
    "FROM TUMBLE(t, ts, INTERVAL '10 minutes') GROUP BY window_start, k"
)
FILES = "WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE {}"


class Killed(Exception):
    """Stands for a process that is gone."""


def insert(session: Session, *minutes: int) -> None:
    rows = ", ".join(f"('k{m % 2}', '2026-01-01 {10 + m // 60}:{m % 60:02}:00', {m})" for m in minutes)
    session.execute(f"INSERT INTO t VALUES {rows}")


def delivered(folder: Path) -> list[dict[str, Any]]:
    """Every row in the folder, in the order of the files' names."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def starts(rows: list[dict[str, Any]]) -> list[str]:
    return [row["window_start"][11:16] for row in rows]


@pytest.fixture
def session(workbench: Workbench) -> Session:
    session = workbench.session()
    for sql in (TABLE, f"{VIEW} EMIT ON WINDOW CLOSE"):
        session.execute(sql)
    return session


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


def test_R2_another_session_goes_on_where_the_last_one_stopped(
    session: Session, workbench: Workbench
) -> None:
    session.execute(f"CREATE SINK s FROM v {FILES.format('JSON')}")
    insert(session, 1, 12)
    assert session.execute("FLUSH").message == "flushed 1 view: 1 row closed; s: 1 delivered"
    again = workbench.session()
    insert(again, 25)
    assert again.execute("FLUSH").message == "flushed 1 view: 1 row closed; s: 1 delivered"
    assert starts(delivered(workbench.root / "out")) == ["10:00", "10:10"]


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


def _kill_before(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, calls: int) -> Callable[[], None]:
    """Let `calls` calls of a method go through and die before the next one; returns what undoes this."""
    real, count = getattr(owner, name), iter(range(1000))

    def dying(self: Any, *arguments: Any) -> Any:
        if next(count) >= calls:
            raise Killed
        return real(self, *arguments)

    monkeypatch.setattr(owner, name, dying)
    return lambda: monkeypatch.setattr(owner, name, real)


@pytest.mark.parametrize(
    ("owner", "method", "calls"),
    [
        pytest.param(StateFile, "write", 0, id="before the delivery is decided"),
        pytest.param(FilesystemSink, "_finish", 0, id="before the first rename"),
        pytest.param(StateFile, "write", 1, id="after the renames, before the position"),
        pytest.param(FilesystemSink, "_remove", 1, id="before staging is cleaned"),
    ],
)
def test_R2_files_are_delivered_once_wherever_it_breaks_off(
    session: Session,
    workbench: Workbench,
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    method: str,
    calls: int,
) -> None:
    insert(session, 1, 12)
    session.execute("FLUSH")
    session.execute(f"CREATE SINK s FROM v {FILES.format('JSON')}")
    insert(session, 25)
    revive = _kill_before(monkeypatch, owner, method, calls)
    with pytest.raises(Killed):
        session.run()
    revive()
    # More has closed by the time that somebody starts it again.
    again = workbench.session()
    insert(again, 37)
    again.run()
    out = workbench.root / "out"
    assert starts(delivered(out)) == ["10:00", "10:10", "10:20"]
    assert [path.name for path in (out / "_tidegate").iterdir()] == ["position.json"]


def test_R2_a_delivery_that_broke_off_between_two_renames_is_finished(
    session: Session, workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.execute(f"CREATE SINK s FROM v {FILES.format('JSON')}")
    insert(session, 1, 12)
    revive = _kill_before(monkeypatch, FilesystemSink, "_finish", 0)
    with pytest.raises(Killed):
        session.run()
    revive()
    out = workbench.root / "out"
    state = json.loads((out / "_tidegate" / "position.json").read_text())
    (file,) = state["pending"]["files"]
    # As if the rename had been done, and nothing after it.
    (out / "_tidegate" / "staging" / file["from"]).rename(out / file["to"])
    assert workbench.session().run().sinks[0].rows == 0
    assert starts(delivered(out)) == ["10:00"]


def test_R2_an_iceberg_sink_has_its_position_in_the_commit_of_the_rows(
    session: Session, workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(session, 1, 12)
    session.execute("FLUSH")
    session.execute("CREATE SINK s FROM v WITH (connector = 'iceberg', table = 'exported.totals')")
    totals = "tidegate.exported.totals"
    insert(session, 25)
    revive = _kill_before(monkeypatch, IcebergSink, "_publish", 0)
    with pytest.raises(Killed):
        session.run()
    # What is not published is not there.
    assert session.tables.rows(totals).count() == 1
    revive()
    insert(session, 37)
    assert workbench.session().run().sinks[0].rows == 2
    rows = session.spark.sql(
        f"SELECT CAST(window_start AS STRING), k, total FROM {totals} ORDER BY 1"
    ).collect()
    assert [tuple(row) for row in rows] == [
        ("2026-01-01 10:00:00", "k1", 1),
        ("2026-01-01 10:10:00", "k0", 12),
        ("2026-01-01 10:20:00", "k1", 25),
    ]
    newest = session.spark.sql(f"SELECT summary FROM {totals}.snapshots ORDER BY committed_at DESC").first()[
        0
    ]
    assert newest["tidegate.delivered-tick"] == "3"
    (status,) = read_status(workbench.session().project, ["s"]).sinks
    assert (status.place, status.tick, status.delivered, status.current) == ("exported.totals", 3, 3, True)
    assert newest["added-records"] == "2"


def test_R2_an_iceberg_sink_does_not_publish_over_the_commit_of_another_run(
    session: Session, workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.execute("CREATE SINK s FROM v WITH (connector = 'iceberg')")
    insert(session, 1, 12)
    session.execute("FLUSH")
    insert(session, 25)
    publish = IcebergSink._publish

    def overtaken(self: IcebergSink, *arguments: Any) -> None:
        self._spark.sql(f"INSERT INTO {self.identifier} VALUES (NULL, 'somebody', 0)")
        publish(self, *arguments)

    monkeypatch.setattr(IcebergSink, "_publish", overtaken)
    with pytest.raises(TidegateError) as refused:
        session.run()
    assert refused.value.code == "TG502"
    monkeypatch.setattr(IcebergSink, "_publish", publish)
    session.run()
    rows = session.tables.rows("tidegate.main.s").select("k", "total").collect()
    assert sorted(tuple(row) for row in rows) == [("k0", 12), ("k1", 1), ("somebody", 0)]


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


def test_R2_a_console_sink_that_is_killed_after_it_showed_rows_shows_them_again(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    session.execute("CREATE SINK s FROM t WITH (connector = 'console')")
    insert(session, 1)
    # It begins, and dies when it would say what it has shown.
    revive = _kill_before(monkeypatch, ConsoleSink, "begin", 1)
    with pytest.raises(Killed):
        session.run()
    revive()
    session.run()
    line = "s: k = k1, ts = 2026-01-01 10:01:00, n = 1\n"
    assert capsys.readouterr().out == line * 2


@pytest.mark.parametrize(
    "place",
    [FILES.format("JSON"), "WITH (connector = 'console')", "WITH (connector = 'iceberg')"],
    ids=["filesystem", "console", "iceberg"],
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
