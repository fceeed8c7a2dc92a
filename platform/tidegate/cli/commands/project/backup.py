"""`tidegate backup`: a copy of everything that is stored, while runs and live mode write."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.invocation import Invocation, guarded


@guarded
def backup(
    call: Invocation,
    target: Annotated[
        Path,
        typer.Argument(help="Folder for the copy, new, empty, or with an earlier copy, which is replaced."),
    ],
) -> int:
    """Copy everything that an environment has stored into a folder, as of one moment. Runs and live mode can write
    meanwhile.

    The folder then has a folder copy with the tables and their catalog (warehouse), definitions that were made in the
    shell (definitions) and what sinks have delivered into folders (sinks). An earlier copy there is replaced when the
    new one is whole, and its files are not copied again. Recordings (_replay) are not copied, since they can be made
    again, and sinks on object storage neither. It needs a catalog in SQLite, and starts no JVM.

    Example: tidegate backup /backup/shop
    """
    from tidegate.audit.backup import back_up
    from tidegate.wording import counted

    done = back_up(call.project(), target.expanduser().absolute())
    text = f"copied {counted(len(done.tables), 'table')}, {counted(done.files, 'file')}"
    text += f" ({done.bytes / 1e6:,.1f} MB, {counted(done.copied, 'new file')}) into {done.target}"
    for sink in done.left_out:
        text += f"\nthe folder of {sink} is on object storage, and was not copied"
    call.console.document(asdict(done), text)
    return 0
