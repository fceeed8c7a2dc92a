"""Jobs and schedules, from jobs/*.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster import (
    AssetCheckKey,
    AssetKey,
    AssetSelection,
    DefaultScheduleStatus,
    JobDefinition,
    OpExecutionContext,
    ScheduleDefinition,
    define_asset_job,
    in_process_executor,
)

from tidegate.dagster.jobs.one_op import job_of
from tidegate.dagster.markdown import as_text
from tidegate.dagster.naming import identifier
from tidegate.project.jobs.jobs import Cleanup, Schedule, Times
from tidegate.project.jobs.maintenance import UpkeepSchedule
from tidegate.project.selection import covered
from tidegate.sql.catalog.catalog import Catalog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

    from tidegate.runtime.steps import Steps
    from tidegate.session.session import Session

#: Where jobs/ says nothing: everything, every hour, a few minutes in. To be switched on in Dagster.
DEFAULT_SCHEDULE = Schedule(name="hourly", cron="7 * * * *", timezone="UTC", select="*", enabled=False)


def catch_up_job(
    keys: dict[str, AssetKey], prefix: str, apart: Sequence[AssetCheckKey] = ()
) -> UnresolvedAssetJobDefinition:
    """`<prefix>_catch_up`: everything, in one process on one JVM. `apart`: checks that have a job of their own."""
    text = "Brings every source, table, view and sink up to date."
    return _job(f"{prefix}_catch_up", list(keys.values()), text, apart)


def build_schedules(
    schedules: tuple[Schedule, ...],
    catalog: Catalog,
    keys: dict[str, AssetKey],
    prefix: str,
    everything: UnresolvedAssetJobDefinition,
    apart: Sequence[AssetCheckKey] = (),
) -> list[ScheduleDefinition]:
    """One for each schedule of jobs/*.yaml, named as there; the hourly default if there is none. `everything` is
    the job of those that select `*`. `apart`: checks that have a job of their own.

    `enabled: true` runs as soon as it is deployed; the others, and the default, are switched on in Dagster.
    """
    if not schedules:
        default = DEFAULT_SCHEDULE.model_copy(
            update={"name": identifier(f"{prefix}_{DEFAULT_SCHEDULE.name}")}
        )
        return [schedule_for(default, everything)]
    result = []
    for schedule in schedules:
        if schedule.select == "*":
            result.append(schedule_for(schedule, everything))
        else:
            chosen = [keys[name] for name in covered(catalog, schedule.select)]
            names = ", ".join(covered(catalog, schedule.select))
            text = as_text(f"Brings {names} up to date.")
            result.append(schedule_for(schedule, _job(f"{prefix}_{schedule.name}", chosen, text, apart)))
    return result


def build_cleanups(cleanups: tuple[Cleanup, ...], prefix: str, resource_key: str) -> list[ScheduleDefinition]:
    """One for each cleanup of jobs/*.yaml, named as there, with a job of its own (T2)."""
    return [schedule_for(cleanup, _cleanup_job(cleanup, prefix, resource_key)) for cleanup in cleanups]


def _cleanup_job(cleanup: Cleanup, prefix: str, resource_key: str) -> JobDefinition:
    names = None if cleanup.select == "*" else list(cleanup.select)
    text = "Deletes expired rows of tables WITH TTL that no view needs any more (T2, T3), and compacts files."

    def clean(context: OpExecutionContext, session: Session, steps: Steps) -> None:
        for done in session.cleanup(names, steps=steps):
            files = f"{done.files_before} files before, {done.files_after} after"
            context.log.info(f"{done.table}: {files}")

    return job_of(f"{prefix}_{cleanup.name}", resource_key, text, clean)


def upkeep_job(prefix: str, resource_key: str) -> JobDefinition:
    """`<prefix>_upkeep`: `tidegate upkeep` over everything that has a table."""
    text = (
        "Compacts small files, expires old snapshots, deletes rows beyond their retention, "
        "and removes orphan files."
    )

    def keep_up(context: OpExecutionContext, session: Session, steps: Steps) -> None:
        from tidegate.maintenance.upkeep import maintain_all

        reports = maintain_all(session, steps=steps, orphans=True, notify=context.log.debug)
        for done in (table for report in reports for table in report.tables):
            files, snapshots = (" → ".join(map(str, pair)) for pair in (done.files, done.snapshots))
            context.log.info(
                f"{done.table}: files {files}, snapshots {snapshots}, {done.retired:,} rows retired"
            )
            for note in done.notes:
                context.log.warning(f"{done.table}: {note}")

    return job_of(f"{prefix}_upkeep", resource_key, text, keep_up)


def build_upkeep(
    schedule: UpkeepSchedule | None, prefix: str, upkeep: JobDefinition
) -> list[ScheduleDefinition]:
    """The schedule of jobs/maintenance.yaml, if there is one: `<prefix>_<its name>`."""
    if schedule is None:
        return []
    return [
        schedule_for(schedule.model_copy(update={"name": identifier(f"{prefix}_{schedule.name}")}), upkeep)
    ]


def _job(
    name: str, keys: list[AssetKey], description: str, apart: Sequence[AssetCheckKey]
) -> UnresolvedAssetJobDefinition:
    selection = AssetSelection.assets(*keys)
    without = [check for check in apart if check.asset_key in keys]
    # The multiprocess executor would pay for a JVM per step.
    return define_asset_job(
        identifier(name),
        selection=selection - AssetSelection.checks(*without) if without else selection,
        executor_def=in_process_executor,
        description=description,
    )


def started_by(
    name: str, times: Times, started: UnresolvedAssetJobDefinition | JobDefinition
) -> ScheduleDefinition:
    """A schedule of a job."""
    return ScheduleDefinition(
        name=name,
        job=started,
        cron_schedule=times.cron,
        execution_timezone=times.timezone,
        default_status=DefaultScheduleStatus.RUNNING if times.enabled else DefaultScheduleStatus.STOPPED,
    )


def schedule_for(
    schedule: Schedule, started: UnresolvedAssetJobDefinition | JobDefinition
) -> ScheduleDefinition:
    return started_by(schedule.name, schedule, started)
