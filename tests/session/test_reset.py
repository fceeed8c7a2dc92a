"""RESET WATERMARK on a real session (W9): what is closed too early closes again, in views, views over views and sinks;
a kill between its commits loses nothing. The property test is in test_property_reset.py."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Workbench
from tidegate import TidegateError
from tidegate.amend.run import amend
from tidegate.audit.source import audit_source
from tidegate.audit.view import audit_view
from tidegate.findings.look import look
from tidegate.maintenance import upkeep
from tidegate.plan.resets import steps
from tidegate.project.jobs.maintenance import Policy
from tidegate.session.session import Session
from tidegate.store.status import read_status
from tidegate.tables.lives import CONTINUES, lives, on_time_changes, state_identifier

pytestmark = pytest.mark.runner("inprocess")

TABLE = (
    "CREATE TABLE events (k VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1 minute') APPEND ONLY;"
)
OPENED = """
CREATE MATERIALIZED VIEW opened AS SELECT window_end, k, count(*) AS n FROM TUMBLE(events, ts, INTERVAL '1 hour')
GROUP BY window_end, k;"""
VIEWS = f"""
CREATE MATERIALIZED VIEW per_hour AS SELECT window_end, k, count(*) AS n FROM TUMBLE(events, ts, INTERVAL '1 hour')
GROUP BY window_end, k EMIT ON WINDOW CLOSE;{OPENED}
CREATE MATERIALIZED VIEW twice AS SELECT window_start, sum(n) AS n
FROM TUMBLE(per_hour, window_end, INTERVAL '2 hours') GROUP BY window_start EMIT ON WINDOW CLOSE;
"""
GATED = """
CREATE MATERIALIZED VIEW gated AS SELECT ts, k FROM WATERMARK(events, ts, INTERVAL '10 minutes') EMIT ON WINDOW CLOSE;
"""
#: Its gate's time has another name, and is an hour ahead.
MOVED = """
CREATE MATERIALIZED VIEW moved AS SELECT at, k
FROM WATERMARK((SELECT ts + INTERVAL '1 hour' AS at, k FROM events), at, INTERVAL '10 minutes') EMIT ON WINDOW CLOSE;
"""
SINKS = """
CREATE SINK plain FROM per_hour WITH (connector = 'iceberg', table = 'plain');
CREATE SINK upserted FROM per_hour WITH (connector = 'iceberg', table = 'upserted', amendments = 'upsert');
"""
RESET = "ALTER TABLE events RESET WATERMARK TO '2026-01-01 12:00:00'"


def rows(*at: str) -> str:
    """INSERT of rows `key time` of one day."""
    values = (f"('{row[0]}', '2026-01-01 {row[2:]}')" for row in at)
    return "INSERT INTO events VALUES " + ", ".join(values) + ";"


def shown(session: Session, sql: str) -> list[tuple]:
    return sorted(
        tuple(f"{v:%d %H:%M}" if hasattr(v, "hour") else v for v in row)
        for row in session.execute(sql).rows()
    )


def poisoned(session: Session, more: str) -> None:
    """Windows that end at 11 and 12 are right, the one at 13 was closed with one of its rows."""
    session.execute(TABLE + VIEWS + more)
    session.execute(rows("a 10:10", "a 11:30", "b 12:10", "a 12:10"))
    session.execute("INSERT INTO events VALUES ('x', '2999-01-01');" + rows("a 12:40") + "FLUSH")


def delivered(session: Session, sink: str) -> list[tuple]:
    table = session.tables.rows(f"tidegate.main.{sink}").select("window_end", "k", "n")
    return sorted((f"{row[0]:%d %H:%M}", row[1], row[2]) for row in table.collect())


def findings(session: Session) -> dict[str, str]:
    """What `why` says: severity by kind and asset."""
    return {f"{f.kind} {f.asset}": f.severity for f in look(session.project).findings}


def test_W9_a_row_of_the_year_2999_and_everything_is_as_if_it_had_never_led(
    workbench: Workbench, runner: str
) -> None:
    """Without a JVM with gates of their own, on Spark with sinks into Iceberg."""
    session = workbench.session()
    gates = ["gated", "moved"] if runner == "inprocess" else []
    poisoned(session, GATED + MOVED if gates else SINKS)
    closed = [("01 11:00", "a", 1), ("01 12:00", "a", 1), ("01 13:00", "a", 1), ("01 13:00", "b", 1)]
    assert shown(session, "SELECT * FROM per_hour") == closed
    told = session.execute(RESET).message
    assert told == (
        "reset the watermark of events to 2026-01-01 12:00:00 (it was 2998-12-31 23:59:00); rows from there on are on "
        "time again, late rows stay late; at the next run or FLUSH, these go back as well, and close again when "
        f"rows arrive: {', '.join(['per_hour', 'opened', 'twice', *gates])}"
    )
    views = {v.name: v for v in read_status(session.project).views}
    assert (views["per_hour"].current, views["per_hour"].goes_back_to_text) == (False, "2026-01-01 12:00:00")
    assert findings(session)["reset_pending per_hour"] == "warning"
    # Before any view has stepped back: no row on time is called late, no window that is open is written.
    session.execute(rows("c 12:20", "a 12:50"))
    # The row that the poison made late is in a window that is open again.
    assert [(r.windows, r.late) for r in amend(session, ["opened"], dry_run=True)] == [(0, 0)]
    session.execute("FLUSH")
    # What was emitted stays until it closes again; what shows open windows shows it as open.
    assert shown(session, "SELECT * FROM per_hour") == closed
    sql = "SELECT window_end, k, n FROM opened WHERE window_end BETWEEN '2026-01-01 12:30' AND '2026-01-02'"
    assert shown(session, sql) == [("01 13:00", "a", 2), ("01 13:00", "b", 1), ("01 13:00", "c", 1)]
    assert findings(session)["closes_again per_hour"] == "info"
    assert audit_view(session, "per_hour").ok
    session.execute(rows("a 15:30") + "FLUSH")
    assert shown(session, "SELECT * FROM per_hour") == [
        ("01 11:00", "a", 1),
        ("01 12:00", "a", 1),
        ("01 13:00", "a", 2),
        ("01 13:00", "b", 1),
        ("01 13:00", "c", 1),
    ]
    assert shown(session, "SELECT * FROM twice") == [("01 10:00", 1), ("01 12:00", 5)]
    if gates:
        gated = ["10:10 a", "11:30 a", "12:10 a", "12:10 b", "12:20 c", "12:50 a"]
        found = shown(session, "SELECT ts, k FROM gated WHERE ts < '2026-01-02'")
        assert [f"{at[3:]} {k}" for at, k in found] == gated
        found = shown(session, "SELECT at - INTERVAL '1 hour' AS ts, k FROM moved WHERE at < '2026-01-02'")
        assert [f"{at[3:]} {k}" for at, k in found] == gated
    revisions = shown(
        session, "SELECT window_end, k, n, revision, is_current FROM \"per_hour$revisions\" WHERE k <> 'b'"
    )
    assert ("01 13:00", "a", 1, 1, False) in revisions
    assert ("01 13:00", "a", 2, 2, True) in revisions
    assert findings(session).keys().isdisjoint({"closes_again per_hour", "frontier_ahead per_hour"})
    for name in ("per_hour", "opened", "twice", *gates):
        assert audit_view(session, name).ok, audit_view(session, name)
    # An append-only sink has each window once, as it was first emitted; the other has what holds now.
    if not gates:
        assert delivered(session, "upserted") == shown(session, "SELECT * FROM per_hour")
        assert delivered(session, "plain") == closed
    # What was late by the poison is still there for an amendment.
    report = amend(session, ["per_hour"])[0]
    assert (report.windows, report.late) == (1, 1)
    assert ("01 13:00", "a", 3) in shown(session, "SELECT * FROM per_hour")


def test_W9_R2_killed_between_any_two_commits_of_a_reset_it_goes_on(
    workbench: Workbench, stored_table: type[Any]
) -> None:
    session = workbench.session()
    session.execute(TABLE + VIEWS.replace(OPENED, "") + GATED)
    session.execute(rows("a 10:10", "a 11:30", "b 12:10"))
    session.execute("INSERT INTO events VALUES ('x', '2999-01-01');FLUSH")
    real, broke = stored_table.append, 0

    def until(commits: int) -> object:
        left = iter(range(commits))

        def append(self: Any, *arguments: object, **more: object) -> int:
            if next(left, None) is None:
                raise RuntimeError("killed")
            return real(self, *arguments, **more)  # type: ignore[arg-type]

        return append

    steps = [RESET, rows("c 12:20", "a 14:10"), "FLUSH"]
    while steps:
        # Each process commits once, is killed at its second commit, and the next one begins where it was.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stored_table, "append", until(1))
            again = workbench.session()
            try:
                again.execute(steps[0])
                steps.pop(0)
            except RuntimeError:
                broke += 1
        assert broke < 20
    assert broke >= 4
    again = workbench.session()
    assert shown(again, "SELECT * FROM per_hour WHERE window_end > '2026-01-01 12:00'") == [
        ("01 13:00", "b", 1),
        ("01 13:00", "c", 1),
    ]
    assert shown(again, "SELECT * FROM twice") == [("01 10:00", 1), ("01 12:00", 3)]
    for name in ("per_hour", "twice", "gated"):
        assert audit_view(again, name).ok, audit_view(again, name)


@pytest.mark.parametrize("inline", [pytest.param(False, marks=pytest.mark.long_run), True])
@pytest.mark.runner("spark")
def test_W9_W14_times_that_are_integers_go_back_and_a_gate_by_itself_where_its_source_has_no_watermark(
    workbench: Workbench, inline: bool
) -> None:
    session = workbench.session()
    own, rows = ("", "WATERMARK(t, at, at - 2)") if inline else (", WATERMARK FOR at AS at - 2", "t")
    session.execute(
        f"CREATE TABLE t (id INT, at BIGINT{own}) APPEND ONLY;"
        f"CREATE MATERIALIZED VIEW tens AS SELECT window_end, count(*) AS n FROM TUMBLE({rows}, at, 10) "
        "GROUP BY window_end EMIT ON WINDOW CLOSE;"
        "CREATE SINK upserted FROM tens WITH (connector = 'iceberg', table = 'upserted', amendments = 'upsert')"
    )
    session.execute("INSERT INTO t VALUES (1, 5), (2, 15), (3, 9000), (4, 17); FLUSH")
    everything = "SELECT window_end, n FROM tens WHERE window_end < 100"
    assert shown(session, everything) == [(10, 1), (20, 1)]
    told = session.execute("ALTER TABLE t RESET WATERMARK TO 13").message
    assert told is not None
    name = session.catalog.get("tens").gates[0].name if inline else "t"
    assert told.startswith(f"reset the watermark of {name} to 13 (it was 8998)")
    assert told.endswith("close again when rows arrive: tens")
    session.execute("INSERT INTO t VALUES (5, 16), (6, 12), (7, 40); FLUSH")
    assert shown(session, everything) == [(10, 1), (20, 2)]
    assert shown(session, 'SELECT window_end, n, revision FROM "tens$revisions" WHERE window_end = 20') == [
        (20, 1, 1),
        (20, 2, 2),
    ]
    delivered = session.tables.rows("tidegate.main.upserted").select("window_end", "n").collect()
    assert sorted(map(tuple, delivered)) == shown(session, "SELECT window_end, n FROM tens")
    assert audit_view(session, "tens").ok


def test_W9_S1_what_SOURCE_WATERMARK_remembers_is_as_if_the_poison_had_never_led(
    workbench: Workbench,
) -> None:
    session = workbench.session()
    create = "CREATE TABLE {} (id INT, ts TIMESTAMP, WATERMARK FOR ts AS SOURCE_WATERMARK()) APPEND ONLY;"
    for name, poison in (("good", ""), ("bad", ", (9, '2999-01-01')")):
        session.execute(create.format(name))
        session.execute(
            f"INSERT INTO {name} VALUES (1, '2026-01-01 10:00:10'), (2, '2026-01-01 10:00:04'){poison}"
        )
        session.execute(f"INSERT INTO {name} VALUES (3, '2026-01-01 10:00:20'), (4, '2026-01-01 10:00:13')")
    session.execute("ALTER TABLE bad RESET WATERMARK TO '2026-01-01 10:00:30'")
    states = {}
    for name in ("good", "bad"):
        log = session.log(session.relation(name))
        ((_, state),) = log.progress.states.items()
        assert state.memory is not None
        states[name] = state.memory.numbers.tolist()
    # Tag, rows, estimate, whether there is a newest, the newest, and how far each row was behind.
    assert states["good"][4:] == [states["good"][4], 0, 6_000_000, 0, 7_000_000]
    assert states["bad"][4:] == [states["good"][4], 0, 6_000_000, 0, 0, 7_000_000]


def test_W9_R5_what_needs_retired_rows_stays_and_somebody_is_asked(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(TABLE + VIEWS.split(";")[0] + ";")
    session.execute(
        "CREATE MATERIALIZED VIEW steps AS SELECT ts, k, lag(ts) OVER (PARTITION BY k ORDER BY ts) AS l FROM events "
        "EMIT ON WINDOW CLOSE"
    )
    for day in (1, 2, 3, 4):
        session.execute(
            f"INSERT INTO events VALUES ('a', '2026-01-0{day} 10:00'), ('a', '2026-01-0{day} 10:30'); FLUSH"
        )
    upkeep.maintain(session, "events", Policy(retention=86_400, keep_snapshots=0, settle=0))
    session.execute("INSERT INTO events VALUES ('x', '2999-01-01'); FLUSH")
    statement = "ALTER TABLE events RESET WATERMARK TO '2026-01-01 09:00'"
    with pytest.raises(TidegateError) as caught:
        session.execute(statement)
    assert caught.value.code == "TG521"
    assert "per_hour: results that ended after 2026-01-01 09:00:00, up to 2026-01-0" in caught.value.message
    assert "steps: all results up to 2998-12-31 23:59:00: nothing is compared" in caught.value.message
    asked: list[str] = []
    session.confirm = lambda text: bool(asked.append(text)) or True
    session.execute(statement)
    assert asked == [caught.value.message]
    (event,) = read_status(session.project, ["per_hour"]).views
    assert event.goes_back_to is not None
    session.run(["per_hour"])
    (event,) = read_status(session.project, ["per_hour"]).views
    assert event.frontier_text.startswith("2026-01-0")
    with pytest.raises(TidegateError) as refused:
        session.run(["steps"])
    assert refused.value.code == "TG543"
    assert session.execute("SELECT count(*) FROM steps").rows() == [(8,)]


def test_W9_T2_rows_that_only_the_poison_has_expired_are_back_and_what_TTL_has_cleaned_is_listed(
    workbench: Workbench,
) -> None:
    session = workbench.session()
    session.execute(
        "CREATE TABLE held (k INT PRIMARY KEY, v VARCHAR, ts TIMESTAMP, "
        "WATERMARK FOR ts AS ts - INTERVAL '1 hour' WITH TTL);"
        "CREATE MATERIALIZED VIEW hourly AS SELECT window_end, count(*) AS n FROM TUMBLE(held, ts, INTERVAL '1 hour') "
        "GROUP BY window_end EMIT ON WINDOW CLOSE"
    )
    session.execute(
        "INSERT INTO held VALUES (1, 'a', '2026-01-01 10:05'), (2, 'a', '2026-01-01 10:10'), "
        "(3, 'a', '2026-01-01 11:00');"
        "INSERT INTO held VALUES (9, 'x', '2999-01-01'), (1, 'b', '2999-01-01 00:30')"
    )
    everything = "SELECT k, v FROM held"
    assert session.execute(f"{everything} ORDER BY k").rows() == [(1, "b"), (9, "x")]
    # Nothing is cleaned yet, so nobody is asked. Key 1 goes on: it was not expired by 10:03, only by the poison.
    session.execute("ALTER TABLE held RESET WATERMARK TO '2026-01-01 10:03'")
    assert session.execute(f"{everything} ORDER BY k").rows() == [(1, "b"), (2, "a"), (3, "a"), (9, "x")]
    relation, log = session.relation("held"), session.identifier("held")
    known = steps(session.log(relation).table.current().summary)
    whole = lives(relation, on_time_changes(session.tables, log, None), known).drop(CONTINUES)
    state = session.tables.rows(state_identifier(log))
    assert sorted(map(str, state.collect())) == sorted(map(str, whole.collect()))
    session.execute(
        "INSERT INTO held VALUES (2, 'c', '2026-01-01 10:20'), (4, 'c', '2026-01-01 12:30'); FLUSH"
    )
    assert session.execute(f"{everything} WHERE k < 5 ORDER BY k").rows() == [(1, "b"), (4, "c")]
    # At 11:30. Key 1 had moved out of the window that ends at 11:00.
    assert shown(session, "SELECT * FROM hourly") == [("01 11:00", 1)]

    session.execute("INSERT INTO held VALUES (8, 'x', '2999-01-01 01:00'); FLUSH")
    statement = "ALTER TABLE held RESET WATERMARK TO '2026-01-01 10:30'"
    with pytest.raises(TidegateError) as caught:
        session.execute(statement)
    assert caught.value.code == "TG521"
    assert caught.value.message.splitlines()[:3] == [
        "these rows and results stay as they are when the watermark of held is reset:",
        "  held: 2 rows that TTL has cleaned, from 2026-01-01 11:00:00 to 2026-01-01 12:30:00",
        "  hourly: results that ended after 2026-01-01 10:30:00, up to 2026-01-01 13:30:00: older rows are not "
        "compared: expired rows of held have been cleaned up",
    ]
    session.confirm = lambda text: True
    session.execute(statement)
    session.execute(
        "INSERT INTO held VALUES (5, 'd', '2026-01-01 14:10'), (6, 'd', '2026-01-01 17:00'); FLUSH"
    )
    assert session.execute(f"{everything} WHERE k < 8 ORDER BY k").rows() == [(1, "b"), (6, "d")]
    assert ("01 15:00", 1) in shown(session, "SELECT * FROM hourly")
    assert audit_view(session, "hourly").ok
    assert audit_source(session, "held").ok
    # And it is cleaned up from there on.
    assert session.cleanup(["held"])[0].upto is not None
