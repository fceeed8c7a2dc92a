"""`tidegate audit`: do the numbers add up (A1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.invocation import Invocation, guarded

if TYPE_CHECKING:
    from tidegate.audit.source import SourceAudit
    from tidegate.audit.view import ViewAudit
    from tidegate.console.port import Console


@guarded
def audit(
    call: Invocation,
    name: Annotated[str, typer.Argument(help="A view; or a source or table.", show_default=False)],
) -> int:
    """Recount: for a view, raw = counted + filtered + late + rejected in every final window; for a source,
    its log.

    Exits with 1 if something does not add up, and lists the windows with their offsets.

    Example: tidegate audit departures_hourly
    """
    from tidegate.plan.stages import look_up
    from tidegate.sql.catalog import View

    project = call.project()
    found = look_up(project.catalog(), name)
    with call.session(project) as session:
        if isinstance(found, View):
            from tidegate.audit.view import audit_view

            view = audit_view(session, found.name)
            if call.json:
                call.console.document(view.to_dict(), "")
            else:
                show_view(call.console, view)
            return 0 if view.ok else 1
        from tidegate.audit.source import audit_source

        source = audit_source(session, found.name)
        if call.json:
            call.console.document(source.to_dict(), "")
        else:
            show_source(call.console, source)
        return 0 if source.ok else 1


def show_view(console: Console, view: ViewAudit) -> None:
    """Totals, then what does not add up."""
    from tidegate.console.port import Table

    rows = [
        ("raw", view.raw, "rows of the log in final windows"),
        ("= counted", view.counted, "by the view"),
        ("+ filtered", view.filtered, "by its WHERE"),
        ("+ late", view.late, ""),
        ("+ rejected", view.rejected, "with an event time"),
        ("remainder", view.remainder, "must be 0"),
        ("still open", view.still_open, "rows in windows that are not final yet"),
        ("no time", view.rejected_without_time, "rejected rows that belong to no window"),
    ]
    title = f"{view.view}: {view.closed_windows:,} final windows, up to {view.frontier}"
    console.table(Table(["", "rows", ""], rows, title=title, unit=None))
    if view.problems:
        columns = [
            "window_start",
            "window_end",
            "raw",
            "counted",
            "filtered",
            "late",
            "rejected",
            "remainder",
        ]
        problems = [[getattr(p, c) for c in columns] + [", ".join(p.offsets)] for p in view.problems]
        console.table(
            Table([*columns, "offsets"], problems, title="windows that do not add up", unit="window")
        )
    console.document(None, "it adds up" if view.ok else "it does NOT add up")


def show_source(console: Console, source: SourceAudit) -> None:
    """One line per partition, then the verdict."""
    from tidegate.console.port import Table

    columns = ["partition", "raw", "on_time", "late", "rejected", "counted", "repeated", "missing"]
    rows = [
        (
            p.partition,
            p.raw,
            p.on_time,
            p.late,
            p.rejected,
            p.counted,
            p.repeated,
            ", ".join(p.missing) or "none",
        )
        for p in source.partitions
    ]
    console.table(Table(columns, rows, title=f"{source.name}: {source.raw:,} rows in the log", unit=None))
    if source.source_rows is not None:
        console.document(None, f"the source itself has {source.source_rows:,} rows")
    console.document(None, "it adds up" if source.ok else "it does NOT add up")
