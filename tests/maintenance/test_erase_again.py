"""E9: views whose rows do not show by what a person's rows are found are computed again from the rows that are left
(`tidegate erase --recompute`): sessions, joins, OVER, and what is above those."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import Workbench
from tests.inprocess.failpoints import Killed
from tests.maintenance.people import WHERE, WHO, arrive, define, erased, stored, there
from tests.maintenance.remaining import (
    CALLER,
    CALLS,
    DAYS,
    NAMES,
    PAIRS,
    VIEWS,
    VISITS,
    call,
    has,
    shown,
    truth,
)
from tests.maintenance.test_erase_views import HOURS
from tidegate.amend.run import amend
from tidegate.audit.view import audit_view
from tidegate.errors import TidegateError
from tidegate.maintenance import erase as erase_room
from tidegate.maintenance.erase import erase
from tidegate.maintenance.erase_log import LogErasure
from tidegate.maintenance.erasing import ErasingFile
from tidegate.plan.gaps import RETAINED_FROM
from tidegate.plan.versions import VALID_FROM, kept_versions
from tidegate.session.session import Session
from tidegate.views.amend.rebuild import rebuild
from tidegate.views.amend.rollback import rollback
from tidegate.views.versions.build import VersionBuild

pytestmark = pytest.mark.runner("inprocess")


def filled(workbench: Workbench, *views: str, days: int = 3) -> Session:
    define(workbench.root, *(views or (VIEWS,)))
    session = workbench.session()
    for number in range(1, days + 1):
        arrive(workbench.root, number)
        call(workbench.root, number)
        session.run()
    session.confirm = lambda text: True
    return session


def is_new(session: Session, name: str) -> bool:
    """Whether a view has one snapshot, and nothing of an earlier version."""
    table = session.tables.open(session.identifier(name))
    return (len(table.snapshot_ids()), kept_versions(table.properties())) == (1, ())


def test_E9_they_are_what_their_queries_are_over_the_rows_that_are_left(workbench: Workbench) -> None:
    session = filled(workbench)
    assert shown(session) == truth(session)
    assert has(shown(session)) == set(NAMES) - {"long"}
    asked: list[str] = []
    session.confirm = lambda what: bool(asked.append(what)) or True
    seen = {t.table: t for t in erase(session, "orders", WHERE, (WHO,), recompute=True, dry_run=True).tables}
    before = {name: stored(session, name) for name in NAMES}
    done = {t.table: t for t in erase(session, "orders", WHERE, (WHO,), recompute=True).tables}
    assert {n: stored(session, n) != rows for n, rows in before.items()} == dict.fromkeys(NAMES, True)
    # What was said before is what was done.
    assert (
        {n for n, t in done.items() if t.recomputed}
        == {n for n, t in seen.items() if t.recomputed}
        == set(NAMES)
    )
    assert all(f"  {name}: is recomputed from the rows that are left" in asked[0] for name in NAMES)
    assert all(name in asked[0].splitlines()[0] for name in ("orders", "sorted", *NAMES))
    assert there(workbench.root) == set()
    assert shown(session) == truth(session)
    assert all(is_new(session, name) for name in NAMES)
    assert not any(report.windows for report in amend(session, ["visits", "days"], from_late=False))
    assert all(audit_view(session, name).ok for name in NAMES)
    # They continue, and the person may come again; and go again, here and on the other side of the join.
    arrive(workbench.root, 4, 5)
    call(workbench.root, 4, 5)
    session.run()
    assert shown(session) == truth(session)
    assert has(shown(session)) == set(NAMES) - {"long"}
    erase(session, "orders", WHERE, (WHO,), recompute=True)
    assert (there(workbench.root), shown(session)) == (set(), truth(session))
    assert has(shown(session), CALLER) == {"pairs"}
    done = {t.table: t for t in erase(session, "calls", f"caller = '{CALLER}'", recompute=True).tables}
    assert {name for name, table in done.items() if table.recomputed} == {"pairs"}
    assert (there(workbench.root, CALLER), shown(session)) == (set(), truth(session))


def test_E9_without_recompute_they_are_refused_with_what_would_do_it(workbench: Workbench) -> None:
    session = filled(workbench, VISITS, days=2)
    before = stored(session), stored(session, "visits")
    for options in ({}, {"keep_aggregates": True}):
        with pytest.raises(
            TidegateError, match=r"visits: a view whose rows do not show .*\(--recompute "
        ) as caught:
            erased(session, **options)
        assert caught.value.code == "TG571"
    assert (stored(session), stored(session, "visits")) == before


NAMED = "CREATE TABLE names (customer VARCHAR, title VARCHAR);"
HOURLY = "GROUP BY window_end EMIT ON WINDOW CLOSE"


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT o.id, n.title FROM orders o JOIN names n ON o.customer = n.customer EMIT ON WINDOW CLOSE",
         "v: .*looks rows up"),
        ("SELECT window_end, max(customer) AS c FROM TUMBLE(WATERMARK(orders, at, at - INTERVAL '1 hour'), at, "
         f"INTERVAL '1 hour') {HOURLY}", r"gate of WATERMARK(.|\n)*v: .*WATERMARK\(…\), so it is not"),
        (f"SELECT window_end, max(customer) AS c {HOURS} {HOURLY}; CREATE SINK out FROM v WITH "
         "(connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON", "out: a sink"),
    ],
)  # fmt: skip
def test_E9_what_can_not_be_right_stays_refused(workbench: Workbench, query: str, why: str) -> None:
    define(workbench.root, NAMED, f"CREATE MATERIALIZED VIEW v AS {query};")
    session = workbench.session()
    session.execute(f"INSERT INTO names VALUES ('{WHO}', 'Dr')")
    arrive(workbench.root, 1, 2)
    session.run()
    before = stored(session), stored(session, "v")
    with pytest.raises(TidegateError, match=why) as caught:
        erased(session, recompute=True)
    assert caught.value.code == "TG571"
    assert (stored(session), stored(session, "v")) == before
    assert ErasingFile(session.project.storage, "orders").seen() is None


def test_E9_over_a_table_with_a_key_nothing_is_recomputed(workbench: Workbench) -> None:
    columns = "customer VARCHAR, at TIMESTAMP, PRIMARY KEY (customer), WATERMARK FOR at AS at WITH TTL"
    moves = f"CREATE TABLE moves ({columns});"
    query = f"SELECT window_end, count(*) AS n FROM TUMBLE(moves, at, INTERVAL '1 hour') {HOURLY}"
    define(workbench.root, moves, f"CREATE MATERIALIZED VIEW v AS {query};")
    session = workbench.session()
    arrive(workbench.root, 1)
    for hour in (9, 10, 12):
        session.execute(f"INSERT INTO moves VALUES ('{WHO}', '2026-01-01 {hour}:00:00')")
    session.run()
    with pytest.raises(TidegateError, match=r"TG571(.|\n)*v: .*it reads a table with a PRIMARY KEY"):
        erase(session, "moves", WHERE, recompute=True)


@pytest.mark.parametrize("view", [VISITS, DAYS, CALLS + PAIRS])
def test_E9_results_that_can_not_be_computed_again_refuse_all_of_it(workbench: Workbench, view: str) -> None:
    """Rows behind them are beyond their retention, of either input: what stayed of them might have the person."""
    session = filled(workbench, view)
    name = "calls" if "pairs" in view else "orders"
    table = session.tables.open(session.identifier(name))
    table.set_properties({RETAINED_FROM: "1767312000000000"})
    before = stored(session)
    if view == DAYS:
        # Its rows would do: it reads a view, which keeps its results longer.
        sorted_ = session.tables.open(session.identifier("sorted"))
        sorted_.set_properties({RETAINED_FROM: "1767312000000000"})
    for dry_run in (True, False):
        with pytest.raises(TidegateError, match="beyond their retention") as caught:
            erased(session, recompute=True, dry_run=dry_run)
        assert caught.value.code == "TG571"
    assert (stored(session), ErasingFile(session.project.storage, "orders").seen()) == (before, None)


@pytest.mark.long_run
def test_E9_where_all_rows_go_nothing_is_left_of_the_results(workbench: Workbench) -> None:
    session = filled(workbench, VIEWS, days=2)
    erase(session, "orders", "customer IS NOT NULL", (WHO,), recompute=True)
    assert there(workbench.root) == set()
    assert shown(session) == truth(session)
    arrive(workbench.root, 3)
    call(workbench.root, 3)
    session.run()
    assert shown(session) == truth(session)


def ended(session: Session, monkeypatch: pytest.MonkeyPatch, room: Any, name: str) -> None:
    """An erasure whose process ends where it would do this."""

    def end(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as during:
        during.setattr(room, name, end)
        with pytest.raises(Killed):
            erased(session, recompute=True)


def _apply(session: Session) -> None:
    rebuild(session, ["visits"], because={"visits": "somebody wants it"})


def _back(session: Session) -> None:
    rollback(session, "visits")


@pytest.mark.parametrize(
    ("room", "step", "meanwhile"),
    [
        (LogErasure, "remove", _apply),
        (LogErasure, "remove", lambda session: session.run()),
        (erase_room, "recomputed", lambda session: session.run()),
        (erase_room, "recomputed", _apply),
        (erase_room._SourceErasure, "_forget_versions", _back),
        (ErasingFile, "remove", lambda session: session.run()),
    ],
)
def test_R2_E9_whatever_others_did_behind_an_ended_erasure_no_row_comes_back(
    workbench: Workbench,
    monkeypatch: pytest.MonkeyPatch,
    room: Any,
    step: str,
    meanwhile: Callable[[Session], Any],
) -> None:
    session = filled(workbench, VISITS, days=2)
    ended(session, monkeypatch, room, step)
    session = workbench.session()
    session.confirm = lambda text: True
    arrive(workbench.root, 3)
    meanwhile(session)
    done = {t.table: t for t in erase(session, "orders").tables}
    assert done["visits"].recomputed
    assert WHO not in str(stored(session, "visits"))
    assert (there(workbench.root), is_new(session, "visits")) == (set(), True)
    assert shown(session, ("visits",)) == truth(session, ("visits",))
    assert ErasingFile(session.project.storage, "orders").read() is None


def test_R2_E9_rows_that_went_while_it_was_computed_leave_it_unfinished(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new version has kept results of before: the view is not said to be done, until it is dropped."""
    session = filled(workbench, VISITS, days=2)
    swapped = VersionBuild.swapped

    def kept(version: VersionBuild, facts: Any = None) -> bool:
        done = swapped(version, facts)
        version.current.set_properties({VALID_FROM: "1"})
        return done

    with monkeypatch.context() as during:
        during.setattr(VersionBuild, "swapped", kept)
        with pytest.raises(TidegateError, match=r"TG571.*erasure is not finished"):
            erased(session, recompute=True)
    for _ in range(2):
        with pytest.raises(TidegateError, match=r"TG571.*erasure is not finished"):
            erase(session, "orders")
    session.execute("DROP MATERIALIZED VIEW visits")
    define(workbench.root)
    erase(workbench.session(), "orders")
    assert there(workbench.root) == set()
