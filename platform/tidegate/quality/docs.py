"""Data Docs: what the checks of an asset have found, as a page of our own.

Great Expectations' site takes scripts, styles and pictures from seven hosts, and writes values of rows into its pages
as they are: what a row has in it would run in the browser of whoever looks at it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from tidegate.page import Section, page
from tidegate.quality.model import ExpectationOutcome, SuiteResult

#: Folders of that site, which earlier releases wrote here.
_EARLIER = ("validations", "expectations", "static")


def write_docs(folder: Path, asset: str, results: Sequence[SuiteResult]) -> Path:
    """Write the page of an asset, in the place of an older one; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in _EARLIER:
        shutil.rmtree(folder / name, ignore_errors=True)
    failing = sum(not result.passed for result in results)
    subtitle = f"{failing} of {len(results)} suites fail" if failing else "every expectation holds"
    sections = [section for result in results for section in _sections(result)]
    path = folder / "index.html"
    path.write_text(page(f"Quality of {asset}", subtitle, sections), encoding="utf-8")
    return path


def _sections(result: SuiteResult) -> Iterator[Section]:
    rows = [(o.text, o.severity, "holds" if o.passed else "fails", o.found) for o in result.outcomes]
    columns = ("expectation", "severity", "verdict", "found") if rows else ()
    yield Section(result.suite.replace("_", " "), (result.scope, *result.notes), columns=columns, rows=rows)
    yield from (_failing(outcome) for outcome in result.failed if outcome.failing)


def _failing(outcome: ExpectationOutcome) -> Section:
    return Section(outcome.text, (outcome.found,), columns=outcome.columns, rows=outcome.failing)
