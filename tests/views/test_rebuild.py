"""R4: a changed query is computed beside the old results and swapped at the end; what reads it follows."""

from __future__ import annotations

import pytest

from tests.conftest import Workbench
from tidegate import TidegateError
from tidegate.audit.view import audit_view
from tidegate.maintenance.upkeep import maintain
from tidegate.project.jobs.maintenance import Policy
from tidegate.session.session import Session
from tidegate.views.amend.rebuild import rebuild

ROWS = """
CREATE TABLE t (k VARCHAR, n INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
"""
MINUTES = """
CREATE MATERIALIZED VIEW per_minute AS SELECT window_end, k, count(*) AS c FROM TUMBLE(t, ts, INTERVAL '1 minute')
GROUP BY window_end, k EMIT ON WINDOW CLOSE;
"""
SUMS = """
CREATE MATERIALIZED VIEW per_minute AS SELECT window_end, sum(n) AS total, count(*) AS c
FROM TUMBLE(t, ts, INTERVAL '1 minute') GROUP BY window_end EMIT ON WINDOW CLOSE;
"""
READERS = """
CREATE MATERIALIZED VIEW busy AS SELECT m.window_end, m.c FROM per_minute AS m WHERE m.c > 1 EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW running AS SELECT k, n, ts, sum(n) OVER (PARTITION BY k ORDER BY ts) AS so_far FROM t
EMIT ON WINDOW CLOSE;
CREATE SINK out FROM per_minute WITH (connector = 'iceberg');
"""
INSERT = """
INSERT INTO t VALUES ('a', 1, '2026-01-01 00:00:01'), ('b', 2, '2026-01-01 00:00:16'), ('a', 3, '2026-01-01 00:01:01'),
  ('a', 4, '2026-01-01 00:05:00');
"""
OLD = [("00:01:00", "a", "1"), ("00:01:00", "b", "1"), ("00:02:00", "a", "1")]
NEW = [("00:01:00", "3", "2"), ("00:02:00", "3", "1")]


def rows(session: Session, name: str) -> list[tuple[str, ...]]:
    found = session.table(name).collect()
    return sorted(tuple(str(v).removeprefix("2026-01-01 ") for v in row) for row in found)


@pytest.mark.long_run
def test_R4_a_changed_query_is_backfilled_and_swapped_at_the_end(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    workbench.assets(a=ROWS, b=MINUTES, c=READERS)
    session = workbench.session()
    session.execute(INSERT)
    session.run()
    assert (rows(session, "per_minute"), rows(session, "busy")) == (OLD, [])
    before = session.stored("per_minute")

    workbench.assets(b=SUMS, c=READERS.replace("sum(n)", "max(n)"))
    session = workbench.session()
    with pytest.raises(TidegateError, match=r"(?s)TG506.*tidegate apply per_minute"):
        session.run(["per_minute"])
    assert {(r.view, r.tag) for r in rebuild(session, dry_run=True)} == {
        (name, None) for name in ("per_minute", "busy", "running")
    }

    # Killed right before the swap: the old results are there.
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as fault:
        fault.setattr(type(session.tables.open(before)), "swap", killed)
        with pytest.raises(KeyboardInterrupt):
            rebuild(session, ["per_minute"])
    old = session.tables.rows(before).where("NOT _open").select("k", "c").collect()
    assert sorted(map(tuple, old)) == [("a", 1), ("a", 1), ("b", 1)]
    # They are the current ones as before (E5): what is computed from them goes on.
    workbench.session().run(["busy"], upstream=False)
    assert rows(workbench.session(), "busy") == []

    done = rebuild(workbench.session())
    assert {(r.view, r.why, r.generation, r.tag) for r in done} == {
        ("per_minute", "its definition has changed", 2, "generation_1"),
        ("busy", "it reads per_minute", 2, "generation_1"),
        ("running", "its definition has changed", 2, "generation_1"),
    }
    assert {(r.rows, r.frontier) for r in done if r.view == "per_minute"} == {(2, "2026-01-01 00:05:00")}
    session = workbench.session()
    assert rows(session, "per_minute") == NEW
    assert rows(session, "busy") == [("00:01:00", "2")]
    assert [r[3] for r in rows(session, "running")] == ["1", "3", "2"]
    assert rebuild(session) == []
    assert rebuild(session, ["busy"])[0].why == "its results are those of its definition"

    # A sink is not given everything once more, nor silently nothing.
    with pytest.raises(TidegateError, match="TG542"):
        session.run(["out"])

    # What comes next goes on from the new results, in one stream with them.
    session.execute("INSERT INTO t VALUES ('b', 7, '2026-01-01 00:05:30'), ('b', 5, '2026-01-01 00:07:00')")
    session.run(["per_minute", "busy", "running"])
    assert rows(session, "per_minute") == [*NEW, ("00:06:00", "11", "2")]
    assert rows(session, "busy") == [("00:01:00", "2"), ("00:06:00", "2")]
    assert [r[3] for r in rows(session, "running")] == ["1", "3", "4", "2", "7"]
    assert all(audit_view(session, name).ok for name in ("per_minute", "busy", "running"))

    upkeep_keeps_the_old_results(session)


def upkeep_keeps_the_old_results(session: Session) -> None:
    """They have a name; and upkeep does not take them for something that it has to do."""
    table = session.tables.open(session.stored("per_minute"))
    maintain(session, "per_minute", Policy(keep_snapshots=0, most_snapshots=1), guard=0)
    assert len(session.tables.upkeep(table.identifier).shape().snapshots) == 1
    old = session.spark.read.option("versionAsOf", "generation_1").table(table.identifier).where("NOT _open")
    assert sorted((r["k"], r["c"]) for r in old.collect()) == [("a", 1), ("a", 1), ("b", 1)]
