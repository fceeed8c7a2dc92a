"""What is broken: one place of the package that a rule depends on, and what has to notice."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = Path("platform/tidegate")


@dataclass(frozen=True)
class Place:
    """`file`: below platform/tidegate; `text` occurs in it once, and `broken` takes its place. `says`: what holds as
    long as it is whole.
    """

    name: str
    rule: str
    says: str
    file: str
    text: str
    broken: str

    @property
    def path(self) -> Path:
        """Relative to the repository."""
        return PACKAGE / self.file

    def break_in(self, source: str) -> str:
        """The file's text with the place broken. Raises ValueError unless it is there once."""
        if (count := source.count(self.text)) != 1:
            raise ValueError(f"{self.path} has the text of the guard {count} times, not once: {self.text}")
        return source.replace(self.text, self.broken)


@dataclass(frozen=True)
class Guard(Place):
    """`tests`: as pytest is told them, one of them has to fail when the place is broken."""

    tests: tuple[str, ...]


@dataclass(frozen=True)
class Planted(Place):
    """A fault that the simulator has to find. `kind`: the mistake that it stands for; `first`: the first seed that is
    played."""

    kind: str
    first: int = 0


def problems(place: Place, root: Path = ROOT) -> list[str]:
    """Why a place can't be checked: its text, or one of its tests, is not where it says."""
    found = []
    try:
        compile(place.break_in((root / place.path).read_text("utf-8")), place.file, "exec")
    except (OSError, ValueError, SyntaxError) as error:
        found.append(f"{place.name}: {error}")
    for test in place.tests if isinstance(place, Guard) else ():
        file, _, name = test.partition("::")
        if name.partition("[")[0] not in ("", *_tests_of(root / file)):
            found.append(f"{place.name}: there is no test {test}")
        elif not (root / file).is_file():
            found.append(f"{place.name}: there is no file {file}")
    return found


@cache
def _tests_of(file: Path) -> frozenset[str]:
    """The names of the test functions of a file."""
    if not file.is_file():
        return frozenset()
    tree = ast.parse(file.read_text("utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))
