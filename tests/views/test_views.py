"""Views in general: several inputs, views over views, sorted results, sessions; what is read, stored and final."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import Workbench
from tests.support.by_hand import by_hand
from tidegate import TidegateError
from tidegate.audit.view import audit_view

if TYPE_CHECKING:
    from tidegate.session.session import Session

pytestmark = pytest.mark.runner("inprocess")

MINUTE = 60_000_000
TABLES = """
CREATE TABLE a (k VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE TABLE b (k VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE TABLE names (k VARCHAR, title VARCHAR) APPEND ONLY;
"""
BOTH = "CREATE MATERIALIZED VIEW both_ AS SELECT * FROM a UNION ALL SELECT * FROM b EMIT ON WINDOW CLOSE;"
CHAIN = """
CREATE MATERIALIZED VIEW per_minute AS
SELECT window_start, count(*) AS n FROM TUMBLE(a, ts, INTERVAL '1 minute') GROUP BY window_start {emit};
CREATE MATERIALIZED VIEW per_hour AS
SELECT window_start, sum(n) AS n FROM TUMBLE(per_minute, window_start, INTERVAL '1 hour') GROUP BY window_start {emit};
"""
EMIT = "EMIT ON WINDOW CLOSE"
BUSY = """
CREATE MATERIALIZED VIEW busy AS
SELECT window_start, window_end, sum(n) AS n FROM SESSION(per_hour, window_start, INTERVAL '2 hours')
GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
"""
VISITS = """
CREATE MATERIALIZED VIEW visits AS
SELECT k, count(*) AS n FROM SESSION(a, ts, k, INTERVAL '5 minutes') GROUP BY k, window_start, window_end
EMIT ON WINDOW CLOSE;
"""
NAMED = """
CREATE MATERIALIZED VIEW named AS
SELECT a.k, a.ts, names.title FROM a LEFT JOIN names ON a.k = names.k EMIT ON WINDOW CLOSE;
"""
NEAR = """
CREATE MATERIALIZED VIEW near AS
SELECT a.k, a.ts, b.ts AS other FROM a LEFT JOIN b
ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL '5 minutes' AND b.ts + INTERVAL '5 minutes' EMIT ON WINDOW CLOSE;
"""
ALWAYS = "CREATE MATERIALIZED VIEW counts AS SELECT k, count(*) AS n FROM a GROUP BY k;"
NOON = datetime(2026, 1, 1, 12)


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def insert(session: Session, table: str, *rows: tuple[str, float]) -> None:
    values = ", ".join(f"('{k}', '{at(minute)}')" for k, minute in rows)
    session.execute(f"INSERT INTO {table} VALUES {values}")


def summary(session: Session, name: str) -> dict[str, str]:
    return session.tables.open(session.identifier(name)).current().summary


def opened(workbench: Workbench, *views: str) -> Session:
    session = workbench.session()
    session.execute(TABLES + "".join(views))
    return session


def rows(session: Session, name: str) -> list[tuple]:
    return [tuple(row) for row in session.table(name).collect()]


def test_D2_C4_two_inputs_are_released_sorted_up_to_the_smaller_watermark(workbench: Workbench) -> None:
    session = opened(workbench, BOTH)
    insert(session, "a", ("x", 1), ("y", 3), ("z", 9))
    session.run(["both_"])
    assert rows(session, "both_") == []  # b has no watermark yet, so nobody knows what it still holds
    insert(session, "b", ("p", 2), ("q", 4), ("q", 3))
    assert session.run(["both_"]).views[0].groups == 3
    assert [k for k, _ in rows(session, "both_")] == ["x", "p", "y"]
    insert(session, "b", ("r", 8))
    session.run()
    # Later ticks come behind earlier ones: the late q was judged at the gate and is nowhere.
    assert [k for k, _ in rows(session, "both_")] == ["x", "p", "y", "q"]
    assert session.run().views[0].groups == 0
    ticks = session.tables.rows(session.identifier("both_")).select("_tick").distinct().collect()
    assert sorted(t[0] for t in ticks) == [1, 2]
    assert audit_view(session, "both_").ok


def test_D3_a_chain_of_three_closes_in_one_run(workbench: Workbench) -> None:
    session = opened(workbench, CHAIN.format(emit=EMIT), BUSY)
    insert(session, "a", ("x", 1), ("x", 1.5), ("x", 59), ("x", 61), ("x", 300))
    report = session.run(["busy"])
    assert [(v.name, v.groups) for v in report.views] == [("per_minute", 3), ("per_hour", 2), ("busy", 1)]
    assert sorted(rows(session, "per_hour")) == [(NOON, 3), (at(60), 1)]
    # Two hours next to each other, and two hours of quiet after the later one.
    assert rows(session, "busy") == [(NOON, at(180), 4)]
    insert(session, "a", ("x", 600))
    assert [v.groups for v in session.run().views] == [1, 1, 1]
    assert {name: audit_view(session, name).ok for name in ("per_minute", "per_hour", "busy")} == {
        "per_minute": True,
        "per_hour": True,
        "busy": True,
    }


def test_R5_a_view_over_existing_views_is_filled_at_once(workbench: Workbench) -> None:
    session = opened(workbench, CHAIN.format(emit=EMIT))
    insert(session, "a", ("x", 1), ("x", 61), ("x", 300))
    session.run()
    session.execute(BUSY)
    assert rows(session, "busy") == [(NOON, at(180), 2)]
    with pytest.raises(TidegateError, match='"per_hour" is read by busy'):
        session.execute("DROP MATERIALIZED VIEW per_hour")


def test_C3_D3_a_session_is_kept_open_across_ticks_and_its_start_is_remembered(workbench: Workbench) -> None:
    session = opened(workbench, VISITS)
    insert(session, "a", ("x", 0), ("y", 1), ("x", 4))
    session.run()
    assert int(summary(session, "visits")["tidegate.earliest-open"]) // MINUTE % 60 == 0
    insert(session, "a", ("y", 7))
    session.run()
    assert rows(session, "visits") == [("y", 1)]  # x is open until 9
    insert(session, "a", ("x", 8), ("x", 12), ("y", 16.5))
    session.run()
    assert int(summary(session, "visits")["tidegate.earliest-open"]) // MINUTE % 60 == 0
    insert(session, "a", ("y", 17))
    session.run()
    assert sorted(rows(session, "visits")) == [("x", 4), ("y", 1), ("y", 1)]
    assert int(summary(session, "visits")["tidegate.earliest-open"]) // MINUTE % 60 == 16
    insert(session, "a", ("z", 60))
    session.run()
    assert "tidegate.earliest-open" not in summary(session, "visits")
    assert audit_view(session, "visits").ok


def test_C2_without_emit_open_rows_are_replaced_by_each_tick(workbench: Workbench) -> None:
    session = opened(workbench, CHAIN.format(emit=""))
    insert(session, "a", ("x", 1), ("x", 61))
    session.run()
    assert sorted(rows(session, "per_minute")) == [(at(1), 1), (at(61), 1)]
    assert sorted(rows(session, "per_hour")) == [(NOON, 1), (at(60), 1)]
    insert(session, "a", ("x", 61.5), ("x", 61.2))
    session.run()
    assert sorted(rows(session, "per_minute")) == [(at(1), 1), (at(61), 2)]
    assert sorted(rows(session, "per_hour")) == [(NOON, 1), (at(60), 2)]
    before = summary(session, "per_hour")
    session.run()
    assert summary(session, "per_hour") == before  # nothing new to read, nothing written
    audit = audit_view(session, "per_hour")
    assert (audit.ok, audit.batch.compared) == (True, 2)


def test_C2_without_a_clock_the_view_is_recomputed_as_a_whole(workbench: Workbench) -> None:
    session = opened(workbench, ALWAYS)
    insert(session, "a", ("x", 1), ("y", 2))
    session.run()
    insert(session, "a", ("x", 3))
    report = session.run()
    assert sorted(rows(session, "counts")) == [("x", 2), ("y", 1)]
    assert (report.views[0].groups, report.views[0].open) == (0, 2)
    audit = audit_view(session, "counts")
    assert (audit.ok, audit.batch.compared) == (True, 2)


def test_B1_a_lookup_is_read_whole_at_a_snapshot_that_the_commit_records(workbench: Workbench) -> None:
    session = opened(workbench, NAMED)
    insert(session, "a", ("x", 1), ("y", 2))
    session.run()
    session.execute("INSERT INTO names VALUES ('x', 'Xaver'), ('y', 'Yvonne')")
    assert session.run().views[0].groups == 0  # a new name changes no row that is final
    insert(session, "a", ("x", 3))
    session.run()
    assert sorted(rows(session, "named")) == [("x", at(1), None), ("y", at(2), "Yvonne")]
    read = json.loads(summary(session, "named")["tidegate.inputs"])["names"]["snapshot"]
    assert read == session.tables.open(session.identifier("names")).current().id
    session.execute("INSERT INTO names VALUES ('x', 'Xenia')")
    insert(session, "a", ("x", 4), ("q", 5))
    session.run()
    expected = [("x", at(1), None), ("x", at(3), "Xaver"), ("x", at(3), "Xenia"), ("y", at(2), "Yvonne")]
    assert sorted(rows(session, "named"), key=str) == sorted(
        [*expected, ("x", at(4), "Xaver"), ("x", at(4), "Xenia")], key=str
    )
    audit = audit_view(session, "named")  # each row with the names that it was joined with
    assert (audit.ok, audit.batch.compared) == (True, 6)
    by_hand(session, f"UPDATE {session.identifier('named')} SET title = 'Ypsilon' WHERE k = 'y'")
    assert audit_view(session, "named").value_mismatches == 1


def test_D2_a_left_join_releases_a_row_when_no_match_can_come_any_more(workbench: Workbench) -> None:
    session = opened(workbench, NEAR)
    insert(session, "a", ("x", 0), ("y", 1), ("z", 30))
    insert(session, "b", ("x", 3))
    session.run()
    assert rows(session, "near") == []
    insert(session, "b", ("x", 4), ("y", 6))
    session.run()
    assert rows(session, "near") == [("x", at(0), at(3)), ("x", at(0), at(4))]
    insert(session, "b", ("q", 20))
    session.run()
    assert rows(session, "near")[2:] == [("y", at(1), at(6))]
    insert(session, "b", ("q", 60))
    insert(session, "a", ("q", 40))
    session.run()
    assert rows(session, "near")[3:] == [("z", at(30), None)]
    assert audit_view(session, "near").ok
    by_hand(session, f"DELETE FROM {session.identifier('near')} WHERE k = 'y'")
    audit = audit_view(session, "near")
    assert [(e.kind, e.values["k"]) for e in audit.batch.examples] == [("missing", "y")]
    assert not audit.ok


def test_R2_a_run_that_breaks_off_between_two_views_is_continued(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, stored_table: type[Any]
) -> None:
    session = opened(workbench, CHAIN.format(emit=EMIT))
    insert(session, "a", ("x", 1), ("x", 2), ("x", 61))
    append = stored_table.append

    def breaks(table: Any, *args: object, **kwargs: object) -> int:
        if table.identifier.endswith(broken):
            raise RuntimeError("killed")
        return append(table, *args, **kwargs)

    monkeypatch.setattr(stored_table, "append", breaks)
    for broken in ("`per_minute`", "`per_hour`", "`per_hour`"):
        with pytest.raises(RuntimeError):
            session.run()
        if broken == "`per_hour`":
            insert(session, "a", ("x", 121))
    monkeypatch.undo()
    again = workbench.session()
    again.run()
    assert sorted(rows(again, "per_minute")) == [(at(1), 1), (at(2), 1), (at(61), 1)]
    assert sorted(rows(again, "per_hour")) == [(NOON, 2), (at(60), 1)]
    assert audit_view(again, "per_hour").ok


def test_W4_stream_equals_batch_however_the_rows_are_cut(workbench: Workbench) -> None:
    """Random rows, some late, in batches of random size: every view, live, is what its query makes of all rows."""
    rng = random.Random(4)
    session = opened(workbench, BOTH, CHAIN.format(emit=EMIT), BUSY, VISITS, NEAR)
    now = {"a": 0.0, "b": 0.0}
    for _ in range(7):
        for table in rng.sample(["a", "b"], rng.randint(1, 2)):
            batch = []
            for _ in range(rng.randint(1, 12)):
                now[table] += rng.choice([0, 0.5, 2, 9, 40])
                batch.append((rng.choice("xyz"), now[table] - rng.choice([0, 0, 0, 1, 30])))
            insert(session, table, *batch)
        session.run()
    views = ["both_", "per_minute", "per_hour", "busy", "visits", "near"]
    audits = {name: audit_view(session, name) for name in views}
    assert {name: (a.ok, a.batch.examples[:3]) for name, a in audits.items()} == dict.fromkeys(
        views, (True, [])
    )
    assert all(a.batch.compared > 0 for name, a in audits.items() if name != "busy")
    released = [ts for _, ts in rows(session, "both_")]
    assert released == sorted(released)
