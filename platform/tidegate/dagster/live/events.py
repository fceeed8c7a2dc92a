"""What a live process tells, as Dagster events: added up for each asset, and recorded at most once in a while.

A process that commits every two seconds would leave 43,200 materializations a day of every view. Here the first one
is recorded at once, and after that one in `report_every` at most, with the sums of what happened since the last.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from dagster import AssetKey, AssetMaterialization, AssetObservation

from tidegate.dagster.markdown import as_text
from tidegate.plan.events import (
    BatchCommitted,
    Event,
    LiveStarted,
    LiveStopped,
    MemberFailed,
    MemberRecovered,
    SinkDelivered,
    SliceCommitted,
    WorkerExited,
    WorkerFailed,
    WorkerSpawned,
    WorkerStarted,
    WorkerStopping,
    event_of,
)
from tidegate.sql.catalog.objects import Relation, Sink, View
from tidegate.watermark import TimeKind

#: Lines of the run's log in one `report_every`, and the longest of them; what is more is counted.
LINES = 30
LONGEST = 2_000

#: Silence, in seconds, after which the run's log says that there is some: a process that is well tells of every tick.
QUIET_SECONDS = 300.0

Recorded = AssetMaterialization | AssetObservation


@dataclass
class _Tally:
    """One asset. `sums` since the last event, `totals` of the run, `facts` as the newest event has them."""

    recorded_at: float | None = None
    recorded: int = 0
    pending: bool = False
    sums: dict[str, float] = field(default_factory=dict)
    totals: dict[str, float] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def add(self, sums: Mapping[str, float], facts: Mapping[str, Any]) -> None:
        for name, value in sums.items():
            self.sums[name] = self.sums.get(name, 0) + value
            self.totals[name] = self.totals.get(name, 0) + value
        self.facts.update(facts)
        self.pending = True

    def settle(self, now: float) -> None:
        self.recorded_at, self.pending, self.sums = now, False, {}
        self.recorded += 1


class LiveJournal:
    """Told every line of a live process on one thread; asked for what is to be recorded on another.

    `assets`: what the process keeps up to date, with its keys. `every`: seconds between two events of one asset.
    Memory does not grow with time: one tally for each asset, and at most `LINES` lines. `output` is given what
    the workers print. `clock` are monotonic seconds, `now` is UTC.
    """

    def __init__(
        self,
        assets: Mapping[str, tuple[Relation | View | Sink, AssetKey]],
        every: float,
        output: Callable[[str], None] = lambda text: None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._assets = assets
        self._every, self._output = every, output
        self._clock, self._now = clock, now
        self._tallies = {name: _Tally() for name in assets}
        self._lines: deque[tuple[int, str]] = deque()
        self._room, self._left_out = LINES, 0
        self._refilled = self._heard = self._complained = clock()
        self._lock = threading.Lock()
        #: The last error that ended a worker, or the process: code, message, hint, and whether another try makes sense.
        self.error: dict[str, Any] = {}

    def take(self, line: str) -> None:
        """One line of the process: an event or error as JSON, or whatever else it prints. Events that this version
        does not know are left out.
        """
        text = line.strip()
        if not text:
            return
        try:
            event = json.loads(text)
        except ValueError:
            event = None
        with self._lock:
            self._heard = self._clock()
            if not isinstance(event, dict):
                self._say(logging.INFO, text)
            elif isinstance(event.get("error"), dict):
                self._failed(event["error"])
            elif event.get("event") == "worker_output":
                self._output(f"{event.get('group')}: {event.get('text')}")
            elif (known := event_of(event)) is not None:
                self._event(known)

    def due(self, everything: bool = False) -> list[Recorded]:
        """What is to be recorded now; with `everything` (at the end) what waits, however short the time."""
        with self._lock:
            at, found = self._clock(), []
            for name, tally in self._tallies.items():
                waited = tally.recorded_at is None or at - tally.recorded_at >= self._every
                if tally.pending and (everything or waited):
                    found.append(self._record(name, tally))
                    tally.settle(at)
            return found

    def lines(self) -> list[tuple[int, str]]:
        """(logging level, text) for the run's log, at most `LINES` in `every` seconds."""
        with self._lock:
            found = list(self._lines)
            self._lines.clear()
            at = self._clock()
            if at - max(self._heard, self._complained) >= QUIET_SECONDS:
                self._complained = at
                found.append((logging.WARNING, f"no event for {at - self._heard:.0f} s"))
            if at - self._refilled >= self._every:
                self._room, self._refilled = LINES, at
                if self._left_out:
                    found.append((logging.INFO, f"{self._left_out:,} more lines were skipped here"))
                    self._left_out = 0
            return found

    def summary(self) -> dict[str, Any]:
        """Totals of the run by asset, for its end."""
        with self._lock:
            return {name: _plain(tally.totals) for name, tally in self._tallies.items() if tally.totals}

    def _event(self, event: Event) -> None:
        match event:
            case BatchCommitted():
                outcomes = {"on time": event.on_time, "late": event.late, "rejected": event.rejected}
                sums = {"rows": event.rows, **outcomes, "batches": 1, "seconds": event.seconds}
                facts = {"watermark": event.watermark, "epoch": event.epoch, "rows": event.total_rows}
                self._add(event.source, sums, facts)
            case SliceCommitted():
                self._slice(event)
            case SinkDelivered():
                if event.rows or event.amended:
                    sums = {"rows": event.rows, "seconds": event.seconds}
                    if event.amended:
                        sums["amended windows"] = event.amended
                    self._add(event.sink, sums, {"connector": event.connector})
            case WorkerFailed():
                self._failed(event.to_dict())
            case _:
                for level, text in _told(event):
                    self._say(level, text)

    def _slice(self, event: SliceCommitted) -> None:
        tally = self._tallies.get(event.view)
        if tally is None:
            return
        sums = {"slices": 1, "seconds": event.seconds}
        before = tally.facts.get("final result rows")
        if before is not None:
            # The event has the result rows of all time: what is new is the difference. Of the first, nothing is known.
            sums["final result rows"] = max(event.groups - before, 0)
        facts = {
            "frontier": event.frontier,
            "final result rows": event.groups,
            "open result rows": event.open,
        }
        tally.add(sums, facts)

    def _add(self, name: str, sums: Mapping[str, float], facts: Mapping[str, Any]) -> None:
        tally = self._tallies.get(name)
        # What stands behind a WATERMARK(…) or the query of a sink is no asset.
        if tally is not None:
            tally.add(sums, facts)

    def _failed(self, error: dict[str, Any]) -> None:
        self.error = error
        where = f"{error['group']}: " if error.get("group") else ""
        hint = f" ({error['hint']})" if error.get("hint") else ""
        self._say(logging.ERROR, f"{where}{_reason(error.get('code'), error.get('message'))}{hint}")

    def _say(self, level: int, text: str) -> None:
        if self._room:
            self._room -= 1
            self._lines.append((level, text if len(text) <= LONGEST else f"{text[:LONGEST]} …"))
        else:
            self._left_out += 1

    def _record(self, name: str, tally: _Tally) -> Recorded:
        item, key = self._assets[name]
        since = {f"{k} since the last report": v for k, v in _plain(tally.sums).items()}
        totals = {f"{k} of this run": v for k, v in _plain(tally.totals).items()}
        facts = {**tally.facts, **since, **totals}
        if isinstance(item, Sink):
            text = f"{tally.sums['rows']:,} rows delivered"
            if again := tally.sums.get("amended windows"):
                text += f", {again:,} amended windows again"
        elif isinstance(item, View):
            text = f"{facts['final result rows']:,} result rows final, up to {facts['frontier']}"
        else:
            text = f"{tally.sums['rows']:,} rows, watermark {facts['watermark']}"
            lag = self._lag(item, facts["watermark"])
            if lag is not None:
                facts["seconds behind the clock"] = lag
            if tally.recorded:
                return AssetObservation(key, description=as_text(text), metadata=facts)
        # A source is materialized once in a run, by its first commit, so that it counts as there; then it is observed.
        return AssetMaterialization(key, description=as_text(text), metadata=facts)

    def _lag(self, relation: Relation, watermark: str) -> float | None:
        """Seconds from the watermark to the clock; a TIMESTAMP is compared as if it were UTC."""
        kind = relation.watermark.kind if relation.watermark else None
        if kind not in (TimeKind.TIMESTAMP, TimeKind.TIMESTAMPTZ):
            return None
        try:
            return round(self._now().timestamp() - kind.parse(watermark) / 1_000_000, 3)
        except ValueError:
            return None  # "none": there is no watermark yet


def _told(event: Event) -> Iterator[tuple[int, str]]:
    """Lines of the run's log, for what is not about rows. Nothing for what comes with every tick."""
    match event:
        case LiveStarted():
            where = f"; health and metrics on {event.url}" if event.url else ""
            yield logging.INFO, f"started: {', '.join(event.groups)}{where}"
        case WorkerSpawned() if event.restarts:
            yield logging.WARNING, f"{event.group}: restart {event.restarts}, process {event.pid}"
        case WorkerStarted():
            yield (
                logging.INFO,
                f"{event.group}: process {event.pid} keeps {', '.join(event.names)} up to date",
            )
        case MemberFailed():
            again = f"try {event.attempt} failed, next in {event.retry_seconds:.0f} s"
            reason = _reason(event.code, event.message)
            yield logging.WARNING, f"{event.kind} {event.name}: {again}: {reason}"
        case MemberRecovered():
            yield logging.INFO, f"{event.kind} {event.name}: works again after {event.attempts} failures"
        case WorkerExited() if event.exit_code and event.restart_seconds is not None:
            yield logging.WARNING, f"{event.group}: {event.why}; again in {event.restart_seconds:.0f} s"
        case WorkerExited() if event.exit_code:
            yield logging.ERROR, f"{event.group}: {event.why}"
        case WorkerStopping():
            yield logging.INFO, f"{event.group}: stops after {event.ticks:,} ticks: {event.why}"
        case LiveStopped(failed=failed) if failed:
            yield logging.ERROR, f"given up: {', '.join(failed)}"


def _reason(code: Any, message: Any) -> str:
    return f"{code}: {message}" if code else str(message)


def _plain(sums: Mapping[str, float]) -> dict[str, float]:
    return {k: round(v, 3) if isinstance(v, float) else v for k, v in sums.items()}
