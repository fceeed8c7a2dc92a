"""`tidegate why`: what keeps windows open, told without a JVM."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.cli.invocation import Invocation, guarded
from tidegate.cli.selection import NamesArgument

if TYPE_CHECKING:
    from tidegate.findings import Finding, LookResult
    from tidegate.project import Project


@guarded
def why(
    call: Invocation,
    names: NamesArgument = None,
) -> int:
    """Show why windows are not closed, and what sinks have not delivered: the cause with its numbers, which windows
    wait, since when, and what to do.

    It reads stored metadata, brokers and locks, and starts no JVM. For a view or sink, everything that it reads is
    included. Exit code 1: there is a warning or an error.

    Example: tidegate why departures_hourly
    """
    from tidegate.findings import look
    from tidegate.findings.model import rank

    project = call.project()
    seen = look(project, names or None)
    seen = replace(seen, findings=(*_changed(project, seen), *seen.findings))
    data = {"at": _iso(seen.facts.at), "findings": [f.to_dict() for f in seen.findings]}
    call.console.document(data, "" if call.json else render(seen))
    return int(any(rank(f.severity) > 0 for f in seen.findings))


def _changed(project: Project, seen: LookResult) -> list[Finding]:
    """What is stored of another definition than the one of now: it is not gone on with (R4)."""
    from tidegate.findings import Finding
    from tidegate.session.deployed import changed_definitions

    changed = changed_definitions(project, project.catalog(), seen.names)
    return [
        Finding("definition_changed", "warning", name, f"{w.code}: {w.message}", w.hint or "")
        for name, w in changed.items()
    ]


def render(seen: LookResult) -> str:
    """For people: one block for each asset, the worst first; those that move in one line."""
    if not seen.names:
        return "nothing has a watermark: write CREATE SOURCE … WATERMARK FOR … into assets/NAME.sql"
    blocks, fine = [], []
    for name in dict.fromkeys([*(f.asset for f in seen.findings), *seen.names]):
        findings = seen.of(name)
        if findings:
            blocks.append("\n\n".join(_finding(f, seen.facts.at) for f in findings))
        else:
            fine.append(_moving(seen, name))
    return "\n\n".join([*blocks, *(["\n".join(fine)] if fine else [])])


def _finding(finding: Finding, at: float) -> str:
    from datetime import datetime

    from tidegate.project.reading.durations import format_duration

    mark = {"error": "ERROR  ", "warning": "WARNING", "info": "info   "}[finding.severity]
    lines = [("", f"{mark} {finding.kind}"), ("what", finding.text)]
    if finding.waiting:
        shown = [f"{w.view}: window_end {w.window_end}" for w in finding.waiting[:3]]
        more = len(finding.waiting) - len(shown)
        lines.append(("waits", "; ".join(shown) + (f"; and {more} more views" if more > 0 else "")))
    if finding.since:
        lasted = at - datetime.fromisoformat(finding.since).timestamp()
        lines.append(("since", f"{finding.since} ({format_duration(lasted)})"))
    lines.append(("do", finding.advice))
    return "\n".join(_wrapped(label, text) for label, text in lines)


def _wrapped(label: str, text: str) -> str:
    import shutil
    import sys
    import textwrap

    if not label:
        return text
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 110
    return textwrap.fill(
        text,
        max(width, 40),
        initial_indent=f"  {label:<6}",
        subsequent_indent=" " * 8,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _moving(seen: LookResult, name: str) -> str:
    for source in seen.facts.sources:
        if source.status.name == name:
            if not source.status.ran:
                return f"ok      {name}: has not run yet"
            waits = f", {source.status.lag_rows:,} rows wait" if source.status.lag_rows else ""
            return f"ok      {name}: watermark {source.status.watermark_text}{waits}"
    for view in seen.facts.views:
        if view.status.name == name:
            if view.one_tick and view.status.frontier is not None:
                return f"ok      {name}: rows before {view.status.frontier_text} are final"
            following = f"; next window_end {view.next_end}" if view.next_end and view.in_windows else ""
            return f"ok      {name}: final up to {view.status.frontier_text}{following}"
    for sink in seen.facts.sinks:
        if sink.status.name == name and sink.status.ran:
            upto = f" up to {sink.delivered_upto}" if sink.delivered_upto else ""
            return f"ok      {name}: delivered{upto}, {sink.status.delivered:,} rows in total"
    return f"ok      {name}"


def _iso(seconds: float) -> str:
    from tidegate.findings.model import iso

    return iso(seconds)
