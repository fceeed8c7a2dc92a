"""`tidegate upkeep`: keep the stored tables small, while whatever writes them goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.failures import FailFastOption, conclude, steps_for, told
from tidegate.cli.invocation import Invocation, guarded
from tidegate.cli.selection import ExcludeOption, SelectOption, StoredNamesArgument, chosen

if TYPE_CHECKING:
    from tidegate.console.port import Console
    from tidegate.maintenance.upkeep import UpkeepReport


@guarded
def upkeep(
    call: Invocation,
    names: StoredNamesArgument = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    retention: Annotated[
        bool, typer.Option(help="Delete the rows beyond the retention that is set in jobs/maintenance.yaml.")
    ] = True,
    orphans: Annotated[
        bool, typer.Option(help="Look for files that belong to no snapshot; this lists all files of a table.")
    ] = True,
    select: SelectOption = None,
    exclude: ExcludeOption = None,
    fail_fast: FailFastOption = False,
) -> int:
    """Compact small files, expire old snapshots, delete rows beyond their retention, and remove orphan files.

    No stream has to stop for it, and it deletes no row that a view, sink or audit still needs. The settings are in
    jobs/maintenance.yaml. In a warehouse whose catalog is a folder, tables that a live run writes are left to that
    run.

    Example: tidegate upkeep flights --dry-run
    """
    from tidegate.project.jobs.maintenance import load_maintenance

    project = call.project()
    catalog = project.catalog()
    for name in names or ():
        catalog.get(name)
    maintenance = load_maintenance(project.root, project.variables)
    maintenance.check(catalog)
    sinks = {sink.name for sink in catalog.sinks}
    wanted = chosen(catalog, names, select, exclude)
    if select or exclude:
        # A sink has no table of ours.
        wanted = [name for name in wanted or () if name not in sinks]
    call.console.note("starting Spark …")
    with call.session(project) as session:
        from tidegate.maintenance.upkeep import maintain_all

        steps = steps_for(names, fail_fast)
        reports = maintain_all(
            session,
            wanted,
            maintenance.of,
            steps=steps,
            retention=retention,
            orphans=orphans,
            dry_run=dry_run,
            notify=call.console.note,
        )
    if call.json:
        document = {"dry_run": dry_run, "upkeep": [r.to_dict() for r in reports]}
        call.console.document(document | told(steps), "")
    else:
        _show(call.console, reports, dry_run)
    return conclude(call, steps.failures, steps.skipped, len(reports))


def _show(console: Console, reports: list[UpkeepReport], dry_run: bool) -> None:
    from tidegate.console.port import Table

    found = [table for report in reports for table in report.tables]
    if not found:
        console.note("nothing is stored yet")
        return
    rows = []
    for t in found:
        figures = [_change(*pair) for pair in (t.files, t.snapshots, t.manifests)]
        size = _change(*(f"{size / (1 << 20):.1f}" for size in t.bytes))
        orphans = "" if t.orphans is None else t.orphans
        rows.append((t.table, *figures, size, t.retired, orphans, f"{t.seconds:.1f}"))
    columns = ["table", "files", "snapshots", "manifests", "MB", "retired rows", "orphans", "seconds"]
    title = "the present state; nothing was done" if dry_run else "before → after"
    console.table(Table(columns, rows, title=title, unit="table", layout="grid"))
    for t in found:
        for note in t.notes:
            console.note(f"{t.table}: {note}")


def _change(before: object, after: object) -> str:
    return str(before) if before == after else f"{before} → {after}"
