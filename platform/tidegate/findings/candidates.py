"""A cause that holds now, and how long it has to last before it is told."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.findings.model import Finding


@dataclass(frozen=True)
class Candidate:
    """`since`: when it began, s since 1970; None: not known, then the first look counts. `or_earlier`: `since` is only
    as far back as stored history goes, so the first look that saw it counts if that was earlier. `after`: told once it
    has lasted so many seconds."""

    finding: Finding
    since: float | None = None
    after: float = 0.0
    or_earlier: bool = False
