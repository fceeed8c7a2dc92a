"""The pages in docs/examples say what tests/sql/examples/*.slt run; test_slt.py runs them.

A file of its own: its subject is one script, `infra/example_pages.py`.
"""

from __future__ import annotations

from infra.example_pages import PAGES, SOURCES, page, pages


def test_every_page_is_that_of_its_test_file() -> None:
    written = {path: path.read_text("utf-8") for path in PAGES.glob("*.md")}
    assert written == pages(), "run: python infra/example_pages.py"
    assert len(written) >= 4


def test_a_page_has_every_statement_and_every_row_of_its_file() -> None:
    for source in SOURCES.glob("*.slt"):
        shown = page(source)
        for line in source.read_text("utf-8").splitlines():
            if line.strip() and not line.startswith(("#", "statement", "query", "----")):
                assert line in shown, (source.name, line)
