"""What a gate of WATERMARK(…) has missed of its source's changes (E2, E5, E7): several of them, while no view had it,
beside live mode, or in the environment that a branch reads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.conftest import Workbench
from tests.evolve.test_apply import shown
from tests.evolve.test_gates import COUNT, TABLE, VIEW, effects, first_release, gate_of, insert, opened
from tidegate.errors import TidegateError
from tidegate.session.apply import apply
from tidegate.session.live import LiveGroup

if TYPE_CHECKING:
    from tidegate.plan.events import Event

pytestmark = pytest.mark.runner("inprocess")


@pytest.mark.runner("inprocess", "spark", long_run="spark")
@pytest.mark.parametrize(
    "changes",
    [
        # `b` becomes `d` by way of `c`, and meanwhile `a` becomes `b`.
        ("a INT, c INT RENAMED FROM b", "b INT RENAMED FROM a, c INT", "b INT, d INT RENAMED FROM c"),
        ("c INT RENAMED FROM a, b INT", "c INT, a INT RENAMED FROM b", "b INT RENAMED FROM c, a INT"),
        ("a INT, b BIGINT", "a INT, c BIGINT RENAMED FROM b", "b INT RENAMED FROM a, c BIGINT"),
    ],
    ids=["one behind the other", "swapped", "widened"],
)
def test_E2_E5_a_view_over_a_gate_that_has_missed_changes_means_the_column_of_before(
    workbench: Workbench, changes: tuple[str, ...]
) -> None:
    """Each step counts: by what they come to, taken one after the other, `b` would seem to be what it was."""
    total = VIEW.format("sum(b) AS total")
    session = opened(workbench, "a INT, b INT", total)
    insert(session, "(1, 2, '2026-01-01 12:00:00')", "(3, 4, '2026-01-01 12:02:00')")
    session.run()
    for columns in changes:
        # (Meanwhile its view does not name them.)
        session = opened(workbench, columns)
        session.log(session.relation("t"))
    session = opened(workbench, changes[-1], total)
    assert effects(session)["v"] == "new version"
    insert(session, "(5, 6, '2026-01-01 12:04:00')", "(7, 8, '2026-01-01 12:09:00')")
    (failure,) = session.run(fail_fast=False).failed
    assert "continues with the columns of before" in failure.error["message"]
    query = "SELECT total FROM v ORDER BY window_end"
    assert shown(session, query) == [(2,), (4,), (6,)]
    session.declare()
    assert effects(session)["v"] == "new version"
    session.confirm = lambda text: True
    apply(session)
    assert shown(session, query) == [(1,), (3,), (5,)]


def test_E1_the_time_of_a_gate_is_not_replaced_while_no_view_has_it(workbench: Workbench) -> None:
    """Both were changes of the source alone. What the gate has judged, it has judged by another column."""
    session = opened(workbench, "a INT")
    insert(session, "(1, '2026-01-01 12:00:00')", "(3, '2026-01-01 12:02:00')")
    session.run()
    (workbench.root / "assets" / "v.sql").unlink()
    for columns in ("a INT", "a INT, ts TIMESTAMP"):
        session = workbench.assets(t=f"CREATE TABLE t ({columns}) APPEND ONLY;").session()
        session.log(session.relation("t"))
    session = workbench.assets(v=COUNT).session()
    assert effects(session)[gate_of(session).name] == "refused"
    insert(session, "(5, '2026-01-01 11:00:00')")
    with pytest.raises(
        TidegateError, match=r'(?s)TG506.*column "ts" is dropped, and the watermark needs it as it is'
    ):
        session.run()


def test_E1_R4_another_call_in_the_view_is_another_gate_and_asks_for_apply(workbench: Workbench) -> None:
    session = opened(workbench, "a INT")
    insert(session, "(1, '2026-01-01 12:00:00')", "(3, '2026-01-01 12:04:00')")
    session.run()
    first = gate_of(session).name
    session = opened(workbench, "b INT RENAMED FROM a", COUNT.replace("'1 minute')", "'2 minutes')", 1))
    assert effects(session) == {"t": "in place", "v": "new version"}
    insert(session, "(5, '2026-01-01 12:09:00')")
    with pytest.raises(TidegateError, match=r"(?s)TG506.*which no definition has.*tidegate apply v"):
        session.run()
    session.confirm = lambda text: True
    apply(session)
    assert shown(session, "SELECT n FROM v ORDER BY window_end") == [(1,), (1,)]
    # By the first call again, whose gate has missed two changes.
    session = opened(workbench, "b INT, a INT")
    assert gate_of(session).name == first
    insert(session, "(7, 9, '2026-01-01 12:12:00')")
    session.run(fail_fast=False)
    query = f'SELECT b, a FROM "{first}$raw" ORDER BY offset'
    assert shown(session, query) == [(1, None), (3, None), (5, None), (7, 9)]


def test_E8_a_gate_of_the_first_release_is_made_again_under_its_name_of_now(workbench: Workbench) -> None:
    """A name with the columns in it would be another one with other columns, and everything would be judged again."""
    workbench.assets(t=TABLE.format("a INT"), v=COUNT)
    with first_release():
        session = workbench.session()
        insert(session, "(1, '2026-01-01 12:00:00')", "(3, '2026-01-01 12:04:00')")
        session.run()
    session = workbench.session()
    before, session.confirm = gate_of(session).name, lambda text: True
    session.execute("DROP MATERIALIZED VIEW v")
    with pytest.raises(
        TidegateError, match=r"(?s)TG506.*another name than this session knows.*open a new session"
    ):
        session.run()
    session = opened(workbench, "b INT RENAMED FROM a")
    assert gate_of(session).name != before
    session.run()
    assert shown(session, "SELECT n FROM v") == [(1,)]
    session = opened(workbench, "b INT, c INT")
    insert(session, "(5, 6, '2026-01-01 12:09:00')")
    session.run()
    query = f'SELECT b, c FROM "{gate_of(session).name}$raw" ORDER BY offset'
    assert shown(session, query) == [(1, None), (3, None), (5, 6)]


def test_E2_the_struct_whose_field_a_gate_reads_is_not_replaced_behind_its_back(workbench: Workbench) -> None:
    view = COUNT.replace("WATERMARK(t,", "WATERMARK((SELECT addr.city AS city, ts FROM t),")
    session = opened(workbench, "addr STRUCT<city VARCHAR>", view)
    insert(session, "(named_struct('city', 'oslo'), '2026-01-01 12:00:00')")
    session.run()
    session = opened(
        workbench, "home STRUCT<city VARCHAR> RENAMED FROM addr, addr STRUCT<city VARCHAR>", view
    )
    assert effects(session)["t"] == "refused"
    with pytest.raises(TidegateError, match=r'(?s)TG506.*reads such a column.*"addr" is renamed to "home"'):
        session.run()


def test_E2_E7_a_live_driver_whose_source_is_changed_by_another_reads_no_other_column(
    workbench: Workbench,
) -> None:
    events: list[Event] = []
    session = opened(workbench, "a INT, c INT")
    insert(session, "(1, 2, '2026-01-01 12:00:00')")
    with LiveGroup(session) as group:
        group.prepare(events.append)
        group.tick(events.append)
        other = opened(workbench, "b INT RENAMED FROM a, c INT, a INT")
        insert(other, "(3, 4, 5, '2026-01-01 12:04:00')")
        group.tick(events.append)
        assert group.failing == (gate_of(session).name,)
        assert [m.error.code for m in group.members if isinstance(m.error, TidegateError)] == ["TG506"]
    # As it is opened by the definitions of now.
    with LiveGroup(other) as group:
        group.prepare(events.append)
        while group.tick(events.append):
            pass
        assert group.failing == ()
    query = f'SELECT b, c, a FROM "{gate_of(other).name}$raw" ORDER BY offset'
    assert shown(other, query) == [(1, 2, None), (3, 4, 5)]
    assert shown(other, "SELECT n FROM v") == [(1,)]


def test_E2_a_gate_of_a_branch_follows_the_source_of_the_environment_that_it_reads(
    workbench: Workbench,
) -> None:
    folder = workbench.root / "resources"
    folder.mkdir(exist_ok=True)
    (folder / "prod.yaml").write_text(json.dumps({"warehouse": {"namespace": "prod"}}))
    (folder / "local.yaml").write_text(json.dumps({"reads": "prod", "warehouse": {"namespace": "branch"}}))
    workbench.assets(t=TABLE.format("a INT"), v=COUNT)
    prod = workbench.session("prod")
    insert(prod, "(1, '2026-01-01 12:00:00')", "(3, '2026-01-01 12:02:00')")
    # The branch has a column that the environment does not have yet: nothing is made of it.
    workbench.assets(t=TABLE.format("a INT, d INT"))
    branch = workbench.session("local")
    with pytest.raises(TidegateError, match="TG516"):
        branch.run()
    assert branch.stored(gate_of(branch).name) is None
    insert(workbench.session("prod"), "(5, 7, '2026-01-01 12:04:00')")
    workbench.session("local").run()
    # Then the environment changes its columns, and the branch has them.
    workbench.assets(t=TABLE.format("a INT, e INT RENAMED FROM d, d INT"))
    insert(workbench.session("prod"), "(8, 10, 11, '2026-01-01 12:06:00')")
    with pytest.raises(TidegateError, match="TG516"):
        branch.run()
    branch = workbench.session("local")
    branch.run()
    query = f'SELECT a, e, d FROM "{gate_of(branch).name}$raw" ORDER BY offset'
    assert shown(branch, query) == [(1, None, None), (3, None, None), (5, 7, None), (8, 10, 11)]
    assert shown(branch, "SELECT n FROM v") == [(1,), (1,), (1,)]
