"""A project on disk: definitions in `assets/`, environments in `resources/`, schedules in `jobs/`.

What this package gives by its name is loaded when it is asked for: a command that another process answers does not need
it (`folder.py`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.project.environment import Environment
    from tidegate.project.project import Project
    from tidegate.project.storage import Storage

__all__ = ["Environment", "Project", "Storage"]

_HOME = {"Environment": "environment", "Project": "project", "Storage": "storage"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
