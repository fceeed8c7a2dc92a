"""What a catalog has to do beyond single commits: swap the results of a view, rename and widen columns, and serve two
drivers at once, of which one may die. `make catalogs` plays it with every catalog, and in a store that is S3."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import ROOT, Workbench
from tests.inprocess.test_conformance import EPOCH, made, session
from tests.support import catalogs
from tests.support.quick import quick
from tests.views import test_versions as versions
from tests.views.test_rebuild import rows as shown
from tidegate.errors import TidegateError
from tidegate.iceberg import commit
from tidegate.iceberg.lease_tables import LeaseTables
from tidegate.iceberg.protocol import AnswerLost, Conflict, Stored
from tidegate.jvm.within import active
from tidegate.live.catalog_lease import BEAT, EXPIRY, CatalogLeases
from tidegate.project import Project
from tidegate.show.newest import newest_rows
from tidegate.store.listing import table_names
from tidegate.views.amend.rebuild import rebuild
from tidegate.views.amend.rollback import rollback

if TYPE_CHECKING:
    from tidegate.session.session import Session

__all__ = ["session"]

FILES, ROWS = 6, 40
SQL = """
CREATE SOURCE readings (id INT, meter VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '20 seconds')
WITH (connector = 'filesystem', path = '{input}', partition.columns = 'meter', max_files_per_batch = '1')
FORMAT PLAIN ENCODE JSON;

CREATE MATERIALIZED VIEW per_minute AS SELECT window_start, meter, count(*) AS n
FROM TUMBLE(readings, ts, INTERVAL '1 minute') GROUP BY window_start, window_end, meter EMIT ON WINDOW CLOSE;
"""


def test_columns_are_renamed_dropped_and_widened_by_their_ids(session: Session) -> None:
    """By another program; what was written before reads by the ids, and commits of ours go on."""
    identifier = session.identifier("plain")
    session.spark.sql(f"CREATE TABLE {identifier} (id INT, name STRING, gone INT, share FLOAT) USING iceberg")
    session.spark.sql(f"INSERT INTO {identifier} VALUES (1, 'a', 10, 0.5)")
    for change in (
        "RENAME COLUMN name TO label",
        "DROP COLUMN gone",
        "ADD COLUMN gone STRING",
        "ALTER COLUMN id TYPE BIGINT",
        "ALTER COLUMN share TYPE DOUBLE",
        "ADD COLUMN more DECIMAL(10, 2) AFTER id",
    ):
        session.spark.sql(f"ALTER TABLE {identifier} {change}")
    session.spark.sql(f"INSERT INTO {identifier} VALUES ({1 << 40}, 1.25, 'b', 0.25, 'new')")
    rows = session.tables.rows(identifier)
    assert rows.columns == ["id", "more", "label", "share", "gone"]
    assert sorted(map(tuple, rows.selectExpr("id", "label", "share", "gone").collect())) == [
        (1, "a", 0.5, None),
        (1 << 40, "b", 0.25, "new"),
    ]
    table = session.tables.open(identifier)
    before = table.at(min(table.snapshot_ids(), key=lambda one: table.java.snapshot(one).sequenceNumber()))
    assert session.tables.rows(identifier, before.id).columns == ["id", "name", "gone", "share"]
    table.append([], None, {EPOCH: "1"}, table.current())
    assert table.current().integer(EPOCH) == 1
    assert session.tables.rows(identifier).count() == 2


@pytest.mark.catalogs
def test_sessions_that_begin_at_once_in_a_new_catalog_all_have_it_and_make_a_table_once(
    new_workbench: Callable[[], Workbench], tmp_path: Path
) -> None:
    """As the workers of several machines begin in a new database: each of them would make its tables."""
    for number in range(4):
        (where := tmp_path / str(number)).mkdir()
        machines = shared(new_workbench, where) * 2
        together = Barrier(len(machines))

        def begin(bench: Workbench, together: Barrier = together) -> str:
            together.wait(60)
            session = bench.session()
            together.wait(60)
            with active(session.spark):
                return made(session)

        with ThreadPoolExecutor(len(machines)) as pool:
            (identifier,) = set(pool.map(begin, machines))
        session = machines[0].session()
        with active(session.spark):
            table, other = session.tables.open(identifier), session.tables.open(identifier)
            table.append([], None, {EPOCH: "1"}, table.current())
            assert other.current().integer(EPOCH) == 1


def shared(new_workbench: Callable[[], Workbench], where: Path) -> tuple[Workbench, Workbench]:
    """Two checkouts of one project, each with leases of its own, and one warehouse."""
    warehouse: dict[str, Any] = {"path": str(where / "warehouse")} | catalogs.warehouse(where / "catalog.db")
    settings = {"project": "shop", "allow": {"folders": [str(where)]}, "warehouse": warehouse}
    found = []
    for _ in range(2):
        bench = new_workbench().assets(readings=SQL.replace("{input}", str(where / "input")))
        quick(bench.root, **settings)
        found.append(bench)
    (where / "input").mkdir()
    for file in range(FILES):
        lines = []
        for row in range(ROWS):
            number = file * ROWS + row
            second = number - (45 if number % 7 == 0 else 0)
            ts = f"2026-01-01 00:{max(second, 0) // 60:02d}:{max(second, 0) % 60:02d}"
            lines.append(json.dumps({"id": number, "meter": "ab"[number % 2], "ts": ts}) + "\n")
        (where / "input" / f"{file}.json").write_text("".join(lines))
    return found[0], found[1]


def other_driver(bench: Workbench, *leases: str) -> subprocess.Popen[str]:
    """A JVM of its own, which begins to run the project; with the rights to live mode that it holds."""
    command = [sys.executable, "-m", "tests.runtime.killable", str(bench.root), *leases]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def pause_in_run(process: subprocess.Popen[str]) -> None:
    """Once it has committed something."""
    assert process.stdout is not None
    while (line := process.stdout.readline()) != "BatchCommitted\n":
        assert line != "done\n"
    os.killpg(process.pid, signal.SIGSTOP)


def facts(session: Session) -> tuple[list[Any], list[Any]]:
    raw = session.table("readings$raw").select("partition", "offset", "id", "outcome", "watermark")
    return sorted(map(tuple, raw.collect())), sorted(map(tuple, session.table("per_minute").collect()))


def run_on(bench: Workbench) -> Session:
    """Run, where others may be faster, until it is through."""
    deadline = time.monotonic() + 300
    while True:
        session = bench.session()
        try:
            session.run()
            return session
        except TidegateError as error:
            if error.code != "TG502" or time.monotonic() > deadline:
                raise


@pytest.mark.catalogs
@pytest.mark.slow
def test_R2_two_drivers_at_once_and_one_that_is_killed_lose_nothing_and_store_nothing_twice(
    new_workbench: Callable[[], Workbench], tmp_path: Path
) -> None:
    (alone_at := tmp_path / "alone").mkdir()
    (both_at := tmp_path / "both").mkdir()
    alone, _ = shared(new_workbench, alone_at)
    right = facts(run_on(alone))
    assert len(right[0]) == FILES * ROWS
    assert {row[3] for row in right[0]} == {"on_time", "late"}

    one, other = shared(new_workbench, both_at)
    process = other_driver(other)
    session = run_on(one)
    _, told = process.communicate(timeout=300)
    # Of the two whoever is slower is told so.
    assert process.returncode == 0 or "TG502" in told, told
    run_on(other)
    assert facts(session) == right

    # Of one checkout a second driver is kept out by the lease, until the first one is killed.
    for number, second in ((FILES, 300), (FILES + 1, 400)):
        row = {"id": 1000 + number, "meter": "a", "ts": f"2026-01-01 00:{second // 60:02d}:00"}
        (both_at / "input" / f"{number}.json").write_text(json.dumps(row) + "\n")
    process = other_driver(one)
    pause_in_run(process)
    with pytest.raises(TidegateError) as caught:
        one.session().run()
    assert caught.value.code == "TG508"
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    found = facts(run_on(one))[0]
    assert [row for row in found if row[2] < 1000] == right[0]
    assert sorted(row[2] for row in found if row[2] >= 1000) == [1000 + FILES, 1001 + FILES]


@pytest.mark.catalogs
@pytest.mark.slow
def test_R2_a_driver_that_wakes_up_after_its_lease_was_taken_over_stores_nothing_twice(
    new_workbench: Callable[[], Workbench], tmp_path: Path
) -> None:
    """It is paused in the middle of its run, and shows no sign of life for longer than its lease lasts."""
    (alone_at := tmp_path / "alone").mkdir()
    (both_at := tmp_path / "both").mkdir()
    alone, _ = shared(new_workbench, alone_at)
    right = facts(run_on(alone))
    one, other = shared(new_workbench, both_at)
    process = other_driver(other, "a")
    storage = Project.load(one.root).storage
    leases, held = CatalogLeases(LeaseTables(storage), storage.owner, lambda group: None), ExitStack()
    assert not taken(leases, held)
    pause_in_run(process)
    paused = time.monotonic()
    while not taken(leases, held):
        assert time.monotonic() < paused + 120
        time.sleep(0.5)
    assert time.monotonic() - paused >= EXPIRY - BEAT
    session = run_on(one)
    assert facts(session) == right
    os.killpg(process.pid, signal.SIGCONT)
    told, why = process.communicate(timeout=300)
    # It is refused by the fence, or by a catalog whose login has ended meanwhile; or has nothing left to do.
    assert process.returncode == 0 or "TG502" in why or "TG620" in why, why
    assert "lost a" in told or process.returncode != 0
    assert facts(run_on(other)) == right
    held.close()


def taken(leases: CatalogLeases, held: ExitStack) -> bool:
    """Whether the lease is had, as whoever stands by asks for it."""
    try:
        held.enter_context(leases.lease("a"))
    except TidegateError as error:
        if error.code != "TG508":
            raise
        return False
    return True


@pytest.mark.catalogs
@pytest.mark.slow
def test_E5_R1_a_view_goes_on_to_a_new_version_and_back_though_no_commit_is_answered(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by `tidegate apply` and `tidegate rollback`. Readers without a JVM see the versions, too."""
    asked, lost = commit.attempted, 0

    def unanswered(update: Any) -> Stored | Conflict | AnswerLost:
        nonlocal lost
        answer = asked(update)
        if update.own is None or not isinstance(answer, Stored):
            return answer
        lost += 1
        return AnswerLost(TidegateError("TG620", "no answer"), update.own)

    monkeypatch.setattr(commit, "attempted", unanswered)
    session = versions.opened(workbench, versions.COUNT)
    versions.inserted(session, *range(4))
    session.run()
    old, new = (versions.expected(4, what, 3) for what in (versions.COUNT, versions.WORDS))
    rebuild(versions.opened(workbench, versions.WORDS))
    session = workbench.session()
    assert (shown(session, "v"), shown(session, "v$v1")) == (new, old)
    assert [row[1] for row in newest_rows(session.project, "v$v1", limit=2).rows] == [3, 2]
    session.confirm = lambda text: True
    assert rollback(session, "v").generation == 3
    session = workbench.session()
    versions.inserted(session, 4)
    session.run()
    assert shown(session, "v") == versions.expected(5, versions.COUNT, 4)
    assert (shown(session, "v$v1"), shown(session, "v$v2")) == (old, new)
    assert lost > 8
    session.execute('DROP MATERIALIZED VIEW "v$v1"', yes=True)
    with pytest.raises(TidegateError, match="TG201"):
        session.table("v$v1")
    assert shown(session, "v$v2") == new
    # Nothing is left of what was built beside it.
    assert table_names(session.project.storage, "main") == ["t", "v"]
