"""Live mode's supervisor: processes that work for groups, watched, restarted, stopped; health and metrics over HTTP.

No Spark here: a worker process is the same command with another option, and tells what it does as JSON lines.
"""

from __future__ import annotations

from tidegate.live.groups import Group, find_groups
from tidegate.live.supervisor import Supervisor

__all__ = ["Group", "Supervisor", "find_groups"]
