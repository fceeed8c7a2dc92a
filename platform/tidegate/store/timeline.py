"""How watermarks came to where they are: the progress of many commits, from the log itself, without a JVM.

The rows of a log's progress outlive its snapshots, so this reaches back to the first batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tidegate.errors import TidegateError
from tidegate.project.disk import trouble
from tidegate.project.storage import Storage
from tidegate.store.metadata import CommittedTable

#: Commits that are read at most, evenly spread: each is one small file.
MOST_MOMENTS = 240


@dataclass(frozen=True)
class Moment:
    """A source as of one commit. `at`: the clock of its batch, s since 1970. `published`: G, ticks of the time column;
    `newest`: the newest event time of all partitions; None: none yet. `partitions`: watermark and state (W8) by name.
    """

    epoch: int
    at: float
    published: int | None
    newest: int | None
    partitions: dict[str, tuple[int | None, str | None]] = field(default_factory=dict)


def read_timeline(
    storage: Storage, table: CommittedTable, partitions: Sequence[str] = (), most: int = MOST_MOMENTS
) -> list[Moment]:
    """Moments of a log, oldest first: the newest, the oldest, and evenly those between. `partitions`: whose watermarks
    are read as well. Empty before the first batch. Raises TG620 if the log can't be read."""
    from pyiceberg.expressions import And, BooleanExpression, EqualTo, In, IsNull, Or, Reference
    from pyiceberg.expressions.literals import literal
    from pyiceberg.table import StaticTable

    last = table.integer("tidegate.epoch")
    if not last or table.current_snapshot_id is None:
        return []
    step = max(1.0, (last - 1) / max(most - 1, 1))
    epochs = {round(1 + k * step) for k in range(most) if 1 + k * step <= last} | {last}
    whose: BooleanExpression = IsNull(term=Reference("_source_partition"))
    if partitions:
        whose = Or(whose, In(term=Reference("_source_partition"), literals={literal(p) for p in partitions}))
    of_batches = EqualTo(term=Reference("_outcome"), value=literal("watermark"))
    wanted = And(of_batches, In(term=Reference("_epoch"), literals={literal(e) for e in epochs}), whose)
    facts = ("watermark", "published", "state", "max_event_time")
    try:
        static = StaticTable.from_metadata(table.metadata_location, storage.pyiceberg_properties())
        scan = static.scan(
            row_filter=wanted,
            selected_fields=("_source_partition", "_epoch", "_arrival", *(f"_progress.{f}" for f in facts)),
            snapshot_id=table.current_snapshot_id,
        )
        rows = scan.to_arrow().to_pylist()
    except (OSError, ValueError, KeyError) as error:
        raise trouble(error) or TidegateError(
            "TG620", f"can't read the history of {table.name}: {error}"
        ) from None
    return _moments(rows)


def _moments(rows: Sequence[Mapping[str, Any]]) -> list[Moment]:
    found: dict[int, Moment] = {}
    for row in sorted(rows, key=lambda r: (r["_epoch"], r["_source_partition"] is not None)):
        progress, at = row["_progress"], row["_arrival"]
        if row["_source_partition"] is None:
            assert isinstance(at, datetime)
            found[row["_epoch"]] = Moment(
                row["_epoch"], at.timestamp(), progress["published"], progress["max_event_time"]
            )
        elif row["_epoch"] in found:
            found[row["_epoch"]].partitions[row["_source_partition"]] = (
                progress["watermark"],
                progress["state"],
            )
    return list(found.values())


def read_closes(view: CommittedTable) -> list[tuple[float, int]]:
    """(when, s since 1970; frontier after it, ticks) of the commits that moved a view's frontier, oldest first, as far
    as its snapshots have not expired."""
    found: list[tuple[float, int]] = []
    for commit in reversed(view.commits):
        frontier = commit.integer("tidegate.frontier")
        if frontier is not None and (not found or frontier > found[-1][1]):
            found.append((commit.at_ms / 1000, frontier))
    return found
