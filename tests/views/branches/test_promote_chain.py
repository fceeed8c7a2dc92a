"""X3, E5: what a branch has computed of views over views, and with OVER, becomes production's where production has, row
by row, the results that they were computed from."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from tests.inprocess.failpoints import Failpoints, Killed
from tests.support.by_hand import by_hand
from tests.views.test_promote import NEW, OLD, days, rows
from tidegate.amend.run import amend
from tidegate.audit.view import audit_view
from tidegate.errors import TidegateError
from tidegate.maintenance.upkeep import maintain
from tidegate.project.jobs.maintenance import Policy
from tidegate.session.session import Session
from tidegate.sql.catalog.objects import View
from tidegate.store.status import read_status
from tidegate.views.amend import promote as promoting
from tidegate.views.amend.promote import promote
from tidegate.views.amend.rebuild import rebuild
from tidegate.views.amend.vouched import is_here
from tidegate.views.view_table import ViewTable

if TYPE_CHECKING:
    from tidegate.iceberg.protocol import Snapshot

pytestmark = pytest.mark.runner("inprocess")

#: Over `v`, which has an hour's sum of `t`.
CHAIN = """
CREATE MATERIALIZED VIEW four AS SELECT window_start, window_end, sum(x) AS x, count(*) AS n
FROM HOP(v, window_end, INTERVAL '2 hours', INTERVAL '4 hours') GROUP BY window_start, window_end
EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW stays AS SELECT window_start, window_end, count(*) AS hours, sum(x) AS x
FROM SESSION(v, window_end, INTERVAL '3 hours') GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW per_day AS SELECT window_end, count(*) AS stays, max(x) AS x
FROM TUMBLE(stays, window_end, INTERVAL '1 day') GROUP BY window_end EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW both AS SELECT t.ts, t.n, v.x FROM t JOIN v
ON t.ts BETWEEN v.window_end - INTERVAL '1 hour' AND v.window_end EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW open_too AS SELECT window_end, sum(x) AS x
FROM TUMBLE(v, window_end, INTERVAL '1 day') GROUP BY window_end;
CREATE MATERIALIZED VIEW before AS SELECT ts, k, lag(n) OVER (PARTITION BY k ORDER BY ts) AS was,
sum(n) OVER (PARTITION BY k ORDER BY ts ROWS UNBOUNDED PRECEDING) AS so_far FROM t EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW rising AS SELECT window_end, x - lag(x) OVER (ORDER BY window_end) AS more FROM v
EMIT ON WINDOW CLOSE;
"""
SOME = ["v", "four", "stays", "per_day", "both", "open_too", "before", "rising"]
ALL = NEW + CHAIN


def view_of(session: Session, name: str) -> View:
    found = session.catalog.get(name)
    assert isinstance(found, View)
    return found


def all_rows(session: Session) -> dict[str, list[tuple[Any, ...]]]:
    return {view: rows(session, view) for view in SOME}


@pytest.mark.runner("inprocess", "spark", long_run="spark")
def test_X3_E5_D3_a_chain_is_taken_and_continued(
    opened: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    dev = opened("dev", ALL)
    dev.run()
    stood = {
        view: dev.tables.open(dev.identifier(view)).current().integer("tidegate.frontier") for view in SOME
    }
    production = opened("local", ALL)
    days(production, 4)
    begun: dict[str, set[int | None]] = {}
    ticked = ViewTable._tick

    def tick(table: ViewTable, base: Snapshot) -> Any:
        begun.setdefault(table.view.name, set()).add(base.integer("tidegate.frontier"))
        return ticked(table, base)

    monkeypatch.setattr(ViewTable, "_tick", tick)
    done = promote(production, dev.project)
    assert {one.view for one in done if one.generation} == {*SOME, "visits", "sorted", "shown"}
    opened("local", ALL).run()
    # What came since is computed, behind the frontier of the branch, and nothing before it.
    assert {view: min(begun[view]) for view in SOME} == stood
    production = opened("local", ALL)
    assert all(audit_view(production, view).ok for view in SOME)
    days(production, 6)
    production.run()
    found = all_rows(production)
    assert all(audit_view(production, view).ok for view in SOME)
    assert {len(found[view]) > 3 for view in SOME} == {True}
    # It is what production computes from the beginning.
    for view in reversed(SOME):
        production.execute(f"DROP MATERIALIZED VIEW {view}")
    anew = opened("local", ALL)
    anew.run()
    assert all_rows(anew) == found
    assert promote(anew, dev.project) == []


@pytest.mark.long_run
def test_R2_E5_killed_anywhere_the_same_command_completes_a_chain(opened: Callable[..., Session]) -> None:
    some = ["v", "four", "stays", "before"]
    dev = opened("dev", ALL)
    dev.run()
    new = {view: rows(dev, view) for view in some}
    killed, points = True, 0
    while killed:
        killed = False
        old = opened("local", OLD + CHAIN)
        old.run(["four", "stays"])
        try:
            with Failpoints(points).armed():
                promote(opened("local", ALL), dev.project, some)
        except Killed:
            killed, points = True, points + 1
        production = opened("local", ALL)
        found = [view for view in some if is_here(production, view_of(production, view))]
        # (What is there over an earlier `v` is of earlier results.)
        assert "v" not in found or {view: rows(production, view) for view in found} == {
            v: new[v] for v in found
        }
        promote(production, dev.project, some)
        production = opened("local", ALL)
        assert {view: rows(production, view) for view in some} == new
        assert all(is_here(production, view_of(production, view)) for view in some)
        for view in reversed(some) if killed else ():
            production.execute(f"DROP MATERIALIZED VIEW {view}")
        assert points < 100
    assert points > 25
    days(production, 4)
    production.run(some)
    assert all(audit_view(production, view).ok for view in some)


def test_E5_what_stands_over_a_promoted_view_is_taken_if_the_branch_vouches_for_it(
    opened: Callable[..., Session],
) -> None:
    """`four` and `stays` are of earlier results of `v` then, by the same definition. The branch has one of them."""
    opened("local", OLD + CHAIN).run()
    dev = opened("dev", ALL)
    dev.run(["four"])
    done = {one.view: one for one in promote(opened("local", ALL), dev.project)}
    assert [name for name, one in done.items() if one.tag] == ["v", "four"]
    assert done["stays"].why == "the branch has no results of it"
    assert rows(opened("local", ALL), "four") == rows(dev, "four")
    with pytest.raises(TidegateError, match=r'TG506.*"stays" was computed from earlier results of "v"'):
        opened("local", ALL).run(["stays"])
    with pytest.raises(TidegateError, match=r'TG536.*"stays".*the branch has no results'):
        promote(opened("local", ALL), dev.project, ["stays"])
    rebuild(opened("local", ALL))
    production = opened("local", ALL)
    production.run()
    assert all(audit_view(production, view).ok for view in SOME)


@pytest.mark.long_run
def test_E5_over_a_view_that_production_has_itself(opened: Callable[..., Session]) -> None:
    """The branch has computed `v` itself, since production had another one then; and read it later."""
    dev = opened("dev", ALL)
    dev.run()
    with pytest.raises(
        TidegateError, match=r'TG536.*reads "v", of which "local" has no results of the present'
    ):
        promote(opened("local", ALL), dev.project, ["four"])
    rebuild(opened("local", ALL), ["v"])
    promoted = [one.view for one in promote(opened("local", ALL), dev.project, ["four", "stays", "before"])]
    assert sorted(promoted) == ["before", "four", "stays"]
    # From here on the branch reads production's results of all these.
    dev = opened("dev", ALL.replace("max(x) AS x", "min(x) AS x"))
    rebuild(dev, ["per_day"])
    assert "stays" in dev.foreign
    production = opened("local", ALL.replace("max(x) AS x", "min(x) AS x"))
    days(production, 4)
    production.run(["stays"])
    promote(production, dev.project, ["per_day"])
    production = opened("local", ALL.replace("max(x) AS x", "min(x) AS x"))
    found = rows(production, "per_day")
    assert found == rows(dev, "per_day") != []
    assert all(audit_view(production, view).ok for view in ("four", "stays", "before", "per_day"))
    production.run()
    assert len(rows(production, "per_day")) > len(found)
    assert all(audit_view(production, view).ok for view in SOME)


def test_C2_E5_over_a_view_that_is_behind_here_only_what_follows_from_it_is_taken(
    opened: Callable[..., Session],
) -> None:
    dev = opened("dev", ALL)
    dev.run()
    rebuild(opened("local", ALL), ["v"])
    days(opened("local", ALL), 4)
    # It has found before that production has another `v`.
    dev.run()
    production = opened("local", ALL)
    with pytest.raises(TidegateError, match=r'TG536.*"stays".*final up to .*: promote it when'):
        promote(production, dev.project, ["stays"])
    promote(production, dev.project, ["four", "both", "open_too"])
    production = opened("local", ALL)
    for view in ("four", "both", "open_too"):
        assert 0 < len(rows(production, view)) < len(rows(dev, view))
        assert audit_view(production, view).ok
    production.run(["v"])
    promote(production, dev.project, ["stays"])
    production.run()
    assert all_rows(production) == all_rows(dev)
    assert all(audit_view(production, view).ok for view in SOME)


def refused(production: Session, dev: Session, view: str = "four") -> str:
    with pytest.raises(TidegateError, match="TG536") as raised:
        promote(production, dev.project, [view])
    return raised.value.message.partition("can't be promoted: ")[2]


@pytest.mark.long_run
def test_E5_of_a_view_below_that_has_other_rows_nothing_is_taken(opened: Callable[..., Session]) -> None:
    earlier = ALL.replace("sum(n) AS x", "sum(n + 1) AS x")
    opened("dev", earlier).run()
    dev = opened("dev", ALL)
    rebuild(dev, ["v"], with_readers=False)
    [done] = [one for one in promote(opened("local", ALL), dev.project) if one.view == "four"]
    assert (done.why, done.generation) == ('it was computed from earlier results of "v" in the branch', 0)
    rebuild(dev := opened("dev", earlier), ["v", "four"])
    rebuild(own := opened("local", earlier), ["v"])
    by_hand(own, f"UPDATE {own.identifier('v')} SET x = x + 1 WHERE window_end > '2026-01-02 23:00:00'")
    assert refused(opened("local", earlier), dev) == '"local" has other results of "v" than the branch'


@pytest.mark.parametrize("lent", [False, True])
def test_E5_over_an_amended_view_nothing_is_taken(opened: Callable[..., Session], lent: bool) -> None:
    # (OVER can't be amended, nor what it reads.)
    files = NEW + CHAIN.partition("CREATE MATERIALIZED VIEW stays")[0]
    if lent:
        rebuild(opened("local", files), ["v"])
    dev = opened("dev", files)
    assert ("v" in dev.foreign) == lent
    dev.run()
    if not lent:
        rebuild(opened("local", files), ["v"])
    local = opened("local", files)
    local.execute("INSERT INTO t VALUES ('late', 0, '2026-01-02 00:10:00')")
    assert {one.view: one.windows for one in amend(local, ["v"])}["v"] == 1
    assert refused(opened("local", files), dev) == 'results of "v", which it reads, were amended in "local"'


def test_W9_E5_over_a_view_whose_watermark_was_reset_nothing_is_taken(opened: Callable[..., Session]) -> None:
    dev = opened("dev", ALL)
    dev.run()
    rebuild(local := opened("local", ALL), ["v"])
    local.execute("ALTER TABLE t RESET WATERMARK TO TIMESTAMP '2026-01-03 01:00:00'")
    local.run(["v"])
    said = 'results of "v", which it reads, have closed again after a reset of the watermark in "local"'
    assert refused(opened("local", ALL), dev) == said


@pytest.mark.long_run
def test_R5_E5_over_a_view_that_keeps_an_earlier_past_nothing_is_taken(
    opened: Callable[..., Session],
) -> None:
    """Found out when `v` is in its place: it keeps what nobody can compute of its earlier query."""
    opened("local", OLD + CHAIN).run()
    dev = opened("dev", ALL)
    dev.run()
    policy = Policy(retention=86_400, keep_snapshots=86_400 * 365, settle=0)
    maintain(opened("local", OLD), "t", policy)
    production = opened("local", ALL)
    done = {one.view: one for one in promote(production, dev.project)}
    assert done["v"].tag == "generation_1"
    said = 'results of "v", which it reads, are in part missing, of an earlier query or of erased rows in "local"'
    assert {done[view].why for view in ("four", "stays", "both", "open_too", "rising")} == {said}
    assert (
        done["per_day"].why == 'it reads "stays", of which "local" has no results of the present definitions'
    )
    assert not any(done[view].generation for view in SOME if view not in ("v", "before"))
    rebuild(opened("local", ALL), ["four"])
    assert audit_view(opened("local", ALL), "four").ok


def test_R2_E5_below_a_promotion_nothing_is_replaced_meanwhile(
    opened: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine replaces `v` between the look at it and the commit that names it."""
    dev = opened("dev", ALL)
    dev.run()
    promote(opened("local", ALL), dev.project, ["v"])
    monkeypatch.setattr(Session, "lease", lambda *_: nullcontext())

    def replaced_first(context: Session, view: View) -> ViewTable:
        monkeypatch.setattr(promoting, "ViewTable", ViewTable)
        rebuild(opened("local", ALL.replace("sum(n) AS x", "sum(n + 1) AS x")), ["v"])
        return ViewTable(context, view)

    monkeypatch.setattr(promoting, "ViewTable", replaced_first)
    with pytest.raises(TidegateError, match="TG502"):
        promote(opened("local", ALL), dev.project, ["four"])
    assert rows(opened("local", ALL), "four") == []


def test_A1_C2_what_is_open_in_a_promoted_view_is_not_taken_for_missing(
    opened: Callable[..., Session],
) -> None:
    """Nothing has come since: the branch has read all that there is, and its open rows are not taken."""
    dev = opened("dev", ALL)
    dev.run()
    production = opened("local", ALL)
    promote(production, dev.project)
    for view in ("shown", "open_too"):
        assert len(rows(production, view)) < len(rows(dev, view))
        assert audit_view(production, view).ok
    assert not any(one.current for one in read_status(production.project, ["shown", "open_too"]).views)
    production.run()
    assert {view: rows(production, view) for view in SOME} == {view: rows(dev, view) for view in SOME}
    assert all(audit_view(production, view).ok for view in ("shown", "open_too"))
    assert all(one.current for one in read_status(production.project, ["shown", "open_too"]).views)
