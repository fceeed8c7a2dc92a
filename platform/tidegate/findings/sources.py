"""Causes that concern a whole source: who runs it, its broker, what waits, and that there is nothing to do."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from tidegate.findings.facts import SourceFacts
from tidegate.findings.memory import EarlierLooks
from tidegate.findings.model import Candidate, Finding, Waiting
from tidegate.plan.columns.taken_in import additions, not_added_text
from tidegate.plan.columns.undeclared import Undeclared, undeclared_text
from tidegate.plan.crashes import Crashes
from tidegate.project.jobs.stalls import StallLimits
from tidegate.project.reading.durations import format_duration
from tidegate.store.status_values import RelationStatus
from tidegate.store.writers import WriterState

#: `not_running` where no limit is set: under an enabled live run, and else.
LIVE_STOPPED, STOPPED = 300, 3_600

#: Points of a backlog below which nothing is said of its growth.
_FEWEST_POINTS = 4

#: For so long rows that have crashed their decoder are told, and columns that are not declared.
TOLD = 86_400.0

#: For so long after the last row a source counts as moving.
QUIET = 300.0

Windows = tuple[Waiting, ...]


def committed(source: SourceFacts) -> float | None:
    """When it last committed, s since 1970."""
    if source.history:
        return source.history[-1].at
    at = source.status.committed_at
    return None if at is None else datetime.fromisoformat(at).timestamp()


def totals(source: SourceFacts) -> tuple[int, int] | None:
    """Sum of the end offsets and of the next offsets of all partitions; None without a broker that answers."""
    known = [p for p in source.status.partitions if p.end_offset is not None]
    if not known or source.status.broker_error or not source.live:
        return None
    return sum(p.end_offset or 0 for p in known), sum(p.next_offset for p in known)


def unreachable(source: SourceFacts, at: float) -> Iterator[Candidate]:
    """The broker does not answer: nobody can say what waits."""
    if source.status.broker_error is None:
        return
    name = source.status.name
    yield Candidate(
        Finding(
            kind="unreachable",
            severity="warning",
            asset=name,
            text=f"{name}: the broker cannot be asked: {source.status.broker_error}",
            advice=(
                "check that the broker runs and can be reached from here; the findings about stored "
                "data are complete"
            ),
        )
    )


def on_record(source: SourceFacts, at: float) -> Iterator[Candidate]:
    """What commits of the last day have put on record. Nothing waits for it, but somebody should look."""
    name, crashes, undeclared = source.status.name, source.crashes, source.undeclared
    if crashes is not None and at - crashes.at / 1e6 <= TOLD:
        yield Candidate(_crashed(name, crashes), crashes.at / 1e6)
    if undeclared is not None and at - undeclared.at / 1e6 <= TOLD:
        yield Candidate(_undeclared(source.status, undeclared), undeclared.at / 1e6)


def _crashed(name: str, crashes: Crashes) -> Finding:
    """Rows that no decoder survives (X2)."""
    return Finding(
        kind="crashed_decoder",
        severity="warning",
        asset=name,
        text=f"{name}: rows have crashed the process that decodes them, {crashes.rows:,} so far; "
        f"the last one: {crashes.last}",
        advice=f'these rows do not block others: SELECT * FROM "{name}$rejected" WHERE reason = '
        "'crashed_decoder' shows their bytes; find out who sends them, and report them to "
        "the maintainers of the library",
        numbers={"rows": crashes.rows},
    )


def _undeclared(status: RelationStatus, undeclared: Undeclared) -> Finding:
    """Columns of the input that nobody reads: a name may be spelled in another way, or a column may be new."""
    name, kind = status.name, "TABLE" if status.kind == "table" else "SOURCE"
    statements = "; ".join(additions(kind, name, undeclared.types)) or f"ALTER {kind} {name} ADD COLUMN"
    return Finding(
        kind="undeclared_columns",
        severity="info",
        asset=name,
        text=f"{name}: {undeclared_text(undeclared.columns)}",
        advice="these columns do not block rows; to read one, add it to the definition, or by a statement, which may "
        f"stand in the file below it: {statements}; the rows that were read before have NULL in it (E2)"
        + not_added_text(undeclared.columns, undeclared.types),
        numbers={"columns": len(undeclared.columns)},
    )


def running(
    source: SourceFacts, limits: StallLimits, at: float, memory: EarlierLooks, waiting: Windows
) -> Iterator[Candidate]:
    """Nobody keeps it up to date although rows wait or a live run is wanted; or somebody holds it and does nothing."""
    status, writer = source.status, source.writer
    limit = limits.not_running or (LIVE_STOPPED if source.expected else STOPPED)
    # What the broker does not say now, the last batch may have said long ago.
    last, rows = committed(source), 0 if status.broker_error else status.lag_rows or 0
    held = writer.state == "held"
    gone = writer.state in ("ended", "killed") or (writer.state == "unknown" and not status.ran)
    missing = source.expected is not None and gone
    if not rows and not missing:
        return
    if held and not rows:
        return
    numbers = {"waiting_rows": rows, "writer": writer.state, "seconds_since_commit": _ago(at, last)}
    commit = "has never run" if last is None else f"last commit {format_duration(at - last)} ago"
    wait = f"{rows:,} rows wait at the broker" if rows else "it is not known that rows wait"
    if held:
        finding = Finding(
            kind="stuck",
            severity="error",
            asset=status.name,
            text=(
                f"{status.name}: {_holder(writer)} has its lease, but {wait} and nothing is "
                f"committed; {commit}"
            ),
            advice=(
                "check what that process does (its log, or `/healthz` of a live run); a restart "
                "loses nothing (R2)"
            ),
            waiting=waiting,
            numbers=numbers,
        )
        yield Candidate(finding, _waiting_since(last, at, memory, finding), limit)
        return
    who = {
        "killed": f"{_holder(writer)} was killed",
        "ended": "the last process ended normally",
        "unknown": "no process is known on this machine",
    }[writer.state]
    start = (
        f"start the live run {source.expected} (its job in Dagster, or its service)"
        if source.expected
        else f"tidegate run {status.name}, a schedule in jobs/, or tidegate live {status.name}"
    )
    finding = Finding(
        kind="not_running",
        severity="error",
        asset=status.name,
        text=f"{status.name}: not running: {wait}; {commit}; {who}",
        advice=start,
        waiting=waiting,
        numbers=numbers,
    )
    if not missing:
        since = _waiting_since(last, at, memory, finding)
    else:
        # A killed process leaves no time behind.
        since = writer.at if writer.state == "ended" else None
    yield Candidate(finding, since, limit)


def _waiting_since(last: float | None, at: float, memory: EarlierLooks, finding: Finding) -> float | None:
    """Since when rows wait and nothing is read. A source that was caught up for days and gets a row now is not stuck:
    what earlier looks saw counts, and every commit."""
    if not memory.looks:
        return last
    return max(last or 0.0, memory.first.get(finding.key, at))


def backlog(
    source: SourceFacts, limits: StallLimits, at: float, memory: EarlierLooks, waiting: Windows
) -> Iterator[Candidate]:
    """More arrives than is read: in the later half of the time all backlogs are larger than any in the earlier."""
    now = totals(source)
    if now is None:
        return
    points = _points(source, memory, at, now, limits.backlog_for)
    rows = now[0] - now[1]
    if rows < limits.backlog_rows or len(points) < _FEWEST_POINTS:
        return
    span = points[-1][0] - points[0][0]
    middle = points[0][0] + span / 2
    earlier = [end - following for when, end, following in points if when <= middle]
    later = [end - following for when, end, following in points if when > middle]
    if span < limits.backlog_for or not later or min(later) <= max(earlier):
        return
    arrived, read = ((points[-1][k] - points[0][k]) / span for k in (1, 2))
    most = max(source.status.partitions, key=lambda p: p.lag_rows or 0)
    name = source.status.name
    part = most.lag_rows or 0
    where = f", {part:,} of them in partition {most.partition}" if len(source.status.partitions) > 1 else ""
    finding = Finding(
        kind="backlog_growing",
        severity="warning",
        asset=name,
        text=f"{name}: the backlog grows: {rows:,} rows wait{where}; {arrived:,.1f} rows arrive a second, "
        f"{read:,.1f} are read",
        advice="give the process more resources (max_rows_per_batch, cores, executors), or find out "
        "what slows it down: docs/sizing.md",
        waiting=waiting,
        numbers={
            "waiting_rows": rows,
            "waiting_rows_before": earlier[0],
            "arriving_per_second": round(arrived, 3),
            "read_per_second": round(read, 3),
            "most_in_partition": most.partition,
        },
    )
    yield Candidate(finding, points[0][0], limits.backlog_for)


def _points(
    source: SourceFacts, memory: EarlierLooks, at: float, now: tuple[int, int], span: float
) -> list[tuple[float, int, int]]:
    """(when, end, next) of commits, earlier looks and now, of the last two spans, oldest first."""
    found = list(memory.points.get(source.status.name, ()))
    for past in source.history:
        known = [p for p in past.partitions.values() if p.end_offset is not None]
        if known:
            found.append((past.at, sum(p.end_offset or 0 for p in known), sum(p.next_offset for p in known)))
    recent = sorted(p for p in found if at - 2 * span <= p[0] < at)
    return [*recent, (at, *now)]


def lagging(source: SourceFacts, waiting: Windows) -> Iterator[Candidate]:
    """A limit of `thresholds:` is broken."""
    if source.lag is None or source.lag.passed:
        return
    held = source.status.holds_back
    finding = Finding(
        kind="lagging",
        severity="warning",
        asset=source.status.name,
        text=source.lag.text,
        advice=f"check the partition that holds it back: {held[0]}"
        if held
        else "see the other causes, if there are any",
        waiting=waiting,
        numbers={"behind_newest": source.status.behind_newest, "behind_clock": source.status.lag},
    )
    yield Candidate(finding)


def arrived(source: SourceFacts) -> float | None:
    """When something last arrived from a broker, else when it last committed; s since 1970."""
    quiet = [
        datetime.fromisoformat(p.quiet_since).timestamp() for p in source.status.partitions if p.quiet_since
    ]
    last = committed(source)
    return max(quiet) if source.live and quiet else last


def idle(source: SourceFacts, limits: StallLimits, at: float, waiting: Windows) -> Iterator[Candidate]:
    """Everything that came is judged; a watermark moves by rows only (W7)."""
    last, status = arrived(source), source.status
    if last is None or (status.lag_rows or 0) > 0:
        return
    quiet = at - last
    severe = limits.idle is not None and quiet > limits.idle
    ago = format_duration(quiet)
    text = (
        f"{status.name}: up to date, no rows have arrived for {ago}"
        if source.live
        else f"{status.name}: {status.raw:,} rows are judged, the last commit was {ago} ago"
    )
    finding = Finding(
        kind="idle",
        severity="warning" if severe else "info",
        asset=status.name,
        text=f"{text}; watermark {status.watermark_text}",
        advice=(
            "windows close when newer rows arrive; with idle_advance = 'true', the clock moves "
            "the watermark (W7)"
        )
        if source.live
        else "a run looks for new rows; windows close when newer rows arrive",
        waiting=waiting,
        numbers={"quiet_seconds": round(quiet, 3)},
    )
    yield Candidate(finding, last, 0.0 if severe else QUIET)


def _holder(writer: WriterState) -> str:
    where = f" on {writer.host}" if writer.host else ""
    return f"process {writer.pid}{where}"


def _ago(at: float, last: float | None) -> float | None:
    return None if last is None else round(at - last, 3)
