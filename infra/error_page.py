"""Write docs/errors.md from the registries of codes, the statements and commands that tests refuse, and
`error_texts/`: `python -m infra.error_page`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from infra.error_examples import Example, example_of  # noqa: E402
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
is never an error: it is in `"<source>$rejected"`, with its reason. Every entry has the reason of the error, an example,
and what to do; a link to it is `errors.md#tg202`. The statements below are refused by tests, against the sources of
[`tests/sql/prelude.sql`](../tests/sql/prelude.sql). The files below are added to the project that `tidegate init`
creates. The text under each is what is printed; tests compare the other texts with those of the program.
What to do first when something else is wrong: [troubleshooting](troubleshooting.md).
Written by `python -m infra.error_page`.
"""
#: A block of code, with the line before it that names its file.
_BLOCK = re.compile(r"(?:^`\S+`[^\n]*:\n)?^```\w*\n.*?^```$", re.MULTILINE | re.DOTALL)
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
    fixture = next(FIXTURES.rglob(f"{code}_*.sql"), None)
    example = example_of(code)
    if fixture is not None:
        sql, printed = _refused(fixture)
        lines.append(f"\n```sql\n{sql.strip()}\n```\n```\n{printed}\n```\n")
    elif example is not None:
        lines.append(f"\n{_shown(example)}\n")
    elif code in PRINTED:
        lines.append(f"\n```\n{PRINTED[code]}\n```\n")
    if todo:
        lines.append(f"\n**What to do.** {todo}\n")
    return "".join(lines)


def incomplete(code: str, section: str) -> list[str]:
    """What the section of a code lacks, of a cause, an example and a remedy."""
    blocks = _BLOCK.findall(section)
    words = _BLOCK.sub("", section)
    paragraphs = [p for p in words.strip().split("\n\n") if p.strip() and not p.startswith("**")]
    found = {
        "cause": len(paragraphs) > 1,
        "example": any(re.search(rf"\b{code}: ", block) for block in blocks),
        "remedy": "**What to do.**" in words or any("\nhint: " in block for block in blocks),
    }
    return [what for what, is_there in found.items() if not is_there]


def _shown(example: Example) -> str:
    """The files of an example, and what its command prints."""
    parts = []
    for name, text in example.files.items():
        if not text:
            parts.append(f"`{name}` is an empty file.\n\n")
            continue
        encoding = ", saved as Latin-1" if name in example.latin1 else ""
        language = {".sql": "sql", ".yaml": "yaml"}.get(Path(name).suffix, "")
        parts.append(f"`{name}`{encoding}:\n```{language}\n{text.strip(chr(10))}\n```\n")
    return "".join(parts) + f"```\n$ {example.command}\n{example.printed()}\n```"


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
