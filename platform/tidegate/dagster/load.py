"""A tidegate project as Dagster definitions."""

from __future__ import annotations

from pathlib import Path

from dagster import Definitions, in_process_executor

from tidegate.dagster.assets import build_assets
from tidegate.dagster.live import build_live_jobs, live_jobs_of_families
from tidegate.dagster.live_sensors import keeper_sensor, observer_sensor
from tidegate.dagster.naming import identifier
from tidegate.dagster.resource import TidegateResource
from tidegate.dagster.schedules import (
    build_cleanups,
    build_schedules,
    build_upkeep,
    catch_up_job,
    upkeep_job,
)
from tidegate.dagster.sensor import lag_checks, lag_sensor
from tidegate.dagster.translator import TidegateAsset, TidegateTranslator
from tidegate.project import Project
from tidegate.project.live import check_live
from tidegate.project.maintenance import load_maintenance
from tidegate.sql.lineage import computed


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
    maintenance = load_maintenance(opened.root)
    maintenance.check(catalog)
    # Implicit relations and views run with what they were made for; nobody looks for them in the lineage.
    assets = [TidegateAsset(item, catalog, opened) for item in computed(catalog)]
    keys = {asset.name: translator.get_asset_spec(asset).key for asset in assets}
    gated = {relation: keys[relation] for relation in watermarked}
    resource_key = identifier(name)
    everything = catch_up_job(keys, name)
    schedules = build_schedules(jobs.schedules, catalog, keys, name, everything) if keys else []
    upkeep = upkeep_job(name, resource_key)
    schedules += [
        *build_cleanups(jobs.cleanups, name, resource_key),
        *build_upkeep(maintenance.content.schedule, name, upkeep),
    ]
    live = build_live_jobs(jobs.live, catalog, keys, name, resource_key)
    sensors = [lag_sensor(opened, gated, name)] if gated else []
    if live:
        sensors.append(keeper_sensor(jobs.live, live, name))
    if any(run.started_by == "outside" for run in jobs.live):
        sensors.append(observer_sensor(opened, jobs.live, keys, name))
    return Definitions(
        assets=build_assets(
            assets, translator, name, resource_key, live_jobs_of_families(jobs.live, catalog, name)
        ),
        asset_checks=[lag_checks(opened, gated, name)] if gated else [],
        jobs=[everything, upkeep, *live] if keys else [],
        schedules=schedules,
        sensors=sensors,
        resources={resource_key: resource or TidegateResource(project=str(opened.root), env=opened.env_name)},
    )
