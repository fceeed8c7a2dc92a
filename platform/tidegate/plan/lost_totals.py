"""Totals that do not fit into their type (C7): how a view's commits count them, and how people are told.

A file of its own: commands that show events do not load what decides which windows close.
"""

from __future__ import annotations

#: In a view's summary: how many final rows have no total, because it does not fit (C7).
LOST_TOTALS = "tidegate.lost-totals"


def lost_totals_text(count: int) -> str:
    """In a sentence."""
    rows, have = ("row", "has") if count == 1 else ("rows", "have")
    return (
        f"{count:,} final {rows} {have} NULL for a sum or average whose total does not fit into its type (C7)"
    )
