"""Every error code has one fixture: a statement that is refused with it, at the right line and column.

A fixture's head says `-- TGnnn`, `-- at line:column`, `-- message:` and `-- hint:` (fragments), and for statements in
an asset file `-- how: assets`. The last statement is the one that fails; prelude.sql comes before.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.sql.support import prelude
from tidegate.errors import TidegateError
from tidegate.sql import analyse, load_catalog
from tidegate.sql.dialect.codes import CODES, error

FIXTURES = sorted((Path(__file__).parent / "errors").rglob("*.sql"), key=lambda path: path.name)


def head(text: str, key: str) -> str | None:
    match = re.search(rf"^-- {key}:? (.*)$", text, re.MULTILINE)
    return match[1] if match else None


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_refused_with_a_caret(path: Path) -> None:
    text = path.read_text("utf-8")
    assets = head(text, "how") == "assets"
    with pytest.raises(TidegateError) as caught:
        load_catalog([(path.name, text)]) if assets else list(analyse(text, prelude(), path.name))
    refused = caught.value
    assert refused.code == path.stem[:5] == text[3:8]
    assert refused.location is not None
    assert refused.location.file == path.name
    assert f"{refused.location.line}:{refused.location.column}" == head(text, "at")
    assert refused.location.text == text.split("\n")[refused.location.line - 1]
    assert (head(text, "message") or "") in refused.message
    assert (head(text, "hint") or "") in (refused.hint or "")
    assert "^" in str(refused)


def test_every_code_has_exactly_one_fixture() -> None:
    assert [path.stem[:5] for path in FIXTURES] == sorted(CODES)


def test_codes_outside_the_registry_are_a_bug() -> None:
    with pytest.raises(ValueError):
        error("TG999", "no such code")


def test_base_line_moves_the_location() -> None:
    with pytest.raises(TidegateError) as caught:
        list(analyse("SELECT 1;\nSELECT nope;", prelude(), "shell", base_line=40))
    assert caught.value.location is not None
    assert (caught.value.location.line, caught.value.location.column) == (41, 8)
