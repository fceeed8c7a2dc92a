"""`tidegate apply` beside live mode: what that makes of the plan, it has taken up before results are swapped (E1, E6).

Live mode is a group in this process. It is asked by a signal, as a process of its own is, and begins again then.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import Workbench
from tests.evolve import test_gates as gates
from tests.evolve.test_apply_at import T, Waited, waiting
from tests.views.test_version_lives import CLOSE, HOURS, inserted, opened, values
from tests.views.test_versions import TABLE
from tidegate.errors import TidegateError
from tidegate.evolve import beside_live
from tidegate.evolve.beside_live import replacing, require_in_place
from tidegate.evolve.planning import planned
from tidegate.live.groups import find_groups
from tidegate.plan.events import MemberFailed
from tidegate.session.apply import AppliedPlan, apply
from tidegate.session.live import LiveGroup
from tidegate.session.session import Session
from tidegate.store.writers import LiveRecord, LiveRecordFile, RefusedDefinitions
from tidegate.views.amend.rebuild import rebuild
from tidegate.views.amend.rollback import rollback
from tidegate.views.versions import held

pytestmark = pytest.mark.runner("inprocess")

SINK = """CREATE SINK out FROM v WITH (connector = 'filesystem', path = 'out', on_change = '{}')
FORMAT PLAIN ENCODE JSON;"""


class Live:
    """A group with everything, which opens the project anew when it is asked to. (It has no leases: a catalog that is a
    folder makes no swap while somebody has them.)"""

    def __init__(self, workbench: Workbench) -> None:
        self._workbench, self.asked, self.failed = workbench, 0, list[MemberFailed]()
        self.group = LiveGroup(workbench.session())
        state = workbench.root / ".tidegate"
        self._names = self._members()
        self._file = LiveRecordFile(state, "local", LiveRecord(time.time(), time.time(), self._names))
        self._before = signal.signal(signal.SIGUSR1, lambda *_: self.reload())

    def _members(self) -> tuple[str, ...]:
        """With what they only read."""
        return tuple(name for group in find_groups(self.group.context.catalog) for name in group.members)

    def reload(self) -> None:
        self.asked += 1
        looked_at, refused, session = time.time(), None, self._workbench.session()
        try:
            require_in_place(session.project, session.catalog, self._names)
            self.group = LiveGroup(session)
            self._names = self._members()
        except TidegateError as error:
            refused = RefusedDefinitions(looked_at, error.to_dict())
        self._file.change(looked_at=looked_at, refused=refused, members=self._names)

    def tick(self) -> None:
        self.failed.clear()
        self.group.open_anew()
        self.group.tick(lambda event: self.failed.append(event) if isinstance(event, MemberFailed) else None)

    def end(self) -> None:
        signal.signal(signal.SIGUSR1, self._before)
        self._file.remove()


@pytest.fixture
def live(workbench: Workbench) -> Iterator[list[Live]]:
    """What the test starts, and this ends."""
    started: list[Live] = []
    yield started
    for one in started:
        one.end()


def delivered(root: Path) -> list[str]:
    return sorted(line for file in (root / "out").glob("*.jsonl") for line in file.read_text().splitlines())


def started(workbench: Workbench, live: list[Live]) -> Live:
    """A view that counts rows, whose rows a sink has that live mode keeps up to date."""
    old = opened(workbench, "count(*)", out=SINK.format("replay"))
    inserted(old, "00:10", "01:10", "02:10")
    live.append(Live(workbench))
    live[0].tick()
    assert (len(delivered(workbench.root)), live[0].failed) == (2, [])
    return live[0]


def applied(session: Session) -> AppliedPlan:
    session.confirm = lambda text: True
    return apply(session)


def test_E6_a_sink_is_changed_before_the_version_that_it_delivers_is_swapped(
    workbench: Workbench, live: list[Live]
) -> None:
    """Else live mode would deliver the new version by the definition of before: all rows again."""
    running = started(workbench, live)
    before = delivered(workbench.root)
    new = opened(workbench, "sum(n)", out=SINK.format("from_frontier"))
    applied(new)
    assert running.asked == 1
    running.tick()
    assert (running.failed, delivered(workbench.root)) == ([], before)
    inserted(new, "03:10")
    running.tick()
    assert len(delivered(workbench.root)) == len(before) + 1


def test_E1_live_mode_gives_a_view_that_it_writes_its_new_name(
    workbench: Workbench, live: list[Live]
) -> None:
    workbench.with_catalog({"type": "jdbc", "uri": "jdbc:sqlite:.tidegate/warehouse/catalog.db"})
    running = started(workbench, live)
    before = delivered(workbench.root)
    view = HOURS.format(what="count(*)", emit=CLOSE).replace("VIEW v AS", "VIEW w RENAMED FROM v AS")
    workbench.assets(v=view, out=SINK.format("replay").replace("FROM v", "FROM w"))
    new = workbench.session()
    done = applied(new)
    assert (running.asked, done.runs, done.rebuilt) == (1, [], [])
    inserted(new, "03:10")
    running.tick()
    assert (running.failed, values(new, "w"), new.stored("v")) == ([], [1, 1, 1], None)
    assert len(delivered(workbench.root)) == len(before) + 1


def test_E2_live_mode_changes_the_log_of_a_gate_that_it_runs(
    workbench: Workbench, live: list[Live], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows the gate by its view, and has its lease. The table without a connector is changed by `apply`."""
    old = gates.opened(workbench, "a INT")
    gates.insert(old, "(1, '2026-01-01 12:00:00')")
    live.append(Live(workbench))
    live[0].tick()
    new = gates.opened(workbench, "b INT RENAMED FROM a, a INT")
    gate = gates.gate_of(new).name
    assert gates.effects(new) == {"t": "in place", gate: "in place", "v": "unchanged"}
    ticks = SimpleNamespace(sleep=lambda seconds: live[0].tick(), monotonic=time.monotonic)
    monkeypatch.setattr(beside_live, "time", ticks)
    (run,) = applied(new).runs
    assert [one.name for one in run.sources] == ["t"]
    assert (live[0].asked, live[0].failed) == (1, [])
    assert set(gates.effects(new).values()) == {"unchanged"}


def test_E6_a_sink_goes_over_to_a_new_version_only_by_its_newest_definition(
    workbench: Workbench, live: list[Live]
) -> None:
    """Live mode may be in a tick that has begun before it was asked, or was never asked."""
    running = started(workbench, live)
    before = delivered(workbench.root)
    rebuild(opened(workbench, "sum(n)", out=SINK.format("from_frontier")), ["v"])
    running.tick()
    assert [(one.name, one.code) for one in running.failed] == [("out", "TG506")]
    assert delivered(workbench.root) == before
    # It has taken up the definition.
    running.reload()
    running.tick()
    assert (running.failed, delivered(workbench.root)) == ([], before)


def test_E5_live_mode_continues_with_the_earlier_version_until_the_new_one_is_begun(
    workbench: Workbench, live: list[Live]
) -> None:
    """It has taken up the definitions, and other views may be recomputed before this one."""
    running = started(workbench, live)
    new = opened(workbench, "sum(n)", out=SINK.format("replay"))
    with replacing(new, ["v"]):
        running.reload()
        inserted(new, "03:10")
        running.tick()
        assert (running.failed, len(delivered(workbench.root))) == ([], 3)
    # Nobody replaces it any more.
    running.group = LiveGroup(workbench.session())
    running.tick()
    assert [(one.name, one.code) for one in running.failed] == [("v", "TG506")]


COLUMNS = TABLE.replace("n INT", "n INT, {} INT")


def test_E7_a_table_that_live_mode_only_reads_is_changed_here_and_live_mode_is_told(
    workbench: Workbench, live: list[Live], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside_live, "_CHANGE_SECONDS", 0.1)
    running = started(workbench, live)
    new = workbench.assets(t=COLUMNS.format("note")).session()
    notes: list[str] = []
    done = apply(new, notify=notes.append)
    assert (running.asked, [run.sources[0].name for run in done.runs], notes) == (1, ["t"], [])
    running.tick()
    assert running.failed == []
    assert apply(new) == AppliedPlan()


def test_E7_nothing_is_asked_of_live_mode_while_somebody_writes_the_table(
    workbench: Workbench, live: list[Live]
) -> None:
    """Its views would wait for the log from then on."""
    running = started(workbench, live)
    new = workbench.assets(t=COLUMNS.format("note")).session()
    with workbench.session().lease("t"), pytest.raises(TidegateError, match="TG508"):
        apply(new)
    assert running.asked == 0


def test_E5_behind_a_rollback_live_mode_takes_up_other_changes(
    workbench: Workbench, live: list[Live]
) -> None:
    """The plan says that the view is a new version, which runs do not make."""
    old = opened(workbench, "count(*)")
    inserted(old, "00:10", "01:10", "02:10")
    old.run()
    live.append(Live(workbench))
    session = opened(workbench, "sum(n)")
    applied(session)
    rollback(session, "v")
    new = workbench.assets(t=COLUMNS.format("note")).session()
    done = apply(new, ["t"])
    assert [run.sources[0].name for run in done.runs] == ["t"]
    new.execute("INSERT INTO t VALUES ('a', 5, 1, '2026-01-01 03:10:00')")
    live[0].tick()
    assert (live[0].asked, live[0].failed, values(new, "v")) == (1, [], [1, 1, 1])
    (plan,) = [one for one in planned(new.project, new.catalog) if one.name == "v"]
    assert (plan.effect, plan.what) == ("new version", ("its query has changed",))


@pytest.mark.parametrize("folder", [False, True])
def test_E5_a_change_at_a_time_is_undone_though_live_mode_writes_the_view(
    workbench: Workbench, live: list[Live], monkeypatch: pytest.MonkeyPatch, folder: bool
) -> None:
    """Not in a catalog that is a folder: there nobody else may write the table."""
    if not folder:
        monkeypatch.setattr(held, "kept_apart", lambda *_: nullcontext())
    inserted(old := opened(workbench, "count(*)"), "00:10", "01:10", "02:10")
    old.run()
    waiting(new := opened(workbench, "sum(n)"))
    with pytest.raises(Waited):
        apply(new, at=T)
    live.append(Live(workbench))
    session = opened(workbench, "count(*)")
    with (
        workbench.session().lease("v"),
        pytest.raises(TidegateError, match="TG508") if folder else nullcontext(),
    ):
        assert apply(session) == AppliedPlan()
    assert (live[0].asked, held.is_held(session, "v")) == (1, folder)
    if not folder:
        inserted(session, "03:10", "04:10", "05:10")
        live[0].tick()
        assert (live[0].failed, values(session, "v")) == ([], [1] * 5)
