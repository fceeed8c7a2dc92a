"""`tidegate cleanup`: delete expired rows of tables WITH TTL, compact their files and expire old snapshots."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.cli.failures import FailFastOption, conclude, steps_for, told
from tidegate.cli.invocation import Invocation, guarded


@guarded
def cleanup(
    call: Invocation,
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Tables with a PRIMARY KEY. Default: all of them."),
    ] = None,
    fail_fast: FailFastOption = False,
) -> int:
    """Delete expired rows of tables WITH TTL that no view needs any more, and compact files. Results of views are kept.

    A run deletes whole expired days by itself. Example: tidegate cleanup deposits_src
    """
    project = call.project()
    catalog = project.catalog()
    for name in names or ():
        catalog.get(name)
    if not any(r.primary_key for r in catalog.relations):
        call.console.note("nothing to clean up: no table has a PRIMARY KEY")
        return 0
    call.console.note("starting Spark …")
    with call.session(project) as session:
        steps = steps_for(names, fail_fast)
        cleaned = session.cleanup(names or None, steps=steps)
    rows = [{"table": c.table, "files_before": c.files_before, "files_after": c.files_after} for c in cleaned]
    lines = [f"{c.table}: {c.files_before} files before, {c.files_after} after" for c in cleaned]
    if not lines and not steps.failures:
        lines = ["no table has rows yet"]
    call.console.document({"cleaned": rows} | told(steps), "\n".join(lines))
    return conclude(call, steps.failures, steps.skipped, len(cleaned))
