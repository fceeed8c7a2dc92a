"""What is refused of the files of a project."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.errors import Problems, TidegateError
from tidegate.project import Project


@pytest.fixture
def problems(tmp_path: Path) -> Callable[[str, str], list[TidegateError]]:
    """What is wrong with SQL under an `allow:` of the environment, as a file of the project."""

    def problems(sql: str, allow: str = "{}") -> list[TidegateError]:
        root = tmp_path / "shop"
        for folder in ("assets", "resources", "data"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / "assets" / "a.sql").write_text(sql)
        (root / "resources" / "local.yaml").write_text(f"allow: {allow}\n")
        found = Problems()
        Project.load(root).catalog(found)
        return found.errors

    return problems
