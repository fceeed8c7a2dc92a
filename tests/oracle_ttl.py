"""A table WITH TTL in plain Python (T1, T2, and W1, W2 for changes): slow, and obviously right. Imports nothing of
tidegate.

One partition, as a table with INSERTs has. Times are integers; None is undefined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Stored:
    """A row of the table. `strategy`: the strategy's value for it, None for NULL."""

    key: tuple
    event_time: int
    strategy: int | None
    payload: tuple = ()


class TtlTable:
    """`insert`, `update` and `delete` are one statement each: what is in the table is that of the last commit."""

    def __init__(self) -> None:
        self.wp: int | None = None
        self.g: int | None = None
        self.stored: dict[tuple, Stored] = {}
        self.late: list[Stored] = []

    def insert(self, rows: Iterable[Stored]) -> None:
        """Upserts, in order: one change each."""
        for row in rows:
            if not self._expired(row):
                self.stored[row.key] = row
        self._commit()

    def update(self, where: Callable[[Stored], bool], change: Callable[[Stored], Stored]) -> None:
        """One change for each live row that matches; a change to an expired time is ignored (T1)."""
        for row in [row for row in self.live() if where(row)]:
            changed = change(row)
            if not self._expired(changed):
                self.stored[row.key] = changed
        self._commit()

    def delete(self, where: Callable[[Stored], bool]) -> None:
        """One change for each live row that matches, with the stored row's event time (T1)."""
        for row in [row for row in self.live() if where(row)]:
            if not self._expired(row):
                del self.stored[row.key]
        self._commit()

    def live(self) -> list[Stored]:
        """T2: what the table shows."""
        return [row for row in self.stored.values() if self.g is None or row.event_time > self.g]

    def _expired(self, row: Stored) -> bool:
        """T1: at or below Wp, unlike W1. A change that is not expired raises Wp (W2)."""
        if self.wp is not None and row.event_time <= self.wp:
            self.late.append(row)
            return True
        if row.strategy is not None and (self.wp is None or row.strategy > self.wp):
            self.wp = row.strategy
        return False

    def _commit(self) -> None:
        """W6, T2: G is that of the one partition; what it reached is cleaned away."""
        self.g = self.wp
        self.stored = {row.key: row for row in self.live()}


def at(row: Stored, event_time: int, *payload: Any) -> Stored:
    """The row at another time and with another payload."""
    return replace(row, event_time=event_time, payload=payload or row.payload)
