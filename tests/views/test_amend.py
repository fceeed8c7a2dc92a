"""B1-B3 on Spark, worked out by hand: sessions, tombstones, joins, what follows, what is refused, and kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import IN_PROCESS, ROOT, SPARK, Workbench
from tests.support.by_hand import by_hand
from tidegate import TidegateError
from tidegate.amend.run import amend
from tidegate.audit.view import audit_view
from tidegate.session.session import Session
from tidegate.views.amend.whatif import what_if
from tidegate.views.revisions.amend_report import Stretch
from tidegate.views.revisions.amend_write import AmendmentWriter
from tidegate.views.view_table import ViewTable

pytestmark = pytest.mark.runner("inprocess")

#: What it delivers is written by Iceberg's Java.
SINK = "CREATE SINK out FROM m WITH (connector = 'iceberg');\n"
SETUP = """
CREATE TABLE t (k VARCHAR, n INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE TABLE names (k VARCHAR PRIMARY KEY, name VARCHAR);
CREATE MATERIALIZED VIEW m AS SELECT window_end, k, sum(n) AS total FROM TUMBLE(t, ts, INTERVAL '1 minute')
WHERE n > 0 GROUP BY window_end, k EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW big AS SELECT m.window_end, m.k, m.total FROM m WHERE m.total < 10 EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW visits AS SELECT k, window_start, window_end, count(*) AS c
FROM SESSION(t, ts, k, INTERVAL '10 seconds') GROUP BY k, window_start, window_end EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW named AS SELECT t.ts, t.n, names.name FROM t JOIN names ON t.k = names.k EMIT ON WINDOW CLOSE;
INSERT INTO names VALUES ('a', 'Ann'), ('b', 'Bob');
INSERT INTO t VALUES ('a', 1, '2026-01-01 00:00:01'), ('a', 2, '2026-01-01 00:00:16'), ('b', 3, '2026-01-01 00:01:01'),
  ('a', 4, '2026-01-01 00:04:55'), ('b', 8, '2026-01-01 00:05:00');
FLUSH;
"""
#: One joins the two sessions of a, one is filtered by m, the last joins a closed session to one that is open.
LATE = """
INSERT INTO t VALUES ('a', 16, '2026-01-01 00:00:09'), ('a', 0, '2026-01-01 00:01:30'), ('a', 5, '2026-01-01 00:04:50');
"""


MINUTES = """
CREATE TABLE t (n INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE MATERIALIZED VIEW m AS SELECT window_end, sum(n) AS total FROM TUMBLE(t, ts, INTERVAL '1 minute')
GROUP BY window_end EMIT ON WINDOW CLOSE;
"""


def rows(session: Session, name: str, *columns: str) -> list[tuple]:
    return sorted((tuple(map(str, row)) for row in session.table(name).select(*columns).collect()), key=str)


def set_up(session: Session, runner: str) -> None:
    session.execute(SETUP.replace("INSERT", f"{SINK}INSERT", 1) if runner == SPARK else SETUP)


def goes_on_after_amendments(session: Session, runner: str) -> None:
    # A sink that ignores amendments delivers nothing twice, and goes on with what closes next.
    delivered = partial(session.tables.rows, session.identifier("out"))
    assert runner != SPARK or delivered().count() == 3
    session.execute("INSERT INTO t VALUES ('a', 1, '2026-01-01 00:07:00'); FLUSH;")
    assert runner != SPARK or delivered().count() == 4
    # The session of 4:55 goes, and one from 4:50 on comes.
    assert [r.windows for r in amend(session, ["visits"])] == [2]
    assert ("a", "2026-01-01 00:04:50", "2") in rows(session, "visits", "k", "window_start", "c")
    assert audit_view(session, "visits").ok


def test_B2_revisions_sessions_tombstones_lookups_and_what_follows(workbench: Workbench, runner: str) -> None:
    session = workbench.session()
    set_up(session, runner)
    before = {name: rows(session, name, "*") for name in ("m", "big", "visits", "named")}
    session.execute("INSERT INTO names VALUES ('a', 'Anna')")
    session.execute(LATE)
    dry = {r.view: r for r in amend(session, ["m"], dry_run=True)}
    assert {name: rows(session, name, "*") for name in before} == before
    assert (dry["m"].windows, dry["m"].late, dry["m"].groups) == (2, 2, 2)
    assert dry["m"].examples[0].window_end == "2026-01-01 00:01:00"
    assert "would be amended, too" in dry["big"].notes[0]

    minute, midnight = 60_000_000, 1_767_225_600_000_000
    done = {r.view: r for r in amend(session, every=minute)}
    assert done["m"].stretches == [
        Stretch(midnight, 1, 1, 1),
        Stretch(midnight + 4 * minute, 1, 1, 1),
    ]
    end = "2026-01-01 00:0{}:00"
    assert (done["m"].windows, done["m"].late) == (2, 2)
    assert rows(session, "m", "window_end", "k", "total") == [
        (end.format(1), "a", "19"),
        (end.format(2), "b", "3"),
        (end.format(5), "a", "9"),
    ]
    history = rows(session, "m$revisions", "window_end", "total", "revision", "late_rows", "is_current")
    assert history == [
        (end.format(1), "19", "2", "1", "True"),
        (end.format(1), "3", "1", "None", "False"),
        (end.format(2), "3", "1", "None", "True"),
        (end.format(5), "4", "1", "None", "False"),
        (end.format(5), "9", "2", "1", "True"),
    ]
    # The view downstream loses its group of the first minute: 19 is not below 10.
    assert rows(session, "big", "total") == [("3",), ("9",)]
    # It has no groups, so each row that is not there any more leaves a tombstone.
    gone = session.table("big$revisions").where("is_tombstone").collect()
    assert sorted((str(r["window_end"]), r["total"], r["revision"]) for r in gone) == [
        (end.format(1), 3, 2),
        (end.format(5), 4, 2),
    ]
    # C3: two sessions of a have become one. The row at 4:50 would join 4:55, whose session is open: it waits.
    assert rows(session, "visits", "k", "window_start", "c") == [
        ("a", "2026-01-01 00:00:01", "3"),
        ("a", "2026-01-01 00:01:30", "1"),
        ("b", "2026-01-01 00:01:01", "1"),
    ]
    # B1: rows that were released keep the name that they were joined with; so do late ones of that time.
    names = [(n, "Bob" if n == "3" else "Ann") for n in ("0", "1", "16", "2", "3", "4", "5")]
    assert rows(session, "named", "n", "name") == names
    for name in before:
        assert audit_view(session, name).ok, name
    assert {r.view: r.windows for r in amend(session)} == dict.fromkeys(before, 0)
    goes_on_after_amendments(session, runner)


def test_B1_a_backfill_repairs_what_somebody_has_tampered_with(workbench: Workbench, runner: str) -> None:
    session = workbench.session()
    set_up(session, runner)
    session.execute(LATE)
    amend(session, ["m"])
    before = rows(session, "m", "window_end", "k", "total")
    m = session.identifier("m")
    by_hand(session, f"UPDATE {m} SET total = total + 1 WHERE total = 19 AND NOT _open")
    by_hand(session, f"DELETE FROM {m} WHERE total = 3 AND k = 'b'")
    assert not audit_view(session, "m").ok
    done = amend(session, ["m"], from_late=False, after="2026-01-01 00:00:00", upto="2026-01-01 00:02:00")
    assert [(r.view, r.windows) for r in done] == [("m", 2), ("big", 0)]
    # The late rows that it had absorbed are still in it.
    assert rows(session, "m", "window_end", "k", "total") == before
    assert audit_view(session, "m").ok


def test_R1_a_tick_and_an_amendment_at_the_same_time(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever comes second goes on upon what the first has committed; nothing is lost, nothing twice."""
    session = workbench.session()
    session.execute(MINUTES)
    session.execute("""
INSERT INTO t VALUES (1, '2026-01-01 00:00:01'), (2, '2026-01-01 00:02:00'), (4, '2026-01-01 00:00:02');
FLUSH;
INSERT INTO t VALUES (8, '2026-01-01 00:03:00');
""")
    view = session.catalog.get("m")
    table, compute, done = session.view_table(view), ViewTable._computed, []

    def overtaken(self: ViewTable, *given: Any) -> Any:
        if not done:
            done.extend(amend(session, ["m"]))
        return compute(self, *given)

    monkeypatch.setattr(ViewTable, "_computed", overtaken)
    assert table.tick().groups == 2
    assert [r.windows for r in done] == [1]
    assert rows(session, "m", "total") == [("2",), ("5",)]

    session.execute("INSERT INTO t VALUES (16, '2026-01-01 00:04:00'), (32, '2026-01-01 00:00:03')")
    files = AmendmentWriter.write

    def late(self: AmendmentWriter, *given: Any) -> Any:
        found = files(self, *given)
        assert table.tick().groups == 3
        return found

    monkeypatch.setattr(AmendmentWriter, "write", late)
    assert [(r.windows, r.late) for r in amend(session, ["m"])] == [(1, 1)]
    assert rows(session, "m", "total") == [("2",), ("37",), ("8",)]
    assert rows(session, "m$revisions", "total", "revision") == [
        ("1", "1"),
        ("2", "1"),
        ("37", "3"),
        ("5", "2"),
        ("8", "1"),
    ]
    assert audit_view(session, "m").ok
    assert table.tick() is None
    assert [r.windows for r in amend(session, ["m"])] == [0]


def test_R1_an_amendment_does_not_commit_over_another_one(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even where they share no file: each has a number of its own, by which sinks follow them."""
    session = workbench.session()
    session.execute(MINUTES)
    session.execute("""
INSERT INTO t VALUES (1, '2026-01-01 00:00:01'), (2, '2026-01-02 00:00:01'), (0, '2026-01-03 00:00:01');
FLUSH;
INSERT INTO t VALUES (4, '2026-01-01 00:00:02'), (8, '2026-01-02 00:00:02');
""")
    days = [{"after": f"2026-01-0{day} 00:00:00", "upto": f"2026-01-0{day} 12:00:00"} for day in (1, 2)]
    files, others = AmendmentWriter.write, iter(days[1:])

    def overtaken(self: AmendmentWriter, *given: Any) -> Any:
        found = files(self, *given)
        for day in others:
            assert [r.windows for r in amend(session, ["m"], **day)] == [1]
        return found

    monkeypatch.setattr(AmendmentWriter, "write", overtaken)
    with pytest.raises(TidegateError, match='another process has amended "m"') as caught:
        amend(session, ["m"], **days[0])
    assert caught.value.code == "TG502"
    assert rows(session, "m", "total") == [("1",), ("10",)]
    assert [r.windows for r in amend(session, ["m"], **days[0])] == [1]
    assert rows(session, "m", "total") == [("10",), ("5",)]
    assert audit_view(session, "m").ok


def test_TG564_a_what_if_under_another_delay(workbench: Workbench, runner: str) -> None:
    session = workbench.session()
    set_up(session, runner)
    session.execute(LATE)
    m, visits = (session.catalog.get(name) for name in ("m", "visits"))
    before = rows(session, "m$revisions", "*")
    # By ts, three rows came too late: 4:51, 3:30 and 0:10 behind the newest. The filter of m is none of the gate's.
    found = what_if(session, m, "ts - INTERVAL '4 minutes'")
    assert (found.rows, found.late, found.late_then, found.windows, found.complete) == (8, 3, 1, 3, 2)
    assert [(w.window_end, w.late, w.late_then) for w in found.examples] == [
        ("2026-01-01 00:01:00", 1, 1),
        ("2026-01-01 00:02:00", 1, 0),
        ("2026-01-01 00:05:00", 1, 0),
    ]
    assert what_if(session, m, "ts").late_then == 3
    assert rows(session, "m$revisions", "*") == before
    for view, strategy, code in (
        (visits, "ts", "TG564"),
        (m, "SOURCE_WATERMARK()", "TG564"),
        (m, "n", "TG303"),
    ):
        with pytest.raises(TidegateError) as caught:
            what_if(session, view, strategy)
        assert caught.value.code == code


def test_TG509_TG561_TG562_TG563_what_is_refused(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute("""
CREATE TABLE t (k VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE MATERIALIZED VIEW m AS SELECT window_end, count(*) AS n FROM TUMBLE(t, ts, INTERVAL '1 minute')
GROUP BY window_end EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW running AS SELECT window_end, sum(n) OVER (ORDER BY window_end) AS s FROM m
EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW other AS SELECT window_end, count(*) AS n FROM TUMBLE(t, ts, INTERVAL '2 minutes')
GROUP BY window_end EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW visits AS SELECT k, window_end, count(*) AS n FROM SESSION(t, ts, k, INTERVAL '1 minute')
GROUP BY k, window_end EMIT ON WINDOW CLOSE;
INSERT INTO t VALUES ('a', '2026-01-01 00:00:01'), ('b', '2026-01-01 00:05:00'), ('c', '2026-01-01 00:00:02');
FLUSH;
""")

    def code(*names: str, **asked: str | bool) -> str:
        with pytest.raises(TidegateError) as caught:
            amend(session, names, **asked)
        return caught.value.code

    assert code("t") == "TG509"
    assert code("running") == "TG561"
    # It could be amended; but what reads it could not follow, and would be wrong.
    assert code("m") == "TG561"
    assert code("other", from_late=False, after="soon", upto="later") == "TG563"
    # A range could cut between sessions that a late row joins.
    assert code("visits", after="2026-01-01 00:00:00", upto="2026-01-01 00:04:00") == "TG561"
    done = {r.view: r for r in amend(session)}
    assert {name: r.windows for name, r in done.items()} == {
        "m": 0,
        "running": 0,
        "other": 1,
        "visits": 1,
    }
    assert "can't be amended: " in done["m"].notes[0]
    # R5: rows before 00:03 are beyond their retention.
    stored = session.identifier("t")
    by_hand(
        session,
        f"ALTER TABLE {stored} SET TBLPROPERTIES ('tidegate.retained-from' = '{1767225600_000_000 + 180_000_000}')",
    )
    below = {"from_late": False, "after": "2026-01-01 00:00:00", "upto": "2026-01-01 00:04:00"}
    assert code("other", **below) == "TG562"


KILLED = """
append = Table.append
def stopping(self, *args, **kwargs):
    append(self, *args, **kwargs)
    print("here", flush=True)
    sys.stdin.read()
Table.append = stopping
amend(session, ["m"])
"""
#: What begins a process that amends and is killed.
OPENED = {
    SPARK: """
import sys
import tidegate
from tidegate.amend.run import amend
from tidegate.iceberg.commit import IcebergTable as Table
session = tidegate.connect(project=sys.argv[1])
""",
    IN_PROCESS: """
import sys
from pathlib import Path
from tests.inprocess.session import open_session, without_a_jvm
from tests.inprocess.stored.tables import InProcessTable as Table
from tidegate.amend.run import amend
without_a_jvm().__enter__()
session = open_session(Path(sys.argv[1]))
""",
}


@pytest.mark.slow
def test_R2_broken_off_before_and_killed_after_the_commit_of_an_amendment(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, stored_table: type[Any], runner: str
) -> None:
    """Before: nothing of it is there. After: what is downstream has not followed yet, and does with the next."""
    text = SETUP.replace("INSERT", f"{SINK}INSERT", 1) if runner == SPARK else SETUP
    sql = [line for line in text.split(";\n") if line.strip()]
    made = ";\n".join(
        s for s in sql if s.strip().startswith("CREATE") and "visits" not in s and "names" not in s
    )
    workbench.assets(all=made + ";")
    session = workbench.session()
    for statement in [*(s for s in sql if "INSERT INTO t" in s), "FLUSH", LATE.strip().rstrip(";")]:
        session.execute(statement)

    def broken(self: Any, *given: Any, **named: Any) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(stored_table, "append", broken)
        with pytest.raises(KeyboardInterrupt):
            amend(session, ["m"])
    assert len(rows(session, "m$revisions", "total")) == 3
    killed(workbench.root, runner)
    session = workbench.session()
    assert len(rows(session, "m$revisions", "total")) == 5
    assert rows(session, "big", "total") == [("3",), ("3",), ("4",)]
    assert [(r.view, r.windows) for r in amend(session)] == [("m", 0), ("big", 2)]
    assert rows(session, "m", "total") == [("19",), ("3",), ("9",)]
    assert rows(session, "big", "total") == [("3",), ("9",)]
    assert [audit_view(session, name).ok for name in ("m", "big")] == [True, True]


def killed(root: Path, runner: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", OPENED[runner] + KILLED, str(root)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    lines = iter(process.stdout.readline, "")
    assert any(line == "here\n" for line in lines)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
