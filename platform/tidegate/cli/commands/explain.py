"""`tidegate explain`: what will run for a source or view, and what is watermarked where."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.cli.invocation import Invocation, guarded


@guarded
def explain(
    call: Invocation,
    name: Annotated[str, typer.Argument(help="A source, table, view or sink.", show_default=False)],
) -> int:
    """Show the stages of a source or view, the watermark columns at each, and what differs from RisingWave.

    Example: tidegate explain departures_hourly
    """
    from tidegate.plan.explain import explain as explain_plan
    from tidegate.plan.stages import look_up
    from tidegate.store.status import read_marks

    project = call.project()
    catalog = project.catalog()
    sink = catalog.sinks.find(name)
    found = look_up(catalog, name if sink is None else sink.upstream)
    explanation = explain_plan(
        catalog,
        sink or found,
        namespace=project.env.warehouse.namespace,
        marks=read_marks(project.storage, catalog, found),
    )
    call.console.document(explanation.to_dict(), str(explanation))
    return 0
