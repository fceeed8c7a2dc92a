"""How many rows stored tables hold now: not those that are retired or erased."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegate.plan.costs import rows_so_far

if TYPE_CHECKING:
    from tidegate.project import Storage
    from tidegate.store.metadata import CommittedTable


def held_in(storage: Storage, found: Sequence[CommittedTable | None]) -> tuple[int | None, int | None]:
    """Rows and bytes of the tables that a view reads, as far as they are there; None where none is."""
    tables = [table for table in found if table is not None]
    if not tables:
        return None, None
    rows = sum(_counting(storage, table) for table in tables)
    return rows, sum(table.held[1] if table.held is not None else 0 for table in tables)


def _counting(storage: Storage, table: CommittedTable) -> int:
    """On-time rows of a log, or final rows of a view, that are there."""
    from tidegate.iceberg.retire import retired
    from tidegate.ingest.erased import erased

    rows = rows_so_far(table.summary) - retired(table, storage).on_time - erased(table, storage).on_time
    # (Of a view only that is known.)
    return rows if table.held is None else min(rows, table.held[0])
