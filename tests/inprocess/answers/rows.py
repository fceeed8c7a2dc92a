"""Rows in this process, and the values of terms over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tests.inprocess.answers.functions import FUNCTIONS, cast, is_nothing, nothing
from tests.inprocess.answers.terms import (
    Call,
    Cast,
    Declined,
    Failed,
    Name,
    Named,
    Star,
    Struct,
    Term,
    Value,
    Window,
    Work,
    type_of,
    type_of_work,
)
from tests.inprocess.answers.windows import in_windows


@dataclass(frozen=True)
class Rows:
    """Columns of equally many rows. `names`: None: what nobody has named has the text of its plan as its name in Spark,
    which is not known here. `alias`: by which columns may be named, too."""

    names: tuple[str | None, ...]
    columns: tuple[Any, ...]
    count: int
    alias: str | None = None

    def __post_init__(self) -> None:
        assert all(len(column) == self.count for column in self.columns)

    def table(self) -> pa.Table:
        """Raises Declined where Arrow's table would not have the same names, types or rows."""
        if not self.columns or None in self.names:
            raise Declined
        if any(pa.types.is_duration(column.type) for column in self.columns):
            raise Declined
        return pa.Table.from_arrays(list(self.columns), names=list(self.names))

    def whole(self, value: Any) -> Any:
        """A value in every row."""
        return pa.repeat(value, self.count) if isinstance(value, pa.Scalar) else value

    def of(self, parts: tuple[str, ...]) -> Any:
        """The column of a name, or a field in it."""
        if self.alias is not None and len(parts) > 1 and parts[0].lower() == self.alias.lower():
            parts = parts[1:]
        name, *fields = parts
        places = [place for place, known in enumerate(self.names) if (known or "").lower() == name.lower()]
        if len(places) != 1 or self.names[places[0]] != name:
            raise Declined
        found = self.columns[places[0]]
        for field in fields:
            found = FUNCTIONS["field"](found, pa.scalar(field))
        return found

    def taken(self, places: Any) -> Rows:
        """The rows at these places, in this order."""
        return replace(self, columns=tuple(pc.take(one, places) for one in self.columns), count=len(places))


def of_table(table: pa.Table) -> Rows:
    columns = tuple(column.combine_chunks() for column in table.columns)
    return Rows(tuple(table.column_names), columns, table.num_rows)


def value_of(asked: Term, rows: Rows) -> Any:
    """The value of a term: an array, or a scalar if it is the same in every row."""
    if isinstance(asked, Name):
        return rows.of(asked.parts)
    if isinstance(asked, Value):
        return asked.scalar
    if isinstance(asked, Cast):
        return cast(value_of(asked.term, rows), asked.type)
    if isinstance(asked, Star):
        return None  # of a function that does not look at it
    if isinstance(asked, Work):
        return _worked(asked, rows)
    if isinstance(asked, Window):
        return in_windows(asked, rows, lambda one: rows.whole(value_of(one, rows)))
    if isinstance(asked, Struct):
        fields = [rows.whole(value_of(one, rows)) for one in asked.given]
        return pa.StructArray.from_arrays(fields, names=list(asked.names))
    if asked.function in _READERS:
        return _read(asked, rows)
    function = FUNCTIONS.get(asked.function)
    if function is None:
        raise Declined
    return function(*(value_of(one, rows) for one in asked.given))


#: What reads a text as a value of a type; the other arguments say how.
_READERS = {"from_json", "from_csv"}


def _read(asked: Call, rows: Rows) -> Any:
    """Of what is NULL in every row, that is NULL."""
    text, kind = (value_of(one, rows) for one in asked.given[:2])
    if not is_nothing(text) or not isinstance(kind, pa.Scalar) or not pa.types.is_string(kind.type):
        raise Declined
    return nothing(text, type_of(kind.as_py()))


def _worked(work: Work, rows: Rows) -> Any:
    given, kind = rows.whole(value_of(work.given, rows)), type_of_work(work)
    if not rows.count:
        return pa.nulls(0, kind)
    try:
        made = pa.concat_arrays(list(work.function(iter([given]))))
    except BaseException as error:
        raise Failed(error) from error
    return made if made.type == kind else made.cast(kind)


def _fields(structs: Any, rows: Rows) -> Rows:
    if not pa.types.is_struct(structs.type):
        raise Declined
    return Rows(tuple(field.name for field in structs.type), tuple(structs.flatten()), rows.count)


def _inline(lists: Any) -> Rows:
    """The fields of the structs in lists, one row for each."""
    if not pa.types.is_list(lists.type) or not pa.types.is_struct(lists.type.value_type):
        raise Declined
    structs = lists.flatten()
    if structs.null_count:
        raise Declined
    return _fields(structs, Rows((), (), len(structs)))


def selected(rows: Rows, columns: Sequence[Named]) -> Rows:
    """Terms under their names."""
    if len(columns) == 1 and isinstance(columns[0][0], Call) and columns[0][0].function == "inline":
        if columns[0][1] is not None:
            raise Declined
        return _inline(rows.whole(value_of(columns[0][0].given[0], rows)))
    names, found = list[str | None](), list[Any]()
    for asked, name in columns:
        if isinstance(asked, Star):
            whole = rows
            if asked.of is not None and asked.of.parts != (rows.alias,):
                whole = _fields(rows.of(asked.of.parts), rows)
            names += whole.names
            found += whole.columns
        else:
            names.append(name)
            found.append(rows.whole(value_of(asked, rows)))
    return Rows(tuple(names), tuple(found), rows.count)


def kept(rows: Rows, asked: Term) -> Rows:
    """Those that meet a condition."""
    met = value_of(asked, rows)
    if not pa.types.is_boolean(met.type):
        raise Declined
    places = pc.indices_nonzero(pc.coalesce(rows.whole(met), False))
    return rows if len(places) == rows.count else rows.taken(places)
