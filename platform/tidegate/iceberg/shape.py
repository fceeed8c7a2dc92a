"""A table's metadata in figures, and what follows from them for its upkeep. No table here, no clock and no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Younger snapshots stay, however many there are: a tick or a query may be reading one of them.
GUARD_SECONDS = 600
#: From this many small files of one partition on they are put together.
FEW_FILES = 5


@dataclass(frozen=True)
class TableShape:
    """A table's metadata in figures. `snapshots`: (timestamp in ms, whether by tidegate, summary), oldest first,
    without those that a tag keeps."""

    snapshots: tuple[tuple[int, bool, dict[str, str]], ...]
    properties: dict[str, str]

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> TableShape:
        """Of a table with this metadata, as Iceberg writes it in JSON."""
        refs = metadata.get("refs") or {}
        tagged = {r["snapshot-id"] for n, r in refs.items() if n != "main"}
        snapshots = metadata.get("snapshots") or []
        # What a statement that broke off has left is no commit to the table (`statement.py`).
        parents = {s["snapshot-id"]: s.get("parent-snapshot-id") for s in snapshots}
        main, at = set(), refs["main"]["snapshot-id"] if "main" in refs else None
        while at in parents:
            main.add(at)
            at = parents[at]
        found = sorted(
            (s for s in snapshots if s["snapshot-id"] not in tagged), key=lambda s: s["timestamp-ms"]
        )
        return cls(
            tuple(
                (s["timestamp-ms"], s["snapshot-id"] in main and _ours(s["summary"]), s["summary"])
                for s in found
            ),
            dict(metadata.get("properties") or {}),
        )

    @property
    def files(self) -> int:
        """Data files of the newest snapshot."""
        return self._total("total-data-files")

    @property
    def bytes(self) -> int:
        """Their size."""
        return self._total("total-files-size")

    def _total(self, key: str) -> int:
        return int(self.snapshots[-1][2].get(key) or 0) if self.snapshots else 0

    def new_files(self, now: float, settle: float) -> int:
        """Data files that the next compaction may take, and the last one could not: what it is about has rested for
        `settle` seconds."""
        replaced = (at for at, _, s in reversed(self.snapshots) if s.get("operation") == "replace")
        since, until = next(replaced, 0) - settle * 1000, (now - settle) * 1000
        count = 0
        for at, _, summary in self.snapshots:
            if since < at <= until and summary.get("operation") != "replace":
                count += int(summary.get("added-data-files") or 0)
                count -= int(summary.get("deleted-data-files") or 0)
        return max(count, 0)

    def bound(self, now: float, keep: float, most: int | None, guard: float = GUARD_SECONDS) -> int | None:
        """Snapshots older than this (ms) can go; None: none. Never the newest that tidegate wrote."""
        newest = next((at for at, ours, _ in reversed(self.snapshots) if ours), None)
        if newest is None:
            return None
        bound = int((now - keep) * 1000)
        if most is not None and len(self.snapshots) > most:
            bound = max(bound, min(self.snapshots[-most][0], int((now - guard) * 1000)))
        return min(bound, newest)

    def expirable(self, bound: int | None) -> int:
        """How many snapshots are older."""
        return 0 if bound is None else sum(1 for at, _, _ in self.snapshots if at < bound)

    def last_before(self, key: str, before: float) -> int | None:
        """The newest number `key` (`tidegate.epoch`, `tidegate.tick`) that was committed by `before` (seconds)."""
        marks = (int(s[key]) for at, _, s in reversed(self.snapshots) if key in s and at <= before * 1000)
        return next(marks, None)


@dataclass(frozen=True)
class Rested:
    """Files that may be put together: those that may hold a row of a commit up to `upto`, by the column `number`, and
    whose rows have one of these values of `_open` (None: any)."""

    number: str
    upto: int
    open: tuple[bool | None, ...] | None = None


def _ours(summary: Mapping[str, str]) -> bool:
    return any(key.startswith("tidegate.") for key in summary)
