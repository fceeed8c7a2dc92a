"""Sensors of live runs: one keeps those of Dagster running, one observes those that somebody else has started.

Neither needs a JVM: the first asks Dagster about runs, the second reads Iceberg metadata.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from dagster import (
    AssetKey,
    AssetMaterialization,
    AssetObservation,
    DagsterInstance,
    DagsterRunStatus,
    DefaultSensorStatus,
    JobDefinition,
    RunRecord,
    RunRequest,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    sensor,
)

from tidegate.dagster.live.jobs import ACTIVE, live_job_name
from tidegate.dagster.markdown import as_text
from tidegate.dagster.metadata import partition_table
from tidegate.dagster.naming import identifier
from tidegate.dagster.sensors.lag import utc
from tidegate.plan.pauses import Pauses
from tidegate.project import Project
from tidegate.project.jobs.live import LiveRun, live_members
from tidegate.project.reading.durations import format_duration
from tidegate.store.sinks import SinkStatus
from tidegate.store.status import read_status
from tidegate.store.status_values import RelationStatus, ViewStatus

KEEPER_SECONDS = 30

#: Before a failed run is followed by the next one.
_PAUSES = Pauses(first=30.0, longest=1_800.0)

#: Runs deleted in one tick: each may have thousands of events.
_DELETED_AT_A_TIME = 3
_LOOKED_AT = 10

Clock = Callable[[], datetime]


def keeper_sensor(
    runs: Sequence[LiveRun], jobs: Sequence[JobDefinition], prefix: str, now: Clock = utc
) -> SensorDefinition:
    """Starts every enabled live run that is not running; deletes old ones.

    A run that ended in order, or for which there is none yet, is followed at once; one that failed after a back-off;
    one that somebody has terminated is left alone until somebody launches it again.
    """
    kept = [run for run in runs if run.started_by == "dagster"]

    @sensor(
        name=identifier(f"{prefix}_live_keeper"),
        description="Keeps the enabled live runs of jobs/*.yaml running. Terminate a run to pause it, and "
        "launch it to continue.",
        jobs=list(jobs),
        minimum_interval_seconds=KEEPER_SECONDS,
        default_status=DefaultSensorStatus.RUNNING
        if any(run.enabled for run in kept)
        else DefaultSensorStatus.STOPPED,
    )
    def live_keeper(context: SensorEvaluationContext) -> SensorResult:
        wanted, told = [], []
        for run in kept:
            name = live_job_name(prefix, run)
            if not run.enabled:
                told.append(f"{run.name}: not enabled")
                continue
            start, text = _decide(context.instance, name, now())
            told.append(f"{run.name}: {text}")
            if start:
                wanted.append(RunRequest(job_name=name))
            _forget_old(context.instance, name, now() - timedelta(seconds=run.keep_runs))
        text = " | ".join(told)
        context.log.info(text)
        return SensorResult(run_requests=wanted) if wanted else SensorResult(skip_reason=text)

    return live_keeper


def _decide(instance: DagsterInstance, job_name: str, now: datetime) -> tuple[bool, str]:
    """Whether to start a run, and why."""
    records = instance.get_run_records(RunsFilter(job_name=job_name), limit=_LOOKED_AT)
    if not records:
        return True, "first run"
    newest = records[0].dagster_run
    if any(record.dagster_run.status in ACTIVE for record in records):
        return False, "running"
    if newest.status == DagsterRunStatus.CANCELED:
        return False, f"run {newest.run_id} was terminated; launch {job_name} to continue"
    if newest.status == DagsterRunStatus.SUCCESS:
        return True, "next run"
    failures = next(
        (n for n, r in enumerate(records) if r.dagster_run.status != DagsterRunStatus.FAILURE), len(records)
    )
    left = _PAUSES.pause(failures, chance=0.0) - (now.timestamp() - _ended(records[0]))
    if left > 0:
        return False, f"failed {failures} times in a row, next try in {format_duration(left)}"
    return True, f"next try after {failures} failures"


def _ended(record: RunRecord) -> float:
    return record.end_time or record.update_timestamp.timestamp()


def _forget_old(instance: DagsterInstance, job_name: str, before: datetime) -> None:
    old = RunsFilter(job_name=job_name, statuses=[DagsterRunStatus.SUCCESS], updated_before=before)
    for record in instance.get_run_records(old, limit=_DELETED_AT_A_TIME, ascending=True):
        instance.delete_run(record.dagster_run.run_id)


def observer_sensor(
    project: Project, runs: Sequence[LiveRun], keys: Mapping[str, AssetKey], prefix: str
) -> SensorDefinition:
    """Records what a live process that Dagster did not start has committed: at most one event for each asset in a
    tick, and none for what has not changed."""
    observed = [run for run in runs if run.started_by == "outside"]
    catalog = project.catalog()
    names = [name for run in observed for name in live_members(catalog, run)]

    @sensor(
        name=identifier(f"{prefix}_live_observer"),
        description="Records the commits of live processes outside of Dagster, from Iceberg metadata.",
        minimum_interval_seconds=max(KEEPER_SECONDS, min(run.report_every for run in observed)),
        default_status=DefaultSensorStatus.RUNNING
        if any(run.enabled for run in observed)
        else DefaultSensorStatus.STOPPED,
    )
    def live_observer(context: SensorEvaluationContext) -> SensorResult:
        before: dict[str, list[Any]] = json.loads(context.cursor) if context.cursor else {}
        status = read_status(project, names)
        after: dict[str, list[Any]] = {}
        events: list[AssetMaterialization | AssetObservation] = []
        for item in status.all:
            if not item.ran:
                continue
            mark = _mark(item)
            after[item.name] = mark
            old = before.get(item.name)
            if old is None or old[0] != mark[0]:
                events.append(_event(item, keys[item.name], None if old is None else old[1]))
        told = f"{len(events)} of {len(names)} assets have new commits"
        return SensorResult(asset_events=events, skip_reason=told, cursor=json.dumps(after))

    return live_observer


def _mark(item: RelationStatus | ViewStatus | SinkStatus) -> list[Any]:
    """[which commit is the newest, rows by then]."""
    if isinstance(item, SinkStatus):
        return [item.tick, item.delivered]
    # As text: JSON readers elsewhere lose the last digits of a snapshot's number.
    return [str(item.snapshot_id), item.raw if isinstance(item, RelationStatus) else item.groups]


def _event(
    item: RelationStatus | ViewStatus | SinkStatus, key: AssetKey, before: int | None
) -> AssetMaterialization | AssetObservation:
    """`before`: rows when it was last looked at; None at first."""
    if isinstance(item, SinkStatus):
        sums = _fresh("rows", item.delivered, before)
        return AssetMaterialization(
            key, metadata={"connector": item.connector, "delivered rows": item.delivered, **sums}
        )
    if isinstance(item, ViewStatus):
        facts: dict[str, Any] = {
            "frontier": item.frontier_text,
            "final result rows": item.groups,
            "open result rows": item.open,
            **_fresh("final result rows", item.groups, before),
        }
        return AssetMaterialization(
            key, description=as_text(f"final up to {item.frontier_text}"), metadata=facts
        )
    facts = {
        "watermark": item.watermark_text,
        "rows": item.raw,
        "on time": item.on_time,
        "late": item.late,
        "rejected": item.rejected,
        **_fresh("rows", item.raw, before),
    }
    if item.lag is not None:
        facts["seconds behind the clock"] = float(item.lag)
    if item.partitions:
        facts["partitions"] = partition_table(item)
    text = f"{item.raw:,} rows, watermark {item.watermark_text}"
    # As in a live run of Dagster's: materialized once, so that it counts as there, then observed.
    kind = AssetMaterialization if before is None else AssetObservation
    return kind(key, description=as_text(text), metadata=facts)


def _fresh(what: str, now: int, before: int | None) -> dict[str, int]:
    return {} if before is None else {f"{what} since the last report": max(now - before, 0)}
