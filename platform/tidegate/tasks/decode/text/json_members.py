"""Members of JSON objects that nobody declares, as the beginning of a file shows them. Executor side."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container
from typing import Any

#: Rows of a file that are looked at, and as many as it has at least if anything is said of it.
_ROWS, _FEWEST = 100, 10
#: Python's types of values, and Spark's of the columns that hold them.
_TYPES = {bool: "boolean", int: "bigint", float: "double", str: "string"}


def undeclared_members(beginning: bytes, declared: Container[str]) -> dict[str, str | None]:
    """By name, the Spark type that holds their values (None: none does). Only identifiers that half of at least ten
    rows have: where a row has names of its own, they are values, and a value stands in no log (X4). `beginning`: of the
    file; a row that is cut off there does not count. `declared`: case-folded names."""
    rows: list[dict[str, Any]] = []
    for line in beginning.split(b"\n")[:_ROWS]:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        rows += [row] if isinstance(row, dict) else []
    found = Counter(name for row in rows for name in row if name.casefold() not in declared)
    return {
        name: _type_of([row[name] for row in rows if row.get(name) is not None])
        for name, count in found.items()
        if 2 * count >= len(rows) >= _FEWEST and name.isidentifier()
    }


def _type_of(values: list[Any]) -> str | None:
    kinds = {type(value) for value in values}
    kind = float if kinds == {int, float} else kinds.pop() if len(kinds) == 1 else None
    return None if kind is None else _TYPES.get(kind)
