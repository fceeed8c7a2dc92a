"""Causes that concern a view: it does not follow its inputs, or one input holds the others back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from tidegate.findings.facts import ViewFacts
from tidegate.findings.memory import EarlierLooks
from tidegate.findings.model import Candidate, Finding, Waiting
from tidegate.plan.lost_totals import lost_totals_text
from tidegate.project.jobs.stalls import StallLimits
from tidegate.project.reading.durations import format_duration


def of_view(view: ViewFacts, limits: StallLimits, at: float, memory: EarlierLooks) -> Iterator[Candidate]:
    """What keeps its windows open although, or because, its inputs are as far as they are."""
    yield from _reset(view)
    yield from _stops(view)
    yield from _gone(view)
    yield from _lost_totals(view)
    yield from _behind(view, limits, at, memory)
    yield from _held(view, limits, at)


def _gone(view: ViewFacts) -> Iterator[Candidate]:
    """R5: rows that were retired before the view had come to them."""
    status = view.status
    if status.missing is not None:
        finding = Finding(
            kind="rows_gone",
            severity="error",
            asset=status.name,
            text=f"{status.name}: final up to {status.frontier_text}; {status.missing}: windows that "
            "need them can't be computed any more",
            advice=f"tidegate run {status.name} skips these windows and lists them, or refuses to continue; "
            "to lose no windows, run the view more often than rows are retired, or keep rows "
            "longer (jobs/maintenance.yaml)",
            waiting=(Waiting(status.name, f"after {status.frontier_text}"),),
        )
        yield Candidate(finding)
    if status.skipped:
        stretches = "; ".join(f"after {after}, up to {upto}" for after, upto in status.skipped)
        finding = Finding(
            kind="skipped",
            severity="warning",
            asset=status.name,
            text=(
                f"{status.name}: windows that end {stretches} are not known: their rows were retired "
                "before the view ran (R5)"
            ),
            advice="run it more often than rows are retired, or keep rows longer (jobs/maintenance.yaml)",
        )
        yield Candidate(finding)


def _stops(view: ViewFacts) -> Iterator[Candidate]:
    """E5: the current version is computed no further, until a new one has taken its place."""
    status = view.status
    if status.held_at is None:
        return
    # (Frontiers of one view are written in one way, so that their texts can be compared.)
    waits = status.frontier_text == status.held_at
    finding = Finding(
        kind="waits_for_version",
        severity="warning" if waits else "info",
        asset=status.name,
        text=f"{status.name}: final up to {status.frontier_text}; its current version stops at {status.held_at}, "
        "where a new one takes its place (E5)",
        advice=f"tidegate apply {status.name} --at '{status.held_at}' completes this; tidegate apply {status.name} "
        "swaps the versions without this time, or lets the current one continue if the query is as it was",
        waiting=(Waiting(status.name, f"after {status.held_at}"),) if waits else (),
    )
    yield Candidate(finding)


def _lost_totals(view: ViewFacts) -> Iterator[Candidate]:
    """C7: sums that are NULL, though there were values."""
    status = view.status
    if status.lost_totals:
        finding = Finding(
            kind="lost_totals",
            severity="warning",
            asset=status.name,
            text=f"{status.name}: {lost_totals_text(status.lost_totals)}",
            advice=(
                "sum(CAST(… AS DECIMAL(38, 0))) can hold totals beyond 64 bits; a changed query is a "
                "new definition (R4)"
            ),
            numbers={"lost_totals": status.lost_totals},
        )
        yield Candidate(finding)


def _reset(view: ViewFacts) -> Iterator[Candidate]:
    """W9: what a reset watermark takes back, and what a poisoned one has left in front of the inputs."""
    status = view.status
    if status.goes_back_to is not None:
        finding = Finding(
            kind="reset_pending",
            severity="warning",
            asset=status.name,
            text=f"{status.name}: a watermark that it depends on was reset: its next run goes back "
            f"from {status.frontier_text} to {status.goes_back_to_text}, and closes the windows "
            "after that again (W9)",
            advice=(
                f"run tidegate run {status.name}; if the run fails, its error says why the view can't go back"
            ),
            waiting=(Waiting(status.name, f"after {status.goes_back_to_text}"),),
        )
        yield Candidate(finding)
    elif status.frontier is not None and status.clock is not None and status.frontier > status.clock:
        sources = ", ".join(view.upstream)
        finding = Finding(
            kind="frontier_ahead",
            severity="error",
            asset=status.name,
            text=f"{status.name}: it is final up to {status.frontier_text}, but its inputs have only "
            f"reached {status.clock_text}: it closes no window until they have caught up",
            advice="ALTER SOURCE … RESET WATERMARK TO '…' sets it back to where its inputs are (W9); "
            f"name the one of {sources} whose watermark is too high",
            waiting=(Waiting(status.name, f"after {status.frontier_text}"),),
        )
        yield Candidate(finding)
    elif status.emitted_beyond is not None:
        finding = Finding(
            kind="closes_again",
            severity="info",
            asset=status.name,
            text=f"{status.name}: final up to {status.frontier_text} since a watermark was reset; results up to "
            f"{status.emitted_beyond} are from before the reset, and are replaced as they close again (W9)",
            advice="nothing needs to be done",
        )
        yield Candidate(finding)


def _behind(view: ViewFacts, limits: StallLimits, at: float, memory: EarlierLooks) -> Iterator[Candidate]:
    status = view.status
    if status.current or view.due_end is None or status.goes_back_to is not None:
        return
    far = "" if not status.behind else f", {format_duration(status.behind)} further"
    done = f"final up to {status.frontier_text}" if status.ran else "never computed"
    held = view.writer.state == "held"
    if held:
        why = f"process {view.writer.pid} writes it, but its ticks fail or take long"
        advice = "see the log of that process; `tidegate audit` shows whether its query still runs"
    elif view.expected:
        why = f"the live run {view.expected} does not update it"
        advice = f"start the live run {view.expected}"
    else:
        why = "no process updates it"
        advice = f"tidegate run {status.name}, or select it in the schedule or live run of its source"
    finding = Finding(
        kind="view_behind",
        severity="warning",
        asset=status.name,
        text=f"{status.name}: {done}, but its inputs allow {status.clock_text}{far}: {why}",
        advice=advice,
        waiting=(Waiting(status.name, view.due_end),),
        numbers={"behind_seconds": status.behind, "writer": view.writer.state},
    )
    since = view.due_since
    if since is None and memory.looks:
        # Where the inputs' history does not tell: what earlier looks saw, and every tick of the view.
        last = 0.0 if status.committed_at is None else datetime.fromisoformat(status.committed_at).timestamp()
        since = max(last, memory.first.get(finding.key, at))
    yield Candidate(finding, since, limits.view_behind)


def _held(view: ViewFacts, limits: StallLimits, at: float) -> Iterator[Candidate]:
    """D2: an input that is wholly idle holds the others back, and is named."""
    status = view.status
    if not status.holds_back or view.next_end is None:
        return
    names = ", ".join(status.holds_back)
    since = view.held_since
    ago = "" if since is None else f", which last committed {format_duration(at - since)} ago"
    severe = since is not None and at - since > limits.input_behind
    finding = Finding(
        kind="input_behind",
        severity="warning" if severe else "info",
        asset=status.name,
        text=(
            f"{status.name}: its other inputs are ahead of {names}{ago}; the view is at "
            f"{status.clock_text} (D2)"
        ),
        advice=f"bring {status.holds_back[0]} up to date, or find out why it gets no rows: tidegate why "
        f"{status.holds_back[0]}",
        waiting=(Waiting(status.name, view.next_end),),
        numbers={"holds_back": names},
    )
    yield Candidate(finding, since)
