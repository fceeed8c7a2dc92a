"""Check the quality of sources, tables and views: which suites there are, and what became of each expectation."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.audit.source import SourceAudit, audit_source
from tidegate.audit.view import is_accountable
from tidegate.errors import TidegateError
from tidegate.project.expectations import Quality, load_quality
from tidegate.quality.docs import write_docs
from tidegate.quality.gx import Validator
from tidegate.quality.model import (
    EXPECTATIONS,
    LATE_RATE,
    LOG,
    RECONCILIATION,
    SUITES,
    ExpectationOutcome,
    FactTable,
    SuiteResult,
    WindowSpan,
    suites_of,
)
from tidegate.quality.own import lower, new_rows, position_file, window_scope
from tidegate.quality.reconcile import late_tables, log_tables, window_tables
from tidegate.quality.windows import Windows, read_windows
from tidegate.runtime.steps import Steps
from tidegate.sql.catalog.lineage import sources_of
from tidegate.sql.catalog.objects import Relation, View
from tidegate.views.versions.in_force import of_results
from tidegate.watermark import TimeKind
from tidegate.watermark.timekind import DAY_MICROS

if TYPE_CHECKING:
    from tidegate.session.session import Session


#: Windows of a plot.
MOST_PLOTTED = 200


@dataclass(frozen=True)
class Request:
    """What is asked of every asset of one call.

    `suites`: which of `SUITES`. `spans`: windows by the name of an asset, instead of all of them (reconciliation) or
    the new ones (own suites). `everything`: own suites from the beginning on, and no `lookback`. `sources`: whether a
    view's reconciliation recounts the logs that it reads, and those in their sources. `docs`: folder of the Data Docs.
    """

    suites: Collection[str] = SUITES
    spans: dict[str, WindowSpan] = field(default_factory=dict)
    everything: bool = False
    sources: bool = True
    docs: Path | None = None


def docs_folder(root: Path) -> Path:
    """Where the Data Docs of a project are, if nobody says otherwise."""
    return root / ".tidegate" / "quality" / "docs"


def check_quality(
    session: Session,
    names: Sequence[str] | None = None,
    request: Request | None = None,
    notify: Callable[[str], None] | None = None,
    steps: Steps | None = None,
) -> Iterator[SuiteResult]:
    """The suites of sources, tables and views, each as soon as it is done; None: of all that have something stored.
    `steps`: takes down what fails, and the others are checked; None: the first failure is raised.

    Raises TG512 for one that was named and has nothing stored, TG617 for a file in quality/ that does not fit.
    """
    catalog, asked = session.catalog, request or Request()
    quality = load_quality(session.project.root, catalog, session.project.variables)
    audits: dict[str, SourceAudit] = {}
    steps = steps or Steps(fail_fast=True)
    # What another environment ingests is checked there.
    objects: tuple[Relation | View, ...] = (*catalog.relations, *catalog.views)
    own = [o.name for o in objects if o.name not in session.foreign]

    def one(item: Relation | View, found: list[SuiteResult]) -> None:
        stored = session.stored(item.name)
        if stored is None and names:
            raise TidegateError(
                "TG512", f'"{item.name}" has nothing stored yet', hint=f"tidegate run {item.name}"
            )
        if stored is not None:
            if notify is not None:
                notify(f"{item.name}: checking …")
            found += _Asset(session, item, stored, quality, asked, audits).results()

    for name in names or own:
        item = catalog.get(name)
        if not isinstance(item, Relation | View):
            raise TidegateError(
                "TG512",
                f'"{name}" is not a source, table or view',
                hint="sources, tables and views have suites of expectations",
            )
        results: list[SuiteResult] = []
        steps.do(item, partial(one, item, results))
        yield from results


class _Asset:
    """One asset, its suites and its Data Docs."""

    def __init__(
        self,
        session: Session,
        item: Relation | View,
        stored: str,
        quality: Quality,
        asked: Request,
        audits: dict[str, SourceAudit],
    ) -> None:
        self._session, self._item, self._stored = session, item, stored
        self._quality, self._asked, self._audits = quality, asked, audits
        self._validator = Validator(session.spark)

    def results(self) -> list[SuiteResult]:
        """Of the suites that it has and that are asked for; the docs of all of them are written at the end."""
        wanted = [s for s in suites_of(self._item, self._quality) if s in self._asked.suites]
        found: list[SuiteResult] = []
        if isinstance(self._item, View) and (RECONCILIATION in wanted or LATE_RATE in wanted):
            found += self._reconciled(self._item, wanted)
        if LOG in wanted:
            found.append(self._log([self._audit(self._item.name)], "the whole log"))
        if EXPECTATIONS in wanted:
            found.append(self._own())
        page = None
        if self._asked.docs is not None and found:
            page = write_docs(self._asked.docs / self._item.name, self._item.name, found)
        return [replace(result, docs=None if page is None else str(page)) for result in found]

    def _reconciled(self, view: View, wanted: list[str]) -> list[SuiteResult]:
        began = time.monotonic()
        view = of_results(self._session, view)
        limits = self._quality.reconciliation(view.name)
        span = self._asked.spans.get(view.name) or self._lookback(view, limits.lookback)
        windows = read_windows(self._session, view, self._stored, span, is_accountable(self._session, view))
        scope = windows.notes[0] if windows.notes else window_scope(span, view.kind)
        if windows.last is not None:
            word = "window" if windows.count == 1 else "windows"
            scope = f"{windows.count:,} {word} up to {view.kind.format(windows.last)}"
            scope += "" if span.low is None else f", those that ended {lower(span.low, view.kind)}"
        results = []
        if RECONCILIATION in wanted:
            tables = window_tables(windows, view.kind, limits)
            if self._asked.sources:
                roots = [o for o in sources_of(self._session.catalog, view) if isinstance(o, Relation)]
                roots = [o for o in roots if o.name not in self._session.foreign]
                tables += log_tables([self._audit(o.name) for o in roots if self._session.stored(o.name)])
            outcomes = self._tables(RECONCILIATION, tables)
            result = SuiteResult(view.name, RECONCILIATION, scope, outcomes, windows.notes)
            drawn = _to_plot(windows, view.kind)
            wrong = [w["end"] for w in windows.rows if w["wrong"]]
            results.append(replace(result, seconds=_passed(began), windows=drawn, wrong=wrong))
        if LATE_RATE in wanted and windows.accounts:
            began = time.monotonic()
            notes: list[str] = []
            outcomes = self._tables(LATE_RATE, late_tables(windows, limits, notes))
            results.append(SuiteResult(view.name, LATE_RATE, scope, outcomes, notes, None, _passed(began)))
        return results

    def _lookback(self, view: View, lookback: int | None) -> WindowSpan:
        """From so many seconds before the frontier on; integers without a unit have no seconds."""
        frontier = self._session.tables.open(self._stored).current().integer("tidegate.frontier")
        if lookback is None or self._asked.everything or frontier is None or view.kind is TimeKind.EPOCH:
            return WindowSpan()
        ticks = lookback // 86_400 if view.kind is TimeKind.DATE else lookback * DAY_MICROS // 86_400
        return WindowSpan(low=frontier - ticks + 1)

    def _log(self, audits: list[SourceAudit], scope: str) -> SuiteResult:
        began = time.monotonic()
        outcomes = self._tables(LOG, log_tables(audits))
        notes = (
            [] if any(a.source_rows is not None for a in audits) else ["the source itself can't be counted"]
        )
        return SuiteResult(self._item.name, LOG, scope, outcomes, notes, None, _passed(began))

    def _own(self) -> SuiteResult:
        began, suite = time.monotonic(), self._quality.suite(self._item.name)
        rows = new_rows(
            self._session,
            self._item,
            self._stored,
            suite,
            self._asked.spans.get(self._item.name),
            self._asked.everything,
        )
        outcomes: list[ExpectationOutcome] = []
        if rows.frame is not None:
            name = f"{self._item.name}: {EXPECTATIONS}"
            outcomes = self._validator.rows(name, rows.frame, suite, rows.shown)
        if rows.position is not None:
            # Written when the rows were looked at, whatever was found: the verdict is about these rows.
            position_file(self._session, self._item.name).write(rows.position)
        return SuiteResult(self._item.name, EXPECTATIONS, rows.scope, outcomes, [], None, _passed(began))

    def _tables(self, suite: str, tables: list[FactTable]) -> list[ExpectationOutcome]:
        found = []
        for table in tables:
            found += self._validator.table(f"{self._item.name}: {suite}: {table.name}", table)
        return found

    def _audit(self, name: str) -> SourceAudit:
        """Once for all views that read it."""
        if name not in self._audits:
            self._audits[name] = audit_source(self._session, name)
        return self._audits[name]


def _to_plot(windows: Windows, kind: TimeKind) -> list[tuple[float, int, int, int, int, int]]:
    """The newest windows; none where rows are not accounted for, or time has no unit."""
    if not windows.accounts or kind is TimeKind.EPOCH:
        return []
    second = 1 / 86_400 if kind is TimeKind.DATE else DAY_MICROS // 86_400
    names = ("raw", "counted", "late", "filtered", "rejected")
    return [(w["end"] / second, *(w[name] for name in names)) for w in windows.rows[-MOST_PLOTTED:]]


def _passed(began: float) -> float:
    return round(time.monotonic() - began, 3)
