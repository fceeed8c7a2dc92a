"""Commands of `tidegate` in the tests' own process: with its Spark, and without starting a Python for each of them."""

from __future__ import annotations

import contextlib
import logging
import signal
from pathlib import Path

from typer.testing import CliRunner

from tidegate.cli.main import app


def tidegate(root: Path, *words: str) -> tuple[int, str, str]:
    """What `tidegate WORDS` ends with in the folder of a project, and what it says on stdout and on stderr."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        with contextlib.chdir(root):
            done = CliRunner().invoke(app, list(words))
    finally:
        # Commands are made for a process of their own and leave their handlers installed.
        signal.signal(signal.SIGINT, handler)
        logging.disable(logging.NOTSET)
    return done.exit_code, done.stdout, done.stderr
