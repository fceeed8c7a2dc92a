"""What docs/errors.md says beside the meaning of a code: why it comes, what to do, and how it is printed.

`TEXTS`: (why, what to do) for every code; what to do may be empty where the hint of the example says it. `PRINTED`:
an example of each error that neither a statement alone (tests/sql/errors) nor a command without Spark
(tests/cli/errors) can raise, as a project with made-up names gets it; a test compares it with the source.
"""

from __future__ import annotations

from infra.error_texts.commands import COMMANDS
from infra.error_texts.printed import PRINTED
from infra.error_texts.projects import PROJECTS
from infra.error_texts.running import RUNNING
from infra.error_texts.sql import SQL

__all__ = ["PRINTED", "TEXTS"]

TEXTS: dict[str, tuple[str, str]] = SQL | RUNNING | PROJECTS | COMMANDS
