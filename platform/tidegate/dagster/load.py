"""A tidegate project as Dagster definitions."""

from __future__ import annotations

from pathlib import Path

from dagster import Definitions, in_process_executor

from tidegate.dagster.amendments import build_amendments
from tidegate.dagster.assets import build_assets
from tidegate.dagster.failures import failure_sensor
from tidegate.dagster.live import build_live_jobs, live_jobs_of_families
from tidegate.dagster.live_sensors import keeper_sensor, observer_sensor
from tidegate.dagster.naming import identifier
from tidegate.dagster.partitions import build_closed, closed_of, closed_sensor
from tidegate.dagster.purge import build_purge
from tidegate.dagster.quality import closed_checks, quality_checks, quality_job, quality_schedule
from tidegate.dagster.rebuild import rebuild_job
from tidegate.dagster.resource import TidegateResource
from tidegate.dagster.schedules import (
    build_cleanups,
    build_schedules,
    build_upkeep,
    catch_up_job,
    upkeep_job,
)
from tidegate.dagster.sensor import lag_checks, lag_sensor
from tidegate.dagster.stall import stall_checks, stall_sensor
from tidegate.dagster.translator import TidegateAsset, TidegateTranslator
from tidegate.findings.look import watched
from tidegate.project import Project
from tidegate.project.amendments import load_amendments
from tidegate.project.expectations import Quality, load_quality
from tidegate.project.jobs import schedules_of
from tidegate.project.live_selection import check_live
from tidegate.project.maintenance import load_maintenance
from tidegate.sql.catalog.lineage import computed


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
    opened = project if isinstance(project, Project) else Project.load(project, env)
    translator = translator or TidegateTranslator()
    catalog = opened.catalog()
    watermarked = [r.name for r in catalog.relations if r.watermark is not None]
    jobs = opened.jobs()
    keyed = [r.name for r in catalog.relations if r.primary_key]
    jobs.check([o.name for o in computed(catalog)], watermarked, keyed)
    check_live(jobs, catalog)
    maintenance = load_maintenance(opened.root, opened.variables)
    maintenance.check(catalog)
    quality = load_quality(opened.root, catalog, opened.variables)
    # Implicit relations and views run with what they were made for; nobody looks for them in the lineage.
    assets = [TidegateAsset(item, catalog, opened) for item in computed(catalog)]
    if opened.lender is not None:
        return _branch(opened, assets, quality, translator, name, resource)
    keys = {asset.name: translator.get_asset_spec(asset).key for asset in assets}
    gated = {relation: keys[relation] for relation in watermarked}
    resource_key = identifier(name)
    # Great Expectations takes longer to be imported than a small batch takes: not in every tick of a schedule.
    judged = quality_checks(assets, keys, quality, name, resource_key)
    apart = [key for checks in judged for key in checks.check_keys]
    everything = catch_up_job(keys, name, apart)
    declared = schedules_of(jobs, catalog)
    schedules = build_schedules(declared, catalog, keys, name, everything, apart) if keys else []
    upkeep, rebuilding = upkeep_job(name, resource_key), rebuild_job(keys, name, resource_key)
    schedules += [
        *build_cleanups(jobs.cleanups, name, resource_key),
        *build_upkeep(maintenance.content.schedule, name, upkeep),
    ]
    purging = []
    if maintenance.content.runs is not None:
        purge_job, nightly = build_purge(maintenance.content.runs, name)
        purging, schedules = [purge_job], [*schedules, nightly]
    amendments = load_amendments(opened.root, opened.variables)
    amendments.check(catalog, {s.name: "another file in jobs/" for s in schedules})
    schedules += build_amendments(amendments.content.amendments, keys, name, resource_key)
    live = build_live_jobs(jobs.live, catalog, keys, name, resource_key)
    sensors = [lag_sensor(opened, gated, name)] if gated else []
    stalling = {n: keys[n] for n in watched(catalog)}
    if stalling:
        sensors.append(stall_sensor(opened, stalling, name))
    if jobs.alerts is not None:
        sensors.append(failure_sensor(opened, keys, name))
    if live:
        sensors.append(keeper_sensor(jobs.live, live, name))
    if any(run.started_by == "outside" for run in jobs.live):
        sensors.append(observer_sensor(opened, jobs.live, keys, name))
    built = build_assets(
        assets, translator, name, resource_key, live_jobs_of_families(jobs.live, catalog, name)
    )
    closed = closed_of(assets, translator, name)
    if closed:
        built = [*built, *build_closed(closed, translator, name, resource_key)]
        sensors.append(closed_sensor(closed, name))
    asked = [quality_job(judged, name)] if judged else []
    if asked and jobs.quality is not None:
        schedules.append(quality_schedule(jobs.quality, asked[0], name))
    return Definitions(
        assets=built,
        asset_checks=[
            *([lag_checks(opened, gated, name)] if gated else []),
            *([stall_checks(opened, stalling, name)] if stalling else []),
            *judged,
            *closed_checks(closed, name, resource_key),
        ],
        jobs=[everything, upkeep, rebuilding, *purging, *live, *asked] if keys else purging,
        schedules=schedules,
        sensors=sensors,
        resources={resource_key: resource or TidegateResource(project=str(opened.root), env=opened.env_name)},
    )


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
