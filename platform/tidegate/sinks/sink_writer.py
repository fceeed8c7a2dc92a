"""Sinks: final rows delivered to somewhere else, in the order of closing, each exactly once; and, by a sink that
upserts amendments, those of amended windows in the place of what was delivered before (B2).

What a view's commits have closed is numbered (`_tick`), as are the batches of a log (`_epoch`): a delivery is a range
of these numbers, and a sink's position is the last one that it has delivered. A view's amendments have numbers of their
own. Each connector keeps the position with the data, so that one can't be there without the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from tidegate.store.positions import Position

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate.sinks.upstream import Upstream


@dataclass(frozen=True)
class Delivered:
    """What one delivery was: new rows, and windows that were amended after they had been delivered (B2)."""

    rows: int
    amended: int = 0

    def plus(self, other: Delivered) -> Delivered:
        """Both together."""
        return Delivered(self.rows + other.rows, self.amended + other.amended)


class SinkWriter(Protocol):
    """One connector, open for one sink; the caller holds the sink's lease. `replaces`: it can put all rows of a new
    version in the place of what an append-only sink has delivered."""

    replaces: ClassVar[bool]

    def position(self) -> Position | None:
        """What is delivered, after finishing a delivery that broke off; None before `begin`."""

    def begin(self, position: Position) -> None:
        """Say where the sink starts; nothing is delivered."""

    def deliver(self, upstream: Upstream, after: Position) -> Delivered:
        """Deliver what `upstream` has closed after a position, and what was amended since, if the sink upserts; move
        it. The same again after a crash delivers nothing twice."""

    def go_on(self, position: Position) -> None:
        """Say where the sink stands in a new version of its view, which is delivered from there (E6). What was
        delivered of the version before stays."""

    def forget(self) -> None:
        """Remove the position. What is delivered belongs to whoever reads it, and stays."""


@runtime_checkable
class ReplacingWriter(SinkWriter, Protocol):
    """A connector that can put a new version in the place of another one: for a sink that upserts, and for all that
    `replaces`."""

    def replace(
        self,
        before: Upstream | None,
        upstream: Upstream,
        start: Position,
        version: Callable[[str], Upstream | None],
    ) -> Delivered:
        """Put a new version of the view in the place of the one `before`, of which all is delivered, and move the
        position there (E6). `start`: the position in the new one before anything of it; `version`: that of a life. One
        that broke off is finished first, even if another version is the newest by now. None
        `before`: it can't be read any more."""
