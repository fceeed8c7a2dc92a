"""A tidegate project as Dagster definitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dagster import Definitions, in_process_executor

from tidegate.dagster.assets import build_assets
from tidegate.dagster.jobs.amendments import build_amendments
from tidegate.dagster.jobs.purge import build_purge
from tidegate.dagster.jobs.rebuild import rebuild_job
from tidegate.dagster.jobs.schedules import (
    build_cleanups,
    build_schedules,
    build_upkeep,
    catch_up_job,
    upkeep_job,
)
from tidegate.dagster.live.jobs import build_live_jobs, live_jobs_of_families
from tidegate.dagster.naming import identifier
from tidegate.dagster.partitions import build_closed, closed_of, closed_sensor
from tidegate.dagster.quality import closed_checks, quality_checks, quality_job, quality_schedule
from tidegate.dagster.resource import TidegateResource
from tidegate.dagster.sensors.failures import failure_sensor
from tidegate.dagster.sensors.lag import lag_checks, lag_sensor
from tidegate.dagster.sensors.live import keeper_sensor, observer_sensor
from tidegate.dagster.sensors.stall import stall_checks, stall_sensor
from tidegate.dagster.translator import TidegateAsset, TidegateTranslator
from tidegate.findings.look import watched
from tidegate.project import Project
from tidegate.project.expectations import Quality, load_quality
from tidegate.project.jobs.amendments import load_amendments
from tidegate.project.jobs.jobs import Jobs, schedules_of
from tidegate.project.jobs.live_selection import check_live
from tidegate.project.jobs.maintenance import Maintenance, load_maintenance
from tidegate.runtime.stored_gates import with_gate_names
from tidegate.sql.catalog.lineage import computed

if TYPE_CHECKING:
    from dagster import (
        AssetCheckKey,
        AssetChecksDefinition,
        AssetKey,
        JobDefinition,
        ScheduleDefinition,
        SensorDefinition,
    )
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

    from tidegate.sql.catalog.catalog import Catalog


def load_definitions(
    project: Project | Path | str,
    env: str = "local",
    translator: TidegateTranslator | None = None,
    name: str = "tidegate",
    resource: TidegateResource | None = None,
) -> Definitions:
    """Everything that Dagster needs of a project, to be a code location of its own: assets, checks, jobs, schedules,
    the sensor, the resource, and the in-process executor (one JVM for a run).

    `name`: prefix of job, sensor, pool and resource names; choose another for a second project in one code location.
    `resource`: yours instead of a plain `TidegateResource`. Raises `TidegateError` for a project that does not hold.
    """
    definitions = build_definitions(project, env, translator, name, resource)
    return Definitions.merge(definitions, Definitions(executor=in_process_executor))


def build_definitions(
    project: Project | Path | str,
    env: str = "local",
    translator: TidegateTranslator | None = None,
    name: str = "tidegate",
    resource: TidegateResource | None = None,
) -> Definitions:
    """As `load_definitions`, without an executor: to be merged into definitions that have their own.

    Under the multiprocess executor each source runs with its views and checks in one process of its own.
    """
    opened = with_gate_names(project if isinstance(project, Project) else Project.load(project, env))
    translator = translator or TidegateTranslator()
    catalog = opened.catalog()
    jobs = _checked_jobs(opened, catalog)
    maintenance = load_maintenance(opened.root, opened.variables)
    maintenance.check(catalog)
    quality = load_quality(opened.root, catalog, opened.variables)
    # Implicit relations and views run with what they were made for; nobody looks for them in the lineage.
    assets = [TidegateAsset(item, catalog, opened) for item in computed(catalog)]
    if opened.lender is not None:
        return _branch(opened, assets, quality, translator, name, resource)
    keys = {asset.name: translator.get_asset_spec(asset).key for asset in assets}
    resource_key = identifier(name)
    deployed = _Deployment(opened, catalog, jobs, maintenance, keys, name, resource_key)
    # Great Expectations takes longer to be imported than a small batch takes: not in every tick of a schedule.
    judged = quality_checks(assets, keys, quality, name, resource_key)
    apart = [key for checks in judged for key in checks.check_keys]
    asked = [quality_job(judged, name)] if judged else []
    everything, upkeep = catch_up_job(keys, name, apart), upkeep_job(name, resource_key)
    purging = [] if maintenance.content.runs is None else [build_purge(maintenance.content.runs, name)]
    purge_jobs, nightly = [job for job, _ in purging], [schedule for _, schedule in purging]
    schedules = deployed.schedules(everything, upkeep, apart) + nightly
    schedules += deployed.amendments(schedules)
    if asked and jobs.quality is not None:
        schedules.append(quality_schedule(jobs.quality, asked[0], name))
    live = build_live_jobs(jobs.live, catalog, keys, name, resource_key)
    families = live_jobs_of_families(jobs.live, catalog, name)
    closed = closed_of(assets, translator, name)
    rebuilding = rebuild_job(keys, name, resource_key)
    return Definitions(
        assets=[
            *build_assets(assets, translator, name, resource_key, families),
            *(build_closed(closed, translator, name, resource_key) if closed else []),
        ],
        asset_checks=[*deployed.checks(), *judged, *closed_checks(closed, name, resource_key)],
        jobs=[everything, upkeep, rebuilding, *purge_jobs, *live, *asked] if keys else purge_jobs,
        schedules=schedules,
        sensors=[*deployed.sensors(live), *([closed_sensor(closed, name)] if closed else [])],
        resources={resource_key: resource or TidegateResource(project=str(opened.root), env=opened.env_name)},
    )


def _checked_jobs(project: Project, catalog: Catalog) -> Jobs:
    """jobs/*.yaml. Raises TG609 for a name that is not there."""
    watermarked = [r.name for r in catalog.relations if r.watermark is not None]
    keyed = [r.name for r in catalog.relations if r.primary_key]
    jobs = project.jobs()
    jobs.check([o.name for o in computed(catalog)], watermarked, keyed)
    check_live(jobs, catalog)
    return jobs


@dataclass(frozen=True)
class _Deployment:
    """A project that holds, with the keys of its assets by their names; what is made of it in Dagster."""

    project: Project
    catalog: Catalog
    jobs: Jobs
    maintenance: Maintenance
    keys: dict[str, AssetKey]
    name: str
    resource_key: str

    @property
    def gated(self) -> dict[str, AssetKey]:
        """What has a watermark."""
        return {r.name: self.keys[r.name] for r in self.catalog.relations if r.watermark is not None}

    @property
    def watched(self) -> dict[str, AssetKey]:
        """What may wait for something."""
        return {name: self.keys[name] for name in watched(self.catalog)}

    def schedules(
        self,
        everything: UnresolvedAssetJobDefinition,
        upkeep: JobDefinition,
        apart: Sequence[AssetCheckKey],
    ) -> list[ScheduleDefinition]:
        """Those of jobs/*.yaml and of front matter; `apart`: checks that have a job of their own."""
        declared = schedules_of(self.jobs, self.catalog)
        found = []
        if self.keys:
            found = build_schedules(declared, self.catalog, self.keys, self.name, everything, apart)
        cleanups = build_cleanups(self.jobs.cleanups, self.name, self.resource_key)
        return [*found, *cleanups, *build_upkeep(self.maintenance.content.schedule, self.name, upkeep)]

    def amendments(self, taken: Sequence[ScheduleDefinition]) -> list[ScheduleDefinition]:
        """Those of jobs/amendments.yaml, whose names none of `taken` may have."""
        amendments = load_amendments(self.project.root, self.project.variables)
        amendments.check(self.catalog, {s.name: "another file in jobs/" for s in taken})
        return build_amendments(amendments.content.amendments, self.keys, self.name, self.resource_key)

    def checks(self) -> list[AssetChecksDefinition]:
        """Of watermarks that lag, and of windows that stay open."""
        lag = [lag_checks(self.project, self.gated, self.name)] if self.gated else []
        return [*lag, *([stall_checks(self.project, self.watched, self.name)] if self.watched else [])]

    def sensors(self, live: Sequence[JobDefinition]) -> list[SensorDefinition]:
        """What looks again and again; `live`: the jobs of live runs."""
        found = [lag_sensor(self.project, self.gated, self.name)] if self.gated else []
        if self.watched:
            found.append(stall_sensor(self.project, self.watched, self.name))
        if self.jobs.alerts is not None:
            found.append(failure_sensor(self.project, self.keys, self.name))
        if live:
            found.append(keeper_sensor(self.jobs.live, live, self.name))
        if any(run.started_by == "outside" for run in self.jobs.live):
            found.append(observer_sensor(self.project, self.jobs.live, self.keys, self.name))
        return found


def _branch(
    project: Project,
    assets: list[TidegateAsset],
    quality: Quality,
    translator: TidegateTranslator,
    name: str,
    resource: TidegateResource | None,
) -> Definitions:
    """An environment that reads another one's sources: its views can be launched and their quality checked, sources and
    sinks are only drawn. Schedules, sensors and live runs are the other one's."""
    views = [asset for asset in assets if asset.kind == "view"]
    keys = {asset.name: translator.get_asset_spec(asset).key for asset in views}
    drawn = [translator.get_asset_spec(asset) for asset in assets if asset.kind != "view"]
    resource_key = identifier(name)
    judged = quality_checks(views, keys, quality, name, resource_key)
    apart = [key for checks in judged for key in checks.check_keys]
    asked = [quality_job(judged, name)] if judged else []
    return Definitions(
        assets=[*build_assets(views, translator, name, resource_key), *drawn],
        asset_checks=judged,
        jobs=[catch_up_job(keys, name, apart), *asked] if keys else [],
        resources={
            resource_key: resource or TidegateResource(project=str(project.root), env=project.env_name)
        },
    )
