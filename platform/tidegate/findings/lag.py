"""How far watermarks trail, judged by the thresholds of jobs/*.yaml. Iceberg metadata only: no JVM, no pyspark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegate.project import Project
from tidegate.project.jobs.jobs import Threshold
from tidegate.project.reading.durations import format_duration
from tidegate.sql.catalog.objects import Relation
from tidegate.store.status import read_status
from tidegate.store.status_values import RelationStatus

#: Names in one line of text; the metadata has them all.
_NAMED = 5


@dataclass(frozen=True)
class Lag:
    """Verdict on one source or table. `text`: one line with the facts. `clock_applies`: whether its watermark is
    compared with the wall clock at all: not without a `behind_clock` threshold, and never for a replay of old data
    unless the threshold names it.
    """

    status: RelationStatus
    passed: bool
    text: str
    clock_applies: bool


def read_lags(
    project: Project, thresholds: Sequence[Threshold], names: Sequence[str], now: datetime | None = None
) -> list[Lag]:
    """Verdicts on `names`, which have watermarks. `now` replaces the wall clock (with a time zone).

    Raises TG620 if stored metadata can't be read.
    """
    if not names:
        return []
    catalog = project.catalog()
    verdicts = []
    for status in read_status(project, names, now).relations:
        relation = catalog.get(status.name)
        assert isinstance(relation, Relation)
        verdicts.append(judge(relation, status, thresholds))
    return verdicts


def judge(relation: Relation, status: RelationStatus, thresholds: Sequence[Threshold]) -> Lag:
    """Compare one status with the thresholds that apply; a threshold that names the source wins over `*`."""
    newest, clock = _limits(relation, thresholds)
    clock_applies = clock is not None
    name = status.name
    if not status.ran:
        return Lag(status, True, f"{name}: has not run yet", clock_applies)
    if status.watermark is None:
        waiting = f", waiting for {_names(status.holds_back)}" if status.holds_back else ""
        return Lag(status, True, f"{name}: no watermark yet ({status.raw:,} rows{waiting})", clock_applies)
    facts, broken = [], []
    if status.behind_newest is not None:
        facts.append(f"{format_duration(status.behind_newest)} behind the newest event")
        if newest is not None and status.behind_newest > newest:
            broken.append(f"more than {format_duration(newest)} behind the newest event")
    if clock is not None and status.lag is not None:
        facts.append(f"{format_duration(status.lag)} behind the clock")
        if status.lag > clock:
            broken.append(f"more than {format_duration(clock)} behind the clock")
    text = f"{name}: watermark {status.watermark_text}, {', '.join(facts) or 'an integer column without a time scale'}"
    if status.holds_back:
        text += f"; held back by {_names(status.holds_back)}"
    if broken:
        text += f"; {' and '.join(broken)}"
    elif newest is None and clock is None:
        text += "; no threshold is set"
    return Lag(status, not broken, text, clock_applies)


def _limits(relation: Relation, thresholds: Sequence[Threshold]) -> tuple[int | None, int | None]:
    """(behind_newest, behind_clock) in seconds. `*` does not hold recorded data against today's clock."""
    newest = clock = None
    replayed = relation.connector is not None and relation.connector.connector == "replay"
    for threshold in sorted(thresholds, key=lambda t: t.source != "*"):
        if threshold.source not in ("*", relation.name):
            continue
        newest = threshold.behind_newest if threshold.behind_newest is not None else newest
        if threshold.behind_clock is not None and not (replayed and threshold.source == "*"):
            clock = threshold.behind_clock
    return newest, clock


def _names(partitions: Sequence[str]) -> str:
    shown = ", ".join(p or "(one without a name)" for p in partitions[:_NAMED])
    more = len(partitions) - _NAMED
    return f"{shown} and {more} more" if more > 0 else shown
