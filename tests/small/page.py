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


def figures(totals: Mapping[str, Counted], left: int) -> str:
    """A table; `left`: how many portions were not played."""
    lines = ["| worlds of | cases | distinct states | runs | CPU seconds |", "|---|---:|---:|---:|---:|"]
    whole = Counted()
    for kind, counted in totals.items():
        lines.append(_line(SAID[kind], counted))
        whole.add(counted)
    lines.append(_line("all", whole))
    said = f"{left:,} portions are not played yet." if left else "All of them were played."
    return "\n".join(lines) + f"\n\n{said}"


def _line(name: str, one: Counted) -> str:
    return f"| {name} | {one.cases:,} | {one.worlds:,} | {one.moves:,} | {one.seconds:,.0f} |"


def write(path: Path, totals: Mapping[str, Counted], left: int) -> None:
    """Put them between the marks of the page."""
    write_docs(path, figures(totals, left), BEGIN, END)
