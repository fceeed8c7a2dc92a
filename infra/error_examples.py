"""Examples of errors that a command prints: the files in tests/cli/errors, and what tidegate says to them today.

Such a file has the command in its first line, and below it the files of a project, each after a line `-- its/path --`.
They are added to a project that `tidegate init` has just written. Nothing of it starts Spark.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import signal
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "cli" / "errors"
#: What stands for the folder of the project in what is printed.
SHOWN_FOLDER = "/home/ada/shop"
_FILE = re.compile(r"^-- (\S+)( \(Latin-1\))? --\n", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """`files`: {path: text}; `latin1`: those that are not written as UTF-8."""

    code: str
    command: str
    files: dict[str, str]
    latin1: frozenset[str]

    def printed(self) -> str:
        """The part of the command's output that is about the code. Raises AssertionError if nothing is."""
        with _project() as folder:
            for name, text in self.files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(text, "latin-1" if name in self.latin1 else "utf-8")
            output = _invoke(shlex.split(self.command)[1:]).replace(str(folder), SHOWN_FOLDER)
        lines = output.splitlines()
        first = next((n for n, line in enumerate(lines) if f" {self.code}: " in f" {line}"), None)
        assert first is not None, f"{self.command} says nothing of {self.code}:\n{output}"
        last = first + 1
        while last < len(lines) and re.match(r" *(-->|\d+ \||\||\^|hint:)", lines[last]):
            last += 1
        return "\n".join(lines[first:last])


def read_example(file: Path) -> Example:
    """The example in a file whose name begins with its code."""
    first, *parts = _FILE.split(file.read_text("utf-8"))
    command = first.strip().removeprefix("$ ")
    assert command.startswith("tidegate "), file
    names, encodings, texts = parts[::3], parts[1::3], parts[2::3]
    latin1 = frozenset(name for name, encoding in zip(names, encodings, strict=True) if encoding)
    return Example(file.name[:5], command, dict(zip(names, texts, strict=True)), latin1)


def example_of(code: str) -> Example | None:
    """The example of a code; None if it has none in this folder."""
    file = next(FOLDER.rglob(f"{code}_*.txt"), None)
    return None if file is None else read_example(file)


@contextmanager
def _project() -> Iterator[Path]:
    from tidegate.cli.commands.project.init import write_template

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve() / "shop"
        write_template(folder)
        with chdir(folder):
            yield folder


def _invoke(arguments: list[str]) -> str:
    """What a command prints. Commands are made for a process of their own: what they change in it is undone."""
    from typer.testing import CliRunner

    from tidegate.cli.main import app

    handler = signal.getsignal(signal.SIGINT)
    try:
        # The variables of whoever writes the page must not change what is printed.
        unset = {name: None for name in os.environ if name in ("TIDEGATE_ENV", "TIDEGATE_PROJECT")}
        return CliRunner().invoke(app, arguments, env=unset).output
    finally:
        signal.signal(signal.SIGINT, handler)
        logging.disable(logging.NOTSET)
