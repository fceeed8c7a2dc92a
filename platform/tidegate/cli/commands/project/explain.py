"""`tidegate explain`: what will run for a source or view, and what is watermarked where."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from tidegate.cli.invocation import Invocation, guarded
from tidegate.cli.selection import ExcludeOption, SelectOption, chosen
from tidegate.plan.stages import Command


@guarded
def explain(
    call: Invocation,
    name: Annotated[
        str | None, typer.Argument(help="A source, table, view or sink.", show_default=False)
    ] = None,
    select: SelectOption = None,
    exclude: ExcludeOption = None,
    command: Annotated[Command, typer.Option("--command", help="Which command's stages are shown.")] = "run",
) -> int:
    """Show the stages of a source or view, the watermark columns at each stage, and the differences from RisingWave.

    Example: tidegate explain departures_hourly

    Example: tidegate explain --select +departures_hourly

    Example: tidegate explain departures_hourly --command amend
    """
    from tidegate.plan.explain import explain as explain_plan
    from tidegate.plan.stages import look_up
    from tidegate.runtime.kafka_reading import read_by
    from tidegate.store.status import read_marks

    project = call.project()
    catalog = project.catalog()
    wanted = chosen(catalog, [name] if name else None, select, exclude)
    if wanted is None:
        raise typer.BadParameter("name one object, or use --select")
    explained = []
    for one in wanted:
        sink = catalog.sinks.find(one)
        found = look_up(catalog, one if sink is None else sink.upstream)
        explained.append(
            explain_plan(
                catalog,
                sink or found,
                namespace=project.storage.namespace_of,
                marks=read_marks(project.storage, catalog, found),
                command=command,
                reading=partial(read_by, master=project.env.spark.master),
            )
        )
    documents = [one.to_dict() for one in explained]
    text = "\n\n".join(str(one) for one in explained)
    call.console.document(documents[0] if name else {"explained": documents}, text)
    return 0
