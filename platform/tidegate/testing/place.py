"""The temporary project that a test file runs on: an empty one, or a copy of one that there is."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tidegate.project import Project


def copy_of(folder: Path) -> Project:
    """A temporary project with the definitions of another, and the files that its sources name.

    It has the default environment: a test never touches the project's own warehouse. Raises TG601 if the folder is
    no project, and the TG2xx errors of its definitions.
    """
    original = Project.load(folder)
    catalog = original.catalog()
    copy = Project.temporary(original.env.allow)
    try:
        shutil.copytree(original.root / "assets", copy.root / "assets", dirs_exist_ok=True)
        for relation in catalog.relations:
            options = relation.connector.model_dump() if relation.connector is not None else {}
            for value in options.values():
                if isinstance(value, str):
                    _bring(original.root, copy.root, value)
    except BaseException:
        copy.remove()
        raise
    return copy


def _bring(root: Path, target: Path, named: str) -> None:
    """Copy what a path of an option names, if it lies in the project; before the first `*` of a pattern."""
    plain = re.split(r"[*?\[{]", named)[0]
    relative = Path(plain)
    if plain != named and not plain.endswith("/"):
        relative = relative.parent
    source = root / relative
    if not plain or relative.is_absolute() or ".." in relative.parts or not relative.parts:
        return
    if source.is_dir():
        shutil.copytree(source, target / relative, dirs_exist_ok=True)
    elif source.is_file():
        (target / relative).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target / relative)
