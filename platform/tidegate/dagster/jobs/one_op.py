"""A job of one step that works with the session of the run's resource: what it does, and nothing else of Dagster's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dagster import JobDefinition, OpExecutionContext, in_process_executor, job, op

from tidegate.dagster.markdown import as_text
from tidegate.dagster.naming import identifier

if TYPE_CHECKING:
    from tidegate.runtime.steps import Steps
    from tidegate.session.session import Session

#: What a job does. What fails in its steps leaves the others alone, and is the run's failure at the end.
Work = Callable[[OpExecutionContext, "Session", "Steps"], None]


def job_of(name: str, resource_key: str, description: str, work: Work) -> JobDefinition:
    """The job `name`, whose one op `<name>_op` does `work`. `description`: plain text."""
    text = as_text(description)

    @op(name=identifier(f"{name}_op"), required_resource_keys={resource_key}, description=text)
    def step(context) -> None:  # type: ignore[no-untyped-def]  # Dagster reads no hint that is text
        from tidegate.dagster.assets import isolated

        session = getattr(context.resources, resource_key).session
        with isolated() as steps:
            work(context, session, steps)

    @job(name=identifier(name), executor_def=in_process_executor, description=text)
    def run() -> None:
        step()

    return run
