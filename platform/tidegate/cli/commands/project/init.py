"""`tidegate init`: a small project that works."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.invocation import Invocation, guarded
from tidegate.errors import TidegateError

#: Names that would mean something inside the package itself.
_RENAMED = {"gitignore": ".gitignore", "github": ".github"}


@guarded
def init(
    call: Invocation,
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="Folder to create; it may exist if it is empty.", show_default=False
        ),
    ],
) -> int:
    """Create a new project: a source, two views, sample data, schedules, alerts, expectations, tests, a CI file.
    It overwrites nothing.

    Example: tidegate init shop
    """
    written = write_template(folder)
    data = {"project": str(folder), "files": written}
    steps = [
        f"made {folder}: {', '.join(written)}",
        "",
        "next steps:",
        f"  cd {folder}",
        "  tidegate check                       # SQL, environment and schedules, without starting anything",
        "  tidegate run                         # reads data/, judges every row, closes windows",
        "  tidegate sql -c 'SELECT * FROM orders_hourly'",
        "  tidegate late orders                 # shows which rows were late, and by how much",
        "  tidegate test tests                  # runs tests/*.slt on a temporary copy of the project",
        "  tidegate docs                        # writes pages that describe the project",
        "  tidegate ui                          # shows the project in Dagster",
        "",
        "A new .sql file in assets/ becomes an asset after `tidegate check` and a reload in Dagster.",
    ]
    call.console.document(data, "\n".join(steps))
    return 0


def write_template(folder: Path) -> list[str]:
    """Copy the template into `folder` and return the files, relative to it. Raises TG704 if any is there
    already.
    """
    template = resources.files("tidegate.cli") / "template"
    files = dict(_walk(template, ""))
    taken = [name for name in files if (folder / name).exists()]
    if taken or (folder / "assets").is_dir():
        what = taken[0] if taken else "assets"
        raise TidegateError("TG704", f"{folder} has {what} already", hint="choose another folder")
    for name, source in files.items():
        target = folder / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
        except OSError as error:
            raise TidegateError("TG704", f"can't write {target}: {error.strerror}") from None
    return sorted(files)


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for entry in folder.iterdir():
        if entry.name == "__pycache__":
            continue
        name = prefix + _RENAMED.get(entry.name, entry.name)
        found += _walk(entry, f"{name}/") if entry.is_dir() else [(name, entry)]
    return found
