"""What a command is about: `--select` and `--exclude`, the same for all (`project/selection.py` has the grammar), and
the one source that some take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from tidegate.sql.catalog.catalog import Catalog
    from tidegate.sql.catalog.objects import Relation

#: The names that a command is given, by what it can be about.
NamesArgument = Annotated[
    list[str] | None, typer.Argument(help="Sources, tables, views or sinks. Default: everything.")
]
NamesAndInputsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        help="Sources, tables, views or sinks; everything that they read is included. Default: everything."
    ),
]
StoredNamesArgument = Annotated[
    list[str] | None,
    typer.Argument(help="Sources, tables or views. Default: everything that has a table."),
]
SelectOption = Annotated[
    list[str] | None,
    typer.Option(
        "--select",
        "-s",
        metavar="WHAT",
        help=(
            "Names, tag:, owner:, group:, kind:, path:; +x adds what x reads, x+ adds what reads "
            "x. Can be repeated."
        ),
        show_default=False,
    ),
]
ExcludeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude",
        metavar="WHAT",
        help="Leave these out of the selection; written like --select.",
        show_default=False,
    ),
]


def chosen(
    catalog: Catalog,
    names: Sequence[str] | None,
    select: Sequence[str] | None,
    exclude: Sequence[str] | None,
) -> list[str] | None:
    """The names that a command is for; None: everything. Names as arguments, or a selection, not both.

    Raises TG613 for a selection that nothing fits; arguments are left to the command to look up.
    """
    if not select and not exclude:
        return list(names) if names else None
    if names:
        raise typer.BadParameter(
            f"give either names as arguments, or --select and --exclude: write --select {names[0]}"
        )
    from tidegate.project.selection import select as resolve

    return resolve(catalog, select or (), exclude or ())


def required(
    catalog: Catalog,
    names: Sequence[str] | None,
    select: Sequence[str] | None,
    exclude: Sequence[str] | None,
) -> list[str]:
    """As `chosen`, of a command that has to be told what it is for."""
    wanted = chosen(catalog, names, select, exclude)
    if wanted is None:
        raise typer.BadParameter("name one object, or use --select")
    return wanted


def judged_relation(catalog: Catalog, name: str, command: str) -> Relation:
    """The source or table that `command` is asked about. Raises TG201 for an unknown name, TG701 for a view, with
    what to ask instead."""
    from tidegate.plan.stages import look_up
    from tidegate.sql.catalog.lineage import sources_of
    from tidegate.sql.catalog.objects import View

    found = look_up(catalog, name)
    if isinstance(found, View):
        roots = [o.name for o in sources_of(catalog, found) if not isinstance(o, View)]
        raise TidegateError(
            "TG701",
            f'"{found.name}" is a view: rows are late at the source, not at the view',
            hint=f"tidegate {command} {roots[0]}",
        )
    return found
