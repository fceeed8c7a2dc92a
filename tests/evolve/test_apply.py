"""Changed columns of a log (E1-E4, E7): in metadata alone, at an epoch, and nothing that was judged is judged again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import Workbench
from tests.inprocess.failpoints import Failpoints, Killed
from tidegate.errors import TidegateError
from tidegate.plan.columns.changes import CHANGES, steps
from tidegate.plan.events import DefinitionChanged
from tidegate.views.amend.rebuild import rebuild

if TYPE_CHECKING:
    from tidegate.session.session import Session

pytestmark = pytest.mark.runner("inprocess")

WATERMARK = "ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '10 seconds'"
BY_SHOP = """
CREATE MATERIALIZED VIEW per_minute AS
SELECT window_end, shop, count(*) AS n, sum(amount) AS total FROM TUMBLE(orders, ts, INTERVAL '1 minute')
GROUP BY window_end, shop EMIT ON WINDOW CLOSE;
"""


def orders(columns: str) -> str:
    return f"CREATE TABLE orders ({columns}, {WATERMARK}) APPEND ONLY;"


def opened(workbench: Workbench, columns: str, view: str = BY_SHOP) -> Session:
    """A new session after the file was edited."""
    workbench.assets(orders=orders(columns), view=view)
    return workbench.session()


def shown(session: Session, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in session.execute(query).rows()]


@pytest.mark.runner("inprocess", "spark")
def test_E2_a_column_that_is_renamed_and_another_of_its_old_name_keep_their_values(
    workbench: Workbench,
) -> None:
    session = opened(workbench, "shop VARCHAR, amount INT, extra INT")
    session.execute(
        "INSERT INTO orders VALUES ('a', 1, 7, '2026-01-01 12:00:01'), ('b', 2, 8, '2026-01-01 12:00:02')"
    )
    session.run()
    before = shown(
        session, 'SELECT epoch, partition, watermark, on_time FROM "orders$watermarks" ORDER BY epoch'
    )
    # `extra` becomes `tip`, and another `extra` is there, of another type; `note` stands in between.
    session = opened(
        workbench, "tip INT RENAMED FROM extra, shop VARCHAR, note VARCHAR, amount INT, extra VARCHAR"
    )
    with pytest.raises(TidegateError, match=r"TG506.*does not have these columns yet"):
        session.execute("SELECT extra FROM orders")
    session.execute("INSERT INTO orders VALUES (5, 'a', 'hi', 3, 'x', '2026-01-01 12:02:00')")
    query = "SELECT tip, shop, note, amount, extra FROM orders ORDER BY ts"
    assert shown(session, query) == [(7, "a", None, 1, None), (8, "b", None, 2, None), (5, "a", "hi", 3, "x")]
    assert (
        shown(session, 'SELECT epoch, partition, watermark, on_time FROM "orders$watermarks" ORDER BY epoch')[
            : len(before)
        ]
        == before
    )
    session.run()
    # The view names neither: its results are continued, from files of both shapes (without a rebuild).
    assert shown(session, "SELECT shop, n, total FROM per_minute ORDER BY shop") == [("a", 1, 1), ("b", 1, 2)]
    session.execute("INSERT INTO orders VALUES (1, 'c', 'x', 1, 'y', '2026-01-01 12:05:00')")
    session.run()
    totals = "SELECT window_end, shop, n, total FROM per_minute ORDER BY window_end, shop"
    assert [row[1:] for row in shown(session, totals)] == [("a", 1, 1), ("b", 1, 2), ("a", 1, 3)]
    _agrees_with_pyiceberg(session, query)


def _agrees_with_pyiceberg(session: Session, query: str) -> None:
    """Whoever reads the table by Iceberg's ids sees what SQL shows."""
    from pyiceberg.table import StaticTable

    from tidegate.store.metadata import load_table

    storage = session.project.storage
    stored = load_table(storage, "orders")
    assert stored is not None
    table = StaticTable.from_metadata(stored.metadata_location, storage.pyiceberg_properties())
    names = ("tip", "shop", "note", "amount", "extra", "ts")
    rows = table.scan("_outcome == 'on_time'", selected_fields=names).to_arrow().sort_by("ts").to_pylist()
    assert [tuple(row[name] for name in names[:-1]) for row in rows] == shown(session, query)
    assert table.schema().column_names[:6] == ["tip", "shop", "note", "amount", "extra", "ts"]


def test_E7_a_change_is_one_commit_that_reads_and_judges_nothing(workbench: Workbench) -> None:
    session = opened(workbench, "shop VARCHAR, amount INT NOT NULL")
    session.execute(
        "INSERT INTO orders VALUES ('a', 1, '2026-01-01 12:00:01'), ('b', NULL, '2026-01-01 12:00:02')"
    )
    session.run()
    table = session.tables.open(session.identifier("orders"))
    stood = table.current().summary
    session = opened(workbench, "amount INT COMMENT 'in cents', shop VARCHAR, note VARCHAR")
    events: list[Any] = []
    session.run(on_event=events.append)
    table = session.tables.open(session.identifier("orders"))
    now = table.current().summary
    assert int(now["tidegate.epoch"]) == int(stood["tidegate.epoch"]) + 1
    kept = [
        key
        for key in stood
        if key.startswith("tidegate.") and key not in ("tidegate.epoch", "tidegate.progress")
    ]
    assert {key: now.get(key) for key in kept} == {key: stood[key] for key in kept}
    (changed,) = [event for event in events if isinstance(event, DefinitionChanged)]
    text = 'column "amount" can be NULL; column "note" VARCHAR is added'
    text += "; the order of the columns is amount, shop, note, ts"
    assert (changed.source, changed.epoch, changed.change) == ("orders", int(now["tidegate.epoch"]), text)
    (step,) = steps(table.property(CHANGES))
    assert (step.epoch, [change.kind for change in step.changes]) == (
        changed.epoch,
        ["relax", "add", "reorder"],
    )
    note = shown(
        session, 'SELECT note FROM "orders$watermarks" WHERE partition IS NULL ORDER BY epoch DESC LIMIT 1'
    )
    assert note == [(f"definition changed: {text}",)]
    # E4: what was rejected stays rejected; the next row without an amount is not.
    session.execute("INSERT INTO orders VALUES (NULL, 'c', 'x', '2026-01-01 12:00:03')")
    assert shown(session, 'SELECT reason FROM "orders$rejected"') == [('not_null: column "amount" is NULL',)]
    assert shown(session, "SELECT shop, amount FROM orders ORDER BY ts") == [("a", 1), ("c", None)]
    # Nothing is left to do.
    assert not [e for e in _events(workbench) if isinstance(e, DefinitionChanged)]


def _events(workbench: Workbench) -> list[Any]:
    events: list[Any] = []
    workbench.session().run(on_event=events.append)
    return events


@pytest.mark.parametrize(
    "kind", ["INT BIGINT 2147483648", "REAL DOUBLE 0.1", "DECIMAL(5,2) DECIMAL(9,2) 1234567.89"]
)
def test_E3_a_wider_type_holds_the_values_of_before(workbench: Workbench, kind: str) -> None:
    before, after, value = kind.split()
    session = opened(workbench, f"shop VARCHAR, amount INT, x {before}")
    session.execute("INSERT INTO orders VALUES ('a', 1, 1.25, '2026-01-01 12:00:01')")
    session.run()
    session = opened(workbench, f"shop VARCHAR, amount INT, x {after}")
    session.execute(f"INSERT INTO orders VALUES ('a', 1, {value}, '2026-01-01 12:00:02')")
    found = shown(
        session, f"SELECT CAST(x AS VARCHAR), x = CAST('{value}' AS {after}) FROM orders ORDER BY ts"
    )
    assert found[1][1] is True
    assert float(found[0][0]) == (1 if before == "INT" else 1.25)


def test_E3_a_view_that_names_a_changed_column_is_a_new_version_and_others_are_not(
    workbench: Workbench,
) -> None:
    largest = BY_SHOP.replace("per_minute", "largest").replace("sum(amount) AS total", "max(x) AS most")
    views = BY_SHOP + largest
    session = opened(workbench, "shop VARCHAR, amount INT, x INT", views)
    session.execute(
        "INSERT INTO orders VALUES ('a', 1, 5, '2026-01-01 12:00:01'), ('a', 1, 5, '2026-01-01 12:02:00')"
    )
    session.run()
    session = opened(workbench, "shop VARCHAR, amount INT, x BIGINT", views)
    report = session.run(fail_fast=False)
    assert [(one.name, one.error["code"]) for one in report.failed] == [("largest", "TG506")]
    assert 'column "x" is widened from INT to BIGINT' in report.failed[0].error["message"]
    assert shown(session, "SELECT most FROM largest") == [(5,)]
    from tidegate.session.deployed import changed_definitions
    from tidegate.session.up_to_date import up_to_date
    from tidegate.views.amend.rebuild import rebuild

    # (As the files have it: in the session's catalog, what continues stands in for that.)
    written = session.project.catalog()
    assert list(changed_definitions(session.project, written)) == ["largest"]
    assert up_to_date(session.project, written, ["largest"]) is None
    assert [one.view for one in rebuild(session)] == ["largest"]
    assert changed_definitions(session.project, session.catalog) == {}
    session.execute("INSERT INTO orders VALUES ('a', 1, 3000000000, '2026-01-01 12:05:00')")
    session.execute("INSERT INTO orders VALUES ('a', 1, 1, '2026-01-01 12:09:00')")
    assert not session.run().failed
    assert shown(session, "SELECT most FROM largest ORDER BY window_end") == [(5,), (5,), (3000000000,)]


def test_O1_columns_in_another_order_concern_who_takes_them_by_their_place(workbench: Workbench) -> None:
    """UNION ALL of two logs, one of which gets its columns in another order: old rows would stay as they were."""
    other = f"CREATE TABLE more (a INT, b INT, {WATERMARK}) APPEND ONLY;"
    both = other + (
        "CREATE MATERIALIZED VIEW both AS SELECT * FROM orders UNION ALL SELECT * FROM more EMIT ON WINDOW CLOSE;"
        "CREATE MATERIALIZED VIEW named AS SELECT a, b, ts FROM orders EMIT ON WINDOW CLOSE;"
    )
    session = opened(workbench, "a INT, b INT", both)
    late = "(9, 9, '2026-01-01 13:00:00')"
    session.execute(f"INSERT INTO orders VALUES (1, 2, '2026-01-01 12:00:01'), {late}")
    session.execute(f"INSERT INTO more VALUES (3, 4, '2026-01-01 12:00:02'), {late}")
    session.run()
    assert shown(session, "SELECT a, b FROM both ORDER BY ts") == [(1, 2), (3, 4)]
    session = opened(workbench, "b INT, a INT", both)
    session.execute("INSERT INTO orders VALUES (9, 9, '2026-01-01 13:00:01')")
    failed = session.run(fail_fast=False).failed
    assert [one.name for one in failed] == ["both"]
    assert "TG506" in str(failed[0].error)
    rebuild(session, ["both"])
    # By their place: the first column of `orders` is `b` now.
    assert shown(session, "SELECT b, a FROM both ORDER BY ts") == [(2, 1), (3, 4)]


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        (
            "shop VARCHAR, cents INT, x INT",
            'write: cents INT RENAMED FROM amount. If it is another column, remove "amount"',
        ),
        ("shop VARCHAR, amount VARCHAR, x INT", 'column "amount" was INT and is VARCHAR'),
        ("shop VARCHAR, amount INT NOT NULL, x INT", 'column "amount" becomes NOT NULL'),
        ("shop VARCHAR, amount INT, x INT, y VARCHAR NOT NULL", 'column "y" is added as NOT NULL'),
    ],
)
def test_E2_what_is_ambiguous_or_changes_values_is_refused_and_changes_nothing(
    workbench: Workbench, columns: str, why: str
) -> None:
    session = opened(workbench, "shop VARCHAR, amount INT, x INT")
    session.execute("INSERT INTO orders VALUES ('a', 1, 1, '2026-01-01 12:00:01')")
    table = session.tables.open(session.identifier("orders"))
    before = table.current(), table.properties()
    session = opened(workbench, columns, "")
    with pytest.raises(TidegateError) as caught:
        session.run(fail_fast=True)
    assert caught.value.code == "TG506"
    assert why in caught.value.message
    table = session.tables.open(session.identifier("orders"))
    assert (table.current(), table.properties()) == before


def test_E1_who_has_taken_all_columns_stands_in_the_way(workbench: Workbench) -> None:
    sink = """CREATE SINK copy FROM orders WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON;"""
    session = opened(workbench, "shop VARCHAR, amount INT", sink)
    session.execute("INSERT INTO orders VALUES ('a', 1, '2026-01-01 12:00:01')")
    session.run()
    session = opened(workbench, "shop VARCHAR, amount INT, note VARCHAR", sink)
    with pytest.raises(TidegateError, match=r'(?s)TG506.*sink "copy" delivers all columns'):
        session.run(fail_fast=True)


def test_R2_killed_at_any_point_a_change_is_there_or_not_at_all(workbench: Workbench) -> None:
    session = opened(workbench, "shop VARCHAR, amount INT, extra INT")
    session.execute("INSERT INTO orders VALUES ('a', 1, 7, '2026-01-01 12:00:01')")
    session.run()
    killed, points, changes = True, 0, 0
    while killed:
        session = opened(workbench, "shop VARCHAR, amount INT, tip BIGINT RENAMED FROM extra")
        killed = False
        try:
            with Failpoints(points).armed():
                session.run()
        except Killed:
            killed, points = True, points + (changes == 0)
        table = session.tables.open(session.identifier("orders"))
        table.refresh()
        stood, changes = changes, len(steps(table.property(CHANGES)))
        killed = killed and not stood
        names = session.tables.rows(session.identifier("orders")).columns
        assert ("tip" in names, "extra" in names) == ((True, False) if changes else (False, True))
    assert points
    workbench.session().run()
    table = workbench.session().tables.open(session.identifier("orders"))
    assert len(steps(table.property(CHANGES))) == 1
    assert shown(workbench.session(), "SELECT tip FROM orders") == [(7,)]
