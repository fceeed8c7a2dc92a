"""Writes docs/examples/*.md from tests/sql/examples/*.slt: pages whose every statement CI runs, with its rows.

python infra/example_pages.py
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "tests" / "sql" / "examples"
PAGES = ROOT / "docs" / "examples"
_HEAD = "<!-- Written by infra/example_pages.py from tests/sql/examples/{}: change that file. -->\n"


def page(source: Path) -> str:
    """The page of one test file: comments are its text, records its examples."""
    blocks = re.split(r"\n\s*\n", source.read_text("utf-8").strip())
    title, *rest = map(_block, blocks)
    return _HEAD.format(source.name) + "\n# " + "\n\n".join([title, *rest]) + "\n"


def _block(block: str) -> str:
    lines = block.strip().split("\n")
    if lines[0].startswith("#"):
        return "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines)
    head, body = lines[0], lines[1:]
    if head.startswith("statement error"):
        refused = head.removeprefix("statement error").strip()
        return f"{_fenced('sql', body)}\n\nRefused: `{refused}`."
    if head.startswith("statement"):
        return _fenced("sql", body)
    if head.startswith("query"):
        at = body.index("----")
        return f"{_fenced('sql', body[:at])}\n\n{_fenced('text', body[at + 1 :])}"
    raise ValueError(f"no rendering for {head!r}")


def _fenced(language: str, lines: list[str]) -> str:
    return "\n".join([f"```{language}", *lines, "```"])


def pages() -> dict[Path, str]:
    """Every page by the file that it belongs into."""
    return {PAGES / f"{source.stem}.md": page(source) for source in sorted(SOURCES.glob("*.slt"))}


def main() -> None:
    PAGES.mkdir(parents=True, exist_ok=True)
    for path, text in pages().items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
