"""Which folder is a project: without reading any of it."""

from __future__ import annotations

import os
from pathlib import Path


def is_project(folder: Path) -> bool:
    """Whether the folder has `assets/` or `resources/`."""
    return (folder / "assets").is_dir() or (folder / "resources").is_dir()


def find_root(start: Path | str) -> Path:
    """`start` if it is a project, else the nearest parent with definitions or environments, else `start`.

    A parent counts only if it has `assets/*.sql` or `resources/*.yaml`: folders of these names are common.
    """
    folder = Path(os.path.abspath(Path(start).expanduser()))
    if is_project(folder):
        return folder
    for parent in folder.parents:
        if any((parent / "assets").glob("*.sql")) or any((parent / "resources").glob("*.yaml")):
            return parent
    return folder
