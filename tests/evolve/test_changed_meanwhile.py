"""E2, E7: who looked at a table before another process has changed its columns stores nothing by the earlier ones."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from tests.conftest import Workbench
from tidegate.errors import TidegateError
from tidegate.maintenance import erase as erase_room
from tidegate.maintenance.erase import erase
from tidegate.session.session import Session
from tidegate.sql.catalog.objects import View
from tidegate.tables.table import KeyedTable
from tidegate.views.view_table import ViewTable

pytestmark = pytest.mark.runner("inprocess")

ROWS = "CREATE TABLE t (id INT, {columns}, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;"


def elsewhere(workbench: Workbench, definition: str, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session of another machine, which reads the definition as it is now and has the lease, too."""
    session = workbench.assets(t=definition).session()
    monkeypatch.setattr(session, "lease", lambda *_: nullcontext())
    return session


def test_E9_an_erasure_whose_condition_is_on_columns_of_before_erases_nothing_and_says_so(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = workbench.assets(t=ROWS.format(columns="who VARCHAR")).session()
    session.run()
    session.execute(
        "INSERT INTO t VALUES (1, 'ann', '2026-01-01 00:00:01'), (2, 'bob', '2026-01-01 00:00:02')"
    )
    session.confirm = lambda text: True
    require = erase_room.require_reach

    def changed(*given: Any) -> Any:
        found = require(*given)
        renamed = ROWS.format(columns="buyer VARCHAR RENAMED FROM who, who VARCHAR")
        elsewhere(workbench, renamed, monkeypatch).run(["t"])
        return found

    with monkeypatch.context() as patched:
        patched.setattr(erase_room, "require_reach", changed)
        with pytest.raises(TidegateError) as refused:
            erase(session, "t", "who = 'ann'")
    assert refused.value.code == "TG506"
    now = workbench.session()
    assert sorted(map(tuple, now.execute("SELECT id, buyer, who FROM t").rows())) == [
        (1, "ann", None),
        (2, "bob", None),
    ]
    now.confirm = lambda text: True
    erase(now, "t", "buyer = 'ann'")
    assert [tuple(row) for row in now.execute("SELECT id, buyer FROM t").rows()] == [(2, "bob")]


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not-applied"])
def test_E2_R2_a_change_that_was_committed_by_earlier_columns_is_applied_by_the_new_ones(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, applied: bool
) -> None:
    """The other process has changed log and state, and ends before or after it has applied the epoch."""
    session = workbench.assets(t="CREATE TABLE t (id INT PRIMARY KEY, a INT);").session()
    session.run()
    session.execute("INSERT INTO t VALUES (1, 5)")
    real, calls = KeyedTable.catch_up, list[KeyedTable]()

    def catch_up(state: KeyedTable) -> int:
        calls.append(state)
        if len(calls) > 1:
            return real(state) if applied else 0
        other = elsewhere(
            workbench, "CREATE TABLE t (id INT PRIMARY KEY, b INT RENAMED FROM a, a INT);", monkeypatch
        )
        other.run(["t"])
        return real(state)

    with monkeypatch.context() as patched:
        patched.setattr(KeyedTable, "catch_up", catch_up)
        with pytest.raises(TidegateError) as refused:
            session.execute("INSERT INTO t VALUES (2, 7)")
    assert refused.value.code == "TG502"
    now = workbench.session()
    now.run(["t"])
    found = now.execute("SELECT id, b, a FROM t").rows()
    assert sorted(map(tuple, found)) == [(1, 5, None), (2, 7, None)]


def test_E9_an_erasure_waits_for_columns_of_a_state_that_are_being_changed(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run was killed between the commit of the log and that of the state: nothing is erased before it continues."""
    table = "CREATE TABLE t (k VARCHAR PRIMARY KEY, n INT{more});"
    session = workbench.assets(t=table.format(more="")).session()
    session.execute("INSERT INTO t VALUES ('ann', 1), ('bob', 2)")
    changed = workbench.assets(t=table.format(more=", m INT")).session()
    follow = KeyedTable._follow

    def killed(state: KeyedTable, changes: Any) -> bool:
        if state.relation.definition == changed.relation("t").definition:
            raise KeyboardInterrupt
        return follow(state, changes)

    with monkeypatch.context() as patched:
        patched.setattr(KeyedTable, "_follow", killed)
        with pytest.raises(KeyboardInterrupt):
            changed.run(["t"])
    again = workbench.session()
    again.confirm = lambda text: True
    with pytest.raises(TidegateError) as refused:
        erase(again, "t", "k = 'ann'")
    assert refused.value.code == "TG506"
    assert "tidegate run t" in (refused.value.hint or "")
    again.run(["t"])
    assert sorted(row[0] for row in again.execute("SELECT k FROM t").rows()) == ["ann", "bob"]
    erase(again, "t", "k = 'ann'")
    assert [row[0] for row in again.execute("SELECT k FROM t").rows()] == ["bob"]


LOOKUP = """
CREATE MATERIALIZED VIEW named AS SELECT o.ts, o.id, k.a FROM orders AS o
JOIN k FOR SYSTEM_TIME AS OF PROCTIME() ON o.id = k.id EMIT ON WINDOW CLOSE;
"""
COUNTED = """
CREATE MATERIALIZED VIEW named AS SELECT window_end, sum(a) AS total FROM TUMBLE(k, ts, INTERVAL '1 minute')
GROUP BY window_end EMIT ON WINDOW CLOSE;
"""
KEYED = "CREATE TABLE k (id INT PRIMARY KEY, {columns});"
PLAIN = "CREATE TABLE k (id INT, {columns}, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;"
ORDERS = "CREATE TABLE orders (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;"


@pytest.mark.parametrize(
    "columns", ["b INT RENAMED FROM a", "b INT RENAMED FROM a, a INT"], ids=["gone", "another-one"]
)
@pytest.mark.parametrize(
    ("view", "table", "values"),
    [(LOOKUP, KEYED, "(1, 5)"), (COUNTED, PLAIN, "(1, 5, '2026-01-01 00:00:01')")],
    ids=["keyed", "plain"],
)
def test_E2_a_view_that_is_open_reads_no_other_column_for_one_that_was_renamed_meanwhile(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, view: str, table: str, values: str, columns: str
) -> None:
    session = workbench.assets(t=ORDERS + table.format(columns="a INT") + view).session()
    session.execute(f"INSERT INTO k VALUES {values}")
    session.execute("INSERT INTO orders VALUES (1, '2026-01-01 00:00:01'), (1, '2026-01-01 00:00:02')")
    session.run()
    found = session.catalog.get("named")
    assert isinstance(found, View)
    opened = ViewTable(session, found)
    before = opened.table.current()
    other = elsewhere(workbench, ORDERS + table.format(columns=columns), monkeypatch)
    other.run(["k"])
    other.execute("INSERT INTO orders VALUES (1, '2026-01-01 00:00:03'), (1, '2026-01-01 00:00:04')")
    if table is PLAIN:
        more = ", 7" if "," in columns else ""
        other.execute(f"INSERT INTO k VALUES (2, 6{more}, '2026-01-01 00:05:00')")
    with pytest.raises(TidegateError) as refused:
        opened.tick()
    assert refused.value.code == "TG506"
    assert opened.table.current() == before
