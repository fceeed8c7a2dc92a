"""What a run leaves on docs/planted-faults.md: which seed has found each planted fault."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutants.guard import ROOT, Planted
from tests.soak.page import write_docs

if TYPE_CHECKING:
    from tests.mutants.run import Result

PAGE = ROOT / "docs" / "planted-faults.md"


def planted_table(found: Sequence[tuple[Planted, Result]]) -> str:
    """One line for each planted fault."""
    lines = [
        "| fault | rule | what holds without it | seed | seeds played | seconds | the promise that was broken |",
        "|---|---|---|---:|---:|---:|---|",
    ]
    for fault, one in found:
        promise = one.by.replace("|", "\\|").replace("<", "&lt;")
        lines.append(
            f"| {fault.name} | {fault.rule} | {fault.says} | {one.seed} | {one.seeds} | {one.seconds:g} "
            f"| {promise} |"
        )
    return "\n".join(lines)


def write_planted(page: Path, found: Sequence[tuple[Planted, Result]]) -> None:
    """Put the table between the marks of the page."""
    write_docs(page, planted_table(found))
