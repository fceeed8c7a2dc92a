"""Python environments beside this one: they find its libraries, but not tidegate.

A file of its own: tests of the wheel and of the cluster share it, and nothing else.
"""

from __future__ import annotations

import sys
import venv
from pathlib import Path


def without_tidegate(home: Path) -> Path:
    """A new environment in `home` with this one's libraries linked in, all but tidegate; its interpreter."""
    venv.create(home, with_pip=False)
    (site,) = home.glob("lib/python*/site-packages")
    library = Path(next(p for p in sys.path if p.endswith("site-packages")))
    for entry in library.iterdir():
        # Path files (.pth) are how an editable installation would come along.
        if "tidegate" not in entry.name and entry.suffix != ".pth":
            (site / entry.name).symlink_to(entry)
    return home / "bin" / "python"
