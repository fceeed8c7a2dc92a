"""What is stored, read from Iceberg's metadata in a fraction of a second, without a JVM."""

from __future__ import annotations

from tidegate.store.metadata import CommittedTable, load_table, read_progress
from tidegate.store.status import read_status
from tidegate.store.status_values import ProjectStatus

__all__ = ["CommittedTable", "ProjectStatus", "load_table", "read_progress", "read_status"]
