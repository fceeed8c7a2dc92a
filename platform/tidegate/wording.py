"""Numbers with the words that they count.

A file of its own: commands, errors, findings and jobs of Dagster write such words, and have no room in common but this.
"""

from __future__ import annotations


def counted(number: int, what: str) -> str:
    """`1 row`, `1,234 rows`; `what` is one of them."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
