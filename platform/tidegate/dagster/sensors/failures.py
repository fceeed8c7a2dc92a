"""Failed runs, told on the same routes as everything else: once for each job, and again when it works.

A sensor of its own rather than Dagster's run-failure sensor: that one has no cursor of ours, so what a target that is
down did not get would be lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from dagster import (
    AssetKey,
    DagsterEventType,
    DagsterInstance,
    DagsterRun,
    DagsterRunStatus,
    DefaultSensorStatus,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    sensor,
)

from tidegate.alerts import Send, State
from tidegate.alerts.send import send as send_by_apprise
from tidegate.dagster.live.jobs import LIVE_TAG
from tidegate.dagster.naming import identifier
from tidegate.dagster.sensors.lag import INTERVAL_SECONDS, utc
from tidegate.dagster.sensors.stall import notify
from tidegate.findings.model import Finding, iso
from tidegate.project import Project
from tidegate.project.jobs.live import live_members

#: Runs looked at in one tick, runs that are remembered, and jobs that count as failing.
_RUNS, _KNOWN, _JOBS = 200, 400, 50
#: Runs are looked for so much further back than the last one: clocks differ, and commits overtake each other.
_OVERLAP = timedelta(minutes=2)
_ASSET_JOB = "__ASSET_JOB"
_WILL_RETRY = "dagster/will_retry"


def failure_sensor(
    project: Project,
    keys: Mapping[str, AssetKey],
    prefix: str,
    send: Send = send_by_apprise,
    now: Callable[[], datetime] = utc,
) -> SensorDefinition:
    """The sensor; `keys` of all assets, by their names."""
    name = identifier(f"{prefix}_run_failures")
    names = {key: asset for asset, key in keys.items()}

    @sensor(
        name=name,
        description=(
            "Sends alerts for failed runs to the routes in jobs/*.yaml, and reports when a job works again."
        ),
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=DefaultSensorStatus.RUNNING,
    )
    def run_failures(context: SensorEvaluationContext) -> SensorResult:
        at = now()
        first: dict[str, Any] = {"after": at.isoformat(), "known": []}
        cursor: dict[str, Any] = json.loads(context.cursor) if context.cursor else first
        failing: dict[str, dict[str, Any]] = cursor.get("failing", {})
        after, known = datetime.fromisoformat(cursor["after"]), list(cursor["known"])
        wanted = RunsFilter(
            statuses=[DagsterRunStatus.FAILURE, DagsterRunStatus.SUCCESS], updated_after=after - _OVERLAP
        )
        records = context.instance.get_run_records(
            wanted, limit=_RUNS, order_by="update_timestamp", ascending=True
        )
        begun = bool(context.cursor)
        for record in records:
            run = record.dagster_run
            if run.run_id in known:
                continue
            known.append(run.run_id)
            # What failed before the first tick is history.
            if begun and _is_ours(context, run):
                _note(context.instance, project, names, failing, run, record.end_time or at.timestamp())
            after = max(after, record.update_timestamp)
        failing = dict(list(failing.items())[-_JOBS:])
        findings = [_finding(entry, _link(project, entry)) for entry in failing.values()]
        state, lines = notify(project, State.from_json(cursor.get("alerts")), findings, at, name, send)
        for line in lines:
            context.log.info(f"alert: {line}")
        told = {
            "after": after.isoformat(),
            "known": known[-_KNOWN:],
            "failing": failing,
            "alerts": state.to_json(),
        }
        text = [f"{entry['what']}: run {entry['run']} failed" for entry in failing.values()]
        message = " | ".join([*(text or ["no job is failing"]), *(f"alert: {line}" for line in lines)])
        return SensorResult(skip_reason=message, cursor=json.dumps(told))

    return run_failures


def _is_ours(context: SensorEvaluationContext, run: DagsterRun) -> bool:
    """Runs of other code locations have sensors of their own."""
    here, there = context.code_location_origin, run.remote_job_origin
    if here is None or there is None:
        return True
    return there.repository_origin.code_location_origin.location_name == here.location_name


def _note(
    instance: DagsterInstance,
    project: Project,
    names: Mapping[AssetKey, str],
    failing: dict[str, dict[str, Any]],
    run: DagsterRun,
    ended: float,
) -> None:
    """Take a finished run into what is failing."""
    assets = _assets(project, names, run)
    what = f"job {run.job_name}"
    if run.job_name.startswith(_ASSET_JOB):
        what = f"a run of {', '.join(assets) or 'no asset'}"
    if run.status == DagsterRunStatus.SUCCESS:
        failing.pop(what, None)
        # Assets that failed in one run may have been brought up to date by another.
        for key in [
            k for k, entry in failing.items() if entry["assets"] and set(entry["assets"]) <= set(assets)
        ]:
            del failing[key]
        return
    before = failing.pop(what, None)
    failing[what] = {
        "what": what,
        "run": run.run_id,
        "assets": assets,
        "count": (before["count"] if before else 0) + 1,
        "since": before["since"] if before else ended,
        "reason": _reason(instance, run.run_id),
        "will_retry": run.tags.get(_WILL_RETRY) == "true",
    }


def _assets(project: Project, names: Mapping[AssetKey, str], run: DagsterRun) -> list[str]:
    if run.asset_selection:
        return sorted(names.get(key, key.to_user_string()) for key in run.asset_selection)
    live = run.tags.get(LIVE_TAG)
    if live is None:
        return []
    found = next((one for one in project.jobs().live if one.name == live), None)
    return sorted(live_members(project.catalog(), found)) if found is not None else []


def _reason(instance: DagsterInstance, run_id: str) -> str:
    """The first line of why its first step failed, or the run."""
    for kind in (DagsterEventType.STEP_FAILURE, DagsterEventType.RUN_FAILURE):
        records = instance.get_records_for_run(run_id, of_type=kind, limit=1).records
        event = records[0].event_log_entry.dagster_event if records else None
        if event is None:
            continue
        error = getattr(event.event_specific_data, "error", None)
        if error is not None and error.cause is not None:
            error = error.cause
        text = error.message if error is not None else event.message
        lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
        if lines:
            return lines[0][:300]
    return "no reason is recorded"


def _link(project: Project, entry: Mapping[str, Any]) -> str:
    settings = project.jobs().alerts
    base = settings.ui.rstrip("/") if settings is not None and settings.ui else None
    return f"{base}/runs/{entry['run']}" if base else f"run {entry['run']} in Dagster"


def _finding(entry: Mapping[str, Any], link: str) -> Finding:
    times = "" if entry["count"] == 1 else f", {entry['count']} times in a row"
    retry = "; it is tried again" if entry["will_retry"] else ""
    return Finding(
        kind="run_failed",
        severity="warning" if entry["will_retry"] else "error",
        asset=entry["what"],
        text=f"{entry['what']} has failed{times}{retry}: {entry['reason']}",
        advice=f"see {link}; what was committed is kept, and the next run continues from there (R2)",
        since=iso(entry["since"]),
        numbers={"run_id": entry["run"], "failures": entry["count"], "assets": entry["assets"]},
    )
