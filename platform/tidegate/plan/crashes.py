"""Rows that have crashed their decoder (X2), as the commits of a log record them: how many there are, and the last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.plan.recorded import Recorded

#: Key of a log's commits.
CRASHES = "tidegate.crashes"
#: Rows that a note spells out.
_SPELLED = 3
#: In the place of a file's rows (from, until): without the columns that were taken in it can be read, and with them it
#: ends its decoder's process. So these are NULL, and no row is rejected for them.
SPARED = (0, 0)


@dataclass(frozen=True)
class Crashes(Recorded):
    """`rows`: of all commits so far. `at`: when the last batch that had some was planned, µs since 1970; `last`: which
    rows those were, as people read it."""

    KEY = CRASHES

    rows: int
    at: int
    last: str


def and_crashed(before: Crashes | None, crashed: Sequence[Sequence[Any]], at: int) -> Crashes | None:
    """With the rows of one more batch, as its connector knows them."""
    crashed = rejected(crashed)
    if not crashed:
        return before
    rows = sum(row[3] - row[2] if len(row) == 4 else 1 for row in crashed)
    return Crashes((before.rows if before else 0) + rows, at, named(crashed))


def rejected(crashed: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    """Those that are rows."""
    return [row for row in crashed if tuple(row[2:]) != SPARED]


def spared(crashed: Sequence[Sequence[Any]]) -> set[str]:
    """The URIs of the files of which the columns that were taken in are not read."""
    return {row[0] for row in crashed if tuple(row[2:]) == SPARED}


def named(crashed: Sequence[Sequence[Any]]) -> str:
    """The rows of one batch, for people: (partition, offset) of messages, (URI, block, row) of files, with the row
    behind the last one if there are several."""
    texts = [_named(*row) for row in crashed[:_SPELLED]]
    rest = len(crashed) - _SPELLED
    return ", ".join(texts) + (f" and {rest:,} more" if rest > 0 else "")


def _named(place: Any, block: int, row: int | None = None, until: int | None = None) -> str:
    if row is None:
        return f"offset {block} of partition {place}"
    several = until is not None and until > row + 1
    rows = f"rows {row + 1:,} to {until:,}" if several else f"row {row + 1:,}"
    return f"{rows} of {place.rpartition('/')[2]}" + (f" behind byte {block:,}" if block else "")
