"""What `make worlds` leaves on docs/simulator.md: how many cases were played, and what that took."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.conftest import ROOT
from tests.small.walk import Counted
from tests.soak.page import write_docs

PAGE = ROOT / "docs" / "simulator.md"
BEGIN, END = "<!-- worlds: begin -->", "<!-- worlds: end -->"
#: What each kind is, to readers.
SAID = {
    "oracles": "both oracles",
    "log": "ingestion into the log",
    "windows": "windows, sessions and sorted rows",
    "amend": "amendments",
    "tables": "tables `WITH TTL`",
}


def figures(totals: Mapping[str, Counted], played: Mapping[str, int], whole: Mapping[str, int]) -> str:
    """A table, by kind. `played`: how many portions were played, of the `whole`."""
    lines = [
        "| worlds of | portions played | cases | distinct states | runs | CPU seconds |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    every = Counted()
    for kind, counted in totals.items():
        if whole.get(kind):
            lines.append(_line(SAID[kind], played.get(kind, 0), whole[kind], counted))
            every.add(counted)
    lines.append(_line("all", sum(played.values()), sum(whole.values()), every))
    return "\n".join(lines)


def _line(name: str, played: int, whole: int, one: Counted) -> str:
    some = f"all {whole:,}" if played == whole else f"{played:,} of {whole:,}"
    return f"| {name} | {some} | {one.cases:,} | {one.worlds:,} | {one.moves:,} | {one.seconds:,.0f} |"


def write(
    path: Path,
    totals: Mapping[str, Counted],
    played: Mapping[str, int],
    whole: Mapping[str, int],
    version: str,
) -> None:
    """Put them between the marks of the page. `version`: of the tree that was played."""
    said = f"Every promise was kept in them. The digest of the tree that was played begins with `{version[:12]}`."
    write_docs(path, f"{figures(totals, played, whole)}\n\n{said}", BEGIN, END)
