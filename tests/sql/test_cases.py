"""SQL in, resolved statements and Spark SQL (or the error) out: golden files, see cases.py.

A file of its own: `python -m tests.sql.cases` writes what it compares.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sql.cases import CASES, render


@pytest.mark.parametrize("path", sorted(CASES.glob("*.sql")), ids=lambda path: path.stem)
def test_case_is_as_expected(path: Path) -> None:
    assert render(path) == path.with_suffix(".expected").read_text("utf-8")


def test_everything_in_refused_is_refused() -> None:
    assert "NOT REFUSED" not in (CASES / "refused.expected").read_text("utf-8")
