"""Changed columns of a table with a PRIMARY KEY (E2, E3, E7): its log and its state are two tables, and follow one
another."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Workbench
from tests.evolve.test_apply import shown
from tests.inprocess.failpoints import Failpoints, Killed
from tidegate.errors import TidegateError
from tidegate.evolve.planning import planned
from tidegate.plan.columns.changes import CHANGES, steps
from tidegate.session.apply import apply
from tidegate.session.session import Session
from tidegate.tables.lives import state_identifier

pytestmark = pytest.mark.runner("inprocess")

PLAIN = "CREATE TABLE shops ({}, PRIMARY KEY (id));"
TTL = (
    "CREATE TABLE shops ({}, ts TIMESTAMP, PRIMARY KEY (id), "
    "WATERMARK FOR ts AS ts - INTERVAL '10 minutes' WITH TTL);"
)
ORDERS = "CREATE TABLE orders (shop INT, amount INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;"
BY_CITY = """
CREATE MATERIALIZED VIEW by_city AS SELECT window_end, city, sum(amount) AS total
FROM TUMBLE(orders, ts, INTERVAL '1 minute') JOIN shops ON shop = id GROUP BY window_end, city EMIT ON WINDOW CLOSE;
"""
BEFORE = "id INT, city VARCHAR, size INT, extra INT"
AFTER = "note VARCHAR, id INT, city VARCHAR, size BIGINT, old_extra INT RENAMED FROM extra, extra VARCHAR"


def opened(workbench: Workbench, table: str, columns: str, others: str = "") -> Session:
    workbench.assets(shops=table.format(columns), others=others)
    return workbench.session()


def time(table: str, text: str) -> str:
    return f", '2026-01-01 12:{text}'" if table is TTL else ""


@pytest.mark.runner("inprocess", "spark", long_run="spark")
@pytest.mark.parametrize(
    "table", [pytest.param(PLAIN, marks=pytest.mark.long_run), TTL], ids=["plain", "ttl"]
)
def test_E2_E3_log_and_state_change_and_changes_go_on(workbench: Workbench, table: str) -> None:
    session = opened(workbench, table, BEFORE)
    session.execute(f"INSERT INTO shops VALUES (1, 'berlin', 5, 7{time(table, '00:00')})")
    session.execute(f"INSERT INTO shops VALUES (2, 'paris', 6, 8{time(table, '00:30')})")
    session = opened(workbench, table, AFTER)
    with pytest.raises(TidegateError, match="TG506"):
        session.execute("SELECT * FROM shops")
    # The first statement that writes changes both; it is an UPDATE, which reads the rows by their new columns.
    session.execute("UPDATE shops SET size = 3000000000, extra = 'new' WHERE old_extra = 7")
    query = "SELECT note, id, city, size, old_extra, extra FROM shops ORDER BY id"
    first = (None, 1, "berlin", 3000000000, 7, "new")
    assert shown(session, query) == [first, (None, 2, "paris", 6, 8, None)]
    session.execute(f"INSERT INTO shops VALUES ('x', 2, 'rome', 1, 2, 'y'{time(table, '01:00')})")
    session.execute(f"INSERT INTO shops VALUES (NULL, 3, 'oslo', 1, NULL, NULL{time(table, '01:30')})")
    session.execute("DELETE FROM shops WHERE id = 3")
    assert shown(session, query) == [first, ("x", 2, "rome", 1, 2, "y")]
    assert shown(workbench.session(), query) == [first, ("x", 2, "rome", 1, 2, "y")]


def test_E2_columns_that_a_table_has_had_before_keep_the_values_of_now(workbench: Workbench) -> None:
    """A column goes, another one of its name and place comes, and then a third: its values are those of the second."""
    session = opened(workbench, PLAIN, "id INT, a INT")
    session.execute("INSERT INTO shops VALUES (1, 10)")
    session = opened(workbench, PLAIN, "id INT")
    session.execute("INSERT INTO shops VALUES (2)")
    session = opened(workbench, PLAIN, "id INT, a INT")
    session.execute("INSERT INTO shops VALUES (3, 30)")
    session = opened(workbench, PLAIN, "id INT, a INT, c INT")
    session.execute("INSERT INTO shops VALUES (4, 40, 4)")
    expected = [(1, None, None), (2, None, None), (3, 30, None), (4, 40, 4)]
    assert shown(session, "SELECT id, a, c FROM shops ORDER BY id") == expected


def test_E2_columns_that_are_swapped_and_changed_again_keep_their_values(workbench: Workbench) -> None:
    session = opened(workbench, PLAIN, "id INT, a INT, b INT")
    session.execute("INSERT INTO shops VALUES (1, 10, 20)")
    for columns in (
        "id INT, t INT RENAMED FROM a, b INT",
        "id INT, t INT, a INT RENAMED FROM b",
        "id INT, b INT RENAMED FROM t, a INT",
        "id INT, a INT, b INT",
        "id INT, a INT, b INT, c INT",
    ):
        session = opened(workbench, PLAIN, columns)
        session.run()
    assert shown(session, "SELECT id, a, b, c FROM shops ORDER BY id") == [(1, 20, 10, None)]


def test_E3_a_lookup_that_names_no_changed_column_goes_on(workbench: Workbench) -> None:
    others = ORDERS + BY_CITY
    session = opened(workbench, PLAIN, BEFORE, others)
    session.execute("INSERT INTO shops VALUES (1, 'berlin', 5, 7)")
    session.execute("INSERT INTO orders VALUES (1, 4, '2026-01-01 12:00:01'), (1, 1, '2026-01-01 12:01:01')")
    session.run()
    session = opened(workbench, PLAIN, AFTER, others)
    session.execute("INSERT INTO shops VALUES ('x', 2, 'rome', 1, 2, 'y')")
    session.execute("INSERT INTO orders VALUES (2, 5, '2026-01-01 12:01:02'), (2, 6, '2026-01-01 12:03:00')")
    assert not session.run().failed
    found = shown(session, "SELECT city, total FROM by_city ORDER BY window_end, city")
    assert found == [("berlin", 4), ("berlin", 1), ("rome", 5)]
    # Late rows amend a window at the state that its lookup had read, which did not have all of these columns yet.
    session.execute("INSERT INTO orders VALUES (1, 10, '2026-01-01 12:00:02')")
    from tidegate.amend.run import amend

    amend(session, ["by_city"])
    found = shown(session, "SELECT city, total FROM by_city ORDER BY window_end, city")
    assert found == [("berlin", 14), ("berlin", 1), ("rome", 5)]


@pytest.mark.parametrize("table", [PLAIN, TTL], ids=["plain", "ttl"])
def test_R2_killed_between_log_and_state_the_next_run_continues(workbench: Workbench, table: str) -> None:
    session = opened(workbench, table, BEFORE)
    session.execute(f"INSERT INTO shops VALUES (1, 'berlin', 5, 7{time(table, '00:00')})")
    points, seen = 0, set()
    while True:
        session = opened(workbench, table, AFTER)
        try:
            with Failpoints(points).armed():
                session.run()
            break
        except Killed:
            seen.add(_stands(session))
        points += 1
    assert {(0, "before"), (1, "before")} <= seen
    assert _stands(session) == (1, "after")
    assert shown(session, "SELECT note, id, size, old_extra, extra FROM shops") == [(None, 1, 5, 7, None)]


def test_E7_apply_completes_what_was_interrupted_before_it_builds_a_view_from_it(
    workbench: Workbench,
) -> None:
    session = opened(workbench, TTL, BEFORE)
    session.execute("INSERT INTO shops VALUES (1, 'berlin', 5, 7, '2026-01-01 12:00:00')")
    point = 0
    while _stands(session) != (1, "before"):
        session = opened(workbench, TTL, AFTER)
        with pytest.raises(Killed), Failpoints(point).armed():
            session.run()
        point += 1
    view = "CREATE MATERIALIZED VIEW sizes AS SELECT window_end, sum(size) AS s"
    windows = "FROM TUMBLE(shops, ts, INTERVAL '1 day') GROUP BY window_end EMIT ON WINDOW CLOSE"
    session = opened(workbench, TTL, AFTER, f"{view} {windows};")
    (shops, sizes) = planned(session.project, session.catalog)
    assert (shops.name, shops.effect, sizes.effect) == ("shops", "in place", "new")
    assert shops.what == ("a change of its columns, which was interrupted, is completed",)
    apply(session)
    assert _stands(session) == (1, "after")
    assert session.table("sizes").collect() == []
    assert {one.effect for one in planned(session.project, session.catalog)} == {"unchanged"}


def _stands(session: Session) -> tuple[int, str]:
    """How often the log was changed, and of which definition the state is."""
    log: Any = session.tables.open(session.identifier("shops"))
    state = session.tables.open(state_identifier(session.identifier("shops")))
    found = steps(log.property(CHANGES))
    followed = state.property("tidegate.identity") == log.property("tidegate.identity")
    if found and not followed:
        with pytest.raises(TidegateError, match=r"TG506.*its log has them"):
            session.execute("SELECT * FROM shops")
    return len(found), "after" if found and followed else "before"
