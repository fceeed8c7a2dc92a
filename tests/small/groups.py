"""Small worlds side by side in one run of the whole engine: each is a key with two source partitions of its own.

G is the minimum over all partitions, so worlds that publish the same watermarks publish them together, too, and none of
them sees another. A run plays thousands of worlds at once, wherever it ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tests.oracles.oracle import Oracle, Row
from tests.simulate import play as playing
from tests.simulate.play import Played
from tests.simulate.scripts.pipelines import DELAY, Pipeline
from tests.simulate.scripts.script import Act, Amend, Arrive, Run, Script
from tests.simulate.world.outside import LOST, Fault
from tests.small.crashes import Ends, Noting, Plays, played
from tests.small.histories import PARTITIONS, History
from tests.small.judging import judged_once
from tests.small.left import Left, States
from tests.small.walk import Counted, WrongError

#: Seconds. By a delay of 20, windows of 10, of 30 each 10, and a gap of 15, all relations occur.
SECONDS = (0, 10, 15, 30, 35, 50)

#: What readers have seen, and what a play counts.
_SEEN = ("emitted", "shown", "frontiers", "lives", "_files", "_live")
_OF_LOG = ("given", "rows", "epoch", "marks", "recorded", "repeats", "versions", "_plans")
_COUNTED = ("_arrived", "_drivers")

Published = tuple[int | None, ...]
#: Of one file: (id, partition, key, value, seconds).
Given = tuple[int, str, str, int | None, int | None]


@dataclass(frozen=True)
class Group:
    """Worlds that publish the same watermarks, batch by batch."""

    published: Published
    worlds: tuple[History, ...]

    @property
    def backlog(self) -> bool:
        return self.worlds[0].backlog

    def files(self) -> list[tuple[Given, ...]]:
        """What each batch reads of all of them."""
        files: list[list[Given]] = [[] for _ in self.published]
        number = 0
        for world, history in enumerate(self.worlds):
            for batch, partition, _, time in history.rows():
                number += 1
                files[batch - 1].append((number, f"{world}/{partition}", f"{world}", number % 7, time))
        return [tuple(rows) for rows in files]


def published(history: History, batches: int, expires: bool = False) -> Published:
    """G after each batch; after its last one a world stays as it is."""
    oracle = Oracle(lambda row: row.event_time - DELAY)
    found: list[int | None] = []
    for batch in range(1, len(history.batches) + 1):
        oracle.enumerate(p for p in PARTITIONS if history.begins().get(p, batch + 1) <= batch)
        for number, partition, offset, time in history.rows():
            if number == batch:
                oracle.read(Row(partition, offset, time, None if time is not None else "null_event_time"))
        found.append(oracle.flush())
    return (*found, *[found[-1]] * (batches - len(found)))


def groups(histories: Iterable[History], batches: int) -> list[Group]:
    """Of all these histories. What the partitions of a world are called does not matter: of two that differ in nothing
    else, one is played."""
    found: dict[tuple[bool, Published], list[History]] = defaultdict(list)
    for history in histories:
        if history.stands_for:
            found[history.backlog, published(history, batches)].append(history)
    return [Group(cut(marks, worlds), tuple(worlds)) for (_, marks), worlds in found.items()]


def cut(marks: Published, worlds: Sequence[History]) -> Published:
    """Of the batches that some world has: no file is without rows."""
    return marks[: max(len(world.batches) for world in worlds)]


def script(group: Group, views: Sequence[str], amends: bool = False) -> Script:
    """The files one by one, each with a run; or all of them and then a run. `amends`: late rows are absorbed after each
    run."""
    acts: list[Act] = [Arrive(rows) for rows in group.files()]
    if group.backlog:
        acts.append(Run())
    else:
        acts = [one for act in acts for one in (act, Run())]
    if amends:
        acts = [one for act in acts for one in ((act, Amend()) if isinstance(act, Run) else (act,))]
    # (Of every fifth seed all windows are audited, which is left to the simulator.)
    return Script(1, Pipeline(tuple(views)), tuple(acts), faults=())


def held(script: Script) -> None:
    """Play it. Raises WrongError for a promise that was broken."""
    kept(playing.play(script))


def kept(played: Played) -> None:
    """Raises WrongError for a promise that was broken."""
    if played.wrong is not None:
        raise WrongError(f"{played.wrong}\n{played.script.text()[:2000]}")


class _Crashes:
    """A history that is played, without a fault and with each. After a process has ended, what has been done in the
    same state is not done again."""

    def __init__(self, plain: Script) -> None:
        self._script, self._states = plain, States()
        self.ends = Ends(self._states)
        #: What there was before each act; the states after it that histories have come to, while a process goes on.
        self._begun: dict[int, Left] = {}
        self._known: set[tuple[int, Hashable]] = set()

    def play(self) -> None:
        """Without a fault."""
        play = playing.Play(self._script)
        noting = Noting(self.ends, lambda: play.world, lambda: _left(play))
        play.outside.chooser = noting

        def after(number: int) -> bool:
            noting.ended(number)
            self._is_known(play, number)
            self._begun[number + 1] = _left(play)
            return False

        kept(play.play(known=after))

    def plays(self) -> Plays:
        """What is left to be played, and of how many faults each is."""
        ended: Plays = [
            (len(end.faults), partial(self._go_on, end.left, end.act + 1, end.faults[-1], False))
            for end in self.ends.distinct()
        ]
        lost: Plays = [
            (1, partial(self._go_on, self._begun[fault.act], fault.act, fault, True))
            for fault in (replace(fault, kind=LOST) for fault in self.ends.commits)
        ]
        return [*ended, *lost]

    def _go_on(self, left: Left, first: int, fault: Fault, meets: bool) -> None:
        """From there on in a new process, which `meets` the fault, or whose predecessor has met it."""
        play = playing.Play(replace(self._script, faults=(fault,) if meets else ()))
        _put(left, play)
        play.outside.met[:] = [] if meets else [fault]
        kept(play.play(first, lambda number: self._is_known(play, number)))
        assert play.outside.met == [fault], f"nothing like {fault} has happened"

    def _is_known(self, play: playing.Play, number: int) -> bool:
        """Whether a history has come to this state after this act; from now on, it has."""
        if isinstance(self._script.acts[number], Arrive):
            return False
        key = number, self._states.key(play.world)
        known = key in self._known
        self._known.add(key)
        return known

    @property
    def states(self) -> int:
        """How many there are that differ."""
        return len(self._known) + len(self.ends.distinct())


def _left(play: playing.Play) -> Left:
    log = play.checks.events
    return Left.of(play.world, checks=(play.checks, _SEEN), log=(log, _OF_LOG), play=(play, _COUNTED))


def _put(left: Left, play: playing.Play) -> None:
    left.put_into(play.world, checks=play.checks, log=play.checks.events, play=play)


def walked(group: Group, views: Sequence[str], amends: bool = False, most: int | None = None) -> Counted:
    """Play a group without a crash, and with each of them. `most`: so many of them, evenly chosen."""
    crashes = _Crashes(script(group, views, amends))
    with judged_once():
        crashes.play()
        return played(crashes.plays(), group.worlds, lambda: crashes.states, most)
