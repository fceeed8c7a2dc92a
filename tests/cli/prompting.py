"""The prompt on a session without Spark, as a program of its own for a pseudo-terminal: python prompting.py FOLDER.

Statements are analysed as always, so that errors have their carets; a SELECT gives the numbers of its LIMIT.
"""

from __future__ import annotations

import re
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

from tidegate.cli.invocation import _interrupt
from tidegate.cli.shell.loop import interact
from tidegate.console import choose_console
from tidegate.project import Project
from tidegate.runtime.result import Result
from tidegate.sql import analyse


class Session:
    """A statement with LIMIT 99 says that it runs, and takes a minute."""

    def __init__(self, project: Project) -> None:
        self.project, self.catalog = project, project.catalog()
        self._cancelled = threading.Event()
        context = SimpleNamespace(cancelAllJobs=self._cancel)
        self.spark = SimpleNamespace(sparkContext=context)

    def _cancel(self) -> None:
        print("jobs cancelled", flush=True)
        self._cancelled.set()

    def execute_all(self, sql: str, file: str = "<sql>") -> Iterator[Result]:
        """Numbers up to the LIMIT; wide rows where the statement says so."""
        for _ in analyse(sql, self.catalog, file):
            count = int((re.search(r"LIMIT (\d+)", sql) or [0, "1"])[1])
            if count == 99:
                print("running", flush=True)
                if self._cancelled.wait(60):
                    raise RuntimeError("the job was cancelled")
            names = [(f"column_{i}", "int") for i in range(30 if "wide" in sql else 1)]
            yield Result(columns=names, fixed=[(row,) * len(names) for row in range(count)])


if __name__ == "__main__":
    signal.signal(signal.SIGINT, _interrupt)
    interact(Session(Project.load(Path(sys.argv[1]))), choose_console())  # type: ignore[arg-type]
