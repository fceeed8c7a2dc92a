"""Columns that have identities, and not just names, in plain Python (E2, E3): slow, and obviously right. Imports
nothing of tidegate.

A definition is a sequence of columns. What a row holds follows from the definition by which it was decoded:

    held({"w": 1, "x": 2}, decoded=[Column("w", "INT", 1)], now=[Column("x", "INT", 1)])     # {"x": 1}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Column:
    """One column for all its life, whatever it is called. `number`: its identity."""

    name: str
    kind: str
    number: int


Columns = tuple[Column, ...]
#: E3: what a type may become.
WIDER = {"INT": "BIGINT"}


def held(fields: Mapping[str, Any], decoded: Sequence[Column], now: Sequence[Column]) -> dict[str, Any]:
    """E2: what the columns of today show of a row, whose input had these `fields` as it was decoded: a value stays
    under its own column, and a column that was not there then is NULL."""
    values = {column.number: fields[column.name] for column in decoded}
    return {column.name: values.get(column.number) for column in now}


def added(columns: Columns, name: str, kind: str, number: int) -> Columns:
    """With one more column, which is none that there ever was: `number`."""
    return (*columns, Column(name, kind, number))


def dropped(columns: Columns, name: str) -> Columns:
    """Without the column of this name."""
    return tuple(column for column in columns if column.name != name)


def renamed(columns: Columns, old: str, new: str) -> Columns:
    """The column of this name is called otherwise."""
    return tuple(replace(column, name=new) if column.name == old else column for column in columns)


def widened(columns: Columns, name: str) -> Columns:
    """The column of this name has the next larger type, if there is one."""
    return tuple(
        replace(column, kind=WIDER.get(column.kind, column.kind)) if column.name == name else column
        for column in columns
    )
