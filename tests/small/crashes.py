"""Every end of a process in a history, and which of them leave the same state: what follows is played once for each
state."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from random import Random

from tests.simulate.world.driver import World
from tests.simulate.world.outside import KILLED_AFTER, KILLED_BEFORE, Chooser, Fault
from tests.small.histories import History
from tests.small.left import Left, States
from tests.small.walk import Counted

#: Operations that change something.
_CHANGING = ("write", "move", "delete", "create", "commit")


@dataclass
class End:
    """Ends of a process in an act that leave the same state. `left`: by the last of the `faults`, which has left the
    most files that no table has."""

    act: int
    left: Left
    faults: list[Fault] = field(default_factory=list)


class Ends:
    """All ends that a history passes: before each change of a file or a table, and after each commit."""

    def __init__(self, states: States) -> None:
        self._states = states
        self._ends: dict[tuple[int, Hashable], End] = {}
        self.commits: list[Fault] = []

    def add(self, fault: Fault, world: World, left: Left) -> None:
        """The process ends now by this fault."""
        if fault.kind == KILLED_AFTER:
            self.commits.append(fault)
        end = self._ends.setdefault((fault.act, self._states.key(world)), End(fault.act, left))
        end.left = left
        end.faults.append(fault)

    def distinct(self) -> list[End]:
        """One of each state and act."""
        return list(self._ends.values())


class Noting(Chooser):
    """Lets no fault happen, and takes down what each would leave. `world`, `left`: of the history that is played."""

    def __init__(self, ends: Ends, world: Callable[[], World], left: Callable[[], Left]) -> None:
        super().__init__(Random(0), [])
        self._ends, self._world, self._left = ends, world, left
        self._committed: Fault | None = None

    def kind(self, act: int, name: str, number: int, most: int) -> str | None:
        self.ended(act)
        operation = name.partition(" ")[0]
        if operation in _CHANGING:
            self._add(Fault(act, name, number, KILLED_BEFORE))
        if operation == "commit":
            self._committed = Fault(act, name, number, KILLED_AFTER)
        return None

    def ended(self, act: int) -> None:
        """An act has ended, or goes on: what has been committed before is there."""
        fault, self._committed = self._committed, None
        if fault is not None:
            assert fault.act == act
            self._add(fault)

    def _add(self, fault: Fault) -> None:
        self._ends.add(fault, self._world(), self._left())


#: What is to be played, and how many faults it stands for.
Plays = Sequence[tuple[int, Callable[[], None]]]


def played(
    plays: Plays, worlds: Sequence[History], states: Callable[[], int], most: int | None = None
) -> Counted:
    """Play them. `most`: so many of them; `states`: how many states all worlds have come to."""
    if most is not None and len(plays) > most:
        plays = Random(len(plays)).sample(plays, most)
    for _, play in plays:
        play()
    orders = sum(world.arrivals * world.stands_for for world in worlds)
    faults = sum(faults for faults, _ in plays)
    return Counted(orders * (faults + 1), len(worlds) * states(), len(plays) + 1)
