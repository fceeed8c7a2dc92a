"""E9: tables with a PRIMARY KEY: a person's changes go from the log, and what they left from the state."""

from __future__ import annotations

import pytest

from tests.conftest import Workbench
from tests.inprocess.failpoints import Failpoints, Killed
from tests.maintenance.people import WHERE, WHO, there
from tidegate.audit.source import audit_source
from tidegate.audit.view import audit_view
from tidegate.errors import TidegateError
from tidegate.maintenance.erase import erase
from tidegate.session.session import Session

pytestmark = pytest.mark.runner("inprocess")

TABLES = """
CREATE TABLE people (customer VARCHAR, city VARCHAR, at TIMESTAMP, PRIMARY KEY (customer),
WATERMARK FOR at AS at - INTERVAL '1 hour' WITH TTL);
CREATE TABLE plain (customer VARCHAR PRIMARY KEY, city VARCHAR);
CREATE MATERIALIZED VIEW cities AS SELECT customer AS who, city FROM plain;
CREATE MATERIALIZED VIEW hourly AS SELECT window_start, customer, count(*) AS n
FROM TUMBLE(people, at, INTERVAL '1 hour') GROUP BY window_start, customer EMIT ON WINDOW CLOSE;
"""


def filled(workbench: Workbench) -> Session:
    """Of two people several changes, one of them late, and a deletion."""
    (workbench.root / "assets" / "all.sql").write_text(TABLES)
    session = workbench.session()
    for number in (1, 2, 3):
        rows = ", ".join(f"('{who}', 'city {number}', '2026-01-0{number} 10:00:00')" for who in ("ann", WHO))
        session.execute(f"INSERT INTO people VALUES {rows}")
        session.execute(f"INSERT INTO plain VALUES ('ann', 'city {number}'), ('{WHO}', '{WHO} {number}')")
    session.execute(f"INSERT INTO people VALUES ('{WHO}', 'late', '2026-01-01 00:00:00')")
    session.execute("INSERT INTO plain VALUES ('bob', 'x')")
    session.execute("DELETE FROM plain WHERE customer = 'bob'")
    session.run()
    return session


def checked(workbench: Workbench, session: Session) -> None:
    """Of both tables the person's rows go, with those of views, and all else stays."""
    session.confirm = lambda text: True
    assert there(workbench.root)
    seen = erase(session, "people", WHERE, dry_run=True)
    done = erase(session, "people", WHERE)
    assert [(t.table, t.rows) for t in done.tables] == [(t.table, t.rows) for t in seen.tables]
    assert [(t.table, t.rows) for t in done.tables[:2]] == [("people", 4), ("people$state", 1)]
    assert done.tables[2].table == "hourly"
    assert erase(session, "plain", WHERE).rows == 3
    assert there(workbench.root) == set()
    assert session.execute("SELECT customer, city FROM people").rows() == [("ann", "city 3")]
    assert session.execute("SELECT * FROM plain").rows() == [("ann", "city 3")]
    assert session.execute("SELECT * FROM cities").rows() == [("ann", "city 3")]
    for name in ("people", "plain"):
        assert audit_source(session, name).ok, name
    # The same key begins anew, as one that was never there.
    session.execute(f"INSERT INTO plain VALUES ('{WHO}', 'again')")
    session.execute(f"INSERT INTO people VALUES ('{WHO}', 'again', '2026-01-04 10:00:00')")
    session.run()
    assert sorted(session.execute("SELECT * FROM cities").rows()) == [("ann", "city 3"), (WHO, "again")]
    assert audit_view(session, "hourly").ok
    assert (erase(session, "plain", WHERE).rows, erase(session, "people", WHERE).rows) == (1, 1)
    assert there(workbench.root) == set()


def test_E9_a_person_s_changes_and_what_they_left_go(workbench: Workbench) -> None:
    checked(workbench, filled(workbench))


@pytest.mark.long_run
@pytest.mark.medium
@pytest.mark.runner("spark")
def test_E9_rows_that_are_only_marked_as_deleted_go_too(workbench: Workbench) -> None:
    """On Spark a change marks the row that it replaces, whose file stays as it is."""
    (workbench.root / "assets" / "all.sql").write_text(TABLES)
    session = workbench.session()
    for number in (1, 2):
        session.execute(
            f"INSERT INTO people VALUES ('ann', '1', '2026-01-01 10:00:00'), "
            f"('{WHO}', 'city {number}', '2026-01-0{number} 10:00:00')"
        )
        session.execute(f"INSERT INTO plain VALUES ('ann', '1'), ('{WHO}', '{WHO} {number}')")
    session.confirm = lambda text: True
    assert there(workbench.root)
    assert [(t.table, t.rows) for t in erase(session, "people", WHERE).tables[:2]] == [
        ("people", 2),
        ("people$state", 1),
    ]
    assert erase(session, "plain", WHERE).rows == 2
    assert there(workbench.root) == set()
    assert session.execute("SELECT customer, city FROM plain").rows() == [("ann", "1")]
    assert audit_source(session, "people").ok


def test_E9_only_a_condition_on_the_key_finds_all_changes_of_it(workbench: Workbench) -> None:
    session = filled(workbench)
    for condition in ("city = 'late'", f"{WHERE} AND city = 'late'", "true"):
        with pytest.raises(TidegateError, match="found only by a condition on customer alone"):
            erase(session, "people", condition)


class EndsAt(Failpoints):
    """Ends a run where it first comes to a point of this name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def reach(self, name: str) -> None:
        super().reach(name)
        if name == self._name:
            raise Killed(name)


@pytest.mark.medium
@pytest.mark.runner("inprocess", only=True)
@pytest.mark.parametrize(
    "point",
    [
        pytest.param("after InProcessTable.append", marks=pytest.mark.long_run),
        pytest.param("before InProcessTable.delete_rows", marks=pytest.mark.long_run),
        "after InProcessTable.delete_rows",
        pytest.param("before ErasingFile.remove", marks=pytest.mark.long_run),
    ],
)
def test_R2_an_erasure_of_what_a_key_holds_goes_on(workbench: Workbench, point: str) -> None:
    session = filled(workbench)
    session.confirm = lambda text: True
    points = EndsAt(point)
    with pytest.raises(Killed), points.armed():
        erase(session, "people", WHERE)
    session = workbench.session()
    done = erase(session, "people")
    assert (done.rows, audit_source(session, "people").ok) == (4, True)
    assert session.execute("SELECT customer, city FROM people").rows() == [("ann", "city 3")]
    session.confirm = lambda text: True
    erase(session, "plain", WHERE)
    assert there(workbench.root) == set()
