"""Queries of random graphs: each node gives its SQL, and what it means in plain Python, without anything of tidegate.

A row is a dict by column name; times are integers in ticks (microseconds, days for DATE, seconds for integers). Two
more keys say when a row is final: `_we`, the end of the window that it went through, and `_end` of a row whose finality
the query itself gives (groups of windows, sessions, OVER in event time).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

Row = dict[str, Any]
Rows = list[Row]
HIDDEN = ("_we", "_end")

#: One step of the random times and lengths, in ticks.
STEP = {"ts": 300_000_000, "tz": 300_000_000, "date": 1, "epoch": 300, "year": 1}
_DAY = 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TRUNC = {"hour": 3_600_000_000, "day": _DAY}


@dataclass(frozen=True)
class Col:
    """`kind`: ts (TIMESTAMP), tz (TIMESTAMPTZ), date, epoch and year (integer times), or int (no time). `carries`:
    whether a watermark may be there; whether it is, the analysis says."""

    name: str
    kind: str
    carries: bool = False


class Node:
    """`cols`: the columns of its result. `select()`: a whole query; `item()`: what may stand in FROM. `reads()`: the
    names of what it reads, in the order of the text; `rows(inputs)`: its result over the rows of each of them."""

    cols: tuple[Col, ...]

    def item(self) -> str:
        return f"({self.select()})"

    def select(self) -> str:
        return f"SELECT * FROM {self.item()}"

    def children(self) -> tuple[Node, ...]:
        return ()

    def reads(self) -> list[str]:
        return [name for child in self.children() for name in child.reads()]

    def rows(self, inputs: Sequence[Rows]) -> Rows:
        return self.of(*self._split(inputs))

    def of(self, *children: Rows) -> Rows:
        raise NotImplementedError

    def col(self, name: str) -> Col:
        return next(c for c in self.cols if c.name == name)

    def _split(self, inputs: Sequence[Rows]) -> Iterator[Rows]:
        start = 0
        for child in self.children():
            count = len(child.reads())
            yield child.rows(inputs[start : start + count])
            start += count


@dataclass(frozen=True)
class Read(Node):
    name: str
    cols: tuple[Col, ...]

    def item(self) -> str:
        return self.name

    def reads(self) -> list[str]:
        return [self.name]

    def rows(self, inputs: Sequence[Rows]) -> Rows:
        (only,) = inputs
        return [{k: v for k, v in row.items() if k not in HIDDEN} for row in only]


@dataclass(frozen=True)
class Filter(Node):
    """Keeps rows whose integer column leaves `rest` when divided by `by`."""

    child: Node
    column: str
    by: int
    rest: int

    @property
    def cols(self) -> tuple[Col, ...]:
        return self.child.cols

    def children(self) -> tuple[Node, ...]:
        return (self.child,)

    def select(self) -> str:
        return f"SELECT * FROM {self.child.item()} WHERE {self.column} % {self.by} = {self.rest}"

    def of(self, *children: Rows) -> Rows:
        return [
            r for r in children[0] if r[self.column] is not None and r[self.column] % self.by == self.rest
        ]


@dataclass(frozen=True)
class Value:
    """An expression over one column: `how` is column, shift (by `by` ticks), hour, day or month (date_trunc), epoch or
    year (EXTRACT)."""

    column: str
    how: str
    name: str
    by: int = 0

    def sql(self, kind: str, qualifier: str = "") -> str:
        column = qualifier + self.column
        if self.how == "column":
            return column
        if self.how == "shift":
            return f"{column} {'-' if self.by < 0 else '+'} {length(kind, abs(self.by))}"
        if self.how in ("epoch", "year"):
            return f"EXTRACT({self.how.upper()} FROM {column})"
        return f"date_trunc('{self.how}', {column})"

    def item(self, kind: str) -> str:
        sql = self.sql(kind)
        return sql if sql == self.name else f"{sql} AS {self.name}"

    def kind(self, kind: str) -> str:
        if self.how in ("epoch", "year"):
            return self.how
        return kind if self.how in ("column", "shift") else "tz"

    def at(self, value: int | None) -> int | None:
        if value is None or self.how == "column":
            return value
        if self.how == "shift":
            return value + self.by
        if self.how == "epoch":
            return value // 1_000_000
        if self.how in _TRUNC:
            return value - value % _TRUNC[self.how]
        if self.how == "year":
            return (_EPOCH + timedelta(microseconds=value)).year
        return month(value)


def month(t: int, more: int = 0) -> int:
    """Where the month begins that holds a time (in microseconds), or a later one."""
    at = _EPOCH + timedelta(microseconds=t)
    years, months = divmod(at.month - 1 + more, 12)
    return (datetime(at.year + years, months + 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True)
class Project(Node):
    child: Node
    values: tuple[Value, ...]

    @property
    def cols(self) -> tuple[Col, ...]:
        found = ((v, self.child.col(v.column)) for v in self.values)
        return tuple(Col(v.name, v.kind(c.kind), c.carries) for v, c in found)

    def children(self) -> tuple[Node, ...]:
        return (self.child,)

    def select(self) -> str:
        items = ", ".join(v.item(self.child.col(v.column).kind) for v in self.values)
        return f"SELECT {items} FROM {self.child.item()}"

    def of(self, *children: Rows) -> Rows:
        return [
            {v.name: v.at(r[v.column]) for v in self.values} | {h: r[h] for h in HIDDEN if h in r}
            for r in children[0]
        ]


@dataclass(frozen=True)
class Union(Node):
    left: Node
    right: Node

    @property
    def cols(self) -> tuple[Col, ...]:
        kinds = [
            "tz" if a.kind != b.kind else a.kind for a, b in zip(self.left.cols, self.right.cols, strict=True)
        ]
        return tuple(
            Col(a.name, k, a.carries and b.carries)
            for a, b, k in zip(self.left.cols, self.right.cols, kinds, strict=True)
        )

    def children(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def select(self) -> str:
        return f"{self.left.select()} UNION ALL {self.right.select()}"

    def of(self, *children: Rows) -> Rows:
        names = [c.name for c in self.left.cols]
        right = [[r[c.name] for c in self.right.cols] for r in children[1]]
        return [
            *({n: r[n] for n in names} for r in children[0]),
            *(dict(zip(names, r, strict=True)) for r in right),
        ]


@dataclass(frozen=True)
class Join(Node):
    """`how`: INNER, LEFT, RIGHT or FULL. Rows match where left - right lies in [low, high], and in `same`, a column of
    each side that has to be equal. `values`: what is selected, from "l" or "r", or from "both": the two times."""

    how: str
    left: Node
    right: Node
    a: str
    b: str
    low: int
    high: int
    same: tuple[str, str] | None
    values: tuple[tuple[str, Value], ...]

    @property
    def cols(self) -> tuple[Col, ...]:
        found = []
        for side, value in self.values:
            column = (self.right if side == "r" else self.left).col(value.column)
            if side == "both" and column.kind != self.right.col(self.b).kind:
                column = replace(column, kind="tz")
            lost = (
                self.how == "FULL"
                or (self.how == "LEFT" and side == "r")
                or (self.how == "RIGHT" and side == "l")
            )
            found.append(
                Col(value.name, value.kind(column.kind), column.carries and (side == "both" or not lost))
            )
        return tuple(found)

    def children(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def select(self) -> str:
        items = []
        for side, value in self.values:
            if side == "both":
                items.append(f"coalesce(l.{self.a}, r.{self.b}) AS {value.name}")
            else:
                kind = (self.left if side == "l" else self.right).col(value.column).kind
                items.append(f"{value.sql(kind, f'{side}.')} AS {value.name}")
        kind = self.right.col(self.b).kind
        a, b = f"l.{self.a}", f"r.{self.b}"
        bounds = [
            f"{b} {'-' if n < 0 else '+'} {length(kind, abs(n))}" if n else b for n in (self.low, self.high)
        ]
        on = f"{a} = {bounds[0]}" if self.low == self.high else f"{a} BETWEEN {bounds[0]} AND {bounds[1]}"
        if self.same:
            on = f"l.{self.same[0]} = r.{self.same[1]} AND {on}"
        word = "JOIN" if self.how == "INNER" else f"{self.how} JOIN"
        return (
            f"SELECT {', '.join(items)} FROM {self.left.item()} AS l {word} {self.right.item()} AS r ON {on}"
        )

    def of(self, *children: Rows) -> Rows:
        left, right = children
        found, matched = [], set()
        for x in left:
            here = [i for i, y in enumerate(right) if self._match(x, y)]
            matched.update(here)
            found += [self._row(x, right[i]) for i in here]
            if not here and self.how in ("LEFT", "FULL"):
                found.append(self._row(x, None))
        if self.how in ("RIGHT", "FULL"):
            found += [self._row(None, y) for i, y in enumerate(right) if i not in matched]
        return found

    def _match(self, x: Row, y: Row) -> bool:
        if self.same and (x[self.same[0]] is None or x[self.same[0]] != y[self.same[1]]):
            return False
        a, b = x[self.a], y[self.b]
        return a is not None and b is not None and self.low <= a - b <= self.high

    def _row(self, x: Row | None, y: Row | None) -> Row:
        found = {}
        for side, value in self.values:
            if side == "both":
                first = x[self.a] if x is not None else None
                found[value.name] = first if first is not None or y is None else y[self.b]
            else:
                row = x if side == "l" else y
                found[value.name] = None if row is None else value.at(row[value.column])
        return found


def length(kind: str, ticks: int) -> str:
    """A length of time as SQL."""
    if kind in ("epoch", "year"):
        return str(ticks)
    if kind == "date":
        return f"INTERVAL '{ticks} days'"
    minutes, rest = divmod(ticks, 60_000_000)
    return f"INTERVAL '{ticks} microseconds'" if rest else f"INTERVAL '{minutes} minutes'"
