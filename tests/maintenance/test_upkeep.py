"""Upkeep: compaction, expiry and orphan files change no result, stop no stream, leave no gap (R2, A1)."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.conftest import Workbench
from tests.maintenance.clicks import CLICKS, HOURLY, LATER, clicks, rows
from tidegate.audit.source import audit_source
from tidegate.audit.view import audit_view
from tidegate.iceberg.shape import TableShape
from tidegate.ingest.ingest import Log
from tidegate.maintenance import upkeep
from tidegate.project.jobs.maintenance import Policy
from tidegate.session.session import Session
from tidegate.store.status import read_marks, read_status

pytestmark = pytest.mark.runner("inprocess")

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


def delivered(workbench: Workbench) -> list[str]:
    """The lines that the sink has written."""
    files = (f for f in (workbench.root / "out").rglob("*") if f.is_file() and "_tidegate" not in f.parts)
    return sorted(line for file in files for line in file.read_text().splitlines())


def eager(session: Session, name: str, **options: object) -> upkeep.UpkeepReport:
    return upkeep.maintain(session, name, EAGER, **{"now": LATER, "guard": 0} | options)


def adds_up(session: Session) -> None:
    assert audit_source(session, "clicks").ok
    for view in ("hourly", "gated", "titled"):
        assert audit_view(session, view).ok, view


def left_files(session: Session) -> tuple[Path, Path]:
    """Two files of no snapshot: one that a process has left long ago, and one that is being written."""
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
    return orphan, young


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

    orphan, young = left_files(session)
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


EVENTS = "CREATE TABLE events (id INT, at TIMESTAMP, WATERMARK FOR at AS at) APPEND ONLY;"


def _measured(session: Session, log: Log, commits: int, seconds: float) -> dict[str, float]:
    """How large what is stored of a log is."""
    shape = session.tables.upkeep(log.table.identifier).shape()
    folder = Path(log.table.location.removeprefix("file:")) / "metadata"
    newest = max(folder.glob("*.metadata.json"), key=lambda p: int(p.name[1:].split(".")[0]))
    return {
        "commits": commits,
        "snapshots": len(shape.snapshots),
        "files": shape.files,
        "metadata_bytes": newest.stat().st_size,
        "metadata_files": sum(1 for _ in folder.iterdir()),
        "seconds": seconds,
    }


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
            measured.append(_measured(session, log, number, sorted(took[-every:])[every // 2]))
            # A stream commits on meanwhile; in one process Iceberg's own lock keeps commits to a folder apart.
            running = [pool.submit(upkeep.maintain, session, "events", policy, leased=True, guard=0)]
    for done in running:
        done.result()
    # How much of its work upkeep gets done beside a stream is chance; what is left when nobody disturbs it is not.
    upkeep.maintain(session, "events", policy, leased=True, guard=0)
    measured.append(_measured(session, log, commits, sorted(took[-every:])[every // 2]))
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
    commits = int(os.environ.get("TIDEGATE_COMMITS", "60"))
    workbench.assets(a=EVENTS)
    session = workbench.session()
    session.log(session.relation("events"))
    every = max(15, commits // 40)
    reader = session.tables.open(session.stored("events"))
    reader.current()
    policy = Policy(keep_snapshots=2, most_snapshots=20, compact_when_files=20, settle=0)
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
