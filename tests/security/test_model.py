"""docs/security.md: every line of the trust model names the tests that hold it."""

from __future__ import annotations

import ast
import re

import pytest

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
LINES = [
    line
    for line in PAGE.split("## Who may do what")[1].split("\n## ")[0].splitlines()
    if line.startswith("| ") and not line.startswith("| who |")
]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_every_line_names_a_test() -> None:
    assert len(LINES) >= 15
    assert [line for line in LINES if not NAMED.search(line)] == []


@pytest.mark.medium
def test_the_tests_that_are_named_are_there() -> None:
    missing = []
    for file, name in NAMED.findall(PAGE):
        tree = ast.parse((ROOT / file).read_text("utf-8")) if (ROOT / file).is_file() else ast.parse("")
        if not any(isinstance(node, ast.FunctionDef) and node.name == name for node in ast.walk(tree)):
            missing.append(f"{file}::{name}")
    assert missing == []
