"""What the names of folders say of columns (`day=2026-01-01`). Executor side."""

from __future__ import annotations

from urllib.parse import unquote

import pyarrow as pa

#: What Hive writes for NULL.
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"


def of_folders(path: str) -> dict[str, str]:
    """What the names of a file's folders say of columns (`day=2026-01-01`), by case-folded name."""
    pairs = (folder.partition("=") for folder in path.split("/")[:-1])
    return {unquote(name).casefold(): unquote(value) for name, equals, value in pairs if equals}


def constant(kind: pa.DataType, text: str) -> pa.Scalar | None:
    """The value that a folder's name gives to a column; None if it does not fit."""
    if text == _NULL_FOLDER:
        return pa.scalar(None, kind)
    try:
        return pa.scalar(text).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
