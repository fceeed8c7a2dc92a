"""`tidegate quality`: views reconciled with their sources, and the team's own expectations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.failures import FailFastOption, conclude, steps_for, told
from tidegate.cli.invocation import Invocation, guarded
from tidegate.cli.selection import ExcludeOption, SelectOption, StoredNamesArgument, chosen

if TYPE_CHECKING:
    from tidegate.console.port import Console
    from tidegate.quality.model import ExpectationOutcome, SuiteResult, WindowSpan
    from tidegate.sql.catalog.catalog import Catalog
    from tidegate.sql.catalog.objects import Relation, View


_Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Check only windows that end at or after TIME, and log rows from TIME on (UTC): "
        "2013-06-01, '2013-06-01 12:00'. The stored position of your own expectations does "
        "not move.",
        show_default=False,
    ),
]
_All = Annotated[
    bool,
    typer.Option(
        "--all",
        help="Check all windows, whatever `lookback` says, and all rows for your own expectations.",
    ),
]
_Docs = Annotated[
    Path | None,
    typer.Option(
        help=(
            "Folder for the Data Docs, a site with one page for each asset. Default: .tidegate/quality/docs."
        ),
        show_default=False,
    ),
]


@guarded
def quality(
    call: Invocation,
    names: StoredNamesArgument = None,
    since: _Since = None,
    everything: _All = False,
    docs: _Docs = None,
    select: SelectOption = None,
    exclude: ExcludeOption = None,
    fail_fast: FailFastOption = False,
) -> int:
    """Check data quality with Great Expectations.

    Every view is reconciled: raw = counted + filtered + late + rejected in each final window (A1), recounted from the
    source where that is possible; no gap, no duplicate window; the share of late rows. The counts of logs must agree.
    Your own expectations are in quality/*.yaml, and are checked on the rows that arrived since the last check.

    Exit code 1: an expectation of severity critical fails. Warnings are shown, and leave the exit code at 0.

    Example: tidegate quality departures_hourly --since 2013-06-01
    """
    from tidegate.project.expectations import load_quality, require_great_expectations

    project = call.project()
    catalog = project.catalog()
    # What is wrong in quality/ costs no JVM.
    load_quality(project.root, catalog, project.variables)
    require_great_expectations()
    objects: tuple[Relation | View, ...] = (*catalog.relations, *catalog.views)
    assets = {o.name: o for o in objects}
    wanted = chosen(catalog, names, select, exclude)
    if wanted is not None:
        wanted = [catalog.get(name).name for name in wanted if name not in catalog.sinks]
    spans = _spans(catalog, [n for n in wanted or assets if n in assets], since) if since else {}
    call.console.note("starting Spark …")
    with call.session(project) as session:
        from tidegate.quality.model import QualityReport
        from tidegate.quality.run import Request, check_quality, docs_folder

        folder = docs or docs_folder(project.root)
        request = Request(spans=spans, everything=everything, docs=folder)
        results, steps = [], steps_for(names, fail_fast)
        for result in check_quality(session, wanted, request, call.console.note, steps):
            results.append(result)
            if not call.json:
                _show(call.console, result)
    report = QualityReport(results)
    if call.json:
        call.console.document(report.to_dict() | told(steps), "")
    elif not results and not steps.failures:
        call.console.note("nothing is stored yet")
    else:
        _conclude(call.console, results, report.passed, folder)
    done = len({result.asset for result in results})
    return conclude(call, steps.failures, steps.skipped, done) or int(not report.passed)


def _spans(catalog: Catalog, names: list[str], since: str) -> dict[str, WindowSpan]:
    """Windows and rows from a time on, on the scale of each asset's own time."""
    from tidegate.quality.model import WindowSpan
    from tidegate.sql.catalog.objects import View
    from tidegate.watermark import TimeKind
    from tidegate.watermark.timekind import DAY_MICROS

    spans = {}
    for name in names:
        item = catalog.get(name)
        mark = getattr(item, "watermark", None)
        kind = item.kind if isinstance(item, View) else mark.kind if mark is not None else None
        if kind is None:
            spans[name] = WindowSpan()
            continue
        try:
            if kind is TimeKind.EPOCH:
                low = kind.parse(since)
            else:
                micros = TimeKind.TIMESTAMPTZ.parse(since)
                low = micros // DAY_MICROS if kind is TimeKind.DATE else micros
        except ValueError as error:
            raise typer.BadParameter(f"--since, for {name}: {error}") from None
        spans[name] = WindowSpan(low=low)
    return spans


def _show(console: Console, result: SuiteResult) -> None:
    """A suite: its expectations, then what fails them."""
    from tidegate.console.port import Table

    title = f"{result.asset}: {result.suite}, {result.scope} ({result.seconds:.1f} s)"
    if result.outcomes:
        rows = [(_mark(o), o.text, o.found) for o in result.outcomes]
        console.table(Table(["", "expectation", "found"], rows, title=title, unit=None))
    else:
        console.document(None, title)
    for outcome in result.failed:
        if outcome.failing:
            more = (outcome.unexpected or 0) - len(outcome.failing)
            title = f"{result.asset}: {outcome.text}" + (f" (and {more:,} more)" if more > 0 else "")
            console.table(Table(outcome.columns, outcome.failing, title=title, unit=None))
    for note in result.notes:
        console.note(note)


def _mark(outcome: ExpectationOutcome) -> str:
    if outcome.passed:
        return "ok"
    return "FAILED" if outcome.severity == "critical" else outcome.severity


def _conclude(console: Console, results: list[SuiteResult], passed: bool, folder: Path) -> None:
    count = sum(len(r.outcomes) for r in results)
    failed = [o for r in results for o in r.failed]
    critical = sum(o.severity == "critical" for o in failed)
    warnings = len(failed) - critical
    text = f"{count} {'expectation' if count == 1 else 'expectations'}"
    parts = [f"{critical} FAILED"] if critical else []
    parts += [f"{warnings} {'warning' if warnings == 1 else 'warnings'}"] if warnings else []
    console.document(None, f"{text}: {', '.join(parts) or 'all expectations hold'}")
    if any(r.docs for r in results):
        console.note(f"Data Docs: {folder}")
    if not passed:
        console.note("tidegate audit NAME shows which offsets and which values")
