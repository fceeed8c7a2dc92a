"""Small worlds side by side in one run of the whole engine: each is a key with two source partitions of its own.

G is the minimum over all partitions, so worlds that publish the same watermarks publish them together, too, and none of
them sees another. A run plays thousands of worlds at once, wherever it ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any
from unittest.mock import patch

from tests.oracles.oracle import Oracle, Row
from tests.simulate import play as playing
from tests.simulate.scripts.pipelines import DELAY, Pipeline
from tests.simulate.scripts.script import Act, Amend, Arrive, Run, Script
from tests.simulate.world.outside import KILLED_AFTER, KILLED_BEFORE, LOST, Chooser, Fault
from tests.small.histories import PARTITIONS, History
from tests.small.walk import Counted, WrongError

#: Seconds. By a delay of 20, windows of 10, of 30 each 10, and a gap of 15, all relations occur.
SECONDS = (0, 10, 15, 30, 35, 50)

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
    """Those whose files have rows in each batch, so that none is missing."""
    found: dict[tuple[bool, Published], list[History]] = defaultdict(list)
    for history in histories:
        found[history.backlog, published(history, batches)].append(history)
    return [
        Group(marks, tuple(worlds))
        for (_, marks), worlds in found.items()
        if max(len(world.batches) for world in worlds) == batches
    ]


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


def crashes(plain: Script) -> Iterator[Fault]:
    """Every end of a process that leaves something behind which no other end leaves: before each change of a file or a
    table, and after the last one of a commit, whose answer may be lost, too."""
    passed: list[tuple[int, str, int]] = []

    class Noting(Chooser):
        def kind(self, act: int, name: str, number: int, most: int) -> str | None:
            passed.append((act, name, number))
            return super().kind(act, name, number, most)

    with patch.object(playing, "Chooser", Noting):
        held(plain)
    for act, name, number in passed:
        operation = name.partition(" ")[0]
        if operation in ("write", "move", "delete", "create", "commit"):
            yield Fault(act, name, number, KILLED_BEFORE)
        if operation == "commit":
            yield Fault(act, name, number, KILLED_AFTER)
            yield Fault(act, name, number, LOST)


def held(script: Script) -> None:
    """Play it. Raises WrongError for a promise that was broken."""
    played = playing.play(script)
    if played.wrong is not None:
        raise WrongError(f"{played.wrong}\n{script.text()[:2000]}")


def walked(group: Group, views: Sequence[str], amends: bool = False, most: int | None = None) -> Counted:
    """Play a group without a crash, and with each of them. `most`: so many of them, evenly chosen."""
    plain = script(group, views, amends)
    faults: list[Any] = list(crashes(plain))
    if most is not None and len(faults) > most:
        faults = Random(len(faults)).sample(faults, most)
    for fault in faults:
        held(Script(plain.seed, plain.pipeline, plain.acts, (fault,)))
    orders = sum(world.arrivals for world in group.worlds)
    return Counted(orders * (len(faults) + 1), len(group.worlds), len(faults) + 1)
