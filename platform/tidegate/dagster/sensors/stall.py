"""The sensor and the check `watermark_stall`: why windows of an asset are not closed, and whom to tell.

One look in a tick: stored metadata, brokers and locks, no JVM. Of each source, table with a watermark, and view it
evaluates the check when the causes change, or the asset was materialized; then it sends what is to be told (`alerts:`
of jobs/*.yaml). What the next tick needs to know (since when a cause holds, what has been told, what a target that is
down still gets) is its cursor. What the sensor of `lag.py` has in common with it stands there; they are two because the
lag is measured with every commit, even while brokers cannot be reached, and the causes are not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from dagster import (
    AssetCheckEvaluation,
    AssetCheckResult,
    AssetCheckSeverity,
    AssetCheckSpec,
    AssetKey,
    DefaultSensorStatus,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    multi_asset_check,
    sensor,
)

from tidegate.alerts import Send, State, deliver, plan
from tidegate.alerts.journal import write_journal
from tidegate.alerts.send import send as send_by_apprise
from tidegate.dagster.markdown import as_text
from tidegate.dagster.metadata import table
from tidegate.dagster.naming import identifier
from tidegate.dagster.sensors.lag import INTERVAL_SECONDS, as_result, last_materializations, utc
from tidegate.errors import TidegateError
from tidegate.findings import EarlierLooks, Finding, LookResult, look
from tidegate.findings.model import rank
from tidegate.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable

    from dagster import AssetChecksDefinition

WATERMARK_STALL = "watermark_stall"

#: Before the first tick: what holds then may have begun just now.
_FIRST = EarlierLooks(looks=1)

_COLUMNS = dict.fromkeys(("cause", "severity", "partition", "what", "waits", "since", "what to do"), "string")


def stall_sensor(
    project: Project,
    keys: Mapping[str, AssetKey],
    prefix: str,
    send: Send = send_by_apprise,
    now: Callable[[], datetime] = utc,
) -> SensorDefinition:
    """The sensor over `keys` (names of sources and tables with a watermark, of views and of sinks, to their
    assets)."""
    name = identifier(f"{prefix}_watermark_stall")

    @sensor(
        name=name,
        description=(
            "Shows why windows are not closed: evaluates watermark_stall, and sends the alerts "
            "of jobs/*.yaml."
        ),
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=DefaultSensorStatus.RUNNING,
    )
    def watermark_stall(context: SensorEvaluationContext) -> SensorResult:
        cursor = json.loads(context.cursor) if context.cursor else {}
        memory = EarlierLooks.from_json(cursor["memory"]) if "memory" in cursor else _FIRST
        materialized = last_materializations(context.instance, keys)
        at = now()
        state = State.from_json(cursor.get("alerts"))
        try:
            seen = look(project, memory=memory, now=at)
        except TidegateError as error:
            # Who can't look says so, on the same routes: a failed tick alone would tell nobody.
            context.log.error(str(error))
            state, lines = notify(project, state, [_blind(project, keys, error)], at, name, send)
            return _blind_result(error, lines, cursor, memory, state)
        told = [f for f in seen.findings if rank(f.severity) > 0]
        for finding in told:
            context.log.warning(f"{finding.severity} {finding.kind}: {finding.text}")
        verdicts = {n: _verdict(seen.of(n)) for n in keys if _has_run(seen, n)}
        before, since = cursor.get("verdicts", {}), cursor.get("materialized", {})
        changed = [
            n
            for n, verdict in verdicts.items()
            if before.get(n) != verdict or since.get(n) != materialized[n]
        ]
        state, lines = notify(project, state, seen.findings, at, name, send)
        for line in lines:
            context.log.info(f"alert: {line}")
        after = {"memory": seen.memory.to_json(), "verdicts": verdicts, "materialized": materialized}
        after |= {"alerts": state.to_json()}
        return SensorResult(
            asset_events=[_evaluation(seen, n, keys[n]) for n in changed],
            skip_reason=_message(seen, lines),
            cursor=json.dumps(after),
        )

    return watermark_stall


def _blind(project: Project, keys: Mapping[str, AssetKey], error: TidegateError) -> Finding:
    return Finding(
        kind="unreachable",
        severity="error",
        asset=project.name,
        text=f"{project.name}: what is stored can't be read: {error.code}: {error.message}",
        advice=error.hint or "see the tick of the sensor; docs/errors.md explains the code",
        numbers={"assets": sorted(keys)},
    )


def _blind_result(
    error: TidegateError, lines: Sequence[str], cursor: Mapping[str, Any], memory: EarlierLooks, state: State
) -> SensorResult:
    """What a tick says that could not look; what was seen before is remembered."""
    text = [f"ERROR unreachable: {error.code}: {error.message}", *(f"alert: {line}" for line in lines)]
    after = {
        "memory": memory.to_json(),
        "verdicts": cursor.get("verdicts", {}),
        "materialized": cursor.get("materialized", {}),
        "alerts": state.to_json(),
    }
    return SensorResult(skip_reason=" | ".join(text), cursor=json.dumps(after))


def notify(
    project: Project, state: State, findings: Sequence[Finding], now: datetime, sensor_name: str, send: Send
) -> tuple[State, tuple[str, ...]]:
    """Plan and deliver, and leave a word for `tidegate alerts status`. What has happened, in lines."""
    # Read each time: operators change routes without a deployment.
    settings = project.jobs().alerts
    if settings is None:
        return State(), ()
    planned = plan(settings, state, findings, now, f"{project.name}/{project.env_name}")
    if settings.dry_run:
        lines = tuple(f"dry run, to {m.target}: {m.title}" for m in planned.outbox)
        done, told = State(planned.open, (), {}), lines
    else:
        delivery = deliver(settings, planned, send, now)
        done, told = delivery.state, delivery.lines
    write_journal(project, sensor_name, done, now)
    return done, told


def stall_checks(project: Project, keys: Mapping[str, AssetKey], prefix: str) -> AssetChecksDefinition:
    """The same checks to be launched by hand, or with a run; they start no JVM and send nothing."""

    @multi_asset_check(
        name=identifier(f"{prefix}_watermark_stall_check"),
        specs=[watermark_stall_spec(key) for key in keys.values()],
        can_subset=True,
    )
    def watermark_stall(context) -> Iterator[AssetCheckResult]:  # type: ignore[no-untyped-def]  # Dagster reads no hint that is text
        selected = {check.asset_key for check in context.selected_asset_check_keys}
        names = [name for name, key in keys.items() if key in selected]
        seen = look(project, names)
        for name in names:
            event = _evaluation(seen, name, keys[name])
            context.log.info(event.description or "")
            yield as_result(event)

    return watermark_stall


def watermark_stall_spec(key: AssetKey) -> AssetCheckSpec:
    """For a source or table with a watermark, a view, or a sink."""
    return AssetCheckSpec(
        WATERMARK_STALL,
        asset=key,
        description="Only time keeps its windows open, and sinks have delivered everything that is "
        "final; otherwise: the causes with their numbers, which windows wait, since when, "
        "and what to do. Reads stored metadata, brokers and locks only.",
    )


def _evaluation(seen: LookResult, name: str, key: AssetKey) -> AssetCheckEvaluation:
    findings = seen.of(name)
    passed = all(rank(f.severity) == 0 for f in findings)
    error = any(f.severity == "error" for f in findings)
    facts: dict[str, Any] = {"findings": len(findings)}
    if findings:
        facts["causes"] = table(_COLUMNS, [_row(f) for f in findings])
    return AssetCheckEvaluation(
        asset_key=key,
        check_name=WATERMARK_STALL,
        passed=passed,
        severity=AssetCheckSeverity.ERROR if error else AssetCheckSeverity.WARN,
        description=as_text(" | ".join(f.text for f in findings[:3]) or f"{name}: {_well(seen, name)}"),
        metadata=facts,
    )


def _well(seen: LookResult, name: str) -> str:
    sinks = {sink.status.name for sink in seen.facts.sinks}
    return "no rows wait to be delivered" if name in sinks else "nothing keeps its windows open"


def _row(finding: Finding) -> dict[str, Any]:
    return {
        "cause": finding.kind,
        "severity": finding.severity,
        "partition": finding.partition or "",
        "what": finding.text,
        "waits": "; ".join(f"{w.view}: window_end {w.window_end}" for w in finding.waiting),
        "since": finding.since or "",
        "what to do": finding.advice,
    }


def _verdict(findings: Sequence[Finding]) -> list[str]:
    """What has to change for a new evaluation. Not the numbers: they change all the time."""
    return sorted(f"{f.severity} {f.key}" for f in findings if rank(f.severity) > 0)


def _has_run(seen: LookResult, name: str) -> bool:
    if seen.of(name):
        return True
    facts = seen.facts
    found = [one.status for group in (facts.sources, facts.views, facts.sinks) for one in group]
    return any(status.ran for status in found if status.name == name)


def _message(seen: LookResult, lines: Sequence[str]) -> str:
    """What the tick shows: the worst first, then what was sent."""
    told = [f"{f.severity.upper()} {f.kind}: {f.text}" for f in seen.findings if rank(f.severity) > 0]
    shown = told or [f.text for f in seen.findings] or ["nothing keeps windows open"]
    return " | ".join([*shown, *(f"alert: {line}" for line in lines)])
