"""R1 over a network: the connection to the catalog's database breaks when a commit is stored, before that is said."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

import pytest

from tests.inprocess.test_conformance import EPOCH, added, made, shown
from tests.inprocess.test_conformance_statements import merge
from tests.support import catalogs
from tests.support.tcp_proxy import TcpProxy

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.conftest import Workbench
    from tidegate.session.session import Session


#: How statements begin that make a table or move it on, and those that remove it.
COMMITS: tuple[bytes, ...] = (b"INSERT INTO iceberg_tables", b"UPDATE iceberg_tables")
DROPS: tuple[bytes, ...] = (b"DELETE FROM iceberg_tables",)


class Proxy(TcpProxy):
    """Between the catalog's clients and its server. `armed`: of the next commit, or of one after it (`passing`: how
    many it lets through before), it takes the answer, and breaks the connection; `lost`: how often it has. A commit is
    what `changes` says."""

    def __init__(self, server: int) -> None:
        self.armed, self.passing, self.lost, self.changes = False, 0, 0, COMMITS
        super().__init__(server)

    def asked(self, data: bytes, mark: threading.Event) -> None:
        if self.armed and any(change in data for change in self.changes):
            if self.passing:
                self.passing -= 1
            else:
                self.armed, self.lost = False, self.lost + 1
                mark.set()

    def answered(self, data: bytes, mark: threading.Event) -> bool:
        if mark.is_set():
            time.sleep(0.2)  # what the server has said is the answer to the commit
        return not mark.is_set()


@pytest.fixture
def proxy(spark: SparkSession) -> Iterator[Proxy]:
    made = Proxy(catalogs.server_port())
    yield made
    made.close()


def through(proxy: Proxy, workbench: Workbench) -> Session:
    """A session that reaches its catalog by the proxy, which sees the text of each statement: what PostgreSQL's driver
    has asked five times, it would ask by a number."""
    file: Path = workbench.root / "resources" / "local.yaml"
    settings = json.loads(file.read_text().replace(f":{catalogs.server_port()}/", f":{proxy.port}/"))
    settings["warehouse"]["catalog"]["properties"]["jdbc.prepareThreshold"] = "0"
    file.write_text(json.dumps(settings))
    return workbench.session()


def test_R1_a_commit_whose_answer_was_lost_is_stored_once_and_can_be_read(
    new_workbench: Callable[[], Workbench], proxy: Proxy
) -> None:
    """Iceberg's Java asks again, is told that there is nothing to change any more, and takes itself for another."""
    session = through(proxy, new_workbench())
    session.execute(
        "CREATE TABLE t (v INT, ts TIMESTAMP) APPEND ONLY; INSERT INTO t VALUES (1, '2026-01-01')"
    )
    proxy.armed = True
    session.execute("INSERT INTO t VALUES (2, '2026-01-02')")
    assert proxy.lost == 1
    assert sorted(session.execute("SELECT v FROM t")) == [(1,), (2,)]
    table = session.tables.open(session.identifier("t"))
    now = table.current()
    proxy.armed = True
    assert table.append([], None, {"tidegate.epoch": "9"}, now) == table.current().id
    assert (proxy.lost, len(table.snapshot_ids())) == (2, 3)
    session.execute("INSERT INTO t VALUES (3, '2026-01-03')")
    assert sorted(session.execute("SELECT v FROM t")) == [(1,), (2,), (3,)]


@pytest.mark.parametrize("passing", [0, 1, 2])
def test_R1_a_statement_whose_answer_was_lost_can_lose_only_its_own_branch(
    new_workbench: Callable[[], Workbench], proxy: Proxy, passing: int
) -> None:
    """It makes three commits: its branch, its rows, and the branch's snapshot as the table's."""
    session = through(proxy, new_workbench())
    session.spark.sql("CREATE NAMESPACE IF NOT EXISTS tidegate.main")
    identifier = made(session)
    table = session.tables.open(identifier)
    added(session, table, [(0, "a", False)])
    proxy.armed, proxy.passing = True, passing
    with suppress(Exception) if passing < 2 else nullcontext():
        merge(session, table, 1, "2", table.current())
    assert proxy.lost == 1
    there = [(1, "m", False)] if table.current().integer(EPOCH) == 2 else []
    assert there or passing < 2
    assert shown(session, identifier) == [(0, "a", False), *there]
    merge(session, table, 3, "3", table.current())
    assert shown(session, identifier) == [(0, "a", False), *there, (3, "m", False)]


@pytest.mark.parametrize("passing", [0, 1, 2])
def test_R1_a_deletion_whose_answer_was_lost_has_happened_or_has_not(
    new_workbench: Callable[[], Workbench], proxy: Proxy, passing: int
) -> None:
    """As rows of a table with a TTL are deleted: the same three commits as those of a MERGE."""
    session = through(proxy, new_workbench())
    session.spark.sql("CREATE NAMESPACE IF NOT EXISTS tidegate.main")
    identifier = made(session)
    table = session.tables.open(identifier)
    rows: list[tuple[int, str | None, bool | None]] = [(1, "a", False), (2, "b", False)]
    added(session, table, rows)
    proxy.armed, proxy.passing = True, passing
    with suppress(Exception) if passing < 2 else nullcontext():
        table.delete_rows("`id` = 1", {EPOCH: "2"}, table.current())
    assert proxy.lost == 1
    left = shown(session, identifier)
    assert left == (rows[1:] if passing == 2 or table.current().integer(EPOCH) == 2 else rows)
    table.delete_rows("`id` = 1", {EPOCH: "3"}, table.current())
    assert shown(session, identifier) == rows[1:]
