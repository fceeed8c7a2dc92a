"""Names of columns that stand beside users' columns while something is computed."""

from __future__ import annotations

from collections.abc import Iterable

#: No statement can write a column's name with it: TG205 refuses it.
MARK = "\x1f"
#: Of a group that a view's query makes: whether a total of it was too large, and is NULL (C7).
LOST = f"{MARK}lost"
#: The place of a sorted row among those that an earlier version has released (C4, E5).
ORDINAL = f"{MARK}ordinal"


def inner(name: str) -> str:
    """The name of such a column; in SQL it has to be quoted. A field of it may follow a dot."""
    return f"{MARK}{name}"


def unless_taken(name: str, others: Iterable[str]) -> str:
    """`name`, or a name that no statement can write where another column is called so: views that carry rows have
    stored such names since the first release (R4)."""
    return inner(name) if name.casefold() in map(str.casefold, others) else name
