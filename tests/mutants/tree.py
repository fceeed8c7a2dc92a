"""A copy of the repository in which guards are broken; the files that people work on are not touched."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutants.guard import ROOT

#: Seconds that the tests of a guard may take; some of them start Spark.
LIMIT = 600.0
#: What no test of a guard depends on.
_LEFT_OUT = ("docs/", "tests/mutants/", "assets/", "CHANGELOG.md")


@dataclass(frozen=True)
class Run:
    """How tests ended. `failed`: their names, those of errors in fixtures included; `passed`: of the others. `code`:
    pytest's exit code, None where time was over; `end`: the last lines that it printed."""

    code: int | None
    failed: tuple[str, ...] = ()
    passed: tuple[str, ...] = field(default=(), repr=False)
    end: str = ""

    @property
    def is_red(self) -> bool:
        """Whether tests ran, and failed. A file that can't be imported, or a run without an end, is no failed test."""
        return self.code == 1 and bool(self.failed)


def files() -> list[str]:
    """Those of the working tree, relative to it: what git knows, and what it does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    return sorted(name for name in set(listed.stdout.split("\0")) if name and (ROOT / name).is_file())


def digest(names: Sequence[str]) -> str:
    """Of all files that a result depends on."""
    found = hashlib.sha256()
    for name in names:
        if not name.startswith(_LEFT_OUT):
            found.update(name.encode() + b"\0" + hashlib.sha256((ROOT / name).read_bytes()).digest())
    return found.hexdigest()[:16]


class Tree:
    """The copy. `run` tells pytest what to run in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        classes = ROOT / ".tidegate" / "classes"
        self._environment = os.environ | {
            "PYTHONPATH": f"{root / 'platform'}:{root}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
            **({"TIDEGATE_CLASS_ARCHIVES": f"{classes}:ro"} if classes.is_dir() else {}),
        }
        self._environment.pop("PYTEST_ADDOPTS", None)
        self._running: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def stop(self) -> None:
        """End what runs in it; nothing more is started."""
        self._stopped = True
        if self._running is not None:
            _end(self._running)

    @contextmanager
    def twin(self) -> Iterator[Tree]:
        """A copy of the copy, which is removed in the end."""
        root = self.root.with_name(f"{self.root.name}-twin")
        shutil.copytree(self.root, root, symlinks=True)
        try:
            yield Tree(root)
        finally:
            shutil.rmtree(root, ignore_errors=True)

    @contextmanager
    def broken(self, path: Path, text: str) -> Iterator[None]:
        """While the block runs, a file has this text."""
        whole = (self.root / path).read_text("utf-8")
        (self.root / path).write_text(text, "utf-8")
        try:
            yield
        finally:
            (self.root / path).write_text(whole, "utf-8")

    def run(self, tests: Sequence[str], limit: float, until_red: bool = True) -> Run:
        """Run tests in a process of their own. `until_red`: the first that fails is enough."""
        report = self.root / ".report.xml"
        report.unlink(missing_ok=True)
        command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        command += ["-x"] if until_red else []
        code, printed = self.call([*command, *tests], limit)
        failed, passed = _outcomes(report)
        return Run(code, failed, passed, "\n".join(printed.splitlines()[-30:]))

    def call(self, arguments: Sequence[str], limit: float) -> tuple[int | None, str]:
        """Python with these arguments, in a process of its own: its exit code, None where time was over, and what it
        printed."""
        if self._stopped:
            raise InterruptedError("stopped")
        with tempfile.TemporaryFile() as printed:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=self.root,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._running = process
            try:
                code: int | None = process.wait(limit)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                # With everything that it has started; on Ctrl-C, too.
                _end(process)
            printed.seek(0)
            return code, printed.read().decode(errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _outcomes(report: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tests that failed, and the others, of a report in the form of JUnit."""
    if not report.is_file():
        return (), ()
    failed: list[str] = []
    passed: list[str] = []
    for case in ET.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        red = case.find("failure") is not None or case.find("error") is not None
        (failed if red else passed).append(name)
    return tuple(failed), tuple(passed)


@contextmanager
def copied(names: Sequence[str]) -> Iterator[Tree]:
    """A copy of these files, which is removed in the end."""
    folder = ROOT / ".tidegate"
    folder.mkdir(exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix="mutants-", dir=folder))
    try:
        for name in names:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name)
        # Compiled once. Python compares a file's sum, not its time, before it takes what was compiled.
        subprocess.run(
            [
                sys.executable,
                "-m",
                "compileall",
                "-q",
                "--invalidation-mode",
                "checked-hash",
                "platform",
                "tests",
            ],
            cwd=root,
            check=True,
        )
        yield Tree(root)
    finally:
        shutil.rmtree(root, ignore_errors=True)
