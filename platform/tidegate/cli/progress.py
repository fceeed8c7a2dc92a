"""What `tidegate test` says: a line that moves while a file runs, a line for each file, and what failed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.testing.outcome import FileReport, RecordOutcome

if TYPE_CHECKING:
    from tidegate.console.port import Console

_GREEN, _RED, _YELLOW, _DIM, _PLAIN = "\033[32m", "\033[31m", "\033[33m", "\033[2m", "\033[0m"


class FileProgress:
    """Of test files, for people. `color`: whether what reads it is a terminal."""

    def __init__(self, console: Console, color: bool) -> None:
        self._console, self._color = console, color

    def record(self, path: Path, done: int, total: int) -> None:
        """A record of a file has been run."""
        if self._color:
            sys.stderr.write(f"\r\033[K{_DIM}  {path}  {done}/{total}{_PLAIN}")
            sys.stderr.flush()

    def file(self, report: FileReport) -> None:
        """A file has ended."""
        if self._color:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
        counts = [f"{report.count('passed')} passed"]
        counts += [f"{n} {s}" for s in ("failed", "updated", "skipped") if (n := report.count(s))]
        mark = self._paint(_RED, "✗") if report.failures else self._paint(_GREEN, "✓")
        lines = [f"{mark} {report.path}: {', '.join(counts)} ({report.seconds:.1f} s)"]
        lines += [self._failure(o) for o in report.outcomes if o.status in ("failed", "updated")]
        self._console.document(report.to_dict(), "\n".join(lines))

    def summary(self, reports: Sequence[FileReport], not_run: int) -> None:
        """All is done."""
        data = totals(reports) | {"not_run": not_run}
        failed = sum(1 for report in reports if report.failures)
        text = f"{data['files']} {'file' if data['files'] == 1 else 'files'}"
        text += f", {failed} failed" if failed else ", all passed"
        counts = [f"{data[s]} {s}" for s in ("passed", "failed", "updated", "skipped") if data[s]]
        text += f"; {data['records']} {'record' if data['records'] == 1 else 'records'}: {', '.join(counts) or 'none'}"
        text += f" ({data['seconds']:.1f} s)"
        if not_run:
            text += f"; {not_run} {'file was' if not_run == 1 else 'files were'} not run"
        self._console.document(data, self._paint(_RED if failed else _GREEN, text))

    def _failure(self, outcome: RecordOutcome) -> str:
        record = outcome.record
        parts = [f"\n{record.file}:{record.line}: {record.text.strip()}", _indented(outcome.sql)]
        parts += [_indented(outcome.message), self._diff(outcome.diff)]
        return "\n".join(part for part in parts if part)

    def _diff(self, diff: str) -> str:
        colors = {"-": _RED, "+": _GREEN}
        lines = (self._paint(colors.get(line[:1], ""), line) for line in diff.splitlines())
        return _indented("\n".join(lines))

    def _paint(self, color: str, text: str) -> str:
        return f"{color}{text}{_PLAIN}" if self._color and color else text


def is_terminal() -> bool:
    """Whether somebody looks at both streams."""
    return sys.stdout.isatty() and sys.stderr.isatty()


def totals(reports: Sequence[FileReport]) -> dict[str, Any]:
    """Counts over all files."""
    outcomes = [o for report in reports for o in report.outcomes]
    counts = {s: sum(o.status == s for o in outcomes) for s in ("passed", "failed", "updated", "skipped")}
    seconds = round(sum(report.seconds for report in reports), 3)
    return {"event": "summary", "files": len(reports), "records": len(outcomes), **counts, "seconds": seconds}


def _indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())
