"""Groups of rows, and joins by one key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tests.inprocess.answers.functions import FUNCTIONS, cast, plain
from tests.inprocess.answers.rows import Rows, value_of
from tests.inprocess.answers.terms import Call, Cast, Declined, Name, Named, Star, Term, Value

#: How Arrow calls the functions of groups.
_AGGREGATES = {
    "count": "count",
    "count_if": "count",
    "sum": "sum",
    "try_sum": "sum",
    "min": "min",
    "max": "max",
    "count_distinct": "count_distinct",
}
#: Those whose columns Spark names as they are written.
_NAMED = {"count", "min", "max", "sum"}


def grouped(rows: Rows, keys: Sequence[Named], wanted: Sequence[Named]) -> Rows:
    """What functions make of the rows of each group. Groups come in the order of their first rows."""
    inner = _Inner(rows)
    for place, (key, _) in enumerate(keys):
        inner.add(f"k{place}", plain(rows.whole(value_of(key, rows))))
    outer = [inner.without_aggregates(asked) for asked, _ in wanted]
    found = inner.found([f"k{place}" for place in range(len(keys))])
    columns = [found.of((f"k{place}",)) for place in range(len(keys))]
    columns += [found.whole(value_of(asked, found)) for asked in outer]
    return Rows(tuple(_name(*one) for one in (*keys, *wanted)), tuple(columns), found.count)


def _name(asked: Term, name: str | None) -> str | None:
    if name is None and isinstance(asked, Call) and len(asked.given) == 1 and asked.function in _NAMED:
        (given,) = asked.given
        if isinstance(given, Name) and len(given.parts) == 1:
            return f"{asked.function}({given.parts[0]})"
        if isinstance(given, Value) and pa.types.is_integer(given.scalar.type):
            return f"{asked.function}({given.scalar})"
    return name


class _Inner:
    """What is to be known of each group."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._columns: dict[str, Any] = {}
        self._asked: list[tuple[str, str]] = []

    def add(self, name: str, column: Any) -> None:
        self._columns[name] = column

    def without_aggregates(self, asked: Term) -> Term:
        """A term with names of columns in the place of functions of groups."""
        if isinstance(asked, Call) and asked.function in _AGGREGATES:
            return self._aggregate(asked)
        if isinstance(asked, Call):
            return Call(asked.function, tuple(map(self.without_aggregates, asked.given)))
        if isinstance(asked, Cast):
            return Cast(self.without_aggregates(asked.term), asked.type)
        if isinstance(asked, Value):
            return asked
        raise Declined

    def _aggregate(self, asked: Call) -> Name:
        if len(asked.given) != 1:
            raise Declined
        if isinstance(asked.given[0], Star):
            raise Declined
        column = self._rows.whole(value_of(asked.given[0], self._rows))
        if asked.function == "count_if":
            column = FUNCTIONS["when"](column, pa.scalar(1, pa.int32()))
        if asked.function.endswith("sum") and not pa.types.is_integer(column.type):
            raise Declined
        if asked.function == "try_sum" and _may_overflow(column):
            raise Declined
        name = f"a{len(self._asked)}"
        self.add(name, plain(column))
        self._asked.append((name, _AGGREGATES[asked.function]))
        return Name((f"{name}_{_AGGREGATES[asked.function]}",))

    def found(self, keys: Sequence[str]) -> Rows:
        names = list(self._columns)
        if not names:
            raise Declined
        table = pa.Table.from_arrays([self._rows.whole(self._columns[name]) for name in names], names=names)
        made = table.group_by(list(keys), use_threads=False).aggregate(self._asked)
        columns = tuple(column.combine_chunks() for column in made.columns)
        return Rows(tuple(made.column_names), columns, made.num_rows)


def _may_overflow(column: Any) -> bool:
    return sum(abs(value) for value in column.to_pylist() if value is not None) >= 2**63


def distinct(rows: Rows) -> Rows:
    """Each row once."""
    if None in rows.names:
        raise Declined
    keys: list[Named] = [(Name((name,)), name) for name in rows.names if name is not None]
    return grouped(rows, keys, [])


def matching(left: Rows, right: Rows, keys: Sequence[str], anti: bool) -> Rows:
    """The rows of one side whose keys the other side has; `anti`: has not. Keys come first, as in Spark."""
    if not {*keys} <= {*left.names}:
        raise Declined
    left = by_name(left, [*keys, *(name for name in left.names if name not in keys)])
    mine, theirs = ([plain(side.of((key,))) for key in keys] for side in (left, right))
    if [column.type for column in mine] != [column.type for column in theirs]:
        raise Declined
    known = {key for key in _tuples(theirs) if None not in key}
    met = [key in known for key in _tuples(mine)]
    return left.taken(pa.array([place for place, one in enumerate(met) if one != anti], pa.int64()))


def _tuples(columns: Sequence[Any]) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def by_name(rows: Rows, names: Sequence[str | None]) -> Rows:
    """Columns in the order of these names."""
    wanted = [name for name in names if name is not None]
    places = {name.lower(): place for place, name in enumerate(rows.names) if name is not None}
    if places.keys() != {name.lower() for name in wanted} or not len(places) == len(names) == len(rows.names):
        raise Declined
    return Rows(tuple(names), tuple(rows.columns[places[name.lower()]] for name in wanted), rows.count)


def united(first: Rows, second: Rows) -> Rows:
    """The rows of both, by place."""
    if len(first.names) != len(second.names):
        raise Declined
    columns = []
    for one, other in zip(first.columns, second.columns, strict=True):
        if one.type != other.type and not pa.types.is_null(one.type) and not pa.types.is_null(other.type):
            raise Declined
        kind = other.type if pa.types.is_null(one.type) else one.type
        columns.append(pa.concat_arrays([cast(one, kind), cast(other, kind)]))
    return Rows(first.names, tuple(columns), first.count + second.count)
