"""Write docs/errors.md from the registries of codes, the statements that tests refuse, and `error_texts.py`:
`python infra/error_page.py`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from infra.error_texts import PRINTED, TEXTS  # noqa: E402
from tidegate.cli.codes import CODES as CLI  # noqa: E402
from tidegate.errors import TidegateError  # noqa: E402
from tidegate.project.codes import CODES as PROJECT  # noqa: E402
from tidegate.runtime.codes import CODES as ENGINE  # noqa: E402
from tidegate.sql.dialect.codes import CODES as SQL  # noqa: E402
from tidegate.sql.dialect.warnings import WARNINGS  # noqa: E402
from tidegate.testing.codes import CODES as TESTING  # noqa: E402

PAGE = ROOT / "docs" / "errors.md"
FIXTURES = ROOT / "tests" / "sql" / "errors"
HEAD = """# Error codes

Every error says what was wrong, where (file, line, caret) and what to do; `--json` gives the same as data. Bad *data*
is never an error: it is in `"<source>$rejected"`, with its reason. The statements below are refused by tests, against
the sources of [`tests/sql/prelude.sql`](../tests/sql/prelude.sql), and the text under each is what is printed.
What to do first when something else is wrong: [troubleshooting](troubleshooting.md).
Written by `python infra/error_page.py`.
"""
GROUPS = {
    "1": "Reading SQL",
    "2": "Names, types and expressions",
    "3": "Watermarks, windows and views",
    "4": "Options",
    "5": "Running",
    "6": "Projects, environments and stored tables",
    "7": "Commands",
    "8": "Test files",
    "9": "Warnings of tidegate check",
}


def codes() -> dict[str, str]:
    """{code: what it is about}, in their order."""
    return dict(sorted((SQL | ENGINE | PROJECT | CLI | TESTING | WARNINGS).items()))


def page() -> str:
    """The whole page: a heading for each code, which is its anchor (`errors.md#tg202`)."""
    parts = [HEAD]
    group = None
    for code, meaning in codes().items():
        if code[2] != group:
            group = code[2]
            parts.append(f"\n## {GROUPS[group]}\n")
        parts.append(f"\n### {code}\n\n{_section(code, meaning)}")
    return "".join(parts)


def _section(code: str, meaning: str) -> str:
    lines = [f"{meaning[0].upper()}{meaning[1:]}.\n"]
    why, todo = TEXTS.get(code, ("", ""))
    if why:
        lines.append(f"\n{why}\n")
    fixture = next(FIXTURES.glob(f"{code}_*.sql"), None)
    if fixture is not None:
        sql, printed = _refused(fixture)
        lines.append(f"\n```sql\n{sql.strip()}\n```\n```\n{printed}\n```\n")
    elif code in PRINTED:
        lines.append(f"\n```\n{PRINTED[code]}\n```\n")
    if todo:
        lines.append(f"\n**What to do.** {todo}\n")
    return "".join(lines)


def _refused(fixture: Path) -> tuple[str, str]:
    """The statement of a fixture without its head, and what tidegate says to it."""
    from tests.sql.support import prelude
    from tidegate.sql import analyse, load_catalog

    text = fixture.read_text("utf-8")
    sql = re.sub(r"\A(?:-- (?:TG\d+|at|message:|hint:|how:).*\n)+", "", text)
    try:
        if "\n-- how: assets\n" in text:
            load_catalog([("example.sql", sql)])
        else:
            list(analyse(sql, prelude(), "example.sql"))
    except TidegateError as error:
        return sql, str(error)
    raise AssertionError(f"{fixture} is not refused without its head")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
