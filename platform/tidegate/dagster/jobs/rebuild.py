"""The job for changed queries (R4): what a run refuses with TG506, this one backfills and swaps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dagster import AssetKey, AssetMaterialization, JobDefinition, OpExecutionContext

from tidegate.dagster.jobs.one_op import job_of
from tidegate.dagster.markdown import as_text

if TYPE_CHECKING:
    from tidegate.runtime.steps import Steps
    from tidegate.session.session import Session


def rebuild_job(keys: Mapping[str, AssetKey], prefix: str, resource_key: str) -> JobDefinition:
    """`<prefix>_rebuild`: every view whose definition is not that of its results, and what reads it."""
    text = (
        "Recomputes views whose query has changed, from the oldest rows that are kept, and "
        "swaps at the end (R4)."
    )

    def build_anew(context: OpExecutionContext, session: Session, steps: Steps) -> None:
        from tidegate.views.amend.rebuild import rebuild

        done = rebuild(session, notify=context.log.info, steps=steps)
        if not done and not steps.failures:
            context.log.info("no definition has changed")
        for one in done:
            said = f"rebuilt, {one.why}: {one.rows:,} rows, final up to {one.frontier}"
            facts: dict[str, Any] = {"generation": one.generation, "results before": one.tag or "none"}
            context.log_event(AssetMaterialization(keys[one.view], description=as_text(said), metadata=facts))

    return job_of(f"{prefix}_rebuild", resource_key, text, build_anew)
