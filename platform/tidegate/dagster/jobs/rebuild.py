"""The job for changed queries (R4): what a run refuses with TG506, this one backfills and swaps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dagster import AssetKey, AssetMaterialization, JobDefinition, in_process_executor, job, op

from tidegate.dagster.markdown import as_text
from tidegate.dagster.naming import identifier


def rebuild_job(keys: Mapping[str, AssetKey], prefix: str, resource_key: str) -> JobDefinition:
    """`<prefix>_rebuild`: every view whose definition is not that of its results, and what reads it."""
    text = (
        "Recomputes views whose query has changed, from the oldest rows that are kept, and "
        "swaps at the end (R4)."
    )

    @op(name=identifier(f"{prefix}_rebuild_op"), required_resource_keys={resource_key}, description=text)
    def build_anew(context) -> None:  # type: ignore[no-untyped-def]  # Dagster reads no hint that is text
        from tidegate.dagster.assets import isolated
        from tidegate.views.amend.rebuild import rebuild

        session = getattr(context.resources, resource_key).session
        with isolated() as steps:
            done = rebuild(session, notify=context.log.info, steps=steps)
            if not done and not steps.failures:
                context.log.info("no definition has changed")
            for one in done:
                said = f"rebuilt, {one.why}: {one.rows:,} rows, final up to {one.frontier}"
                facts: dict[str, Any] = {"generation": one.generation, "results before": one.tag or "none"}
                context.log_event(
                    AssetMaterialization(keys[one.view], description=as_text(said), metadata=facts)
                )

    @job(name=identifier(f"{prefix}_rebuild"), executor_def=in_process_executor, description=text)
    def run() -> None:
        build_anew()

    return run
