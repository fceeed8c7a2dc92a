"""`tidegate audit`: do the numbers add up (A1)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.failures import FailFastOption, conclude, steps_for, told
from tidegate.cli.invocation import Invocation, guarded
from tidegate.cli.selection import ExcludeOption, SelectOption, required

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate.audit.source import SourceAudit
    from tidegate.audit.view import ViewAudit
    from tidegate.console.port import Console
    from tidegate.session.session import Session
    from tidegate.sql.catalog.objects import Relation, View


@guarded
def audit(
    call: Invocation,
    names: Annotated[
        list[str] | None, typer.Argument(help="Views, sources or tables.", show_default=False)
    ] = None,
    select: SelectOption = None,
    exclude: ExcludeOption = None,
    fail_fast: FailFastOption = False,
) -> int:
    """Recount rows. For a view: raw = counted + filtered + late + rejected in every final window, and its results must
    equal its query over all rows. For a source: its log.

    Exit code 1: the audit found differences; the windows with their offsets, and the rows that differ, are listed.
    With --json, one name gives one audit; several names, or --select, give a list of audits.

    Example: tidegate audit departures_hourly
    """
    from tidegate.plan.stages import look_up

    project = call.project()
    catalog = project.catalog()
    wanted = required(catalog, names, select, exclude)
    # A selection may bring sinks along: they have nothing of their own to recount.
    found = [look_up(catalog, n) for n in wanted if names or n not in catalog.sinks]
    done: list[ViewAudit | SourceAudit] = []
    with call.session(project) as session:

        def one(item: Relation | View) -> None:
            result, show = audited(session, item)
            done.append(result)
            if not call.json:
                show(call.console)

        steps = steps_for(wanted, fail_fast)
        for item in found:
            steps.do(item, partial(one, item))
    if call.json:
        documents = [result.to_dict() for result in done]
        several = {"audits": documents} | told(steps)
        call.console.document(documents[0] if names and len(names) == 1 else several, "")
    return conclude(call, steps.failures, steps.skipped, len(done)) or int(
        not all(result.ok for result in done)
    )


def audited(
    session: Session, found: Relation | View
) -> tuple[ViewAudit | SourceAudit, Callable[[Console], None]]:
    """The audit, and what shows it to people."""
    from tidegate.sql.catalog.objects import View

    if isinstance(found, View):
        from tidegate.audit.view import audit_view

        view = audit_view(session, found.name)
        return view, lambda console: show_view(console, view)
    from tidegate.audit.source import audit_source

    source = audit_source(session, found.name)
    return source, lambda console: show_source(console, source)


def show_view(console: Console, view: ViewAudit) -> None:
    """Totals, then what does not add up."""
    if view.has_accounts:
        _show_accounts(console, view)
    _show_comparison(console, view)
    console.document(None, "the audit found no differences" if view.ok else "the audit found DIFFERENCES")


def _show_accounts(console: Console, view: ViewAudit) -> None:
    from tidegate.console.port import Table

    rows = [
        ("raw", view.raw, "rows of the log in final windows"),
        ("= counted", view.counted, "by the view"),
        ("+ filtered", view.filtered, "removed by its WHERE"),
        ("+ late", view.late, ""),
        ("+ rejected", view.rejected, "with an event time"),
        ("remainder", view.remainder, "must be 0"),
        ("still open", view.still_open, "rows in windows that are not final yet"),
        ("no time", view.rejected_without_time, "rejected rows that belong to no window"),
    ]
    if view.erased:
        rows.append(("erased", view.erased, "of the raw rows: their windows keep the counts, and are marked"))
    if view.retired:
        rows.append(("retired", view.retired, "rows beyond their retention; their windows are not compared"))
    title = f"{view.view}: {view.closed_windows or 0:,} final windows, up to {view.frontier}"
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
            Table([*columns, "offsets"], problems, title="windows whose counts differ", unit="window")
        )


def _show_comparison(console: Console, view: ViewAudit) -> None:
    """Stream equals batch: counts, the first rows that differ, and what was left out."""
    from tidegate.console.port import Table

    batch = view.batch
    rows = [
        (
            "compared",
            batch.compared,
            f"result rows up to {view.frontier}, compared with the query over all rows",
        ),
        ("missing", batch.missing, "rows that the view should have"),
        ("unexpected", batch.unexpected, "rows that the view should not have"),
        ("different", batch.different, "rows with numbers that differ by more than 1e-9"),
        ("too early", batch.too_early, "rows that were emitted before all inputs had closed them"),
        ("not known yet", batch.not_known, "rows that an input may still change: open, not counted as right"),
    ]
    console.table(Table(["", "rows", ""], rows, title=f"{view.view}: stream equals batch", unit=None))
    if batch.examples:
        names = list(batch.examples[0].values)
        found = [[e.kind, e.window_end, *(e.values[n] for n in names)] for e in batch.examples]
        console.table(Table(["", "window_end", *names], found, title="rows that differ", unit="row"))
    if batch.not_compared:
        console.note(
            f"not compared, because they depend on the order of rows: {', '.join(batch.not_compared)}"
        )
    for note in (*batch.open_inputs, *batch.notes):
        console.note(note)


def show_source(console: Console, source: SourceAudit) -> None:
    """One line per partition, then the verdict."""
    from tidegate.console.port import Table

    columns = ["partition", "raw", "on_time", "late", "rejected", "counted", "repeated", "missing"]
    rows: list[tuple[str | int | None, ...]] = [
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
    for what in ("erased", "retired"):
        if getattr(source, what):
            columns.insert(1, what)
            pairs = zip(rows, source.partitions, strict=True)
            rows = [(row[0], getattr(p, what), *row[1:]) for row, p in pairs]
    console.table(Table(columns, rows, title=f"{source.name}: {source.raw:,} rows in the log", unit=None))
    if source.source_rows is not None:
        console.document(None, f"the source itself has {source.source_rows:,} rows")
    console.document(None, "the audit found no differences" if source.ok else "the audit found DIFFERENCES")
