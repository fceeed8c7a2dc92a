"""The type that holds the values of several: those of all versions of a schema, or of all files. Pure functions.

The types are strangers' (X2): what comes of several of them has a limit, as each of them has."""

from __future__ import annotations

from functools import lru_cache

from tidegate.plan.columns.changes import is_wider
from tidegate.plan.columns.undeclared import LONGEST_TYPE
from tidegate.sql.dialect.types import SparkType, parse_ddl

#: Columns that one source takes in at most, with the fields inside of them: who writes the input does not decide how
#: wide a table becomes (X2).
MOST = 500


def width(kind: SparkType) -> int:
    """Columns that a file has for one of this type: itself, and each field inside."""
    return 1 + len(kind.fields) + sum(width(arg) - 1 for arg in kind.args)


def both(one: SparkType | None, other: SparkType | None) -> SparkType | None:
    """The type that holds the values of both; None if there is none that a column has."""
    if one is other or one is None or other is None:
        return one if one is other else None
    found = _both(one, other)
    return None if found is None or width(found) > MOST else found


@lru_cache(maxsize=1024)
def both_texts(one: str | None, other: str | None) -> str | None:
    """The same, of Spark's texts."""
    if one == other or one is None or other is None:
        return one if one == other else None
    found = both(parse_ddl(one), parse_ddl(other))
    return None if found is None or len(text := str(found)) > LONGEST_TYPE else text


def _both(one: SparkType, other: SparkType) -> SparkType | None:
    if one == other:
        return one
    if not one.args and not other.args:
        texts = str(one), str(other)
        return other if is_wider(*texts) else one if is_wider(*reversed(texts)) else None
    if one.name != other.name:
        return None
    if one.name == "struct":
        return _both_structs(one, other)
    args = tuple(
        found for pair in zip(one.args, other.args, strict=True) if (found := _both(*pair)) is not None
    )
    return SparkType(one.name, args=args) if len(args) == len(one.args) else None


def _both_structs(one: SparkType, other: SparkType) -> SparkType | None:
    """With the fields of both: a value that lacks one has NULL there."""
    fields = {name.casefold(): (name, kind) for name, kind in zip(one.fields, one.args, strict=True)}
    for name, kind in zip(other.fields, other.args, strict=True):
        own, known = fields.get(name.casefold(), (name, kind))
        merged = _both(known, kind)
        if merged is None:
            return None
        fields[name.casefold()] = own, merged
    return SparkType(
        "struct",
        args=tuple(kind for _, kind in fields.values()),
        fields=tuple(name for name, _ in fields.values()),
    )
