"""An oracle that shared code with the engine would share its mistakes."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

#: The one that asks DuckDB has a test of its own, in `tests/small`.
ORACLES = sorted(
    p
    for p in Path(__file__).parents[1].glob("*.py")
    if not p.name.startswith(("test_", "__")) and p.name != "sql.py"
)


@pytest.mark.parametrize("path", ORACLES, ids=lambda path: path.name)
def test_an_oracle_is_plain_python(path: Path) -> None:
    imported = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
    others = {name for name in imported if name.split(".")[0] not in sys.stdlib_module_names}
    assert all(name.startswith("tests.oracles.") for name in others), others
