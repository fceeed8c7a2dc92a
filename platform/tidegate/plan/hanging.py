"""When the work of a group hangs: it takes very long, and nothing in it advances."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidegate.plan.pauses import Pauses

#: Work is not broken off later than after an hour, if it is not given more from the beginning.
_LONGEST = 3600.0
#: When that which has hung again is tried once more: between two tries the group has its other work.
_PAUSES = Pauses(1800.0, 7200.0)


def given_seconds(seconds: float, times: int) -> float:
    """How long work may take that has hung so often in a row, and is given so many seconds at first."""
    return min(seconds * 2.0 ** min(times, 30), max(seconds, _LONGEST))


def hung_pause(times: int, chance: float) -> float:
    """Seconds until that is tried again which has hung so often in a row: at once the first time, since it may have
    been the fault of something that hung beside it. `chance`: as of `Pauses`."""
    return _PAUSES.pause(times - 1, chance) if times > 1 else 0.0


@dataclass(frozen=True)
class AtWork:
    """What a group does: the work for `name`, a source, view or sink, or (without a name) for all of it; `since`:
    seconds of a clock."""

    name: str
    kind: str
    since: float


class Patience:
    """How long the work of one group may take without advancing: `seconds`, and twice as long for each time that it has
    hung (`hung`, by the name that it was for), since what takes long has to be done some time.

    Work hangs that has taken so long, and in the second half of it has not advanced.
    """

    def __init__(self, seconds: float, hung: Mapping[str, int]) -> None:
        self._seconds, self._hung = seconds, hung
        self._work: AtWork | None = None
        self._seen: object = None
        self._moved: float | None = None
        self._told = False

    def hangs(self, work: AtWork, now: float, progress: Callable[[], object]) -> float | None:
        """For how many seconds this work has hung, told once; None if it does not, as far as is known. `progress`:
        something else whenever it has advanced; asked when it has already taken long."""
        if work != self._work:
            self._work, self._moved, self._told = work, None, False
        most, taken = given_seconds(self._seconds, self._hung.get(work.name, 0)), now - work.since
        if self._told or taken < most / 2:
            return None
        if (seen := progress()) != self._seen or self._moved is None:
            self._seen, self._moved = seen, now
        if taken < most or now - self._moved < most / 2:
            return None
        self._told = True
        return taken
