"""`tidegate docs`: pages about everything that the project defines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.invocation import Invocation, guarded
from tidegate.errors import TidegateError


@guarded
def docs(
    call: Invocation,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FOLDER", help="Folder to write to. Default: .tidegate/docs.", show_default=False
        ),
    ] = None,
) -> int:
    """Write pages about all sources, tables, views and sinks: descriptions, columns and where they come from,
    watermarks, lineage, owners, SQL, and what runs. The pages are plain files that need no server and no network.

    --json prints their content; the file catalog.json beside the pages has it, too.

    Example: tidegate docs --out public
    """
    from tidegate.pages import document, write_site

    project = call.project()
    said = document(project)
    folder = out or project.state_dir / "docs"
    try:
        files = write_site(said, folder)
    except OSError as error:
        raise TidegateError("TG704", f"can't write {error.filename}: {error.strerror}") from None
    pages = sum(file.endswith(".html") for file in files)
    text = f"{pages} pages in {folder}: open {folder / 'index.html'}"
    call.console.document({"folder": str(folder), "files": files, **said}, text)
    return 0
