"""`tidegate amend`: recompute the closed windows that late rows hit, or verify and repair what is stored (B1-B3)."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.failures import FailFastOption, conclude, steps_for, told
from tidegate.cli.invocation import Invocation, guarded
from tidegate.cli.selection import ExcludeOption, SelectOption, chosen
from tidegate.wording import counted

if TYPE_CHECKING:
    from tidegate.console.port import Console
    from tidegate.project import Project
    from tidegate.views.amend.whatif import WhatIf
    from tidegate.views.revisions.amend_report import ViewAmendment


_Views = Annotated[
    list[str] | None,
    typer.Argument(
        help=(
            "Views; the views downstream of them are amended, too. Default: all views that can be amended."
        ),
        show_default=False,
    ),
]
_FromLate = Annotated[
    bool,
    typer.Option(
        "--from-late",
        help=(
            "Include the late rows of the logs. This is the default without --range; with "
            "--range, the option is needed."
        ),
    ),
]
_Range = Annotated[
    tuple[str, str] | None,
    typer.Option(
        "--range",
        metavar="FROM TO",
        help="Amend only windows that end after FROM, and at TO or before. Without --from-late, "
        "they are recomputed from the rows that they have already: a backfill, which changes "
        "nothing if the stored results are right.",
        show_default=False,
    ),
]
_DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="List the windows, late rows and changed groups, but write nothing."),
]
_WhatIf = Annotated[
    str | None,
    typer.Option(
        "--what-if",
        metavar="STRATEGY",
        help='Write nothing: judge the late rows again, as if the watermark were "ts - INTERVAL '
        "'1 hour'\", and report which windows would be complete.",
        show_default=False,
    ),
]


@guarded
def amend(
    call: Invocation,
    names: _Views = None,
    from_late: _FromLate = False,
    window_range: _Range = None,
    dry_run: _DryRun = False,
    if_strategy: _WhatIf = None,
    select: SelectOption = None,
    exclude: ExcludeOption = None,
    fail_fast: FailFastOption = False,
) -> int:
    """Amend views: find exactly the closed windows that have late rows, recompute only these, and replace their rows in
    one commit for each view. SELECT * FROM "view$revisions" shows the earlier rows.

    No run or live stream has to stop for it. A second amendment finds nothing to do until new late rows arrive.

    Example: tidegate amend departures_hourly --dry-run

    Example: tidegate amend --range 2013-03-01 2013-03-08

    Example: tidegate amend departures_hourly --what-if "sched_dep - INTERVAL '3 hours'"
    """
    from tidegate.sql.catalog.objects import View

    project = call.project()
    catalog = project.catalog()
    wanted = chosen(catalog, names, select, exclude)
    if wanted is not None and (select or exclude):
        wanted = [name for name in wanted if isinstance(catalog.find(name), View)]
    after, upto = window_range or (None, None)
    if if_strategy is not None:
        return _what_if(call, project, wanted, if_strategy, fail_fast)
    call.console.note("starting Spark …")
    with call.session(project) as session:
        from tidegate.amend.run import amend as amend_views
        from tidegate.amend.run import to_dict

        steps = steps_for(names, fail_fast)
        reports = amend_views(
            session,
            wanted,
            from_late=from_late or window_range is None,
            after=after,
            upto=upto,
            dry_run=dry_run,
            notify=call.console.note,
            steps=steps,
        )
    if call.json:
        document = {"dry_run": dry_run, "views": [to_dict(report) for report in reports]}
        call.console.document(document | told(steps), "")
    else:
        show(call.console, reports, dry_run)
    return conclude(call, steps.failures, steps.skipped, len(reports))


def _what_if(
    call: Invocation, project: Project, names: list[str] | None, strategy: str, fail_fast: bool
) -> int:
    from tidegate.sql.catalog.objects import View

    views = [v for v in map(project.catalog().get, names or ()) if isinstance(v, View)]
    if not views:
        raise typer.BadParameter("--what-if needs the name of a view")
    call.console.note("starting Spark …")
    with call.session(project) as session:
        from tidegate.views.amend.whatif import what_if

        steps = steps_for(names, fail_fast)
        found: list[WhatIf] = []

        def ask(view: View) -> None:
            found.append(what_if(session, view, strategy))

        for view in views:
            steps.do(view, partial(ask, view))
    if call.json:
        call.console.document({"what_if": [asdict(one) for one in found]} | told(steps), "")
    else:
        for one in found:
            show_what_if(call.console, one)
    return conclude(call, steps.failures, steps.skipped, len(found))


def show_what_if(console: Console, found: WhatIf) -> None:
    """Late rows and windows, as they are and as they would be."""
    from tidegate.console.port import Table

    if found.examples:
        rows = [(w.window_start, w.window_end, w.late, w.late_then) for w in found.examples]
        title = f"{found.view}: windows that have late rows"
        columns = ["window_start", "window_end", "late rows", "would be late"]
        console.table(Table(columns, rows, title=title, unit=None))
    share = (
        f"{100 * found.late / max(found.rows, 1):.2f} %",
        f"{100 * found.late_then / max(found.rows, 1):.2f} %",
    )
    console.document(
        None,
        f"{found.source}: {counted(found.late, 'late row')} ({share[0]}) with {found.was}; "
        f"{found.late_then:,} ({share[1]}) with {found.strategy}\n{found.view}: of "
        f"{counted(found.windows, 'closed window')} that have late rows, {found.complete:,} "
        "would be complete",
    )


def show(console: Console, reports: list[ViewAmendment], dry_run: bool) -> None:
    """The windows of each view, then a line for each view."""
    from tidegate.console.port import Table

    for report in reports:
        if report.examples:
            rows = [
                (w.window_start, w.window_end, w.revision, "" if w.late is None else w.late, w.groups)
                for w in report.examples
            ]
            more = report.windows - len(report.examples)
            title = f"{report.view}: {counted(report.windows, 'window')}" + (
                f"; the first {len(rows)} are shown" if more else ""
            )
            columns = ["window_start", "window_end", "revision", "late rows", "changed rows"]
            console.table(Table(columns, rows, title=title, unit=None))
    for report in reports:
        console.document(None, f"{report.view}: {_said(report, dry_run)}")
        for note in report.notes:
            console.note(f"{report.view}: {note}")


def _said(report: ViewAmendment, dry_run: bool) -> str:
    if not report.windows:
        return "nothing to amend"
    late = "" if report.late is None else f", {counted(report.late, 'late row')} included"
    done = "would be amended" if dry_run else "amended"
    changed = f"{counted(report.groups, 'row')} changed ({report.seconds:.1f} s)"
    return f"{counted(report.windows, 'window')} {done}{late}, {changed}"
