"""Which partitions keep a source's watermark where it is."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.store.metadata import ProgressRow

#: Where the engine counts rejected rows whose partition could not be read.
UNKNOWN_PARTITION = "(unknown)"


def holding_back(published: int | None, partitions: Sequence[ProgressRow]) -> tuple[str, ...]:
    """Names of the partitions that keep G where it is (W6).

    Before there is a G: those without a watermark. Afterwards: the lowest ones; nobody when all stand at the
    same point. Idle and empty partitions (W6, W7) and the one of rows whose partition is unreadable have no say.
    """
    voting = [p for p in partitions if not _absent(p) and p.partition != UNKNOWN_PARTITION]
    if published is None:
        return tuple(p.partition or "" for p in voting if p.watermark is None)
    marks = {p.watermark for p in voting if p.watermark is not None}
    if len(marks) < 2:
        return ()
    lowest = min(marks)
    return tuple(p.partition or "" for p in voting if p.watermark == lowest)


def _absent(partition: ProgressRow) -> bool:
    """Whether it takes no part in G (W6, W7). A file's partition is empty until its first row is read; a broker's,
    whose `quiet_since` is known, has never held one."""
    return partition.state in ("idle", "gone") or (
        partition.state == "empty" and partition.quiet_since is not None
    )
