"""`tidegate explain`: what will run for a source or view, and what is watermarked where."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.cli.invocation import Invocation, guarded


@guarded
def explain(
    call: Invocation,
    name: Annotated[str, typer.Argument(help="A source, table or view.", show_default=False)],
) -> int:
    """Show the stages of a source or view, the watermark columns at each, and what differs from RisingWave.

    Example: tidegate explain departures_hourly
    """
    from tidegate.plan.explain import explain as explain_plan
    from tidegate.plan.stages import look_up
    from tidegate.sql.catalog import View
    from tidegate.store.metadata import load_table

    project = call.project()
    catalog = project.catalog()
    found = look_up(catalog, name)
    source = found.upstream if isinstance(found, View) else found.name
    table = load_table(project.storage, source)
    explanation = explain_plan(
        catalog,
        found,
        namespace=project.env.warehouse.namespace,
        watermark=table.integer("tidegate.watermark") if table else None,
        known=table is not None and table.snapshot_id is not None,
    )
    call.console.document(explanation.to_dict(), str(explanation))
    return 0
