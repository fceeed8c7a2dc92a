"""`tidegate show`: the newest rows of what is stored, without a JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.invocation import Invocation, guarded
from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from tidegate.show.newest import Newest


@guarded
def show(
    call: Invocation,
    name: Annotated[
        str,
        typer.Argument(
            help=(
                "A source, table or view, or one of their system tables: NAME$late, $rejected, $raw, $watermarks, "
                "$revisions, $v1 (a version of a view)."
            ),
            show_default=False,
        ),
    ],
    where: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION",
            help=(
                "Show only rows for which this is true: SQL comparisons of columns with constants, IN, BETWEEN, "
                "IS NULL, AND, OR, NOT."
            ),
            show_default=False,
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="How many rows to show at most.")] = 20,
) -> int:
    """Show the newest rows of a source, table or view: those of the latest batch first, of a view the latest windows.

    It reads one snapshot, starts no JVM, takes no lease, and can be used while live mode runs. With --json, every row
    is one object.

    Example: tidegate show flights --where "origin = 'JFK' AND dep_delay > 60"
    """
    from tidegate.console.port import Table
    from tidegate.show.newest import OnlySparkTells, newest_rows

    try:
        found = newest_rows(call.project(), name, where, limit)
    except OnlySparkTells as error:
        raise TidegateError("TG705", str(error), hint=error.hint) from None
    if not found.exists:
        call.console.note(f"{name} has not run yet: tidegate run {name.partition('$')[0]}")
    call.console.table(Table(found.columns, found.rows, found.types))
    if (more := _more(found)) is not None:
        call.console.note(more)
    return 0


def _more(found: Newest) -> str | None:
    """What is not shown."""
    shown = len(found.rows)
    if found.total is None:
        return f"the newest {shown:,} rows; there are more: --limit shows more of them"
    if found.total == shown:
        return None
    return f"the newest {shown:,} of {found.total:,} rows: --limit shows more of them"
