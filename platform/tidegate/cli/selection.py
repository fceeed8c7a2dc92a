"""`--select` and `--exclude`, the same for every command; `project/selection.py` has the grammar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tidegate.sql.catalog import Catalog

SelectOption = Annotated[
    list[str] | None,
    typer.Option(
        "--select",
        "-s",
        metavar="WHAT",
        help="Names, tag:, owner:, group:, kind:, path:; +x and x+ with what it reads and what reads it. Repeatable.",
        show_default=False,
    ),
]
ExcludeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude", metavar="WHAT", help="What of it to leave out; as --select.", show_default=False
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
        raise typer.BadParameter(f"names as arguments, or --select and --exclude: write --select {names[0]}")
    from tidegate.project.selection import select as resolve

    return resolve(catalog, select or (), exclude or ())
