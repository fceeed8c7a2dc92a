"""E5: a view whose query names a column that was changed closes windows by its earlier query, over the columns of then,
until its new version takes its place."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Workbench
from tidegate.audit.view import audit_view
from tidegate.evolve.planning import planned
from tidegate.plan.columns.as_seen import BEFORE
from tidegate.session.apply import apply
from tidegate.session.deployed import changed_definitions
from tidegate.session.session import Session
from tidegate.sql.catalog.objects import Relation
from tidegate.store.status import read_status

pytestmark = pytest.mark.runner("inprocess")

WATERMARK = "ts TIMESTAMP, WATERMARK FOR ts AS ts"
TABLE = f"CREATE TABLE t ({{}}, {WATERMARK}) APPEND ONLY;"
SHOPS = "CREATE TABLE shops (k VARCHAR, {} VARCHAR, PRIMARY KEY (k));"
OLD, NEW = "k VARCHAR, n INT, m INT", "k VARCHAR, total INT RENAMED FROM n, m INT"
SUM = """CREATE MATERIALIZED VIEW v AS SELECT window_end, sum({}) AS x FROM TUMBLE(t, ts, INTERVAL '1 hour')
GROUP BY window_end EMIT ON WINDOW CLOSE;"""
READER = "CREATE MATERIALIZED VIEW r AS SELECT window_end, x + 1000 AS y FROM v EMIT ON WINDOW CLOSE;"
SINK = """CREATE SINK out FROM v WITH (connector = 'filesystem', path = 'out', on_change = 'from_frontier')
FORMAT PLAIN ENCODE JSON;"""
CONTINUES = "its current version continues with the columns of before"


def opened(workbench: Workbench, columns: str, view: str, **more: str) -> Session:
    workbench.assets(t=TABLE.format(columns), v=view, **more)
    return workbench.session()


def insert(session: Session, *rows: tuple[int, int]) -> None:
    """(hour, value of the first column of numbers; ten times that is the value of all others)."""
    names = [c.name for c in relation(session, "t").columns if c.name not in ("k", "ts")]
    for hour, value in rows:
        values = [str(value if at == 0 else 10 * value) for at in range(len(names))]
        columns = ", ".join(["k", *names, "ts"])
        session.execute(
            f"INSERT INTO t ({columns}) VALUES ('a', {', '.join(values)}, '2026-01-01 {hour:02}:10:00')"
        )


def relation(session: Session, name: str) -> Relation:
    found = session.catalog.get(name)
    assert isinstance(found, Relation)
    return found


def results(session: Session, name: str = "v") -> list[tuple[int, Any]]:
    """The hour in which each window ends, and its value."""
    return sorted((row[0].hour, row[1]) for row in session.table(name).collect())


def continued(session: Session, *names: str) -> list[str]:
    """A run, which says of the view that nobody has decided on it: what it says."""
    report = session.run(fail_fast=False)
    assert [(one.name, one.error["code"]) for one in report.failed] == [(name, "TG506") for name in names]
    assert report.skipped == []
    return [one.error["message"] for one in report.failed]


def version(session: Session, name: str = "v") -> str | None:
    return session.tables.open(session.identifier(name)).property("tidegate.generation")


def deployed(workbench: Workbench, **more: str) -> Session:
    session = opened(workbench, OLD, SUM.format("n"), **more)
    insert(session, (0, 1), (1, 2), (2, 3))
    session.run()
    assert results(session) == [(1, 1), (2, 2)]
    return session


@pytest.mark.runner("inprocess", "spark", long_run="spark")
def test_E5_a_renamed_column_the_view_continues_and_the_swap_has_what_its_new_query_says(
    workbench: Workbench,
) -> None:
    deployed(workbench, r=READER, out=SINK)
    session = opened(workbench, NEW, SUM.format("total * 10"), r=READER, out=SINK)
    for hour in (3, 4):
        insert(session, (hour, hour + 1))
        (said,) = continued(session, "v")
        assert said.endswith("Its current version continues with the columns of before")
    # Whoever reads it continues with it.
    assert results(session) == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert results(session, "r") == [(hour, value + 1000) for hour, value in results(session)]
    assert len(list((workbench.root / "out").glob("*.jsonl"))) >= 2
    # A process that starts now does the same, and what was said without Spark.
    session = workbench.session()
    insert(session, (5, 6))
    continued(session, "v")
    assert results(session)[-1] == (5, 5)
    changed = changed_definitions(session.project, session.project.catalog())
    assert {name: str(one.message).rpartition("; ")[2] for name, one in changed.items()} == {"v": CONTINUES}
    plan = {one.name: one for one in planned(session.project, session.project.catalog())}
    assert (plan["v"].effect, plan["v"].what, plan["v"].command) == (
        "new version",
        ("its query has changed", f"until then, {CONTINUES}"),
        "tidegate apply v",
    )
    assert (plan["t"].effect, plan["r"].effect) == ("unchanged", "new version")
    assert audit_view(session, "v").ok
    assert audit_view(session, "r").ok
    before = results(session)
    session.confirm = lambda text: True
    apply(session)
    assert (version(session), results(session)) == ("2", [(hour, 10 * x) for hour, x in before])
    assert results(session, "v$v1") == before
    insert(session, (6, 7))
    assert not session.run(fail_fast=False).failed
    assert results(session)[-1] == (6, 60)
    assert results(session, "r") == [(hour, x + 1000) for hour, x in results(session)]
    assert changed_definitions(session.project, session.catalog) == {}
    assert audit_view(session, "v").ok


def test_E2_E5_another_column_has_its_name_and_the_text_of_the_view_is_the_same(workbench: Workbench) -> None:
    """What it means is another one, so it gets a new version; until then it means what it did."""
    deployed(workbench)
    session = opened(workbench, "k VARCHAR, total INT RENAMED FROM n, n INT, m INT", SUM.format("n"))
    insert(session, (3, 4), (4, 5))
    (said,) = continued(session, "v")
    assert 'column "n" is renamed to "total"; column "n" INT is added' in said
    assert results(session) == [(1, 1), (2, 2), (3, 3), (4, 4)]
    plan = {one.name: one for one in planned(session.project, session.project.catalog())}
    assert plan["v"].what[1] == f"until then, {CONTINUES}"
    session.confirm = lambda text: True
    apply(session)
    assert results(session) == [(1, None), (2, None), (3, None), (4, 40)]
    insert(session, (5, 6))
    assert not session.run(fail_fast=False).failed
    assert results(session)[-1] == (5, 50)
    assert version(session) == "2"


def test_E5_a_reader_that_was_edited_with_the_view_continues_with_it(workbench: Workbench) -> None:
    """Its new query needs a column that the current version of the view does not have."""
    deployed(workbench, r=READER)
    new = SUM.format("total * 10").replace("AS x", "AS z")
    session = opened(workbench, NEW, new, r=READER.replace("x +", "z +"))
    for hour in (3, 4):
        insert(session, (hour, hour + 1))
        continued(session, "v", "r")
    session = workbench.session()
    insert(session, (5, 6))
    continued(session, "v", "r")
    assert results(session, "r") == [(hour, hour + 1000) for hour in range(1, 6)]
    assert (audit_view(workbench.session(), "v").ok, audit_view(workbench.session(), "r").ok) == (True, True)
    session = workbench.session()
    session.confirm = lambda text: True
    apply(session)
    assert results(session, "r") == [(hour, 10 * hour + 1000) for hour in range(1, 6)]
    assert not session.run(fail_fast=False).failed


#: Queries of each way in which a slice is computed, over the columns k, n and m; the columns that identify a row.
HOUR = "TUMBLE(t, ts, INTERVAL '1 hour')"
WAYS = {
    "panes": f"SELECT window_end, k, sum(n) AS x, max(m) AS y FROM {HOUR} WHERE n > 1 GROUP BY window_end, k",
    "hop": "SELECT window_end, max(n) AS x FROM HOP(t, ts, INTERVAL '1 hour', INTERVAL '3 hours') GROUP BY window_end",
    "sessions": "SELECT window_end, n, count(*) AS x FROM SESSION(t, ts, n, INTERVAL '30 minutes') "
    "GROUP BY window_end, n",
    "sorted": "SELECT ts, n * 2 AS x, m FROM t",
    "every": "SELECT * FROM t",
    "over": "SELECT ts, n, sum(n) OVER w AS x, lag(m) OVER w AS y FROM t WINDOW w AS (PARTITION BY k ORDER BY ts)",
    "lookup": f"SELECT window_end, city, sum(n) AS x FROM {HOUR} JOIN shops ON t.k = shops.k GROUP BY window_end, city",
    "union": "SELECT ts, n AS x FROM t UNION ALL SELECT ts, m AS x FROM t",
}
#: The ways that have tasks of their own; `make property` plays all.
_FEW = {"panes", "over", "lookup"}


@pytest.mark.parametrize(
    "way", [pytest.param(n, marks=() if n in _FEW else pytest.mark.long_run) for n in WAYS]
)
def test_E5_however_its_rows_are_computed_they_are_those_of_a_view_whose_columns_nobody_changes(
    workbench: Workbench, way: str
) -> None:
    """Beside it the same rows are in a table that stays as it is, with the same view over it."""
    query = f"CREATE MATERIALIZED VIEW {{}} AS {WAYS[way]} EMIT ON WINDOW CLOSE;"
    same = query.format("w").replace("FROM t", "FROM u").replace("(t,", "(u,").replace("t.k", "u.k")
    same = same.replace("shops", "towns")
    others = TABLE.format(OLD).replace("TABLE t", "TABLE u") + same
    others += SHOPS.format("city").replace("TABLE shops", "TABLE towns")
    session = opened(workbench, OLD, query.format("v"), shops=SHOPS.format("city"), others=others)
    for name in ("shops", "towns"):
        session.execute(f"INSERT INTO {name} VALUES ('a', 'berlin'), ('b', 'paris')")

    def insert_both(*rows: tuple[str, int, int, int]) -> None:
        for k, n, m, hour in rows:
            for name in ("t", "u"):
                there = {c.name for c in relation(session, name).columns}
                values = {"k": f"'{k}'", "ts": f"'2026-01-01 {hour:02}:10:00'", "n": str(n), "m": str(m)}
                if "total" in there:
                    values |= {"total": values["n"], "n": "'other'", "most": values.pop("m")}
                session.execute(
                    f"INSERT INTO {name} ({', '.join(values)}) VALUES ({', '.join(values.values())})"
                )

    insert_both(("a", 1, 10, 0), ("b", 2, 20, 1), ("a", 3, 30, 2))
    session.run()
    # Columns are renamed, another one gets the name of one of them, and they stand in another order.
    columns = "most INT RENAMED FROM m, n VARCHAR, k VARCHAR, total INT RENAMED FROM n"
    edited = "CREATE MATERIALIZED VIEW v AS SELECT ts, most, n FROM t EMIT ON WINDOW CLOSE;"
    shops = SHOPS.format("town VARCHAR, place VARCHAR RENAMED FROM city, size")
    session = opened(workbench, columns, edited, shops=shops, others=others)
    session.run(["t", "u", "shops", "towns"])
    for name in ("shops", "towns"):
        column = "place" if name == "shops" else "city"
        session.execute(f"INSERT INTO {name} (k, {column}) VALUES ('c', 'rome')")
    insert_both(("c", 4, 40, 3), ("a", 5, 50, 4), ("b", 6, 60, 5), ("a", 7, 70, 6))
    continued(session, "v")
    session = opened(workbench, columns, edited, shops=shops, others=others)
    insert_both(("b", 8, 80, 7), ("c", 9, 90, 9))
    continued(session, "v")
    rows = [sorted(map(tuple, session.table(name).collect()), key=str) for name in ("v", "w")]
    assert len(rows[0]) >= 5
    assert rows[0] == rows[1]
    assert session.table("v").columns == session.table("w").columns
    found = audit_view(session, "v")
    assert (found.ok, found.batch.compared >= 5, found.batch.notes) == (
        True,
        True,
        audit_view(session, "w").batch.notes,
    )


def test_E5_a_view_waits_for_a_column_that_was_dropped_and_it_is_said_why(workbench: Workbench) -> None:
    """Rows that are read from then on have no value of it."""
    deployed(workbench)
    session = opened(workbench, "k VARCHAR, m INT", SUM.format("m"))
    insert(session, (3, 4))
    report = session.run(fail_fast=False)
    assert [(one.name, one.error["code"]) for one in report.failed] == [("v", "TG506")]
    assert results(session) == [(1, 1), (2, 2)]
    why = 'its current version gets no new rows: of "t", which it reads, column "n" is dropped'
    assert str(changed_definitions(session.project, session.catalog)["v"].message).endswith(why)
    plan = {one.name: one for one in planned(session.project, session.project.catalog())}
    assert plan["v"].what == ("its query has changed", f"until then, {why}")


@pytest.mark.runner("inprocess", "spark", long_run="spark")
@pytest.mark.parametrize(
    ("kinds", "values"),
    [
        ("INT BIGINT", "1 2 2147483647 -2147483648 2147483648"),
        ("REAL DOUBLE", "1 2 0.25 -8 0.1"),
        ("DECIMAL(5,2) DECIMAL(9,2)", "1 2 999.99 -999.99 1000"),
    ],
)
def test_E3_E5_a_wider_column_is_read_in_the_type_of_then_as_long_as_its_values_fit(
    workbench: Workbench, kinds: str, values: str
) -> None:
    """Then the view waits: by the definition of then, the row would have been another one."""
    (before, now), numbers = kinds.split(), values.split()
    session = opened(workbench, f"n {before}", SUM.replace("sum({})", "max(n)"))

    def put(hour: int, value: str) -> None:
        session.execute(f"INSERT INTO t VALUES ({value}, '2026-01-01 {hour:02}:10:00')")

    put(0, numbers[0])
    put(1, numbers[1])
    session.run()
    table = session.tables.rows(session.identifier("v"))
    kind = dict(table.dtypes)["x"]
    session = opened(workbench, f"total {now} RENAMED FROM n", SUM.format("total"))
    for hour, value in enumerate(numbers[2:], 2):
        put(hour, value)
    # (The last one is not in a window that closes.)
    continued(session, "v")
    assert [str(float(x)) for _, x in results(session)] == [str(float(one)) for one in numbers[:-1]]
    assert dict(session.tables.rows(session.identifier("v")).dtypes)["x"] == kind
    put(5, "0")
    report = session.run(fail_fast=False)
    shown_kind = before.replace("(5,2)", "(5, 2)")
    assert [one.error["code"] for one in report.failed] == ["TG506"]
    assert f'"n" of "t" has values that are no {shown_kind}' in report.failed[0].error["message"]
    assert len(results(session)) == 4
    session.confirm = lambda text: True
    apply(session)
    assert results(session)[-1][0] == 5
    assert not session.run(fail_fast=False).failed


def test_E5_the_plan_says_what_becomes_of_the_current_version_before_the_log_is_changed(
    workbench: Workbench,
) -> None:
    deployed(workbench)
    for columns, said in (
        (NEW, CONTINUES),
        ("k VARCHAR, m INT", "its current version gets no new rows: of "),
    ):
        session = opened(workbench, columns, SUM.format("m"))
        plan = {one.name: one for one in planned(session.project, session.project.catalog())}
        assert (plan["t"].effect, plan["v"].what[1].startswith(f"until then, {said}")) == ("in place", True)


def test_E5_the_log_of_an_earlier_release_does_not_know_its_earlier_columns(workbench: Workbench) -> None:
    deployed(workbench)
    session = opened(workbench, NEW, SUM.format("total"))
    session.run(["t"])
    session.tables.open(session.identifier("t")).set_properties({BEFORE: "[]"})
    session = workbench.session()
    insert(session, (3, 4))
    assert [one.name for one in session.run(fail_fast=False).failed] == ["v"]
    assert results(session) == [(1, 1), (2, 2)]


def test_E5_a_column_that_is_renamed_again_while_a_process_continues_is_followed(
    workbench: Workbench,
) -> None:
    deployed(workbench)
    session = opened(workbench, NEW, SUM.format("total"))
    insert(session, (3, 4))
    continued(session, "v")
    session = opened(
        workbench, "k VARCHAR, sum INT RENAMED FROM total, total VARCHAR, n INT, m INT", SUM.format("sum + n")
    )
    session.execute("INSERT INTO t VALUES ('a', 5, 'x', 7, 8, '2026-01-01 04:10:00')")
    continued(session, "v")
    session.execute("INSERT INTO t VALUES ('a', 6, 'x', 7, 8, '2026-01-01 05:10:00')")
    continued(workbench.session(), "v")
    assert results(session) == [(hour, hour) for hour in range(1, 6)]


def test_E5_a_query_alone_that_has_changed_is_refused_as_before(workbench: Workbench) -> None:
    """The run has changed nothing of what the view reads: whoever edits a query decides."""
    deployed(workbench)
    session = opened(workbench, OLD, SUM.format("n * 10"))
    insert(session, (3, 4))
    report = session.run(fail_fast=False)
    assert [one.name for one in report.failed] == ["v"]
    assert results(session) == [(1, 1), (2, 2)]
    assert read_status(session.project, ["v"]).views[0].version == 1
