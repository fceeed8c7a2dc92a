"""`tidegate erase`: remove a person's rows from everything that holds them (E9)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.invocation import Invocation, agreeing, asked, guarded
from tidegate.wording import counted

if TYPE_CHECKING:
    from tidegate.maintenance.erasure import ErasedTable, Erasure


_Where = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="WHERE …",
        help="Which rows: WHERE and a condition over the columns. Put it in double quotes if it contains a text.",
        show_default=False,
    ),
]
_Raw = Annotated[
    list[str] | None,
    typer.Option(
        "--raw",
        metavar="TEXT",
        help="Also erase rejected rows whose raw text contains TEXT. Can be repeated.",
        show_default=False,
    ),
]
_KeepAggregates = Annotated[
    bool,
    typer.Option(
        "--keep-aggregates",
        help="Leave the results of views that only count and sum the rows as they are, and mark their windows. "
        "Without this option, nothing is erased if there is such a view.",
    ),
]
_Recompute = Annotated[
    bool,
    typer.Option(
        "--recompute",
        help="Recompute the results of views that only count and sum the rows, and of all other views that do not show "
        "the columns of the condition (sessions, joins, OVER), from the rows that are left.",
    ),
]
_DropBranches = Annotated[
    bool,
    typer.Option(
        "--drop-branches",
        help="Drop the tables of branch environments that contain such rows, or values of them, with their files. The "
        "next run of a branch computes them again. Without this option, nothing is erased if there are such tables.",
    ),
]
_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show how many rows would be erased, but write nothing.")
]
_Resume = Annotated[
    bool, typer.Option("--resume", help="Finish an erasure that was interrupted; no condition is needed.")
]


@guarded
def erase(
    call: Invocation,
    name: Annotated[str, typer.Argument(help="A source or table.", show_default=False)],
    where: _Where = None,
    raw: _Raw = None,
    keep_aggregates: _KeepAggregates = False,
    recompute: _Recompute = False,
    drop_branches: _DropBranches = False,
    dry_run: _DryRun = False,
    yes: Annotated[bool, typer.Option("--yes", help="Agree without being asked.")] = False,
    resume: _Resume = False,
) -> int:
    """Erase the rows of a person, for example on a request under the GDPR, from the on-time, late and rejected rows of
    a source and from views and Iceberg sinks that show the columns of the condition, and remove all earlier snapshots
    and files that contain them. In a compacted topic, a Kafka sink with keys sends null values for them. With
    --recompute, other views are computed again. The rows cannot be restored.

    It asks first. A record remains of who asked, when, and how many rows of which partition and hour, so that audits
    still find no difference. If a place with such rows cannot be reached, nothing is erased. Stop runs and live mode
    first.

    Example: tidegate erase orders "WHERE customer = 'ann'" --dry-run

    Example: tidegate erase orders WHERE customer_id = 4711
    """
    project = call.project()
    catalog = project.catalog()
    catalog.get(name)
    condition = _condition(where or [])
    if (condition is None) != resume:
        raise typer.BadParameter(
            "give WHERE and a condition, or --resume without a condition", param_hint="WHERE"
        )
    if keep_aggregates and recompute:
        raise typer.BadParameter(
            "give --keep-aggregates or --recompute, and not both", param_hint="--recompute"
        )
    call.console.note("starting Spark …")
    with call.session(project) as session:
        from tidegate.maintenance.erase import erase as erase_rows

        session.confirm = agreeing if yes else asked if sys.stdin.isatty() else None
        done = erase_rows(
            session,
            name,
            condition,
            tuple(raw or ()),
            keep_aggregates=keep_aggregates,
            recompute=recompute,
            drop_branches=drop_branches,
            dry_run=dry_run,
            notify=call.console.note,
        )
    call.console.document({"dry_run": dry_run} | done.to_dict(), "\n".join(_lines(done, dry_run)))
    for note in done.notes:
        call.console.note(f"{done.name}: {note}")
    return 0


def _condition(words: list[str]) -> str | None:
    """What follows WHERE; None if nothing was given."""
    text = " ".join(words).strip()
    if not text:
        return None
    first, _, rest = text.partition(" ")
    return rest.strip() if first.casefold() == "where" else text


def _lines(done: Erasure, dry_run: bool) -> list[str]:
    lines = [_said(table, dry_run) for table in done.tables]
    if done.undecoded:
        lines.append(
            f"{done.name}: {counted(done.undecoded, 'rejected row')} could not be decoded, so the condition was not "
            "compared with them; --raw TEXT also erases those whose raw text contains TEXT"
        )
    return lines


def _said(table: ErasedTable, dry_run: bool) -> str:
    if table.dropped is not None:
        which = f'{table.table}: table of environment "{table.dropped}"'
        return f"{which} would be dropped" if dry_run else f"{which} dropped"
    if table.keys is not None:
        keys = counted(table.keys, "key")
        return (
            f"{table.table}: {keys} {'would be' if dry_run else 'were'} deleted in the topic by null values"
        )
    if table.recomputed:
        left = (
            ""
            if not table.marked
            else (
                f"; {counted(table.marked, 'window')} marked, whose counts and sums stay, because other rows that they "
                "need are beyond their retention"
            )
        )
        done = "would be recomputed" if dry_run else "recomputed"
        return f"{table.table}: {done} from the rows that are left{left}"
    if table.marked:
        return f"{table.table}: {counted(table.marked, 'window')} marked; the counts and sums stay"
    counts = {"on time": table.on_time, "late": table.late, "rejected": table.rejected}
    rows = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    found = f"{counted(table.rows, 'row')}{f' ({rows})' if rows else ''}"
    files, snapshots = counted(table.files, "file"), counted(table.snapshots, "earlier snapshot")
    if dry_run:
        return f"{table.table}: {found} would be erased: {files} written again, {snapshots} removed"
    return f"{table.table}: {found} erased: {files} written again, {snapshots} removed"
