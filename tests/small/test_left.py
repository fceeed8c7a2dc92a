"""What small worlds leave out because it was played before is the same: ends of a process that leave the same state are
followed by the same states, in whichever process, with whatever names and files that no table has."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.inprocess.session import without_a_jvm
from tests.simulate import play as playing
from tests.simulate.scripts.script import Arrive, Script
from tests.simulate.world.outside import KILLED_AFTER, KILLED_BEFORE, LOST, Fault
from tests.small import groups, run, tables
from tests.small.groups import _Crashes
from tests.small.histories import histories
from tests.small.judging import judged_once
from tests.small.left import States
from tests.small.walk import WrongError
from tidegate.errors import TidegateError
from tidegate.ingest.stream import PlanInbox

pytestmark = pytest.mark.medium

#: After each act, by its number, and at the end.
Passed = dict[int, Hashable]


@pytest.fixture(autouse=True)
def _no_jvm() -> Iterator[None]:
    with without_a_jvm():
        yield


def _history(amends: bool = False) -> Script:
    """Of worlds with late rows, that close windows with each batch."""
    found = groups.groups(histories((0, 15, 35), 2), 2)
    one = next(one for one in found if one.published == (-5, 15) and not one.backlog)
    return groups.script(one, ("tumbling",), amends)


def _states(script: Script, play: playing.Play, first: int = 0) -> Passed:
    """What a history passes from this act on, which breaks no promise."""
    states, passed = States(), Passed()

    def after(number: int) -> bool:
        if not isinstance(script.acts[number], Arrive):
            passed[number] = states.key(play.world)
        return False

    groups.kept(play.play(first, after))
    passed[len(script.acts)] = states.key(play.world)
    return passed


def _from(script: Script, crashes: _Crashes, fault: Fault) -> Passed:
    """As `make worlds` plays this fault, without an end where it is known."""
    if fault.kind == LOST:
        met, first, left = (fault,), fault.act, crashes._begun[fault.act]
    else:
        end = next(end for end in crashes.ends.distinct() if fault in end.faults)
        met, first, left = (), end.act + 1, end.left
    play = playing.Play(replace(script, faults=met))
    groups._put(left, play)
    return _states(script, play, first)


@pytest.mark.parametrize("amends", [False, True])
def test_R1_R2_the_states_after_an_end_follow_from_what_it_leaves(amends: bool) -> None:
    script = _history(amends)
    crashes = _Crashes(script)
    with judged_once():
        crashes.play()
        ends = [end for end in crashes.ends.distinct() if len(end.faults) > 1]
        # Of ends that leave the same, the first one, which is not played.
        faults = [end.faults[0] for end in (ends[0], ends[len(ends) // 2], ends[-1])]
        faults.append(replace(crashes.ends.commits[1], kind=LOST))
        passed = {fault: _from(script, crashes, fault) for fault in faults}
    for fault in faults:
        whole = _states(script, playing.Play(replace(script, faults=(fault,))))
        assert passed[fault].items() <= whole.items(), fault


def test_each_end_of_a_process_is_in_one_state() -> None:
    script = _history()
    crashes = _Crashes(script)
    crashes.play()
    faults = [fault for end in crashes.ends.distinct() for fault in end.faults]
    assert len(faults) == len(set(faults))
    assert {fault.kind for fault in faults} == {KILLED_BEFORE, KILLED_AFTER}
    # Data and metadata that nothing has committed yet leave the state as it was.
    assert len(faults) > len(crashes.ends.distinct())
    one = crashes.ends.distinct()[-1]
    assert one.faults[-1].kind == KILLED_AFTER
    assert {fault.act for fault in one.faults} == {one.act}


def test_names_ids_and_times_do_not_count_but_rows_and_facts_do() -> None:
    script = _history()
    plain = _states(script, playing.Play(script))
    # (Another seed, which ends with the same upkeep.)
    other_seed = replace(script, seed=script.seed + playing.IN_WHOLE)
    assert _states(script, playing.Play(other_seed)) == plain
    first, *others = script.acts
    assert isinstance(first, Arrive)
    number, partition, key, value, at = first.rows[0]
    other = replace(first, rows=((number, partition, key, (value or 0) + 1, at), *first.rows[1:]))
    changed = _states(script, playing.Play(replace(script, acts=(other, *others))))
    assert all(changed[act] != plain[act] for act in plain)


# -- a defect each that only an end of a process shows -----------------------------------------------------------


def _plan_made_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlanInbox, "read", lambda self, epoch: None)


@pytest.mark.parametrize(
    ("plant", "walk"),
    [
        (_plan_made_twice, lambda: groups.walked(_worlds(), ("tumbling",))),
    ],
)
def test_R2_W4_what_a_process_has_left_is_not_heeded(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None], walk: Callable[[], Any]
) -> None:
    plant(monkeypatch)
    with pytest.raises(WrongError, match="W4"):
        walk()


def _worlds() -> groups.Group:
    return next(one for one in groups.groups(histories((0, 35), 2), 2) if not one.backlog)


def test_no_history_of_tables_is_left_out() -> None:
    for of in (groups, tables):
        every = [one for one in histories((0, 35), 3) if one.stands_for]
        played = [world for group in of.groups(every, 3) for world in group.worlds]  # type: ignore[attr-defined]
        assert sorted(map(repr, played)) == sorted(map(repr, every))


def test_an_error_of_the_engine_is_what_is_wrong_with_a_portion(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise TidegateError("TG508", "somebody else writes it")

    monkeypatch.setattr(run, "_portions", lambda _: [("tables: t", fails)])
    assert "TG508: somebody else writes it" in str(run.play("tables: t"))
