"""Causes that concern one partition of a source, told from its progress in a few commits."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from tidegate.findings.facts import SourceFacts
from tidegate.findings.memory import EarlierLooks
from tidegate.findings.model import Candidate, Finding, Severity, Waiting
from tidegate.findings.skews import seconds_of, skews
from tidegate.findings.sources import QUIET, committed
from tidegate.project.jobs.stalls import StallLimits
from tidegate.project.reading.durations import format_duration
from tidegate.store.holding import UNKNOWN_PARTITION
from tidegate.store.metadata import ProgressRow

#: Rows still count as arriving for so long, or three times the limit of the cause.
_RECENT = 900.0
#: Seconds ahead of the clock that no forecast in a file or table is.
_FAR_AHEAD = 366 * 86_400.0

Windows = tuple[Waiting, ...]
_MICROS = 1_000_000


def of_partitions(
    source: SourceFacts, limits: StallLimits, at: float, waiting: Windows, memory: EarlierLooks
) -> list[Candidate]:
    """What is wrong with each partition: one cause of its own, and whether it is silent or its clock is off."""
    if not source.history:
        return []
    found: list[Candidate] = []
    skewed, every = skews(source, limits, waiting), _All(source, limits, at, waiting, memory)
    for name, progress in source.history[-1].partitions.items():
        if name == UNKNOWN_PARTITION or progress.state in ("gone", "empty"):
            continue
        one = _One(every, name, progress)
        own = skewed.get(name) or one.future()
        if not any(c.finding.severity == "error" for c in own):
            # Otherwise all that is late is so by the row from the future.
            own = [*own, *(one.rejected() or one.late() or one.null() or one.warming())]
        own = [*own, *one.silent()]
        if not any(c.finding.severity != "info" for c in own):
            own = [*own, *one.stalled()]
        found += own
    return found


def ahead_of_clock(source: SourceFacts, limits: StallLimits, at: float) -> list[tuple[str, int]]:
    """(partition, its newest event time) of those that have a row from the future; only what arrives live is compared
    with the clock (W9)."""
    found: list[tuple[str, int]] = []
    if not source.live:
        return found
    for name, progress in source.history[-1].partitions.items():
        seconds = seconds_of(source.kind, progress.max_event_time)
        if seconds is not None and seconds - at > limits.clock_skew:
            found.append((name, progress.max_event_time or 0))
    return found


class _All:
    """What is looked up for every partition, of all of them together: there may be thousands."""

    def __init__(
        self, source: SourceFacts, limits: StallLimits, at: float, waiting: Windows, memory: EarlierLooks
    ) -> None:
        self.source, self.limits, self.at, self.waiting, self.memory = source, limits, at, waiting, memory
        status = source.status
        self.held = frozenset(status.holds_back)
        self.waits = {p.partition: p.lag_rows or 0 for p in status.partitions}
        voting = [p.partition for p in status.partitions if p.state not in ("idle", "gone", "empty")]
        self.alone = voting[0] if len(voting) == 1 else None
        self.last = committed(source) or at
        newest = source.history[-1].partitions
        self.quiet = {
            n: p.quiet_since / _MICROS for n, p in newest.items() if p.quiet_since and p.state != "empty"
        }
        #: Who was the last, and who before that: every other one has another last one.
        self.latest = sorted(((t, n) for n, t in self.quiet.items()), reverse=True)[:2]
        self.rows = [sum(_rows(p) for p in past.partitions.values()) for past in source.history]


class _One:
    """One partition. `progress`: as of the newest commit."""

    def __init__(self, every: _All, name: str, progress: ProgressRow) -> None:
        self.every, self.name, self.progress = every, name, progress
        self.source, self.limits, self.at = every.source, every.limits, every.at
        self.held = name in every.held
        self.waiting = every.waiting if self.held or every.alone == name else ()
        self.last = every.last

    def rejected(self) -> list[Candidate]:
        """Everything that came was rejected."""
        old = self._while(lambda p: (p.on_time, p.late) == (self.progress.on_time, self.progress.late))
        rows = self.progress.rejected - old.progress.rejected
        if rows < self.limits.at_least_rows or not self._arriving(self.limits.all_late):
            return []
        return [
            self._finding(
                "all_rejected",
                "warning",
                f"all {rows:,} rows since {_clock(old.at)} were rejected",
                f"SELECT * FROM {self.source.status.name}$rejected shows them with the reason: the "
                "producer has probably changed the format or the time column",
                old.at,
                self.limits.all_late,
                rows=rows,
            )
        ]

    def late(self) -> list[Candidate]:
        """Rows come, none on time: they are all below the watermark."""
        old = self._while(lambda p: p.on_time == self.progress.on_time)
        rows = self.progress.late - old.progress.late
        if rows < self.limits.at_least_rows or not self._arriving(self.limits.all_late):
            return []
        kind, mark = self.source.kind, self.progress.watermark
        above = self.source.status.watermark
        bar = max((m for m in (mark, above) if m is not None), default=None)
        by = (
            "its own watermark"
            if above is None or (mark or 0) >= above
            else "the source's watermark, not its own"
        )
        text = kind.format(bar) if kind and bar is not None else "none"
        return [
            self._finding(
                "all_late",
                "warning",
                f"all {rows:,} rows since {_clock(old.at)} are late, measured by {by}: {text}",
                f"tidegate late {self.source.status.name} shows by how much. A backlog there clears "
                "by itself; a wrong clock or too short a delay does not. Late rows are kept: "
                "tidegate amend includes them",
                old.at,
                self.limits.all_late,
                rows=rows,
                watermark=text,
            )
        ]

    def null(self) -> list[Candidate]:
        """Rows are on time and newer, and the watermark does not move: W2, a NULL or failed value raises nothing."""
        now = self.progress
        if self.source.strategy_kind != "expression":
            return []
        old = self._while(lambda p: p.watermark == now.watermark)
        rows = now.on_time - old.progress.on_time
        newest = old.progress.max_event_time
        rose = now.max_event_time is not None and (newest is None or now.max_event_time > newest)
        if (
            rows < self.limits.at_least_rows
            or not (rose or now.watermark is None)
            or self._ahead(now.max_event_time)
        ):
            return []
        if not self._arriving(self.limits.strategy_null):
            return []
        mark = (
            "there is no watermark" if now.watermark is None else f"it stays at {self._text(now.watermark)}"
        )
        return [
            self._finding(
                "strategy_null",
                "error" if now.watermark is None else "warning",
                f"{rows:,} rows since {_clock(old.at)} are on time, but the strategy `{self.source.strategy}` gave no "
                f"value above the watermark: {mark}",
                "evaluate the expression over new rows; ALTER SOURCE … ALTER WATERMARK changes the "
                "strategy (W13), but not the outcome of judged rows",
                old.at,
                self.limits.strategy_null,
                rows=rows,
                newest_event=self._text(now.max_event_time),
            )
        ]

    def warming(self) -> list[Candidate]:
        """S3: a new partition's watermark stays days behind."""
        state = self.progress.state or ""
        if not state.startswith("warming ("):
            return []
        known = state.removeprefix("warming (").removesuffix(")")
        old = self._while(lambda p: (p.state or "").startswith("warming"))
        since = min(
            old.at, self.every.memory.first.get(f"warming_up:{self.source.status.name}:{self.name}", old.at)
        )
        return [
            self._finding(
                "warming_up",
                "warning" if self.at - since > self.limits.warming_up else "info",
                f"SOURCE_WATERMARK() has seen only {known} rows; until it has seen more, the "
                f"watermark stays far behind the newest event ({self._text(self.progress.watermark)})",
                "this ends with more rows; watermark.warm_up sets other margins, or declare a "
                f"constant delay: tidegate advise {self.source.status.name}",
                old.at,
            )
        ]

    def future(self) -> list[Candidate]:
        """W9: one row ahead of the clock makes all others late until the clock has caught up. What does not come live
        may be of any time: there it is told of a row that is ahead by far, once others are late by it."""
        now = self.progress
        ahead = self._ahead(now.watermark)
        offset = self.source.culprits.get(self.name)
        where = "" if offset is None else f" at offset {offset}"
        event = self._text(now.max_event_time)
        old = self._while(lambda p: p.max_event_time == now.max_event_time)
        if not ahead:
            by = self._ahead(now.max_event_time)
            if not by or not self.source.live or not self._ignored(now.max_event_time):
                return []
            text = (
                f"a row{where} of {event} is {format_duration(by)} ahead of the clock; it does not "
                "raise the watermark (W9)"
            )
            advice = "find the producer that wrote it; nothing else needs to be done"
            return [self._finding("future_timestamp", "info", text, advice, old.at, offset=offset)]
        rows = now.late - old.progress.late
        if not self.source.live and not (rows and ahead > _FAR_AHEAD):
            return []
        name = self.source.reset_as or self.source.status.name
        return [
            self._finding(
                "future_timestamp",
                "error" if rows else "warning",
                f"a row{where} of {event} is from the future: the watermark {self._text(now.watermark)} is "
                f"{format_duration(ahead)} ahead of the clock, and {rows:,} rows since {_clock(old.at)} are late by it",
                f"ALTER SOURCE {name} RESET WATERMARK TO '…' sets it back, and the next run reopens "
                "the windows that closed too early; then run tidegate amend for the rows that were "
                "late because of it; a smaller max_future_skew keeps such rows from raising the "
                "watermark (W9)",
                old.at,
                offset=offset,
                late_rows=rows,
                ahead_seconds=round(ahead, 3),
                event_time=event,
            )
        ]

    def silent(self) -> list[Candidate]:
        """Nothing has come here for long, while others move."""
        limit = self.limits.silent
        quiet, others = self._quiet()
        if quiet is None or others is None or self.every.waits.get(self.name, 0) > 0:
            return []
        if others - quiet <= limit or self.at - others > max(limit, QUIET):
            return []
        if self.progress.state == "idle":
            text = (
                "it is idle and does not hold the watermark back (W7): its rows below the watermark "
                "will be late"
            )
        elif self.held:
            text = "it holds the watermark back"
        else:
            text = "it takes part in the watermark"
        return [
            self._finding(
                "silent_partition",
                "warning",
                f"silent for {format_duration(self.at - quiet)}, while other partitions receive rows; {text}",
                (
                    "check the producer of this partition; idle_timeout says when the partition leaves "
                    "the watermark; the limit is silent: in jobs/"
                ),
                quiet,
                limit,
                silent_seconds=round(self.at - quiet, 3),
            )
        ]

    def stalled(self) -> list[Candidate]:
        """W8's state, where none of the other causes explains it."""
        now = self.progress
        if now.state != "stalled":
            return []
        old = self._while(lambda p: p.watermark == now.watermark)
        rows = now.on_time - old.progress.on_time
        return [
            self._finding(
                "stalled",
                "warning",
                f"{rows:,} rows since {_clock(old.at)} are on time, but none is newer than "
                f"{self._text(now.max_event_time)}: the watermark stays at {self._text(now.watermark)}",
                "the producer repeats old event times, or its clock has stopped",
                old.at,
                rows=rows,
            )
        ]

    def _finding(
        self,
        kind: str,
        severity: Severity,
        text: str,
        advice: str,
        since: float,
        after: float = 0.0,
        **numbers: object,
    ) -> Candidate:
        name = self.source.status.name
        finding = Finding(
            kind=kind,
            severity=severity,
            asset=name,
            partition=self.name,
            text=f"{name}, partition {self.name or '(one without a name)'}: {text}",
            advice=advice,
            waiting=self.waiting,
            numbers=numbers,
        )
        return Candidate(finding, since, after, or_earlier=True)

    def _while(self, same: Callable[[ProgressRow], bool]) -> _Then:
        """The oldest commit from which on this was so, up to the newest; nothing of it before the partition came."""
        found = _Then(self.last, self.progress)
        for past in reversed(self.source.history):
            progress = past.partitions.get(self.name)
            if progress is None:
                nothing = ProgressRow(self.name, None, None, None, 0, 0, 0, 0, None)
                return _Then(past.at, nothing) if same(nothing) else found
            if not same(progress):
                return found
            found = _Then(past.at, progress)
        if found.progress is self.progress:
            # Nothing is known of earlier commits: it is all that there was.
            nothing = ProgressRow(self.name, None, None, None, 0, 0, 0, 0, None)
            return _Then(self.last, nothing) if same(nothing) else found
        return found

    def _arriving(self, limit: int) -> bool:
        last = self.progress.quiet_since
        seconds = self.last if last is None else last / _MICROS
        return self.at - seconds <= max(_RECENT, 3 * limit)

    def _text(self, value: int | None) -> str:
        kind = self.source.kind
        return kind.format(value) if kind is not None else "none"

    def _ahead(self, value: int | None) -> float:
        """How far a time is ahead of the clock, s; 0 within the limit, and where there is no scale."""
        ahead = seconds_of(self.source.kind, value)
        if ahead is None or ahead - self.at <= self.limits.clock_skew:
            return 0.0
        return ahead - self.at

    def _ignored(self, value: int | None) -> bool:
        """W9: so far ahead that it raises nothing."""
        skew, seconds = self.source.max_future_skew, seconds_of(self.source.kind, value)
        return skew is not None and seconds is not None and seconds - self.last > skew / _MICROS

    def _quiet(self) -> tuple[float | None, float | None]:
        """When something last came here, and to any other partition."""
        if self.source.live:
            others = next((t for t, n in self.every.latest if n != self.name), None)
            return self.every.quiet.get(self.name), others
        if not self.held:
            return None, None
        history, rows = self.source.history, self.every.rows
        own = [_rows(past.partitions.get(self.name)) for past in history]
        moved = [history[k].at for k in range(1, len(history)) if rows[k] - rows[k - 1] > own[k] - own[k - 1]]
        return self._while(lambda p: _rows(p) == own[-1]).at, max(moved, default=None)


class _Then:
    """A partition as of an earlier commit."""

    def __init__(self, at: float, progress: ProgressRow) -> None:
        self.at, self.progress = at, progress


def _rows(progress: ProgressRow | None) -> int:
    return 0 if progress is None else progress.on_time + progress.late + progress.rejected


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
