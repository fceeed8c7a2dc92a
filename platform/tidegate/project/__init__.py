"""A project on disk: definitions in `assets/`, environments in `resources/`, schedules in `jobs/`."""

from __future__ import annotations

from tidegate.project.environment import Environment
from tidegate.project.project import Project
from tidegate.project.storage import Storage

__all__ = ["Environment", "Project", "Storage"]
