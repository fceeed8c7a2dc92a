"""E5: a new version takes the place of the current one at exactly the time that was named, `apply --at`."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from typing import Any

import pytest

from tests.conftest import Workbench
from tests.inprocess.failpoints import Failpoints, Killed
from tests.session.test_apply_command import call, effects
from tests.views.test_version_lives import CLOSE, HOURS, inserted, opened, view_of
from tests.views.test_versions import TABLE
from tidegate.cli.commands.questions.status_answer import _notes
from tidegate.errors import TidegateError
from tidegate.evolve.planning import planned
from tidegate.findings.look import look
from tidegate.plan.versions import HELD_AT, current_version, kept_versions
from tidegate.session.apply import apply
from tidegate.session.live import LiveGroup
from tidegate.session.session import Session
from tidegate.session.up_to_date import up_to_date
from tidegate.store.status import read_status
from tidegate.views.amend.at_time import time_of
from tidegate.views.amend.rebuild import rebuild
from tidegate.views.amend.rollback import rollback
from tidegate.views.versions import held
from tidegate.views.versions.build import VersionBuild

pytestmark = pytest.mark.runner("inprocess")

T = "2026-01-01T04:00:00Z"
SINK = """CREATE SINK out FROM v WITH (connector = 'filesystem', path = 'out', on_change = 'from_frontier')
FORMAT PLAIN ENCODE JSON;"""


class Waited(BaseException):
    """The process ends while it waits."""


def waiting(session: Session, happens: Callable[[], object] | None = None) -> list[float]:
    """What the session does while it waits; None: it ends there. The seconds that it has waited."""
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if happens is None or len(waits) > 20:
            raise Waited
        happens()

    session.runner = replace(session.runner, wait=wait)
    session.confirm = lambda text: True
    return waits


def shown(session: Session, name: str = "v") -> list[tuple[str, int]]:
    """The end of each window, as `hh:mm`, and its value: 1 of the earlier version, 5 of the new one for each row."""
    return sorted((str(row[0])[11:16], row[1]) for row in session.table(name).collect())


def properties(session: Session) -> dict[str, str]:
    return session.tables.open(session.identifier("v")).properties()


def frontier(session: Session) -> str:
    return view_of(session, "v").kind.format(
        session.tables.open(session.identifier("v")).current().integer("tidegate.frontier")
    )


def started(workbench: Workbench, *times: str, **more: str) -> Session:
    """A view that counts rows, with one in each of the first hours; its file is changed to a sum."""
    old = opened(workbench, "count(*)", **more)
    inserted(old, *(times or ("00:10", "01:10", "02:10")))
    old.run()
    return old


def changed(workbench: Workbench, **more: str) -> Session:
    return opened(workbench, "sum(n)", **more)


def test_E5_the_swap_is_at_the_time_though_another_session_ticks_the_earlier_version(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads rows of after T meanwhile, and closes no window with them; each is closed once, by one version."""
    # (With a folder as catalog, who writes the view has to let go of it, at the latest for the swap.)
    monkeypatch.setattr(held, "kept_apart", lambda *_: nullcontext())
    old = started(workbench, out=SINK)
    new = changed(workbench, out=SINK)
    seen: list[list[tuple[str, int]]] = []
    hours = iter(["03:10", "04:10", "05:10"])

    live = ExitStack()
    group = live.enter_context(LiveGroup(old, ["v", "out"]))

    def happens() -> None:
        inserted(old, next(hours))
        group.tick(lambda event: None)
        seen.append(shown(old))
        if len(seen) == 2:
            live.close()

    waits = waiting(new, happens)
    notes: list[str] = []
    done = apply(new, at=T, notify=notes.append)
    assert [one.at for one in done.rebuilt] == ["2026-01-01 04:00:00"]
    # It waits for 04:00 only.
    assert len(waits) == 2
    assert seen == [[(f"0{h}:00", 1) for h in range(1, n)] for n in (4, 5)]
    assert any("the inputs have reached 2026-01-01 03:10:00" in note for note in notes)
    assert shown(new) == [(f"0{h}:00", 5) for h in range(1, 5)]
    assert HELD_AT not in properties(new)
    (kept,) = kept_versions(properties(new))
    assert (kept.number, kept.frontier) == (1, "2026-01-01 04:00:00")
    session = changed(workbench, out=SINK)
    inserted(session, "05:10", "06:10")
    session.run()
    assert shown(session)[4:] == [("05:00", 5), ("06:00", 5)]
    # The sink: 1 up to T and 5 after it, none twice.
    assert delivered(session) == [(f"0{h}:00", 1 if h <= 4 else 5) for h in range(1, 7)]


def delivered(session: Session) -> list[tuple[str, int]]:
    lines = [
        json.loads(line)
        for file in sorted((session.project.root / "out").glob("**/*.json*"))
        if not file.name.startswith((".", "_"))
        for line in file.read_text().splitlines()
    ]
    return sorted((line["window_end"][11:16], line["x"]) for line in lines if "x" in line)


def test_E5_rows_of_after_the_time_are_not_closed_by_the_earlier_version(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody ticks it: `apply` does, up to T and no further, although its inputs are beyond."""
    old = started(workbench)
    inserted(old, "03:10", "06:10")
    session = changed(workbench)
    old_rows: list[Any] = []
    swapped = VersionBuild.swapped

    def looked(version: VersionBuild) -> bool:
        old_rows.append((shown(old), frontier(old)))
        return swapped(version)

    monkeypatch.setattr(VersionBuild, "swapped", looked)
    waiting(session)
    apply(session, at=T)
    assert old_rows == [([(f"0{h}:00", 1) for h in range(1, 5)], "2026-01-01 04:00:00")]
    assert shown(session) == [(f"0{h}:00", 5) for h in range(1, 5)]
    assert frontier(session) == "2026-01-01 04:00:00"
    session.run()
    assert frontier(session) == "2026-01-01 06:10:00"


@pytest.mark.parametrize("at", ["2026-01-01 02:09:59", "2026-01-01T00:00:00Z", "2026-01-01T03:00:00+02:00"])
def test_E5_a_time_that_has_passed_is_refused_and_nothing_is_changed(workbench: Workbench, at: str) -> None:
    started(workbench)
    session = changed(workbench)
    before, said = shown(session), properties(session)
    waiting(session)
    with pytest.raises(TidegateError, match=r"TG534.*final up to 2026-01-01 02:10:00 already") as caught:
        apply(session, at=at)
    assert "choose 2026-01-01 02:10:00 or a later time" in (caught.value.hint or "")
    assert (shown(session), properties(session)) == (before, said)
    assert not session.is_building("v")


def test_E5_the_frontier_itself_is_a_time_that_both_reach(workbench: Workbench) -> None:
    started(workbench)
    session = changed(workbench)
    assert waiting(session) == []
    apply(session, at="2026-01-01 02:10:00")
    assert (shown(session), current_version(properties(session))) == ([("01:00", 5), ("02:00", 5)], 2)


def test_E5_a_tick_that_was_under_way_is_noticed(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has begun before the view was held, and commits beyond T: nothing is swapped, and nothing waits."""
    old = started(workbench)
    inserted(old, "06:10")
    session = changed(workbench)
    waiting(session)
    hold = held._set

    def late(context: Any, name: str, at: int | None) -> None:
        if at is not None:
            old.run(["v"])
        hold(context, name, at)

    monkeypatch.setattr(held, "_set", late)
    with pytest.raises(TidegateError, match=r"TG534.*final up to 2026-01-01 06:10:00 already"):
        apply(session, at=T)
    assert shown(session) == [("01:00", 1), ("02:00", 1), ("03:00", 1)]
    assert not properties(session)[HELD_AT]


def test_R2_E5_killed_anywhere_the_same_command_continues_and_the_time_stands(workbench: Workbench) -> None:
    old = started(workbench, "00:10", "01:10", "02:10")
    inserted(old, "03:10", "06:10")
    changed(workbench)
    killed, points, last = True, 0, 1
    while killed:
        killed, passed = False, Failpoints(points)
        session = workbench.session()
        waiting(session)
        try:
            with passed.armed():
                apply(session, at=T)
        except Killed:
            killed, points = True, points + 1
        session = workbench.session()
        version = current_version(properties(session))
        assert version >= last
        last = version
        # No version has shown anything of after T.
        assert max(shown(session))[0] <= "04:00"
        assert {value for _, value in shown(session)} == {1 if version == 1 else 5}
        if session.is_building("v") and version == 1:
            # Whoever runs meanwhile stops there, too.
            session.run(["v"])
            assert points < 3 or max(shown(session))[0] == "04:00"
        assert points < 40
    assert (points > 3, last) == (True, 2)
    session.run()
    assert shown(session) == [(f"0{h}:00", 5) for h in range(1, 5)]
    assert set(effects(session).values()) == {"unchanged"}


def waits(workbench: Workbench) -> Session:
    """One whose `apply --at` was ended while it waited for 04:00."""
    started(workbench)
    session = changed(workbench)
    waiting(session)
    with pytest.raises(Waited):
        apply(session, at=T)
    session = changed(workbench)
    inserted(session, "03:10", "07:10")
    session.run()
    assert shown(session) == [(f"0{h}:00", 1) for h in range(1, 5)]
    return session


def test_E5_status_why_and_plan_say_what_it_waits_for(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = waits(workbench)
    (view,) = read_status(session.project).views
    # Nothing is to be done for it: a schedule starts no Spark, and live mode is idle.
    assert (view.held_at, view.frontier_text, view.current) == (
        *("2026-01-01 04:00:00", "2026-01-01 04:00:00"),
        True,
    )
    said = "its current version stops at 2026-01-01 04:00:00, where a new one takes its place"
    command = "tidegate apply v --at '2026-01-01 04:00:00'"
    assert any(said in note and command in note for note in _notes(view))
    found = {one.kind: one for one in look(session.project).findings}
    assert (found["waits_for_version"].severity, "view_behind" in found) == ("warning", False)
    assert said in found["waits_for_version"].text
    (change,) = [one for one in planned(session.project, session.project.catalog()) if one.name == "v"]
    assert (change.effect, change.command, change.held_at) == ("new version", command, "2026-01-01 04:00:00")
    with LiveGroup(session, ["v"]) as group:
        assert not group.tick(lambda event: None)
        assert not group.tick(lambda event: None)
    done = call(monkeypatch, session, "--yes", "--json", "--at", "2026-01-01 04:00:00")
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout.splitlines()[-1])
    assert (data["at"], data["rebuilt"][0]["at"]) == ("2026-01-01 04:00:00", "2026-01-01 04:00:00")
    assert up_to_date(session.project, session.project.catalog()) is None
    session.run()
    assert shown(session) == [(f"0{h}:00", 5) for h in (1, 2, 3, 4)]


def test_E5_another_time_is_taken_while_it_can_be_reached(workbench: Workbench) -> None:
    session = waits(workbench)
    waiting(session)
    apply(session, at="2026-01-01 06:00:00")
    assert kept_versions(properties(session))[0].frontier == "2026-01-01 06:00:00"
    assert frontier(session) == "2026-01-01 06:00:00"


@pytest.mark.parametrize("how", ["apply", "rebuild"])
def test_E5_without_a_time_the_versions_are_swapped_where_they_are(workbench: Workbench, how: str) -> None:
    session = waits(workbench)
    waiting(session)
    (apply if how == "apply" else rebuild)(session)
    assert (HELD_AT in properties(session), frontier(session)) == (False, "2026-01-01 07:10:00")


def test_E5_a_view_whose_change_was_undone_waits_no_longer(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits(workbench)
    session = opened(workbench, "count(*)")
    assert effects(session)["v"] == "in place"
    done = call(monkeypatch, session)
    assert done.exit_code == 0, done.output
    assert (effects(session)["v"], session.is_building("v")) == ("unchanged", False)
    assert frontier(session) == "2026-01-01 07:10:00"


def test_E5_a_view_that_goes_back_waits_no_longer(workbench: Workbench) -> None:
    started(workbench)
    session = changed(workbench)
    session.confirm = lambda text: True
    rebuild(session)
    workbench.assets(t=TABLE, v=HOURS.format(what="max(n) + 1", emit=CLOSE))
    session = workbench.session()
    waiting(session)
    with pytest.raises(Waited):
        apply(session, at=T)
    assert properties(session)[HELD_AT]
    inserted(session, "05:10")
    rollback(session, "v", 1)
    assert not properties(session).get(HELD_AT)
    assert frontier(session) == "2026-01-01 05:10:00"


READER = "CREATE MATERIALIZED VIEW d AS SELECT v.window_end, v.x + 1 AS y FROM v EMIT ON WINDOW CLOSE;"
BESIDE = """CREATE MATERIALIZED VIEW w AS SELECT window_end, {what} AS x FROM TUMBLE(t, ts, INTERVAL '2 hours')
GROUP BY window_end EMIT ON WINDOW CLOSE;"""


def test_E5_all_views_of_the_plan_change_at_the_time_and_readers_behind_them(workbench: Workbench) -> None:
    old = started(workbench, d=READER, w=BESIDE.format(what="count(*)"))
    inserted(old, "03:10", "06:10")
    more = {"d": READER, "w": BESIDE.format(what="sum(n)")}
    session = changed(workbench, **more, new=READER.replace("VIEW d", "VIEW new"))
    waiting(session)
    done = apply(session, at=T)
    assert [(one.view, one.at) for one in done.rebuilt] == [
        ("v", "2026-01-01 04:00:00"),
        ("d", None),
        ("w", "2026-01-01 04:00:00"),
    ]
    session = changed(workbench, **more, new=READER.replace("VIEW d", "VIEW new"))
    assert set(effects(session).values()) == {"unchanged"}
    assert shown(session, "w") == [("02:00", 10), ("04:00", 10)]
    assert shown(session, "d") == [(f"0{h}:00", 6) for h in range(1, 5)] == shown(session, "new")


@pytest.mark.parametrize(
    ("view", "said"),
    [
        (HOURS.format(what="sum(n)", emit=""), "its query has no EMIT ON WINDOW CLOSE"),
        ("CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS x FROM t GROUP BY k;", "its query has no EMIT"),
    ],
)
def test_E5_a_view_that_shows_what_is_not_final_changes_at_no_time(
    workbench: Workbench, view: str, said: str
) -> None:
    started(workbench)
    workbench.assets(t=TABLE, v=view)
    session = workbench.session()
    waiting(session)
    with pytest.raises(TidegateError, match=f"TG534.*{said}") as caught:
        apply(session, at=T)
    assert caught.value.hint == "tidegate apply v swaps the versions without a time"
    assert HELD_AT not in properties(session)


def test_E5_a_version_that_showed_open_windows_or_can_not_be_continued_changes_at_no_time(
    workbench: Workbench,
) -> None:
    old = opened(workbench, "count(*)", emit="")
    inserted(old, "00:10")
    old.run()
    session = changed(workbench)
    waiting(session)
    with pytest.raises(TidegateError, match=r"TG534.*its current version has no EMIT ON WINDOW CLOSE"):
        apply(session, at=T)
    rebuild(session)
    # Its query is as it was, and the column that it reads is gone: another one has its name.
    for table, what in ((TABLE.replace("n INT, ", ""), "count(*)"), (TABLE, "sum(n)")):
        workbench.assets(t=table, v=HOURS.format(what=what, emit=CLOSE))
        session = workbench.session()
        session.run(["t"])
    waiting(session)
    with pytest.raises(TidegateError, match=r"TG534.*can't be continued until then"):
        apply(session, at=T)


def test_E5_what_is_no_time_is_refused(workbench: Workbench) -> None:
    view = view_of(started(workbench), "v")
    micros = time_of(view, "2026-01-01 04:00:00")
    assert time_of(view, T) == micros == time_of(view, "2026-01-01 05:00+01:00")
    session = changed(workbench)
    waiting(session)
    with pytest.raises(TidegateError, match="TG563"):
        apply(session, at="tomorrow")
    assert HELD_AT not in properties(session)
