"""How a log came to where it is: partitions' progress as of a few earlier commits, and the row behind an event time."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from tidegate.errors import TidegateError
from tidegate.project.storage import Storage
from tidegate.store.metadata import CommittedTable, ProgressRow, StoredCommit, read_progress
from tidegate.watermark import TimeKind

#: Commits whose progress is read at most: each is one small file.
MOST_COMMITS = 6


def chosen(commits: Sequence[StoredCommit], span: float, most: int = MOST_COMMITS) -> list[StoredCommit]:
    """A few of the commits (newest first), oldest first: the newest, the newest one that is at least `span` seconds
    older (the oldest, if none is), and some evenly in between."""
    batches = [c for c in commits if c.summary.get("tidegate.progress")]
    if not batches:
        return []
    edge = batches[0].at_ms - span * 1000
    first = next((k for k, c in enumerate(batches) if c.at_ms <= edge), len(batches) - 1)
    picked = {round(first * k / (most - 1)) for k in range(most)} if first >= most else set(range(first + 1))
    return [batches[k] for k in sorted(picked, reverse=True)]


def read_history(
    storage: Storage, table: CommittedTable, span: float
) -> list[tuple[float, list[ProgressRow]]]:
    """(when, s since 1970, partitions) of the chosen commits, oldest first. What can't be read any more (compaction and
    expiry go on meanwhile) is left out, but for the newest: that raises TG620."""
    found = []
    picked = chosen(table.commits, span)
    for commit in picked:
        try:
            rows = read_progress(storage, table, commit)
        except TidegateError:
            if commit is picked[-1]:
                raise
            continue
        partitions = [row for row in rows if row.partition is not None]
        if partitions:
            found.append((commit.at_ms / 1000, partitions))
    return found


def find_offset(
    storage: Storage, table: CommittedTable, partition: str, column: str, kind: TimeKind, value: int
) -> int | None:
    """The first offset of a partition whose row has this event time; None if it is not to be found any more."""
    return _find_offset(_Place(storage, table), table.uuid, partition, column, kind, value)


class _Place:
    """Where to look; the same for a cache, whatever the newest commit is: a row that is found stays found."""

    def __init__(self, storage: Storage, table: CommittedTable) -> None:
        self.storage, self.table = storage, table

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Place)

    def __hash__(self) -> int:
        return 0


@functools.lru_cache(maxsize=256)
def _find_offset(
    place: _Place, uuid: str, partition: str, column: str, kind: TimeKind, value: int
) -> int | None:
    from pyiceberg.expressions import And, EqualTo, NotEqualTo, Reference
    from pyiceberg.expressions.literals import literal
    from pyiceberg.table import StaticTable

    static = StaticTable.from_metadata(place.table.metadata_location, place.storage.pyiceberg_properties())
    text = kind.format(value).replace(" ", "T")
    wanted = And(
        EqualTo(term=Reference("_source_partition"), value=literal(partition)),
        NotEqualTo(term=Reference("_outcome"), value=literal("watermark")),
        EqualTo(term=Reference(column), value=literal(text)),
    )
    scan = static.scan(row_filter=wanted, selected_fields=("_offset",))
    offsets = [o for o in scan.to_arrow().column("_offset").to_pylist() if o is not None]
    return min(offsets, default=None)
