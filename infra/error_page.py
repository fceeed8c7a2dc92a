"""Write docs/errors.md from the registries of codes: `python infra/error_page.py`."""

from __future__ import annotations

from pathlib import Path

from tidegate.cli.codes import CODES as CLI
from tidegate.engine.codes import CODES as ENGINE
from tidegate.project.codes import CODES as PROJECT
from tidegate.sql.codes import CODES as SQL
from tidegate.testing.codes import CODES as TESTING

PAGE = Path(__file__).resolve().parent.parent / "docs" / "errors.md"
HEAD = """# Error codes

Every error says what was wrong, where (file, line, caret) and what to do; `--json` gives the same as data. Bad *data*
is never an error: it is in `"<source>$rejected"`, with its reason. Written by `python infra/error_page.py`.

| code | what it is about |
|---|---|
"""


def page() -> str:
    """The whole page."""
    codes = SQL | ENGINE | PROJECT | CLI | TESTING
    return HEAD + "".join(f"| {code} | {meaning} |\n" for code, meaning in sorted(codes.items()))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
