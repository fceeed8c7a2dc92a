"""What `tidegate erase` says of one erasure (E9): of each table what went, and what is left to others."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from tidegate.wording import counted

if TYPE_CHECKING:
    from tidegate.iceberg.retire import Gone


@dataclass
class ErasedTable:
    """What was done to one table, or would be. `rows`: that went; of a log also by outcome. `files`: written again.
    `snapshots`: that went. `orphans`: files that no snapshot knew. `marked`: windows of a view that keep their
    counts. `keys`: of a topic, that were deleted by null values. `recomputed`: whether a view was, from the rows that
    are left. `dropped`: the branch environment whose table was dropped as a whole; then `table` begins with its
    namespace."""

    table: str
    rows: int = 0
    on_time: int = 0
    late: int = 0
    rejected: int = 0
    files: int = 0
    snapshots: int = 0
    orphans: int = 0
    marked: int = 0
    keys: int | None = None
    recomputed: bool = False
    dropped: str | None = None


@dataclass
class Erasure:
    """One erasure. `id`, `by` and `at` are those of the record; None of one that is only looked at. `undecoded`:
    rejected rows that the condition can't be told of. `notes`: what is left to others."""

    name: str
    id: str | None = None
    by: str | None = None
    at: str | None = None
    tables: list[ErasedTable] = field(default_factory=list)
    undecoded: int = 0
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def rows(self) -> int:
        """Of the source."""
        return self.tables[0].rows if self.tables else 0

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def said_of(gone: Gone, files: int) -> str:
    """Of rows of a log that go, with so many files written again: how many, by outcome."""
    counts = {"on time": gone.on_time, "late": gone.late, "rejected": gone.rejected}
    told = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count) or "none"
    return f"rows: {told}; {counted(files, 'file')} written again"
