"""What a guard is: one place of the package that a rule depends on, and how it is broken."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = Path("platform/tidegate")


@dataclass(frozen=True)
class Guard:
    """`says`: what holds as long as the guard is whole. `file`: below platform/tidegate; `text` occurs in it once, and
    `broken` takes its place. `tests`: as pytest is told them, one of them has to fail then.
    """

    name: str
    rule: str
    says: str
    file: str
    text: str
    broken: str
    tests: tuple[str, ...]

    @property
    def path(self) -> Path:
        """Relative to the repository."""
        return PACKAGE / self.file

    def break_in(self, source: str) -> str:
        """The file's text with the guard broken. Raises ValueError unless the guard is there once."""
        if (count := source.count(self.text)) != 1:
            raise ValueError(f"{self.path} has the text of the guard {count} times, not once: {self.text}")
        return source.replace(self.text, self.broken)


def problems(guard: Guard, root: Path = ROOT) -> list[str]:
    """Why a guard can't be checked: its text, or one of its tests, is not where it says."""
    found = []
    try:
        compile(guard.break_in((root / guard.path).read_text("utf-8")), guard.file, "exec")
    except (OSError, ValueError, SyntaxError) as error:
        found.append(f"{guard.name}: {error}")
    for test in guard.tests:
        file, _, name = test.partition("::")
        if name.partition("[")[0] not in ("", *_tests_of(root / file)):
            found.append(f"{guard.name}: there is no test {test}")
        elif not (root / file).is_file():
            found.append(f"{guard.name}: there is no file {file}")
    return found


@cache
def _tests_of(file: Path) -> frozenset[str]:
    """The names of the test functions of a file."""
    if not file.is_file():
        return frozenset()
    tree = ast.parse(file.read_text("utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))
