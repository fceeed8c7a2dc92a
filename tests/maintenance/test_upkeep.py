"""Upkeep: compaction, expiry, retention and orphan files change no result, stop no stream, leave no gap (R2, A1)."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.conftest import Workbench
from tests.support.by_hand import by_hand
from tidegate import TidegateError
from tidegate.audit.source import audit_source
from tidegate.audit.view import audit_view
from tidegate.iceberg.shape import TableShape
from tidegate.maintenance import upkeep
from tidegate.project.jobs.maintenance import Policy
from tidegate.session.session import Session
from tidegate.store.status import read_marks, read_status

pytestmark = pytest.mark.runner("inprocess")

CLICKS = """
CREATE SOURCE clicks (page VARCHAR, id INT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '5 minutes')
WITH (connector = 'filesystem', path = 'input', max_files_per_batch = 1) FORMAT PLAIN ENCODE JSON;
"""
HOURLY = """
CREATE MATERIALIZED VIEW hourly AS SELECT window_start, page, count(*) AS n
FROM TUMBLE(clicks, at, INTERVAL '1 hour') GROUP BY window_start, page EMIT ON WINDOW CLOSE;
"""
GATED = """
CREATE MATERIALIZED VIEW gated AS SELECT window_start, count(*) AS n
FROM TUMBLE(WATERMARK(clicks, at, INTERVAL '0 minutes'), at, INTERVAL '1 hour') GROUP BY window_start
EMIT ON WINDOW CLOSE;
"""
PAGES = "CREATE TABLE pages (page VARCHAR PRIMARY KEY, title VARCHAR);"
TITLED = """
CREATE MATERIALIZED VIEW titled AS SELECT c.at, c.id, p.title FROM clicks c LEFT JOIN pages p ON c.page = p.page
EMIT ON WINDOW CLOSE;
"""
SINK = "CREATE SINK out FROM hourly WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON;"
#: Everything has settled, and nothing old is kept.
EAGER = Policy(keep_snapshots=0, compact_when_files=2, settle=0)
LATER = time.time() + 7200


def clicks(workbench: Workbench, hour: int, day: int = 1) -> None:
    """A file: four rows of one hour, one of which is late by a day after the first file, and one that has no time."""
    rows = [{"page": page, "id": hour * 10 + i, "at": f"2026-01-{day:02} {hour:02}:{20 * i:02}:00"}
            for i, page in enumerate(("home", "help", "home"))]  # fmt: skip
    rows += [
        {"page": "late", "id": hour, "at": "2026-01-01 00:00:00"},
        {"page": "none", "id": hour, "at": None},
    ]
    workbench.json_lines(f"input/{day:02}-{hour:02}.json", rows)


def rows(session: Session, sql: str) -> list[tuple]:
    return sorted(map(tuple, session.execute(sql).rows()), key=str)


def delivered(workbench: Workbench) -> list[str]:
    """The lines that the sink has written."""
    files = (f for f in (workbench.root / "out").rglob("*") if f.is_file() and "_tidegate" not in f.parts)
    return sorted(line for file in files for line in file.read_text().splitlines())


def eager(session: Session, name: str, **options: object) -> upkeep.UpkeepReport:
    return upkeep.maintain(session, name, EAGER, **{"now": LATER, "guard": 0} | options)


def test_R2_everything_works_after_compaction_and_expiry(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Views, lookups, inline gates, sinks, status, explain, audits and a restart; also if upkeep dies half way."""
    workbench.assets(a=CLICKS, b=PAGES, c=HOURLY, d=GATED, e=TITLED, f=SINK)
    session = workbench.session()
    session.execute("INSERT INTO pages VALUES ('home', 'Home')")
    for hour in range(6):
        clicks(workbench, hour)
    session.run()
    session.execute("INSERT INTO pages VALUES ('help', 'Help'), ('home', 'Welcome')")
    queries = [
        f"SELECT * FROM {n}"
        for n in ("clicks", '"clicks$raw"', '"clicks$watermarks"', "hourly", "gated", "titled")
    ]
    before = [rows(session, query) for query in queries]
    noon = datetime(2026, 2, 1, 12, tzinfo=UTC)
    states = read_status(session.project, now=noon)
    marks = read_marks(session.project.storage, session.catalog, session.catalog.get("hourly"))

    # A kill between the rewrite and the expiry leaves a table that is whole, with more snapshots than it needs.
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    assert upkeep.due(session, "clicks", EAGER, LATER) != []
    with monkeypatch.context() as patched:
        patched.setattr(type(session.tables.upkeep(session.stored("clicks"))), "expire", die)
        with pytest.raises(KeyboardInterrupt):
            eager(session, "clicks")
    assert [rows(session, query) for query in queries] == before

    data = (
        Path(session.project.storage.local_warehouse)
        / session.project.env.warehouse.namespace
        / "clicks"
        / "data"
    )
    orphan, young = data / "killed.parquet", data / "in_the_making.parquet"
    for file in (orphan, young):
        file.write_bytes(b"x")
    os.utime(orphan, (LATER - 7200 - 90_000,) * 2)
    reports = upkeep.maintain_all(session, policy=lambda name: EAGER, now=LATER, guard=0)
    (log,) = next(r for r in reports if r.name == "clicks").tables
    assert log.files[1] == 4  # of each outcome, and the history
    assert log.snapshots[1] <= 3
    assert [t.table for r in reports for t in r.tables if r.name == "pages"] == ["pages", "pages$state"]
    assert eager(session, "clicks", orphans=True, now=time.time()).tables[0].orphans == 1
    assert young.exists()
    assert not orphan.exists()
    assert upkeep.due(session, "clicks", EAGER, LATER + 1) == []

    assert [rows(session, query) for query in queries] == before
    assert read_status(session.project, now=noon) == states
    assert read_marks(session.project.storage, session.catalog, session.catalog.get("hourly")) == marks

    def adds_up(one: Session) -> None:
        assert audit_source(one, "clicks").ok
        for view in ("hourly", "gated", "titled"):
            assert audit_view(one, view).ok, view

    adds_up(session)
    # A new process goes on: state and progress are read from what is left.
    clicks(workbench, 6)
    clicks(workbench, 7)
    again = workbench.session()
    again.run()
    eager(again, "clicks")
    again.run()
    adds_up(again)
    again.execute(HOURLY.replace("hourly", "anew"))
    assert rows(again, "SELECT * FROM anew") == rows(again, "SELECT * FROM hourly")
    assert [json.loads(line)["n"] for line in delivered(workbench)] == [1, 2] * 6 + [1, 2]
    assert {r[2] for r in rows(again, "SELECT * FROM titled")} == {"Home", "Help", "Welcome", None}


def test_R2_what_iceberg_has_put_together_is_read_on(workbench: Workbench) -> None:
    """A view goes on from a log that compaction and expiry have been at. What Iceberg's Java puts together is what is
    put together here (`inprocess/test_conformance_upkeep.py`)."""
    workbench.assets(a=CLICKS, b=HOURLY)
    session = workbench.session()
    for hour in range(6):
        clicks(workbench, hour)
    session.run()
    queries = [
        f"SELECT * FROM {name}" for name in ("clicks", '"clicks$raw"', '"clicks$watermarks"', "hourly")
    ]
    before = [rows(session, query) for query in queries]
    (log,) = eager(session, "clicks", orphans=True, now=LATER).tables
    assert (log.files[1], log.snapshots[1] <= 3) == (4, True)  # of each outcome, and the history
    assert (log.compacted, log.orphans) == (log.files[0], 0)
    assert [rows(session, query) for query in queries] == before
    clicks(workbench, 6)
    again = workbench.session()
    again.run()
    assert audit_source(again, "clicks").ok
    assert audit_view(again, "hourly").ok


def test_R5_A1_retention_is_accounted_for(workbench: Workbench) -> None:
    """Whole days go once every view has read them; audits add up, and a new view begins at the edge."""
    workbench.assets(a=CLICKS, b=HOURLY)
    policy = Policy(retention=2 * 86_400, keep_snapshots=0, settle=0)
    session = workbench.session()
    with pytest.raises(TidegateError) as nothing:
        upkeep.maintain(session, "clicks", policy)
    assert nothing.value.code == "TG544"
    for day in (1, 2, 3, 4):
        clicks(workbench, 10, day)
    clicks(workbench, 12, 6)
    session.run(["clicks"])
    # The view has never run: it may need everything.
    held = upkeep.maintain(session, "clicks", policy, now=LATER, guard=0).tables[0]
    assert held.retired == 0
    assert 'no row is removed: "hourly" may read all of them, or has never run' in held.notes
    session.run()
    closed = rows(session, "SELECT * FROM hourly")
    raw = rows(session, 'SELECT count(*) FROM "clicks$raw"')
    # The watermark is on the 6th, so the 4th is the first day that stays.
    assert upkeep.due(session, "clicks", policy) == ["clicks: rows beyond their retention"]
    shown = upkeep.maintain(session, "clicks", policy, dry_run=True).tables[0]
    assert shown.notes[-1] == "14 rows beyond their retention"
    assert rows(session, 'SELECT count(*) FROM "clicks$raw"') == raw
    done = upkeep.maintain(session, "clicks", policy).tables[0]
    assert done.retired == 14  # 3 days with 3 rows on time, 5 late ones of the 1st
    assert upkeep.due(session, "clicks", policy) == []
    left = [r[0] for r in rows(session, "SELECT DISTINCT CAST(at AS DATE) || '' FROM clicks")]
    assert left == ["2026-01-04", "2026-01-06"]
    assert rows(session, "SELECT * FROM hourly") == closed  # T3

    source = audit_source(session, "clicks")
    assert source.ok
    assert (source.raw, source.retired, source.source_rows) == (11, 14, 25)
    found = audit_view(session, "hourly")
    assert found.ok
    assert found.retired == 14
    assert found.closed_windows == 1
    assert any("before 2026-01-04" in note for note in found.batch.notes)
    # R5: the windows of what is kept, and a window of two days that the edge cuts is none of them.
    session.execute(HOURLY.replace("hourly", "anew"))
    assert rows(session, "SELECT * FROM anew") == [r for r in closed if r[0] >= datetime(2026, 1, 4)]
    hop = HOURLY.replace(
        "TUMBLE(clicks, at, INTERVAL '1 hour')", "HOP(clicks, at, INTERVAL '1 day', INTERVAL '2 days')"
    )
    session.execute(hop.replace("hourly", "hops"))
    assert {r[0] for r in rows(session, "SELECT * FROM hops")} == {datetime(2026, 1, 4)}
    assert audit_view(session, "anew").ok
    assert audit_view(session, "hops").ok
    with pytest.raises(TidegateError) as refused:
        session.execute(
            "CREATE MATERIALIZED VIEW visits AS SELECT window_start, window_end, page, count(*) AS n FROM "
            "SESSION(clicks, at, page, INTERVAL '1 hour') GROUP BY window_start, window_end, page "
            "EMIT ON WINDOW CLOSE"
        )
    assert refused.value.code == "TG543"

    # What goes later adds to what went; rows without a time go by their arrival.
    clicks(workbench, 12, 9)
    again = workbench.session()
    again.run(["clicks", "hourly", "anew", "hops"])
    month = time.time() + 40 * 86_400
    again.catalog.drop("visits") if "visits" in again.catalog else None
    more = upkeep.maintain(again, "clicks", policy, now=month).tables[0]
    assert more.retired == 3 + 3 + 1 + 6  # the 4th and the 6th, the newest late one, all without a time
    source = audit_source(again, "clicks")
    assert source.ok
    assert (source.raw, source.retired) == (30 - 27, 27)
    # A lost row is still found: what is missing is more than what was retired.
    by_hand(again, f"DELETE FROM {again.stored('clicks')} WHERE id = 121")
    assert not audit_source(again, "clicks").ok


def test_R5_rows_that_a_view_has_not_read_yet_are_kept(workbench: Workbench) -> None:
    """A view that is behind its source holds the days that its next windows need."""
    workbench.assets(a=CLICKS, b=HOURLY)
    policy = Policy(retention=2 * 86_400, keep_snapshots=0, settle=0)
    session = workbench.session()
    for day in (1, 2, 3):
        clicks(workbench, 10, day)
    session.run()
    for day in (4, 9):
        clicks(workbench, 10, day)
    session.run(["clicks"])
    held = upkeep.maintain(session, "clicks", policy, now=LATER, guard=0).tables[0]
    assert 'rows from 2026-01-03 00:00:00 on are kept: "hourly" needs them' in held.notes
    session.run()
    starts = [r[0].day for r in rows(session, "SELECT DISTINCT window_start FROM hourly")]
    assert starts == [1, 2, 3, 4]
    assert audit_view(session, "hourly").ok


@pytest.mark.runner("inprocess", "spark")
def test_R5_rows_go_whatever_the_columns_are_called(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(
        'CREATE TABLE t ("at.time" TIMESTAMP, "file" INT, "_path" INT, "a`b" INT, '
        """WATERMARK FOR "at.time" AS "at.time" - INTERVAL '5 minutes') APPEND ONLY"""
    )
    session.execute(
        'CREATE MATERIALIZED VIEW v AS SELECT window_start, "a`b", sum("_path") AS "file" '
        """FROM TUMBLE(t, "at.time", INTERVAL '1 hour') GROUP BY window_start, "a`b" EMIT ON WINDOW CLOSE"""
    )
    for day in (1, 2, 3, 6):
        session.execute(f"INSERT INTO t VALUES ('2026-01-{day:02} 10:00:00', 2, {day}, 4)")
    session.run()
    policy = Policy(retention=2 * 86_400, keep_snapshots=0, settle=0)
    assert upkeep.maintain(session, "t", policy).tables[0].retired == 3
    assert rows(session, 'SELECT "_path" FROM t') == [(6,)]
    source, view = audit_source(session, "t"), audit_view(session, "v")
    assert (source.ok, source.raw, source.retired, view.ok) == (True, 1, 3, True)


def test_R5_results_have_a_retention_of_their_own(workbench: Workbench) -> None:
    workbench.assets(a=CLICKS, b=HOURLY)
    session = workbench.session()
    for day in (1, 2, 3, 4):
        clicks(workbench, 10, day)
    session.run()
    done = upkeep.maintain(session, "hourly", Policy(retention=86_400)).tables[0]
    assert done.retired == 4
    assert {r[0].day for r in rows(session, "SELECT * FROM hourly")} == {3}
    assert audit_view(session, "hourly").ok
    clicks(workbench, 10, 5)
    session.run()
    assert {r[0].day for r in rows(session, "SELECT * FROM hourly")} == {3, 4}
    assert audit_view(session, "hourly").ok


EVENTS = "CREATE TABLE events (id INT, at TIMESTAMP, WATERMARK FOR at AS at) APPEND ONLY;"


def commit_many(session: Session, commits: int, every: int, policy: Policy) -> list[dict[str, float]]:
    """Commits as a stream makes them, each with its file of progress, and upkeep of the same table from another thread
    after each `every` of them. What was measured at those moments."""
    log = session.log(session.relation("events"))
    measured, running, took = [], [], []
    pool = ThreadPoolExecutor(1)
    for number in range(1, commits + 1):
        started = time.monotonic()
        after = log.progress.after(number, {})
        after.strategy = log.strategy
        log._commit(after, datetime.now(UTC), [], [])
        took.append(time.monotonic() - started)
        if number % every == 0:
            # However long it took: what it has left is what is measured.
            for done in running:
                done.result()
            shape = session.tables.upkeep(log.table.identifier).shape()
            folder = Path(log.table.location.removeprefix("file:")) / "metadata"
            newest = max(folder.glob("*.metadata.json"), key=lambda p: int(p.name[1:].split(".")[0]))
            measured.append(
                {
                    "commits": number,
                    "snapshots": len(shape.snapshots),
                    "files": shape.files,
                    "metadata_bytes": newest.stat().st_size,
                    "metadata_files": sum(1 for _ in folder.iterdir()),
                    "seconds": sorted(took[-every:])[every // 2],
                }
            )
            # A stream commits on meanwhile; in one process Iceberg's own lock keeps commits to a folder apart.
            running = [pool.submit(upkeep.maintain, session, "events", policy, leased=True, guard=0)]
    for done in running:
        done.result()
    pool.shutdown()
    return measured


@pytest.mark.parametrize(
    ("ages", "old"),
    [
        ([100, 90, 20, 10], 0),
        ([121, 90, 20, 10], 2),
        ([121], 0),
        ([100] * 49 + [1], 0),
        ([100] * 50 + [1], 50),
    ],
    ids=["few, not for long", "few, for as long again", "the newest stays", "49", "many"],
)
def test_old_snapshots_go_when_they_are_many_or_have_been_old_for_long(ages: list[float], old: int) -> None:
    now, policy = 1_000_000.0, Policy(keep_snapshots=60, most_snapshots=1000)
    shape = TableShape(tuple((int((now - age) * 1000), True, {}) for age in ages), {})
    assert upkeep.worth_expiring(shape, policy, now) == old


def test_R2_the_newest_snapshot_of_ours_does_not_expire_however_old_it_is() -> None:
    shape = TableShape(((10_000, True, {}), (20_000, True, {}), (30_000, False, {})), {})
    assert shape.bound(1_000_000.0, 0, None) == 20_000
    assert shape.expirable(20_000) == 1
    assert shape.bound(1_000_000.0, 0, 1, guard=0) == 20_000
    # Snapshots of others alone: nothing of them is known.
    assert TableShape(((10_000, False, {}),), {}).bound(1_000_000.0, 0, None) is None


@pytest.mark.runner("spark")
@pytest.mark.slow
def test_R2_metadata_stays_bounded_while_a_stream_commits(workbench: Workbench) -> None:
    """TIDEGATE_COMMITS=10000 is the whole of it; CI makes fewer commits."""
    commits = int(os.environ.get("TIDEGATE_COMMITS", "120"))
    workbench.assets(a=EVENTS)
    session = workbench.session()
    session.log(session.relation("events"))
    every = max(30, commits // 40)
    reader = session.tables.open(session.stored("events"))
    reader.current()
    policy = Policy(keep_snapshots=2, most_snapshots=50, compact_when_files=50, settle=0)
    measured = commit_many(session, commits, every, policy)
    for line in measured:
        print(line)
    last = measured[-1]
    assert last["snapshots"] <= 3 * every
    assert last["files"] <= 3 * every
    assert last["metadata_bytes"] <= 3000 * every
    assert last["metadata_files"] <= 12 * every
    # Somebody who looked away for longer than old versions of the metadata are kept finds the newest.
    assert reader.current().integer("tidegate.epoch") == commits
    # Not one commit is lost, not one is there twice.
    stored = session.tables.rows(session.stored("events"))
    assert sorted(r[0] for r in stored.select("_epoch").collect()) == list(range(1, commits + 1))
    assert workbench.session().log(session.relation("events")).progress.epoch == commits
