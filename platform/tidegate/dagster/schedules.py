"""Jobs and schedules, from jobs/*.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster import (
    AssetKey,
    AssetSelection,
    DefaultScheduleStatus,
    JobDefinition,
    ScheduleDefinition,
    define_asset_job,
    in_process_executor,
    job,
    op,
)

from tidegate.dagster.naming import identifier
from tidegate.project.jobs import Cleanup, Schedule
from tidegate.project.maintenance import UpkeepSchedule
from tidegate.sql.catalog import Catalog
from tidegate.sql.lineage import computed, reads_of

if TYPE_CHECKING:
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

#: Where jobs/ says nothing: everything, every hour, a few minutes in. To be switched on in Dagster.
DEFAULT_SCHEDULE = Schedule(name="hourly", cron="7 * * * *", timezone="UTC", select="*", enabled=False)


def catch_up_job(keys: dict[str, AssetKey], prefix: str) -> UnresolvedAssetJobDefinition:
    """`<prefix>_catch_up`: everything, in one process on one JVM."""
    return _job(
        f"{prefix}_catch_up", list(keys.values()), "Brings every source, table, view and sink up to date."
    )


def build_schedules(
    schedules: tuple[Schedule, ...],
    catalog: Catalog,
    keys: dict[str, AssetKey],
    prefix: str,
    everything: UnresolvedAssetJobDefinition,
) -> list[ScheduleDefinition]:
    """One for each schedule of jobs/*.yaml, named as there; the hourly default if there is none. `everything` is
    the job of those that select `*`.

    `enabled: true` runs as soon as it is deployed; the others, and the default, are switched on in Dagster.
    """
    if not schedules:
        default = DEFAULT_SCHEDULE.model_copy(
            update={"name": identifier(f"{prefix}_{DEFAULT_SCHEDULE.name}")}
        )
        return [_schedule(default, everything)]
    result = []
    for schedule in schedules:
        if schedule.select == "*":
            result.append(_schedule(schedule, everything))
        else:
            chosen = [keys[name] for name in covered(catalog, schedule.select)]
            text = (
                f"Brings {', '.join(schedule.select)} up to date, with the views over them and their sinks."
            )
            result.append(_schedule(schedule, _job(f"{prefix}_{schedule.name}", chosen, text)))
    return result


def build_cleanups(cleanups: tuple[Cleanup, ...], prefix: str, resource_key: str) -> list[ScheduleDefinition]:
    """One for each cleanup of jobs/*.yaml, named as there, with a job of its own (T2)."""
    return [_schedule(cleanup, _cleanup_job(cleanup, prefix, resource_key)) for cleanup in cleanups]


def _cleanup_job(cleanup: Cleanup, prefix: str, resource_key: str) -> JobDefinition:
    names = None if cleanup.select == "*" else list(cleanup.select)
    text = "Deletes expired rows of tables WITH TTL that no view needs any more (T2, T3), and tidies files."

    @op(
        name=identifier(f"{prefix}_{cleanup.name}_op"),
        required_resource_keys={resource_key},
        description=text,
    )
    def clean(context) -> None:
        # Not annotated: Dagster cannot read a hint that `from __future__ import annotations` made text of.
        for done in getattr(context.resources, resource_key).session.cleanup(names):
            files = f"{done.files_before} files before, {done.files_after} after"
            context.log.info(f"{done.table}: {files}")

    @job(name=identifier(f"{prefix}_{cleanup.name}"), executor_def=in_process_executor, description=text)
    def run() -> None:
        clean()

    return run


def upkeep_job(prefix: str, resource_key: str) -> JobDefinition:
    """`<prefix>_upkeep`: `tidegate upkeep` over everything that has a table."""
    text = "Puts small files together, forgets old snapshots, deletes rows beyond their retention and unknown files."

    @op(name=identifier(f"{prefix}_upkeep_op"), required_resource_keys={resource_key}, description=text)
    def keep_up(context) -> None:
        # Not annotated: Dagster cannot read a hint that `from __future__ import annotations` made text of.
        from tidegate.engine.upkeep import maintain_all

        session = getattr(context.resources, resource_key).session
        for report in maintain_all(session, orphans=True, tell=context.log.debug):
            for done in report.tables:
                files, snapshots = (" → ".join(map(str, pair)) for pair in (done.files, done.snapshots))
                context.log.info(
                    f"{done.table}: files {files}, snapshots {snapshots}, {done.retired:,} rows retired"
                )
                for note in done.notes:
                    context.log.warning(f"{done.table}: {note}")

    @job(name=identifier(f"{prefix}_upkeep"), executor_def=in_process_executor, description=text)
    def run() -> None:
        keep_up()

    return run


def build_upkeep(
    schedule: UpkeepSchedule | None, prefix: str, upkeep: JobDefinition
) -> list[ScheduleDefinition]:
    """The schedule of jobs/maintenance.yaml, if there is one: `<prefix>_<its name>`."""
    if schedule is None:
        return []
    return [_schedule(schedule.model_copy(update={"name": identifier(f"{prefix}_{schedule.name}")}), upkeep)]


def covered(catalog: Catalog, select: list[str]) -> list[str]:
    """`select`, the views over it and the sinks of all these, in the order of computation: a source brings them up to
    date, too."""
    chosen = {name.casefold() for name in select}
    wanted: dict[str, None] = {}
    for item in computed(catalog):
        if item.name.casefold() in chosen or any(source.name in wanted for source in reads_of(catalog, item)):
            wanted[item.name] = None
    return list(wanted)


def _job(name: str, keys: list[AssetKey], description: str) -> UnresolvedAssetJobDefinition:
    # The multiprocess executor would pay for a JVM per step.
    return define_asset_job(
        identifier(name),
        selection=AssetSelection.assets(*keys),
        executor_def=in_process_executor,
        description=description,
    )


def _schedule(
    schedule: Schedule, started: UnresolvedAssetJobDefinition | JobDefinition
) -> ScheduleDefinition:
    return ScheduleDefinition(
        name=schedule.name,
        job=started,
        cron_schedule=schedule.cron,
        execution_timezone=schedule.timezone,
        default_status=DefaultScheduleStatus.RUNNING if schedule.enabled else DefaultScheduleStatus.STOPPED,
    )
