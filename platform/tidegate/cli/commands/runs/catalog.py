"""`tidegate catalog`: move the tables of an environment to another catalog."""

from __future__ import annotations

from dataclasses import asdict

import typer

from tidegate.cli.invocation import Invocation, guarded

catalog = typer.Typer(
    name="catalog",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Move the tables of an environment from a catalog that is a folder to one in a file of SQLite.",
)


@guarded
def migrate(call: Invocation) -> int:
    """Move an environment's tables from a catalog that is a folder (type: hadoop) to a catalog in a file of SQLite.

    No data are copied: the new catalog refers to each table's newest metadata file, and at the end the environment's
    file names the new catalog. Stop runs and live mode first. If the command is interrupted, run it again. An
    environment with reads: is moved after the one that it reads.

    Example: tidegate catalog migrate --env production
    """
    from tidegate.maintenance.catalog_move import move_catalog

    moved = move_catalog(call.project())
    lines = [f"moved {name}" for name in moved.tables] + [f"{name} was moved before" for name in moved.before]
    lines.append(f"the catalog is {moved.catalog}")
    if moved.environment is not None:
        lines.append(
            f"{moved.environment} names it now; other environments with these tables need the same line, and for "
            "another namespace (such as that of a branch) run this command again with --env"
        )
    call.console.document(asdict(moved), "\n".join(lines))
    return 0


catalog.command("migrate")(migrate)
