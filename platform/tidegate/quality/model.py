"""What a quality check says: expectations with their verdicts, and the windows or rows that fail them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tidegate.project.expectations import SEVERITIES, Expectation, Quality
from tidegate.sql.catalog.objects import Relation, View

#: Suites, in the order in which they are checked. `log`: of a source or table; `expectations`: the team's own.
RECONCILIATION, LATE_RATE, LOG, EXPECTATIONS = "reconciliation", "late_rate", "log", "expectations"
SUITES = (RECONCILIATION, LATE_RATE, LOG, EXPECTATIONS)


@dataclass(frozen=True)
class WindowSpan:
    """Windows by their end: `low` <= window_end < `high`, ticks; None: no such bound. For rows of a log, their event
    time."""

    low: int | None = None
    high: int | None = None


@dataclass(frozen=True)
class FactTable:
    """Bounded facts on the driver, one line for each window, day or partition. `key`: the columns that name a line;
    `expectations` are about it."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    expectations: tuple[Expectation, ...]
    #: Which of the suites they belong to.
    suite: str = RECONCILIATION


@dataclass(frozen=True)
class ExpectationOutcome:
    """One expectation's verdict. `checked` and `unexpected` count lines or rows; `observed` is what an aggregate was.
    `failing`: the first lines or rows that fail, as text, in `columns`. `error`: why it could not be evaluated."""

    expectation: str
    text: str
    severity: str
    passed: bool
    checked: int | None = None
    unexpected: int | None = None
    observed: str | None = None
    columns: list[str] = field(default_factory=list)
    failing: list[list[str | None]] = field(default_factory=list)
    error: str | None = None

    @property
    def found(self) -> str:
        """What was found, in a few words."""
        if self.error is not None:
            return f"could not be evaluated: {self.error}"
        if self.unexpected is not None and self.checked is not None:
            return f"{self.unexpected:,} of {self.checked:,} {'fails' if self.unexpected == 1 else 'fail'}"
        return self.observed or ""


@dataclass(frozen=True)
class SuiteResult:
    """One suite of one asset. `scope`: what was looked at; `docs`: the page of its Data Docs. `windows`: to be plotted,
    the newest ones: end (seconds since 1970), raw, counted, late, filtered, rejected. `wrong`: ends of the windows that
    something is wrong with, ticks; at most `windows.MOST_WINDOWS` of them."""

    asset: str
    suite: str
    scope: str
    outcomes: list[ExpectationOutcome]
    notes: list[str] = field(default_factory=list)
    docs: str | None = None
    seconds: float = 0.0
    windows: list[tuple[float, int, int, int, int, int]] = field(default_factory=list, repr=False)
    wrong: list[int] = field(default_factory=list, repr=False)

    @property
    def passed(self) -> bool:
        """Whether every expectation holds."""
        return all(o.passed for o in self.outcomes)

    @property
    def failed(self) -> list[ExpectationOutcome]:
        """What does not hold, the most severe first."""
        return sorted((o for o in self.outcomes if not o.passed), key=lambda o: SEVERITIES.index(o.severity))

    @property
    def critical(self) -> bool:
        """Whether something of severity `critical` does not hold."""
        return any(o.severity == "critical" for o in self.failed)

    @property
    def verdict(self) -> str:
        """One line."""
        if not self.outcomes:
            return f"nothing to check: {self.scope}"
        count = len(self.outcomes)
        if self.passed:
            return f"{count} {'expectation holds' if count == 1 else 'expectations hold'}, {self.scope}"
        first = self.failed[0]
        more = f" ({len(self.failed)} of {count} expectations fail)" if count > 1 else ""
        where = f"; first {_line(first)}" if first.failing else ""
        return f"{first.text}: {first.found}{where}{more}"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        facts = asdict(replace(self, windows=[], wrong=[]))
        del facts["windows"], facts["wrong"]
        return {"event": "suite", **facts, "passed": self.passed, "critical": self.critical}


@dataclass(frozen=True)
class QualityReport:
    """All suites of one call."""

    suites: list[SuiteResult]

    @property
    def passed(self) -> bool:
        """Whether nothing critical fails; warnings are no failure."""
        return not any(suite.critical for suite in self.suites)

    @property
    def warnings(self) -> int:
        """Expectations that fail and are not critical."""
        return sum(o.severity != "critical" for s in self.suites for o in s.failed)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "passed": self.passed,
            "warnings": self.warnings,
            "suites": [s.to_dict() for s in self.suites],
        }


def suites_of(item: Relation | View, quality: Quality) -> list[str]:
    """The suites that an asset has."""
    suites = [LOG]
    if isinstance(item, View):
        # A view of something else than windows over one source has no rows of its own that were late.
        suites = [RECONCILIATION, LATE_RATE] if item.accounts is not None else [RECONCILIATION]
    return suites + ([EXPECTATIONS] if quality.suite(item.name) else [])


def _line(outcome: ExpectationOutcome) -> str:
    """The first failing line, by its first columns."""
    pairs = zip(outcome.columns[:2], outcome.failing[0][:2], strict=True)
    return ", ".join(f"{name} {value}" for name, value in pairs)
