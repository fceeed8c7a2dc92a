"""The watermark-lag sensor: reads Iceberg metadata in the sensor's own process, without a JVM and without a run.

For each source and table with a watermark it evaluates the asset check `watermark_lag`, so that the verdict stands
with the asset, colours the lineage and can be alerted on; the tick itself carries the facts as its message. An
evaluation is recorded when the verdict changes or the log has a new commit, not every minute.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
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
from tidegate.dagster.lag import Lag, read_lags
from tidegate.dagster.naming import identifier
from tidegate.project import Project

if TYPE_CHECKING:
    from dagster import AssetChecksDefinition

INTERVAL_SECONDS = 60


def lag_sensor(project: Project, keys: dict[str, AssetKey], prefix: str) -> SensorDefinition:
    """The sensor over `keys` (names of sources and tables with a watermark, to their assets)."""

    @sensor(
        name=identifier(f"{prefix}_watermark_lag"),
        description="Evaluates the check watermark_lag from Iceberg metadata, against the thresholds of jobs/*.yaml.",
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=DefaultSensorStatus.RUNNING,
    )
    def watermark_lag(context: SensorEvaluationContext) -> SensorResult:
        lags = _lags(project, list(keys))
        seen = json.loads(context.cursor) if context.cursor else {}
        now = {lag.status.name: [str(lag.status.snapshot_id), lag.passed] for lag in lags}
        for lag in lags:
            (context.log.info if lag.passed else context.log.warning)(lag.text)
        fresh = [lag for lag in lags if lag.status.ran and seen.get(lag.status.name) != now[lag.status.name]]
        return SensorResult(
            asset_events=[_evaluation(lag, keys[lag.status.name]) for lag in fresh],
            skip_reason=_message(lags),
            cursor=json.dumps(now),
        )

    return watermark_lag


def lag_checks(project: Project, keys: dict[str, AssetKey], prefix: str) -> AssetChecksDefinition:
    """The same checks to be launched by hand, or with a run; they start no JVM either."""

    @multi_asset_check(
        name=identifier(f"{prefix}_watermark_lag_check"),
        specs=[watermark_lag_spec(key) for key in keys.values()],
        can_subset=True,
    )
    def watermark_lag(context) -> Iterator[AssetCheckResult]:
        selected = {check.asset_key for check in context.selected_asset_check_keys}
        for lag in _lags(project, [name for name, key in keys.items() if key in selected]):
            context.log.info(lag.text)
            yield AssetCheckResult(
                passed=lag.passed,
                asset_key=keys[lag.status.name],
                check_name=WATERMARK_LAG,
                severity=AssetCheckSeverity.WARN,
                description=lag.text,
                metadata=lag_metadata(lag),
            )

    return watermark_lag


def _lags(project: Project, names: list[str]) -> list[Lag]:
    # Read each time: operators change thresholds without a deployment.
    return read_lags(project, project.jobs().thresholds, names)


def _evaluation(lag: Lag, key: AssetKey) -> AssetCheckEvaluation:
    return AssetCheckEvaluation(
        asset_key=key,
        check_name=WATERMARK_LAG,
        passed=lag.passed,
        severity=AssetCheckSeverity.WARN,
        description=lag.text,
        metadata=lag_metadata(lag),
    )


def _message(lags: Sequence[Lag]) -> str:
    """What the tick shows: alarms first."""
    if not lags:
        return "no source or table has a watermark"
    ordered = sorted(lags, key=lambda lag: lag.passed)
    return " | ".join(("" if lag.passed else "LAGGING ") + lag.text for lag in ordered)
