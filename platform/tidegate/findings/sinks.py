"""Causes that concern a sink: what is final, or amended, has not been delivered."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.findings.facts import SinkFacts
from tidegate.findings.model import Candidate, Finding
from tidegate.project.jobs.stalls import StallLimits
from tidegate.wording import counted


def of_sink(sink: SinkFacts, limits: StallLimits) -> Iterator[Candidate]:
    """Why it has not delivered what there is."""
    status = sink.status
    if status.made_anew:
        finding = Finding(
            kind="sink_behind",
            severity="error",
            asset=status.name,
            text=(
                f"{status.name}: delivers nothing: {sink.upstream} is not the table that it has delivered "
                "from until now (TG542)"
            ),
            advice=(
                f"DROP SINK {status.name} and CREATE it again: with a new place, or with snapshot = 'false'; or, if "
                f"{sink.upstream} has a new version, write on_change"
            ),
        )
        yield Candidate(finding)
        return
    rows, amendments = status.waiting or 0, status.amendments_waiting or 0
    if not rows and not amendments and not status.goes_on:
        return
    what = [counted(rows, "final row")] if rows else []
    what += [counted(amendments, "amendment")] if amendments else []
    what += ["a new version"] if status.goes_on else []
    verb = "waits" if rows + amendments + status.goes_on == 1 else "wait"
    why, advice = _why(sink)
    finding = Finding(
        kind="sink_behind",
        severity="warning",
        asset=status.name,
        text=f"{status.name}: {' and '.join(what)} of {sink.upstream} {verb} to be delivered{_how_far(sink)}: {why}",
        advice=advice,
        numbers={
            "rows_waiting": rows,
            "amendments_waiting": amendments,
            "commits_behind": status.behind,
            "delivered_upto": sink.delivered_upto,
            "final_upto": sink.final_upto,
            "writer": sink.writer.state,
        },
    )
    yield Candidate(finding, sink.due_since, limits.sink_behind, or_earlier=not sink.since_is_exact)


def _how_far(sink: SinkFacts) -> str:
    if not sink.status.ran:
        return "; nothing has been delivered yet"
    if sink.delivered_upto is None or sink.delivered_upto == sink.final_upto:
        return ""
    return f"; delivered up to {sink.delivered_upto}, final up to {sink.final_upto}"


def _why(sink: SinkFacts) -> tuple[str, str]:
    """Who should deliver, and what to do."""
    name = sink.status.name
    if sink.writer.state == "held":
        why = f"process {sink.writer.pid} writes it, but its deliveries fail or take long"
        return why, f"see the log of that process: it shows what {sink.status.place} answers"
    if sink.expected:
        return f"the live run {sink.expected} does not deliver", f"start the live run {sink.expected}"
    return (
        "no process delivers",
        f"tidegate run {name}, or select it in the schedule or live run of {sink.upstream}",
    )
