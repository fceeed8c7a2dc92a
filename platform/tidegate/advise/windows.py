"""The newest closed windows of a view with what became of each row (A1), for a picture: nothing is judged here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.audit.accounts import COUNTS, account
from tidegate.watermark import TimeKind

if TYPE_CHECKING:
    from tidegate.session.session import Session
    from tidegate.sql.catalog.objects import View

#: Windows of a picture.
SHOWN_WINDOWS = 120


@dataclass(frozen=True)
class WindowRows:
    """One closed window; `end`: s since 1970. `erased`: raw rows that it still counts, though they were erased (E9)."""

    end: float
    raw: int
    counted: int
    filtered: int
    late: int
    rejected: int
    erased: int = 0


def newest_windows(session: Session, view: View, most: int = SHOWN_WINDOWS) -> list[WindowRows]:
    """The newest `most` closed windows, by their end; [] where the view has no such accounts (it does not aggregate one
    relation by windows in time), or where nothing is closed yet."""
    from pyspark.sql import functions as F

    stored = session.stored(view.name)
    if view.accounts is None or stored is None or view.kind is TimeKind.EPOCH:
        return []
    frontier = session.tables.open(stored).current().integer("tidegate.frontier")
    if frontier is None:
        return []
    windows = account(session, view, stored, frontier)[1]
    end = F.unix_micros(F.col("_window_end").cast("timestamp"))
    newest = windows.where("closed").orderBy(F.desc("_window_end")).limit(most)
    # Bounded: `most` rows.
    found = newest.select(end.alias("end"), *COUNTS).collect()
    return [WindowRows(end=r["end"] / 1e6, **{name: r[name] for name in COUNTS}) for r in reversed(found)]
