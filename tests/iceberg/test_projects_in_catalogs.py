"""What projects do in every catalog, and in a store that is S3: change their definitions by the commands of users, drop
their own beside others with the same names, and lose answers of the catalog's server. Part of `make catalogs`."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.test_owners import tidegate
from tests.conftest import Workbench
from tests.iceberg.test_lost_answers import COMMITS, DROPS, Proxy, through
from tests.maintenance.people import WHO, arrive, define, erased, stored
from tests.maintenance.test_erase_views import HOURS
from tests.support import catalogs
from tests.support.faulty_http import Fault, lose_answer
from tests.support.quick import quick
from tests.support.rest_proxy import after, refuse
from tests.views import test_versions as versions
from tests.views.test_rebuild import rows as shown
from tidegate.audit.stored_files import verify_all
from tidegate.audit.view import audit_view
from tidegate.maintenance import upkeep
from tidegate.plan.versions import kept_versions
from tidegate.project.jobs.maintenance import Policy
from tidegate.store.listing import table_names
from tidegate.store.metadata import load_table
from tidegate.views.amend.rebuild import rebuild

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidegate.project.storage import Storage
    from tidegate.session.session import Session

__all__ = ["tidegate"]
pytestmark = [pytest.mark.catalogs, pytest.mark.slow]
#: Only a server's answers get lost.
over_a_network = pytest.mark.catalogs("postgres", "rest")

NAMES = """
CREATE TABLE t (k INT, n INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE TABLE t2 (k INT PRIMARY KEY, n INT);
CREATE MATERIALIZED VIEW v AS SELECT window_end, count(*) AS x FROM TUMBLE(t, ts, INTERVAL '1 minute')
GROUP BY window_end EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW v2 AS SELECT window_end, sum(n) AS x FROM TUMBLE(t, ts, INTERVAL '1 minute')
GROUP BY window_end EMIT ON WINDOW CLOSE;
"""
KEYED = """
CREATE TABLE prices (k INT PRIMARY KEY, v INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1 hour' WITH TTL)
WITH (connector = 'filesystem', path = 'input') FORMAT PLAIN ENCODE JSON;
"""


def test_E5_a_view_is_planned_applied_and_rolled_back_by_the_commands(
    workbench: Workbench, tidegate: Callable[..., Any]
) -> None:
    def said(code: int, command: str, *arguments: str) -> str:
        done = tidegate(command, "--project", str(workbench.root), *arguments)
        assert done.exit_code == code, done.output
        return str(done.stdout)

    session = versions.opened(workbench, versions.COUNT)
    versions.inserted(session, *range(4))
    session.run()
    old, new = (versions.expected(4, what, 3) for what in (versions.COUNT, versions.WORDS))
    said(0, "plan")
    workbench.assets(v=versions.VIEW.format(what=versions.WORDS, emit=versions.CLOSE))
    changes = {one["name"]: one for one in json.loads(said(2, "plan", "--json"))["objects"]}
    assert changes["v"]["effect"] == "new version"
    said(0, "apply", "--yes")
    said(0, "plan")
    assert (shown(workbench.session(), "v"), shown(workbench.session(), "v$v1")) == (new, old)
    said(0, "rollback", "v", "--yes")
    assert (shown(workbench.session(), "v"), shown(workbench.session(), "v$v2")) == (old, new)
    # The rows that come now are of the version that is in force.
    workbench.assets(v=versions.VIEW.format(what=versions.COUNT, emit=versions.CLOSE))
    said(0, "plan")
    session = workbench.session()
    versions.inserted(session, 4)
    session.run()
    assert shown(session, "v") == versions.expected(5, versions.COUNT, 4)


def test_E9_an_erasure_ends_where_its_views_have_earlier_versions(workbench: Workbench) -> None:
    """What is kept of them is a property, which a server sets in a commit with a snapshot."""
    shows = "CREATE MATERIALIZED VIEW hourly AS SELECT window_start, customer, {} AS n {} GROUP BY {};"
    shows += "CREATE MATERIALIZED VIEW totals AS SELECT window_start, {} AS n {} GROUP BY window_start;"
    for value in ("count(*)", "max(id)", "count(id)"):
        define(workbench.root, shows.format(value, HOURS, "window_start, customer", value, HOURS))
        session = workbench.session()
        if value == "count(*)":
            arrive(workbench.root, 1, 2)
            session.run()
        else:
            rebuild(session)
    tables = [session.tables.open(session.identifier(name)) for name in ("hourly", "totals")]
    assert [len(kept_versions(table.properties())) for table in tables] == [2, 2]
    done = erased(session, keep_aggregates=True)
    assert done.rows == 10
    for table in tables:
        table.refresh()
        assert (kept_versions(table.properties()), len(table.snapshot_ids())) == ((), 1)
    for name in ("orders", "hourly", "totals"):
        assert WHO not in str(stored(session, name))
    assert [one.table for one in erased(session, keep_aggregates=True).tables if one.rows] == []
    assert all(audit_view(session, name).ok for name in ("hourly", "totals"))
    session.run()


def test_X3_what_is_dropped_takes_nothing_of_equal_or_longer_names(
    new_workbench: Callable[[], Workbench], tmp_path: Path
) -> None:
    """Two projects have the same names in one warehouse, each in its own namespace, whose name begins the other's."""
    warehouse: dict[str, Any] = {"path": str(tmp_path / "warehouse")} | catalogs.warehouse(tmp_path / "c.db")
    benches = [new_workbench().assets(all=NAMES) for _ in range(2)]
    for bench, namespace in zip(benches, ("shop", "shop2"), strict=True):
        settings = {"project": namespace, "warehouse": warehouse | {"namespace": namespace}}
        quick(bench.root, **settings, allow={"folders": [str(tmp_path)]})
    ours, others = (bench.session() for bench in benches)
    for session in (ours, others):
        # (A server that is asked for a table before there is its namespace leaves a file.)
        session.execute(
            "INSERT INTO t2 VALUES (1, 10), (2, 20);"
            "INSERT INTO t VALUES (1, 2, '2026-01-01 00:00:01'), (2, 3, '2026-01-01 00:01:01')"
        )
        session.run()
    before, kept = _facts(others, "t", "t2", "v", "v2"), _facts(ours, "t2")
    storage = ours.project.storage
    gone = [location_of(storage, name) for name in ("t", "v")]
    assert all(files_in(storage, place) for place in gone)
    for statement in ("MATERIALIZED VIEW v", "MATERIALIZED VIEW v2", "TABLE t"):
        ours.execute(f"DROP {statement}", yes=True)
    assert table_names(storage, "shop") == ["t2", "t2$state"]
    assert [files_in(storage, place) for place in gone] == [[], []]
    assert _facts(ours, "t2") == kept
    assert _facts(others, "t", "t2", "v", "v2") == before
    assert (are_whole(ours), are_whole(others)) == (2, 5)
    # A name is free again, and those of the others go on.
    ours = benches[0].assets(all=NAMES.replace("k INT, n INT", "note VARCHAR, n INT")).session()
    ours.execute("INSERT INTO t VALUES ('new', 5, '2026-01-01 00:00:01')")
    assert _facts(ours, "t") == {"t": [("new", 5)]}
    others.execute("INSERT INTO t VALUES (3, 4, '2026-01-01 00:02:01')")
    assert _facts(others, "t") == {"t": [(1, 2), (2, 3), (3, 4)]}


def _facts(session: Session, *names: str) -> dict[str, list[tuple[Any, ...]]]:
    """The first two columns of each."""
    return {
        name: sorted(tuple(row)[:2] for row in session.execute(f"SELECT * FROM {name}")) for name in names
    }


def are_whole(session: Session) -> int:
    """Every file that a table of the project names is there. How many tables it has."""
    storage = session.project.storage
    found = list(verify_all(storage, session.project.owner))
    assert not {table.name: table for table in found if not table.ok}
    return len(found)


def location_of(storage: Storage, name: str) -> str:
    table = load_table(storage, name)
    assert table is not None
    return table.location


def files_in(storage: Storage, location: str) -> list[str]:
    """What is left below the folder of a table."""
    from pyarrow import fs

    filesystem, path = storage.filesystem(location)
    found = filesystem.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
    return [one.path for one in found if one.type is fs.FileType.File]


@contextmanager
def lossy(
    workbench: Workbench, drops: bool = False
) -> Iterator[tuple[Session, Callable[[int], None], Callable[[], bool]]]:
    """A session, what makes the answer to its next commit (`drops`: the next removal of a table) but so many get lost,
    and what ends that, and says whether it has happened."""
    method = "DELETE" if drops else "POST"
    if catalogs.kind() == "rest":
        with catalogs.rest_server() as server:
            faults: list[Fault] = []

            def lose_one(passing: int) -> None:
                # Iceberg's client hears nothing, or is made to ask again.
                act = after(refuse(503, Retry_After="0")) if passing % 2 else lose_answer
                faults.append(server.proxy.fail(method, "/tables", act, skip=passing))

            def rest_has_lost() -> bool:
                server.proxy.heal()
                return faults[-1].met > 0

            yield workbench.session(), lose_one, rest_has_lost
        return
    proxy = Proxy(catalogs.server_port())
    proxy.changes = DROPS if drops else COMMITS

    def arm(passing: int) -> None:
        proxy.armed, proxy.passing = True, passing

    def has_lost() -> bool:
        armed, proxy.armed = proxy.armed, False
        return not armed

    yield through(proxy, workbench), arm, has_lost
    proxy.close()


@over_a_network
def test_R1_a_keyed_table_whose_commits_are_not_answered_has_each_change_once(workbench: Workbench) -> None:
    """Each batch of rows is a commit of the log and, with those of its own branch, some of the state. Of each run the
    answer to another one of them is lost."""
    workbench.assets(prices=KEYED)
    with lossy(workbench) as (session, lose, has_lost):
        lost, now, read = 0, dict[int, int](), list[tuple[int, int, str]]()
        for number in range(8):
            changes = {number % 3: 10 * number, 3 + number: number}
            rows = [{"k": k, "v": v, "ts": f"2026-01-01 00:{number:02}:00"} for k, v in changes.items()]
            workbench.json_lines(f"input/{number}.json", rows)
            now |= changes
            read += [(k, v, "on_time") for k, v in changes.items()]
            lose(number % 4)
            with suppress(Exception):
                session.run()
            lost += has_lost()
            session.run()
            found = session.execute("SELECT k, v FROM prices")
            assert sorted(map(tuple, found)) == sorted(now.items()), number
        raw = session.table("prices$raw").select("k", "v", "outcome").collect()
        assert sorted(map(tuple, raw)) == sorted(read)
        assert lost >= 6
        # The branch of a MERGE that was not answered may have lost its manifests; it goes once it is a day old.
        (report,) = upkeep.maintain_all(session, ["prices"], now=time.time() + 3 * 86_400, orphans=True)
        assert {table.name: table.notes for table in report.tables if table.notes} == {}
        are_whole(session)


@over_a_network
@pytest.mark.parametrize("passing", range(3))
def test_R1_upkeep_whose_commits_are_not_answered_keeps_every_row(
    workbench: Workbench, passing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compaction and manifests are commits of the table's own line, by Iceberg's Java."""
    monkeypatch.setattr(upkeep, "MANY_MANIFESTS", 2)
    workbench.assets(prices=KEYED, t=versions.TABLE)
    with lossy(workbench) as (session, lose, has_lost):
        for number in range(6):
            row = {"k": number % 3, "v": number, "ts": f"2026-01-01 00:{number:02}:00"}
            workbench.json_lines(f"input/{number}.json", [row])
            versions.inserted(session, number)
            session.run()
        before = _facts(session, "t", "prices")
        eager = Policy(keep_snapshots=0, compact_when_files=2, settle=0)
        for name in ("t", "prices"):
            lose(passing)
            with suppress(Exception):
                upkeep.maintain(session, name, eager, now=time.time() + 3600, guard=0, orphans=True)
            assert has_lost(), name
            assert _facts(session, "t", "prices") == before
            done = upkeep.maintain(session, name, eager, now=time.time() + 3 * 86_400, guard=0, orphans=True)
            assert [table.notes for table in done.tables if table.notes] == []
            assert _facts(session, "t", "prices") == before
        are_whole(session)
