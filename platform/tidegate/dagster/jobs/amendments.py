"""Scheduled amendments of jobs/amendments.yaml: late rows taken into closed windows (B2), exactly those that they
hit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dagster import (
    AssetKey,
    AssetMaterialization,
    JobDefinition,
    OpExecutionContext,
    ScheduleDefinition,
)

from tidegate.dagster.jobs.one_op import job_of
from tidegate.dagster.jobs.schedules import schedule_for
from tidegate.dagster.markdown import as_text
from tidegate.project.jobs.amendments import Amendment
from tidegate.views.revisions.amend_report import ViewAmendment

if TYPE_CHECKING:
    from tidegate.runtime.steps import Steps
    from tidegate.session.session import Session


def build_amendments(
    amendments: Sequence[Amendment], keys: Mapping[str, AssetKey], prefix: str, resource_key: str
) -> list[ScheduleDefinition]:
    """One for each, named as there, with a job of its own: `<prefix>_<its name>`."""
    return [schedule_for(amendment, _job(amendment, keys, prefix, resource_key)) for amendment in amendments]


def _job(amendment: Amendment, keys: Mapping[str, AssetKey], prefix: str, resource_key: str) -> JobDefinition:
    names = None if amendment.select == "*" else list(amendment.select)
    what = "all views that can be amended" if names is None else ", ".join(names)
    text = f"Amends {what}: the closed windows that have late rows, and the views downstream (B2)."

    def take_in(context: OpExecutionContext, session: Session, steps: Steps) -> None:
        from tidegate.amend.run import amend

        note(context, amend(session, names, notify=context.log.info, steps=steps))

    def note(context: OpExecutionContext, reports: list[ViewAmendment]) -> None:
        for report in reports:
            for text in report.notes:
                context.log.warning(f"{report.view}: {text}")
            if not report.windows:
                context.log.info(f"{report.view}: nothing to amend")
                continue
            late = "" if report.late is None else f", {report.late:,} late rows included"
            said = f"{report.windows:,} windows amended{late}, {report.groups:,} rows changed"
            context.log.info(f"{report.view}: {said}")
            if report.view in keys:
                facts = {"amended windows": report.windows, "changed rows": report.groups}
                if report.late is not None:
                    facts["late rows included"] = report.late
                context.log_event(
                    AssetMaterialization(keys[report.view], description=as_text(said), metadata=facts)
                )

    return job_of(f"{prefix}_{amendment.name}", resource_key, text, take_in)
