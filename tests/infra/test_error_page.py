"""docs/errors.md: every code has its section, and the texts that are shown are those that are printed."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from infra.error_page import PAGE, codes
from infra.error_texts import PRINTED
from tests.conftest import ROOT


@cache
def templates() -> list[re.Pattern[str]]:
    """Every text of the package with at least a few words of its own, anything where a value stands."""
    found = []
    for file in (ROOT / "platform" / "tidegate").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            parts = (
                node.values
                if isinstance(node, ast.JoinedStr)
                else [node]
                if isinstance(node, ast.Constant)
                else []
            )
            texts = [p.value if isinstance(p, ast.Constant) else None for p in parts]
            if sum(len(t) for t in texts if isinstance(t, str)) > 10:
                pattern = "".join(re.escape(t) if isinstance(t, str) else ".*" for t in texts)
                found.append(re.compile(pattern))
    return found


@pytest.mark.parametrize("code", sorted(PRINTED))
def test_an_example_has_the_words_of_the_source(code: str) -> None:
    lines = PRINTED[code].splitlines()
    assert lines[0].startswith(f"error {code}: ")
    said = [lines[0].removeprefix(f"error {code}: ")]
    said += [line.removeprefix("hint: ") for line in lines if line.startswith("hint: ")]
    for text in said:
        assert any(pattern.fullmatch(text) for pattern in templates()), text


def test_every_code_has_a_section_that_says_what_to_do() -> None:
    page = PAGE.read_text("utf-8")
    sections = dict(re.findall(r"^### (TG\d+)\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL))
    assert list(sections) == list(codes())
    assert not [
        code for code, text in sections.items() if "What to do." not in text and "```\nerror" not in text
    ]
