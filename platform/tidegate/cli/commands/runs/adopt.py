"""`tidegate adopt`: make tables this project's that another project or environment owns."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from tidegate.cli.invocation import Invocation, agreeing, asked, guarded


@guarded
def adopt(
    call: Invocation,
    names: Annotated[
        list[str], typer.Argument(help="Sources, tables, views and Iceberg sinks.", show_default=False)
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Agree without being asked.")] = False,
) -> int:
    """Make this project and environment the owner of stored tables; their former owner can only read them from then on.

    It asks first, and each table records its former owner. Example: tidegate adopt orders --env production
    """
    project = call.project()
    catalog = project.catalog()
    for name in names:
        if name not in catalog.sinks:
            catalog.get(name)
    call.console.note("starting Spark …")
    with call.session(project) as session:
        from tidegate.session.adopt import adopt as move

        session.confirm = agreeing if yes else asked if sys.stdin.isatty() else None
        moved = move(session, names)
    rows = [{"table": table, "from": None if was is None else asdict(was)} for table, was in moved]
    lines = [f"adopted {table}; it belonged to {was or 'nobody'}" for table, was in moved]
    data = {"adopted": rows, "owner": asdict(project.owner)}
    call.console.document(data, "\n".join(lines) or f"nothing to adopt: all tables belong to {project.owner}")
    return 0
