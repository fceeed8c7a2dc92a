"""Sinks: final rows delivered to somewhere else, in the order of closing, each exactly once; and, by a sink that
upserts amendments, those of amended windows in the place of what was delivered before (B2).

What a view's commits have closed is numbered (`_tick`), as are the batches of a log (`_epoch`): a delivery is a range
of these numbers, and a sink's position is the last one that it has delivered. A view's amendments have numbers of their
own. Each connector keeps the position with the data, so that one can't be there without the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tidegate.store.positions import Position

if TYPE_CHECKING:
    from tidegate.sinks.upstream import Upstream


@dataclass(frozen=True)
class Delivered:
    """What one delivery was: new rows, and windows that were amended after they had been delivered (B2)."""

    rows: int
    amended: int = 0


class SinkWriter(Protocol):
    """One connector, open for one sink; the caller holds the sink's lease."""

    def position(self) -> Position | None:
        """What is delivered, after finishing a delivery that broke off; None before `begin`."""

    def begin(self, position: Position) -> None:
        """Say where the sink starts; nothing is delivered."""

    def deliver(self, upstream: Upstream, after: Position) -> Delivered:
        """Deliver what `upstream` has closed after a position, and what was amended since, if the sink upserts; move
        it. The same again after a crash delivers nothing twice."""

    def forget(self) -> None:
        """Remove the position. What is delivered belongs to whoever reads it, and stays."""
