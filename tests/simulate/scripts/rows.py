"""The rows of the files that arrive in one history."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.simulate.scripts.pipelines import Pipeline
from tests.simulate.scripts.topic_acts import FAR_STEPS, STEPS_OF_TIME

#: Of each row: id, partition, key, value and time.
FileRows = tuple[tuple[int, str, str, int | None, int | None], ...]


class Rows:
    """Rows near to each other in time, in some histories very near; some late (`amended`: many, and some at a time that
    was there before, in whose window they make another revision), some far ahead, some without a time. Where something
    is delivered, less near in most histories, so that windows close; of sessions, one key often has a row while those
    of the other one close. `first`: the id of the first one; `now`: the latest time."""

    def __init__(self, rng: Random, amended: bool, pipeline: Pipeline, first: int = 1) -> None:
        self._rng, self.now, self._id, self._amended = rng, 0, first - 1, amended
        usual = FAR_STEPS if pipeline.delivers else STEPS_OF_TIME
        self._steps = rng.choice([STEPS_OF_TIME, usual, (0, 1, 2, 5, 10)])
        self._keys: Sequence[str] = "xy"
        self._parts, self._rows = ["a", "ab", "ab", "abc"], (1, 5)
        if "visits" in pipeline.views and rng.random() < 0.5:
            self._steps, self._keys, self._parts, self._rows = (2, 5, 8, 10), "xxxxy", ["a"], (3, 6)
        self._lags = [0, 0, 5, 21, 40, 60] if amended else [0, 0, 0, 5, 20, 21, 60]
        self._times, self._seen = [0], set[str]()

    @property
    def last(self) -> int:
        """The id of the last one."""
        return self._id

    def be_of(self, *keys: str) -> None:
        """From now on rows have these keys."""
        self._keys = keys

    def be_on_time(self) -> None:
        """From now on few rows are late: what was open at an amendment is all that is left for the next one."""
        self._lags, self._amended = [0, 0, 0, 0, 0, 5], False

    def beside(self, now: int) -> FileRows:
        """Those of the next file of a second source, about as late as the first source at that time."""
        self.now = max(now - self._rng.choice([0, 10, 30, 60]), 0)
        return self.file()

    def file(self, known: bool = False) -> FileRows:
        """Those of the next file. `known`: of partitions that were there before."""
        rng, found = self._rng, []
        parts = rng.choice(self._parts)
        if known:
            parts = "".join(sorted(self._seen))
        for _ in range(rng.randint(*self._rows)):
            self.now += rng.choice(self._steps)
            at: int | None = max(self.now - rng.choice(self._lags), 0)
            if rng.random() < 0.05:
                at = None
            elif self._amended and rng.random() < 0.25:
                at = rng.choice(self._times)
            else:
                self._times.append(self.now)
            self._id += 1
            value = None if rng.random() < 0.1 else rng.randint(-3, 9)
            partition = rng.choice(parts)
            self._seen.add(partition)
            found.append((self._id, partition, rng.choice(self._keys), value, at))
        return tuple(found)
