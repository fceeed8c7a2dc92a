"""The past of a table goes: what its newest snapshot shows is all that is left of it, in every file (E9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.iceberg.attempt import overtaken

if TYPE_CHECKING:
    from tidegate.iceberg.protocol import Snapshot
    from tidegate.iceberg.tables import StoredTable, Upkeep

#: Later than every snapshot and every file, ms.
EVERYTHING = 1 << 50


def earlier(table: StoredTable) -> int:
    """How many snapshots there are beside the newest one."""
    return max(len(table.snapshot_ids()) - 1, 0)


def forget_history(upkeep: Upkeep, orphans_before: int, base: Snapshot) -> tuple[int, int]:
    """Leave of a table what its newest snapshot shows, which is `base`, and what tidegate said last; how many snapshots
    went, and how many files that none knew and that are older (ms). Raises TG502 if another snapshot is there."""
    upkeep.forget_names()
    upkeep.table.current()
    there = len(upkeep.table.snapshot_ids())
    upkeep.forget_removed(base)
    upkeep.expire(EVERYTHING)
    upkeep.table.current()
    left, stays = len(upkeep.table.snapshot_ids()), int(base.id is not None)
    if left != stays:
        raise overtaken(upkeep.table.identifier)
    return there + stays - left, upkeep.remove_orphans(orphans_before)
