"""What a `kill -9` at each point of a run would leave behind, kept while the run goes through."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.inprocess.failpoints import Failpoints
from tests.inprocess.session import open_session
from tidegate.session.session import Session


@dataclass(frozen=True)
class Undisturbed:
    """A run that nothing ended: where it ran, the points that it passed, and what there is after it, as the test says.
    `left`: what a `kill -9` at each point would have left, the project's folder as it was there, by number; `states`:
    by what two of these are known to be equal."""

    root: Path
    left: Path
    passed: list[str]
    states: list[frozenset[tuple[str, int, int]]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def numbers(self, shares: Sequence[int]) -> list[int]:
        """The points of these shares; of those that leave the same, the first."""
        numbers = [n for n in range(len(self.passed)) if n % 4 in shares]
        return [
            n
            for at, n in enumerate(numbers)
            if self.states[n] not in map(self.states.__getitem__, numbers[:at])
        ]

    def distinct(self, every: bool = False) -> list[int]:
        """All points that leave something different. `every`: not only each 16th of many deletions one after the
        other."""
        passed, found = self.passed, list[int]()
        for n, name in enumerate(passed):
            again = n > 1 and name.endswith("_delete") and passed[n - 1].endswith("_delete")
            new = all(self.states[n] != self.states[known] for known in found)
            if new and (every or not again or n % 16 == 0):
                found.append(n)
        return found

    def back_to(self, number: int) -> Session:
        """A new session on what was left at a point, where it was: tables hold absolute paths."""
        shutil.rmtree(self.root)
        shutil.copytree(self.left / str(number), self.root, symlinks=True)
        return open_session(self.root)


@contextmanager
def recorded(root: Path) -> Iterator[Undisturbed]:
    """Keep what the block leaves at each point that it passes, beside the project's folder."""

    def keep(number: int) -> None:
        shutil.copytree(root, run.left / str(number), symlinks=True)
        run.states.append(_state(root))

    points = Failpoints(notice=keep)
    run = Undisturbed(root, root.with_name(f"{root.name}.left"), points.passed)
    with points.armed():
        yield run


def _state(root: Path) -> frozenset[tuple[str, int, int]]:
    """Every file with its size and time. What is held of a lock ends with the process."""
    files = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".lock")
    return frozenset((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files)
