"""The job that deletes old runs with their events and logs, so that Dagster's storage does not grow for ever."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from dagster import (
    AssetRecordsFilter,
    DagsterEventType,
    DagsterInstance,
    DagsterRun,
    DagsterRunStatus,
    JobDefinition,
    RunRecord,
    RunsFilter,
    ScheduleDefinition,
    in_process_executor,
    job,
    op,
)

from tidegate.dagster.jobs.schedules import started_by
from tidegate.dagster.naming import identifier
from tidegate.project.jobs.maintenance import RunRetention

if TYPE_CHECKING:
    from dagster import AssetCheckKey, AssetKey, EventLogRecord

_PAGE = 100
_KEPT = {DagsterEventType.ASSET_MATERIALIZATION, DagsterEventType.ASSET_CHECK_EVALUATION}


@dataclass(frozen=True)
class Purged:
    """How many runs were deleted, and how many old ones were kept for what they say about an asset."""

    deleted: int
    kept: int


def build_purge(retention: RunRetention, prefix: str) -> tuple[JobDefinition, ScheduleDefinition]:
    """`<prefix>_purge` and its schedule, by `runs:` of jobs/maintenance.yaml."""
    text = "Deletes old runs of this code location with their events and logs. The content of assets is kept."

    @op(name=identifier(f"{prefix}_purge_op"), description=text)
    def delete_old_runs(context) -> None:  # type: ignore[no-untyped-def]  # Dagster reads no hint that is text
        done = purge(context.instance, retention, datetime.now(UTC), _location(context.run))
        context.log.info(
            f"{done.deleted} runs deleted; {done.kept} old runs are kept, because assets show them"
        )

    name = identifier(f"{prefix}_purge")

    @job(name=name, executor_def=in_process_executor, description=text)
    def run() -> None:
        delete_old_runs()

    return run, started_by(f"{name}_schedule", retention, run)


def purge(
    instance: DagsterInstance, retention: RunRetention, now: datetime, location: str | None = None
) -> Purged:
    """Delete the runs of a code location that ended, and began longer ago than `retention` says.

    A run stays, however old, if it is the last one that materialized an asset or a partition of one, or the last that
    evaluated a check: otherwise Dagster would take a partition for missing, and a backfill would do it again.
    """
    latest = _Latest(instance)
    deleted = kept = 0
    for statuses, keep in (
        ([DagsterRunStatus.SUCCESS, DagsterRunStatus.CANCELED], retention.keep),
        ([DagsterRunStatus.FAILURE], retention.keep_failed),
    ):
        before = now - timedelta(seconds=keep)
        for record in list(_ended(instance, statuses, before)):
            run = record.dagster_run
            if _location(run) != location:
                continue
            if latest.needs(run.run_id):
                kept += 1
                continue
            instance.delete_run(run.run_id)
            instance.compute_log_manager.delete_logs(prefix=[run.run_id])
            deleted += 1
    return Purged(deleted, kept)


class _Latest:
    """Which events assets, partitions and checks show; each is asked for once."""

    def __init__(self, instance: DagsterInstance) -> None:
        self._instance = instance
        self._assets: dict[AssetKey, frozenset[str]] = {}
        self._checks: dict[AssetCheckKey, str | None] = {}

    def needs(self, run_id: str) -> bool:
        """Whether one of them is of this run."""
        return any(self._shows(event, run_id) for event in self._events(run_id))

    def _events(self, run_id: str) -> Iterator[EventLogRecord]:
        cursor = None
        while True:
            found = self._instance.get_records_for_run(run_id, cursor=cursor, of_type=_KEPT, limit=_PAGE)
            yield from found.records
            if not found.has_more:
                return
            cursor = found.cursor

    def _shows(self, record: EventLogRecord, run_id: str) -> bool:
        event = record.event_log_entry.dagster_event
        if event is None:
            return False
        if event.event_type is DagsterEventType.ASSET_CHECK_EVALUATION:
            return self._check(event.asset_check_evaluation_data.asset_check_key) == run_id
        assert event.asset_key is not None
        return run_id in self._of_asset(event.asset_key)

    def _of_asset(self, key: AssetKey) -> frozenset[str]:
        """The runs of its newest materialization, and of the newest of each partition."""
        if key not in self._assets:
            newest = self._instance.fetch_materializations(key, limit=1).records
            runs = {record.run_id for record in newest}
            storage = self._instance.event_log_storage
            # Events are numbered by asset; in files those of a run have other numbers. So runs are compared.
            found = storage.get_latest_storage_id_by_partition(key, DagsterEventType.ASSET_MATERIALIZATION)
            for some in _batched(found.values(), _PAGE):
                wanted = AssetRecordsFilter(asset_key=key, storage_ids=some)
                runs |= {r.run_id for r in self._instance.fetch_materializations(wanted, limit=_PAGE).records}
            self._assets[key] = frozenset(runs)
        return self._assets[key]

    def _check(self, key: AssetCheckKey) -> str | None:
        if key not in self._checks:
            found = self._instance.event_log_storage.get_latest_asset_check_execution_by_key([key]).get(key)
            self._checks[key] = found.run_id if found is not None else None
        return self._checks[key]


def _batched(numbers: Iterable[int], size: int) -> Iterator[list[int]]:
    """So many at a time."""
    listed = list(numbers)
    yield from (listed[i : i + size] for i in range(0, len(listed), size))


def _ended(
    instance: DagsterInstance, statuses: list[DagsterRunStatus], before: datetime
) -> Iterator[RunRecord]:
    wanted = RunsFilter(statuses=statuses, created_before=before)
    cursor = None
    while True:
        page = instance.get_run_records(wanted, limit=_PAGE, cursor=cursor)
        yield from page
        if len(page) < _PAGE:
            return
        cursor = page[-1].dagster_run.run_id


def _location(run: DagsterRun) -> str | None:
    origin = run.remote_job_origin
    return None if origin is None else origin.repository_origin.code_location_origin.location_name
