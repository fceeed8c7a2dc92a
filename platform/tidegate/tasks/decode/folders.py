"""What the names of folders say of columns (`day=2026-01-01`). Executor side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from tidegate.tasks.decode.values import DeclaredColumn, Misfit

#: What Hive writes for NULL.
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"

#: What folders say of targets, by their places, in the types that are parsed; None: it does not fit.
Constants = Mapping[int, pa.Scalar | None]


def of_folders(path: str) -> dict[str, str]:
    """What the names of a file's folders say of columns (`day=2026-01-01`), by case-folded name."""
    pairs = (folder.partition("=") for folder in path.split("/")[:-1])
    return {unquote(name).casefold(): unquote(value) for name, equals, value in pairs if equals}


def constant(kind: pa.DataType, text: str) -> pa.Scalar | None:
    """The value that a folder's name gives to a column; None if it does not fit."""
    if text == NULL_FOLDER:
        return pa.scalar(None, kind)
    # A time without a zone is one in UTC, as in a row.
    ways = [[kind], [pa.timestamp("us"), kind]] if pa.types.is_timestamp(kind) and kind.tz else [[kind]]
    for way in ways:
        value = pa.scalar(text)
        try:
            for step in way:
                value = value.cast(step)
            return value
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
    return None


def constants(path: str, targets: Sequence[DeclaredColumn]) -> dict[int, pa.Scalar | None]:
    """What the names of a file's folders say of the targets; nothing of one that was taken in, for no file had it
    there."""
    folders, found = of_folders(path), {}
    for place, target in enumerate(targets):
        text = None if target.optional else folders.get(target.name.casefold())
        if text is not None:
            value = None if target.arrow is None else constant(target.arrow, text)
            found[place] = None if value is None else value.cast(target.parsed)
    return found


def said(folders: Constants, place: int) -> Any:
    """The value of one row; NULL where no folder says it. Raises Misfit."""
    if place not in folders:
        return None
    value = folders[place]
    if value is None:
        raise Misfit
    return value.as_py()


def repeated(folders: Constants, place: int, count: int) -> pa.Array | None:
    """The value of so many rows; None where no folder says it."""
    return pa.repeat(folders[place], count) if place in folders else None
