"""What a run leaves on docs/planted-faults.md: which seed has found each planted fault."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

from tests.mutants.guard import ROOT, Planted
from tests.soak.page import write_docs

if TYPE_CHECKING:
    from tests.mutants.run import Result

PAGE = ROOT / "docs" / "planted-faults.md"
#: Characters of a promise.
_WIDEST = 200


def planted_table(found: Sequence[tuple[Planted, Result | None]]) -> str:
    """One line for each planted fault. None: no run on these files has found it yet."""
    known = sum(one is not None for _, one in found)
    said = f"All {known} faults were found."
    if known < len(found):
        said = f"{known} of {len(found)} faults were found; the others were not looked for on the same files, or not "
        said += "by enough seeds."
    lines = [
        f"{said}\n",
        "| fault | rule | what holds without it | seed | seeds played | seconds | the promise that was broken |",
        "|---|---|---|---:|---:|---:|---|",
    ]
    for fault, one in found:
        if one is None:
            lines.append(f"| {fault.name} | {fault.rule} | {fault.says} | | | | no run has found it yet |")
            continue
        # (Where a history was played is of no interest.)
        promise = shorten(re.sub(r"\S*/simulated-[^/]+/project/", "", one.by), _WIDEST, placeholder=" …")
        promise = promise.replace("|", "\\|").replace("`", "'")
        lines.append(
            f"| {fault.name} | {fault.rule} | {fault.says} | {one.seed} | {one.seeds} | {one.seconds:g} "
            f"| `{promise}` |"
        )
    return "\n".join(lines)


def seeds_on(page: Path) -> dict[str, int]:
    """By name of a fault the seed that has found it, as the page says."""
    found = re.findall(r"^\| (\S+) \|.*\| (\d+) \| \d+ \| [\d.]+ \| `", page.read_text("utf-8"), re.MULTILINE)
    return {name: int(seed) for name, seed in found}


def write_planted(page: Path, found: Sequence[tuple[Planted, Result | None]]) -> None:
    """Put the table between the marks of the page."""
    write_docs(page, planted_table(found))
