"""Changed columns of a source that is judged again by WATERMARK(…) in a view (E1-E4, E7): the gate's log follows the
source's, by Iceberg's ids, and judges nothing again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, note, settings
from hypothesis import strategies as st

from tests.conftest import Workbench
from tests.evolve.test_apply import shown
from tests.evolve.test_random_changes import EDIT, Oracle
from tests.inprocess.failpoints import Failpoints, Killed
from tidegate.errors import TidegateError
from tidegate.evolve import apply
from tidegate.evolve.planning import planned
from tidegate.plan.columns.changes import CHANGES, steps
from tidegate.plan.columns.gates import GATE, gate_columns
from tidegate.runtime import stored_gates
from tidegate.session.apply import apply as apply_plan
from tidegate.session.session import Session
from tidegate.sql.catalog.objects import Relation
from tidegate.sql.resolve.gate_names import first_name

pytestmark = pytest.mark.runner("inprocess")

TABLE = "CREATE TABLE t ({}, ts TIMESTAMP) APPEND ONLY;"
CALL = "WATERMARK(t, ts, INTERVAL '1 minute')"
VIEW = (
    "CREATE MATERIALIZED VIEW v AS SELECT window_end, {} FROM TUMBLE("
    + CALL
    + ", ts, INTERVAL '1 minute') GROUP BY window_end EMIT ON WINDOW CLOSE;"
)
COUNT = VIEW.format("count(*) AS n")
BEFORE = "a INT, b INT, c INT, addr STRUCT<city VARCHAR>"


def opened(workbench: Workbench, columns: str, view: str = COUNT) -> Session:
    """A new session after the files were edited."""
    workbench.assets(t=TABLE.format(columns), v=view)
    return workbench.session()


def gate_of(session: Session) -> Relation:
    (found,) = (o for o in session.catalog.order() if isinstance(o, Relation) and o.kind == "gate")
    return found


def judged(session: Session) -> list[tuple[Any, ...]]:
    """What the gate has decided of each row, by its offset."""
    return shown(
        session, f'SELECT offset, outcome, watermark FROM "{gate_of(session).name}$raw" ORDER BY offset'
    )


def effects(session: Session) -> dict[str, str]:
    return {one.name: one.effect for one in planned(session.project, session.catalog)}


def insert(session: Session, *rows: str) -> None:
    session.execute(f"INSERT INTO t VALUES {', '.join(rows)}")


@pytest.mark.runner("inprocess", "spark")
def test_E2_E3_E4_a_gate_follows_every_change_of_its_source_and_judges_no_row_again(
    workbench: Workbench,
) -> None:
    session = opened(workbench, BEFORE)
    insert(
        session,
        "(1, 10, 7, named_struct('city', 'berlin'), '2026-01-01 12:00:30')",
        "(2, 20, 8, NULL, '2026-01-01 12:05:00')",
        "(3, 30, 9, NULL, '2026-01-01 12:01:00')",
    )
    session.run()
    gate, before = gate_of(session).name, judged(session)
    assert [one[1] for one in before] == ["on_time", "on_time", "late"]
    # `b` becomes `d`; `a` is gone; `c` is wider; the order is another one; a field and a column are new.
    session = opened(
        workbench, "note VARCHAR, c BIGINT, d INT RENAMED FROM b, addr STRUCT<city VARCHAR, zip INT>"
    )
    assert gate_of(session).name == gate
    assert effects(session) == {"t": "in place", gate: "in place", "v": "unchanged"}
    report = session.run()
    assert not report.failed
    assert judged(session) == before
    assert effects(session) == {"t": "unchanged", "v": "unchanged"}
    query = f'SELECT note, c, d, addr.city, addr.zip FROM "{gate}$raw" ORDER BY offset'
    old = [(None, 7, 10, "berlin", None), (None, 8, 20, None, None), (None, 9, 30, None, None)]
    assert shown(session, query) == old
    insert(session, "('x', 3000000000, 40, named_struct('city', 'oslo', 'zip', 5), '2026-01-01 12:07:00')")
    session.run()
    assert shown(session, query) == [*old, ("x", 3000000000, 40, "oslo", 5)]
    assert judged(session)[:3] == before
    assert shown(session, "SELECT n FROM v ORDER BY window_end") == [(1,), (1,)]
    # Now another `b`, and the gate begins with what it has.
    session = opened(workbench, "note VARCHAR, c BIGINT, d INT, addr STRUCT<city VARCHAR, zip INT>, b INT")
    insert(session, "('y', 1, 50, NULL, 99, '2026-01-01 12:09:00')")
    session.run()
    found = shown(session, f'SELECT d, b FROM "{gate}$raw" ORDER BY offset')
    assert found == [(10, None), (20, None), (30, None), (40, None), (50, 99)]


@pytest.mark.long_run
@example([(("replace", 0, "INT"), False), (("drop", 0, "INT"), False), (("add", 0, "INT"), True)])
@example([(("rename", 0, "INT"), False), (("replace", 0, "VARCHAR"), True), (("widen", 0, "INT"), True)])
@given(st.lists(st.tuples(EDIT, st.booleans()), min_size=2, max_size=5))
@settings(max_examples=max(settings().max_examples // 10, 3), suppress_health_check=list(HealthCheck))
def test_E2_E3_values_of_a_gate_stay_under_their_columns(
    workbench: Workbench, turns: list[tuple[tuple[str, int, str], bool]]
) -> None:
    """Whether the gate runs after each change of its source, or only after the last one."""
    bench, oracle = Workbench(Path(mkdtemp(dir=workbench.root)), None), Oracle()
    for number, (edit, gate_runs) in enumerate([(("", 0, ""), True), *turns, (("", 0, ""), True)]):
        oracle.change(*edit)
        note(oracle.definition())
        session = bench.assets(t=oracle.definition(), v=COUNT).session()
        session.execute(oracle.insert(10 + number))
        if gate_runs:
            session.run()
    names = ", ".join(["offset", *(c.name for c in oracle.columns)])
    found = shown(session, f'SELECT {names} FROM "{gate_of(session).name}$raw" ORDER BY offset')
    assert found == [(offset, *row) for offset, row in enumerate(oracle.shown())]


def test_E2_steps_that_the_gate_has_missed_are_followed_by_what_they_come_to(workbench: Workbench) -> None:
    """The source changes three times before the gate runs: `a` becomes `b`, which goes, and another `a` comes."""
    session = opened(workbench, "a INT, c INT")
    insert(session, "(1, 2, '2026-01-01 12:00:00')")
    session.run()
    for columns in ("b INT RENAMED FROM a, c INT", "c INT", "c INT, a INT"):
        session = opened(workbench, columns)
        session.log(session.relation("t"))
    insert(session, "(3, 4, '2026-01-01 12:01:00')")
    session.run()
    gate = gate_of(session).name
    assert shown(session, f'SELECT a, c FROM "{gate}$raw" ORDER BY offset') == [(None, 2), (4, 3)]
    log = session.tables.open(session.identifier(gate))
    assert len(steps(log.property(CHANGES))) == 3
    known = gate_columns(log.property(GATE))
    assert known is not None
    assert known.number == 3


@pytest.mark.runner("inprocess", "spark", long_run="spark")
@pytest.mark.parametrize(
    ("changes", "rows"),
    [
        (
            ("b INT, t INT RENAMED FROM a", "a INT RENAMED FROM b, t INT", "a INT, b INT RENAMED FROM t"),
            [(2, 1)],
        ),
        (("b INT, t INT RENAMED FROM a", "a INT RENAMED FROM t, b INT"), [(1, 2)]),
    ],
    ids=["swapped", "taken back"],
)
def test_E2_names_that_are_swapped_or_taken_back_before_the_gate_runs(
    workbench: Workbench, changes: tuple[str, ...], rows: list[tuple[int, int]]
) -> None:
    session = opened(workbench, "a INT, b INT")
    insert(session, "(1, 2, '2026-01-01 12:00:00')")
    session.run()
    for columns in changes:
        session = opened(workbench, columns)
        session.log(session.relation("t"))
    insert(session, "(3, 4, '2026-01-01 12:01:00')")
    assert not session.run(fail_fast=False).failed
    query = f'SELECT a, b FROM "{gate_of(session).name}$raw" ORDER BY offset'
    assert shown(session, query) == [*rows, (3, 4)]


def test_E1_E2_a_gate_by_the_time_of_arrival_follows_as_well(workbench: Workbench) -> None:
    view = (
        "CREATE MATERIALIZED VIEW v AS SELECT window_end, count(*) AS n FROM TUMBLE(t, $rowtime, INTERVAL '1 minute') "
        "GROUP BY window_end EMIT ON WINDOW CLOSE;"
    )
    session = opened(workbench, "a INT", view)
    insert(session, "(1, '2026-01-01 12:00:00')")
    session.run()
    session = opened(workbench, "b INT RENAMED FROM a, a VARCHAR", view)
    gate = gate_of(session).name
    assert effects(session) == {"t": "in place", gate: "in place", "v": "unchanged"}
    insert(session, "(2, 'x', '2026-01-01 12:01:00')")
    assert not session.run(fail_fast=False).failed
    assert shown(session, f'SELECT b, a FROM "{gate}$raw" ORDER BY offset') == [(1, None), (2, "x")]


def test_E2_E7_a_batch_that_was_planned_before_the_change_reads_no_other_column(workbench: Workbench) -> None:
    """The gate has planned a batch as its source changes: `a` becomes `b`, and there is another `a`."""
    from tidegate.ingest.sources.log import LogConnector
    from tidegate.session.run import connect

    session = opened(workbench, "a INT, c INT")
    insert(session, "(1, 2, '2026-01-01 12:00:00')")
    gate = gate_of(session)
    log = session.log(gate)
    connector = connect(session, log)
    assert isinstance(connector, LogConnector)
    connector.pending()
    plan = connector.plan(1, session.clock())
    assert plan is not None
    read = connector.read(plan)
    # (Under way before the change: it commits what it has read, by the columns of then.)
    other = opened(workbench, "b INT RENAMED FROM a, c INT, a INT")
    other.log(other.relation("t"))
    log.add(1, read, session.clock(), connector.consumed(plan))
    # A batch behind it is refused, since `a` means another column.
    insert(other, "(5, 6, 7, '2026-01-01 12:01:00')")
    with pytest.raises(TidegateError, match="TG506"):
        connector.pending()
    connector = connect(session, log)
    with pytest.raises(TidegateError, match="TG506"):
        connector.pending()
    other.run()
    query = f'SELECT b, c, a FROM "{gate.name}$raw" ORDER BY offset'
    assert shown(other, query) == [(1, 2, None), (5, 6, 7)]


def test_E7_R2_killed_at_any_commit_the_next_run_completes_the_change(workbench: Workbench) -> None:
    session = opened(workbench, "a INT, c INT")
    insert(session, "(1, 2, '2026-01-01 12:00:00')", "(3, 4, '2026-01-01 12:04:00')")
    session.run()
    before, gate = judged(session), gate_of(session).name
    point, seen = 0, set()
    while True:
        session = opened(workbench, "b INT RENAMED FROM a, c BIGINT, a INT")
        try:
            with Failpoints(point).armed():
                session.run()
            break
        except Killed:
            stands = [
                steps(session.tables.open(session.identifier(name)).property(CHANGES)) for name in ("t", gate)
            ]
            seen.add(tuple(len(one) for one in stands))
            if seen and stands[0] and not stands[1]:
                with pytest.raises(TidegateError, match="TG506"):
                    shown(session, f'SELECT a FROM "{gate}"')
        point += 1
    assert {(0, 0), (1, 0)} <= seen
    assert judged(session) == before
    assert shown(session, f'SELECT b, c, a FROM "{gate}$raw" ORDER BY offset') == [(1, 2, None), (3, 4, None)]
    assert shown(session, "SELECT n FROM v") == [(1,)]


def test_E3_E5_a_view_that_reads_a_changed_column_continues_with_the_columns_of_before(
    workbench: Workbench,
) -> None:
    total = VIEW.format("sum(a) AS total")
    session = opened(workbench, "a INT, c INT", total)
    insert(session, "(1, 2, '2026-01-01 12:00:00')", "(3, 4, '2026-01-01 12:02:00')")
    session.run()
    session = opened(workbench, "b INT RENAMED FROM a, c INT, a INT", total)
    gate = gate_of(session).name
    assert effects(session) == {"t": "in place", gate: "in place", "v": "new version"}
    insert(session, "(5, 6, 100, '2026-01-01 12:04:00')", "(7, 8, 200, '2026-01-01 12:09:00')")
    session.run(fail_fast=False)
    assert shown(session, "SELECT total FROM v ORDER BY window_end") == [(1,), (3,), (5,)]
    session.confirm = lambda text: True
    apply_plan(session)
    assert shown(session, "SELECT total FROM v ORDER BY window_end") == [(None,), (None,), (100,)]
    assert set(effects(session).values()) == {"unchanged"}


@pytest.mark.parametrize(
    ("columns", "call", "why"),
    [
        ("a INT, ts BIGINT", "WATERMARK(t, ts, ts - 5)", "needs it as it is"),
        ("a BIGINT, ts INT", "WATERMARK((SELECT a, ts FROM t), ts, ts - 5)", "reads such a column"),
        ("a INT, ts INT, d INT", "WATERMARK((SELECT * FROM t), ts, ts - 5)", r"by \*"),
    ],
)
def test_E1_what_a_gate_can_not_follow_is_refused_and_nothing_is_changed(
    workbench: Workbench, columns: str, call: str, why: str
) -> None:
    view = (
        "CREATE MATERIALIZED VIEW v AS SELECT window_end, count(*) AS n FROM TUMBLE(" + call + ", ts, 10) "
        "GROUP BY window_end EMIT ON WINDOW CLOSE;"
    )
    table = "CREATE TABLE t ({}) APPEND ONLY;"
    workbench.assets(t=table.format("a INT, ts INT"), v=view)
    session = workbench.session()
    session.execute("INSERT INTO t VALUES (1, 1), (2, 30)")
    session.run()
    workbench.assets(t=table.format(columns), v=view)
    session = workbench.session()
    (refused,) = (one for one in planned(session.project, session.catalog) if one.name == "t")
    assert refused.effect == "refused"
    with pytest.raises(TidegateError, match=f"(?s)TG506.*{why}"):
        session.log(session.relation("t"))
    workbench.assets(t=table.format("a INT, ts INT"), v=view)
    session = workbench.session()
    session.run()
    assert shown(session, "SELECT n FROM v") == [(1,)]


def test_E1_a_gate_over_named_columns_does_not_see_the_others_change(workbench: Workbench) -> None:
    view = COUNT.replace("WATERMARK(t,", "WATERMARK((SELECT a, ts FROM t),")
    session = opened(workbench, "a INT, c INT", view)
    insert(session, "(1, 2, '2026-01-01 12:00:00')")
    session.run()
    session = opened(workbench, "d VARCHAR, a INT", view)
    assert effects(session) == {"t": "in place", "v": "unchanged"}
    insert(session, "('x', 4, '2026-01-01 12:02:00')")
    session.run()
    assert shown(session, f'SELECT a FROM "{gate_of(session).name}$raw" ORDER BY offset') == [(1,), (4,)]


def test_E8_a_gate_of_the_first_release_keeps_its_name_and_its_columns(workbench: Workbench) -> None:
    """It was called by its columns, and its log says nothing of them."""
    workbench.assets(t=TABLE.format("a INT, c INT"), v=COUNT)
    with first_release():
        session = workbench.session()
        insert(session, "(1, 2, '2026-01-01 12:00:00')")
        session.run()
    session = workbench.session()
    gate = gate_of(session)
    assert gate.name == first_name(gate)
    insert(session, "(3, 4, '2026-01-01 12:02:00')")
    session.run()
    assert [one[1] for one in judged(session)] == ["on_time", "on_time"]
    assert shown(session, "SELECT n FROM v") == [(1,)]
    session = opened(workbench, "a INT, c INT, d INT")
    (refused,) = (one for one in planned(session.project, session.catalog) if one.name == "t")
    assert "was made by the first release" in refused.what[0]
    with pytest.raises(TidegateError, match="TG506"):
        session.run()
    session = opened(workbench, "a INT, c INT")
    assert gate_of(session).name == gate.name


@contextmanager
def first_release() -> Iterator[None]:
    """What is opened meanwhile makes gates as the first release did."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stored_gates, "gate_names", _first_names)
        patched.setattr(apply, "_of_gate", lambda *_: {})
        yield


def _first_names(storage: Any, catalog: Any) -> dict[str, str]:
    gates = (o for o in catalog.order() if isinstance(o, Relation) and o.kind == "gate")
    return {gate.name: first_name(gate) for gate in gates}
