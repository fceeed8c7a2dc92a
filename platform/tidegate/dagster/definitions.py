"""The code location of one project: `dagster dev -m tidegate.dagster.definitions`.

The project is the folder in TIDEGATE_PROJECT (else the working directory, or the project that it is in), the
environment TIDEGATE_ENV (else `local`). `tidegate ui` sets both.

A file of its own: importing it opens the project, and Dagster is given its name.
"""

from __future__ import annotations

import os
from pathlib import Path

from tidegate.dagster.load import load_definitions
from tidegate.project.folder import find_root

defs = load_definitions(
    os.environ.get("TIDEGATE_PROJECT") or find_root(Path.cwd()), os.environ.get("TIDEGATE_ENV") or "local"
)
