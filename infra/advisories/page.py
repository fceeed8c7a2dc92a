"""Write SECURITY.md's table of accepted vulnerabilities from `accepted.toml`: `python -m infra.advisories.page`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from infra.advisories.accepted import Accepted, read

PAGE = Path(__file__).resolve().parents[2] / "SECURITY.md"
_PLACE = re.compile(r"(?<=<!-- accepted -->\n).*?(?=<!-- /accepted -->)", re.DOTALL)


def table(accepted: Sequence[Accepted]) -> str:
    rows = [f"| {entry.what} | {', '.join(sorted(entry.ids))} | {entry.why} |\n" for entry in accepted]
    return "\n| what | known vulnerabilities | why |\n|---|---|---|\n" + "".join(rows) + "\n"


def page(text: str, accepted: Sequence[Accepted]) -> str:
    """The page with the table as it should be."""
    (place,) = _PLACE.finditer(text)
    return text[: place.start()] + table(accepted) + text[place.end() :]


def main() -> int:
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), read()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
