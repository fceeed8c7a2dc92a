"""What a diagnosis says: findings with a cause, numbers, the windows that wait, since when, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from tidegate.project.jobs.stalls import CAUSES as KINDS

Severity = Literal["info", "warning", "error"]
__all__ = ["KINDS", "SEVERITIES", "Candidate", "Finding", "Severity", "Waiting", "iso", "rank", "worst"]

SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")


@dataclass(frozen=True)
class Waiting:
    """A window that is not final: the view, and its next `window_end` (text in the view's kind of time; of sorted rows
    the time from which on they wait)."""

    view: str
    window_end: str


@dataclass(frozen=True)
class Finding:
    """One cause. `asset`: a source, table, view or sink; `partition`: of a source, where it is about one.

    `text`: one sentence with the numbers. `since`: when it began (ISO, UTC), as far as that is known. `waiting`: the
    windows that wait because of it. `advice`: what to do. `numbers`: the facts behind the text, by name; times in s.
    """

    kind: str
    severity: Severity
    asset: str
    text: str
    advice: str
    partition: str | None = None
    since: str | None = None
    waiting: tuple[Waiting, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The same cause at the same place has the same key at every look."""
        return f"{self.kind}:{self.asset}:{'' if self.partition is None else self.partition}"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self) | {"numbers": dict(self.numbers), "key": self.key}


@dataclass(frozen=True)
class Candidate:
    """A cause that holds now, and how long it has to last before it is told.

    `since`: when it began, s since 1970; None: not known, then the first look counts. `or_earlier`: `since` is only as
    far back as stored history goes, so the first look that saw it counts if that was earlier. `after`: told once it has
    lasted so many seconds.
    """

    finding: Finding
    since: float | None = None
    after: float = 0.0
    or_earlier: bool = False


def rank(severity: Severity) -> int:
    """0 for info; higher is worse."""
    return SEVERITIES.index(severity)


def worst(findings: Iterable[Finding]) -> Severity | None:
    """The highest severity, None without findings."""
    return max((f.severity for f in findings), key=rank, default=None)


def iso(seconds: float) -> str:
    """Seconds since 1970 as ISO text, UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
