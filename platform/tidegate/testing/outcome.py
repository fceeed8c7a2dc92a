"""What became of test files, record by record."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tidegate.testing.records import Record

Status = Literal["passed", "failed", "skipped", "updated"]


@dataclass(frozen=True)
class RecordOutcome:
    """One record. `message` says why it failed, `sql` what was run, `diff` how the rows differ."""

    record: Record
    status: Status
    seconds: float
    sql: str = ""
    message: str = ""
    diff: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "file": self.record.file,
            "line": self.record.line,
            "status": self.status,
            "sql": self.sql,
            "message": self.message,
            "diff": self.diff,
            "seconds": round(self.seconds, 3),
        }


@dataclass
class FileReport:
    """One file: its records in order, and how long it took."""

    path: Path
    outcomes: list[RecordOutcome] = field(default_factory=list)
    seconds: float = 0.0

    def count(self, status: Status) -> int:
        """How many records ended so."""
        return sum(o.status == status for o in self.outcomes)

    @property
    def failures(self) -> list[RecordOutcome]:
        return [o for o in self.outcomes if o.status == "failed"]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: counts, and the failed records."""
        return {
            "file": str(self.path),
            "passed": self.count("passed"),
            "failed": self.count("failed"),
            "skipped": self.count("skipped"),
            "updated": self.count("updated"),
            "seconds": round(self.seconds, 3),
            "failures": [o.to_dict() for o in self.failures],
        }
