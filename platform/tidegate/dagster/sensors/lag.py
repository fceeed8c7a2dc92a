"""The watermark-lag sensor: reads Iceberg metadata in the sensor's own process, without a JVM and without a run.

For each source and table with a watermark it evaluates the asset check `watermark_lag`, so that the verdict stands
with the asset, colours the lineage and can be alerted on; the tick itself carries the facts as its message. An
evaluation is recorded when the verdict changes, the log has a new commit, or Dagster a new materialization (for it
shows no evaluation that is older than that), not every minute.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dagster import (
    AssetCheckEvaluation,
    AssetCheckResult,
    AssetCheckSeverity,
    AssetKey,
    DefaultSensorStatus,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    multi_asset_check,
    sensor,
)

from tidegate.dagster.checks import WATERMARK_LAG, lag_metadata, watermark_lag_spec
from tidegate.dagster.markdown import as_text
from tidegate.dagster.naming import identifier
from tidegate.findings.lag import Lag, read_lags
from tidegate.project import Project

if TYPE_CHECKING:
    from dagster import AssetChecksDefinition, DagsterInstance

INTERVAL_SECONDS = 60


def utc() -> datetime:
    """The clock of sensors, where a test gives no other."""
    return datetime.now(UTC)


def lag_sensor(project: Project, keys: dict[str, AssetKey], prefix: str) -> SensorDefinition:
    """The sensor over `keys` (names of sources and tables with a watermark, to their assets)."""

    @sensor(
        name=identifier(f"{prefix}_watermark_lag"),
        description="Evaluates the check watermark_lag from Iceberg metadata, against the thresholds of jobs/*.yaml.",
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=DefaultSensorStatus.RUNNING,
    )
    def watermark_lag(context: SensorEvaluationContext) -> SensorResult:
        materialized = last_materializations(context.instance, keys)
        lags = _lags(project, list(keys))
        seen = json.loads(context.cursor) if context.cursor else {}
        now = {
            lag.status.name: [str(lag.status.snapshot_id), lag.passed, materialized[lag.status.name]]
            for lag in lags
        }
        for lag in lags:
            (context.log.info if lag.passed else context.log.warning)(lag.text)
        fresh = [lag for lag in lags if lag.status.ran and seen.get(lag.status.name) != now[lag.status.name]]
        return SensorResult(
            asset_events=[_evaluation(lag, keys[lag.status.name]) for lag in fresh],
            skip_reason=_message(lags),
            cursor=json.dumps(now),
        )

    return watermark_lag


def last_materializations(instance: DagsterInstance, keys: Mapping[str, AssetKey]) -> dict[str, int | None]:
    """The storage id of the latest materialization of each asset, None before the first: one query for all.

    Dagster takes a check for not evaluated while its latest evaluation is older than this, whatever it said. A tick in
    the middle of a run is: it has seen the commit, and the run records the materialization after it.
    """
    entries = [record.asset_entry for record in instance.get_asset_records(list(keys.values()))]
    found = {entry.asset_key: entry.last_materialization_storage_id for entry in entries}
    return {name: found.get(key) for name, key in keys.items()}


def lag_checks(project: Project, keys: dict[str, AssetKey], prefix: str) -> AssetChecksDefinition:
    """The same checks to be launched by hand, or with a run; they start no JVM either."""

    @multi_asset_check(
        name=identifier(f"{prefix}_watermark_lag_check"),
        specs=[watermark_lag_spec(key) for key in keys.values()],
        can_subset=True,
    )
    def watermark_lag(context) -> Iterator[AssetCheckResult]:  # type: ignore[no-untyped-def]  # Dagster reads no hint that is text
        selected = {check.asset_key for check in context.selected_asset_check_keys}
        for lag in _lags(project, [name for name, key in keys.items() if key in selected]):
            context.log.info(lag.text)
            yield as_result(_evaluation(lag, keys[lag.status.name]))

    return watermark_lag


def as_result(evaluation: AssetCheckEvaluation) -> AssetCheckResult:
    """What a sensor reports as the result of a check that was launched."""
    return AssetCheckResult(
        passed=evaluation.passed,
        asset_key=evaluation.asset_key,
        check_name=evaluation.check_name,
        severity=evaluation.severity,
        description=evaluation.description,
        metadata=evaluation.metadata,
    )


def _lags(project: Project, names: list[str]) -> list[Lag]:
    # Read each time: operators change thresholds without a deployment.
    return read_lags(project, project.jobs().thresholds, names)


def _evaluation(lag: Lag, key: AssetKey) -> AssetCheckEvaluation:
    return AssetCheckEvaluation(
        asset_key=key,
        check_name=WATERMARK_LAG,
        passed=lag.passed,
        severity=AssetCheckSeverity.WARN,
        description=as_text(lag.text),
        metadata=lag_metadata(lag),
    )


def _message(lags: Sequence[Lag]) -> str:
    """What the tick shows: alarms first."""
    if not lags:
        return "no source or table has a watermark"
    ordered = sorted(lags, key=lambda lag: lag.passed)
    return " | ".join(("" if lag.passed else "LAGGING ") + lag.text for lag in ordered)
