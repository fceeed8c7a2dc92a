"""Nodes of random graphs that look at rows around a row: windows, groups of them, sessions, rows within a time,
OVER."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.graphs.model import HIDDEN, Col, Node, Project, Row, Rows, Value, length, month


@dataclass(frozen=True)
class Windowed(Node):
    """TUMBLE (`slide` is its size), HOP or CUMULATE (`slide` is its step), of ticks; MONTH is TUMBLE of a month."""

    child: Node
    function: str
    time: str
    slide: int
    size: int
    offset: int = 0

    @property
    def cols(self) -> tuple[Col, ...]:
        kind = self.child.col(self.time).kind
        kept = [c for c in self.child.cols if c.name not in ("window_start", "window_end")]
        return (*kept, Col("window_start", kind, True), Col("window_end", kind, True))

    def children(self) -> tuple[Node, ...]:
        return (self.child,)

    def item(self) -> str:
        kind = self.child.col(self.time).kind
        if self.function == "MONTH":
            return f"TUMBLE({over(self.child)}, {self.time}, INTERVAL '1 month')"
        lengths = [self.size] if self.function == "TUMBLE" else [self.slide, self.size]
        lengths += [self.offset] if self.offset else []
        return f"{self.function}({', '.join([over(self.child), self.time, *(length(kind, n) for n in lengths)])})"

    def of(self, *children: Rows) -> Rows:
        return [
            row | {"window_start": start, "window_end": end, "_we": end}
            for row in children[0]
            if row[self.time] is not None
            for start, end in self._windows(row[self.time])
        ]

    def _windows(self, t: int) -> Iterator[tuple[int, int]]:
        if self.function == "MONTH":
            yield month(t), month(t, 1)
            return
        first = (t - self.offset) // self.slide * self.slide + self.offset
        if self.function == "CUMULATE":
            start = (t - self.offset) // self.size * self.size + self.offset
            yield from (
                (start, end)
                for end in range(start + self.slide, start + self.size + 1, self.slide)
                if end > t
            )
            return
        while first > t - self.size:
            yield first, first + self.size
            first -= self.slide


@dataclass(frozen=True)
class Group(Node):
    """GROUP BY `keys`, with the number of rows; DISTINCT without."""

    child: Node
    keys: tuple[Value, ...]
    distinct: bool = False

    @property
    def cols(self) -> tuple[Col, ...]:
        found = tuple(
            Col(v.name, v.kind(c.kind), c.carries) for v in self.keys for c in [self.child.col(v.column)]
        )
        return found if self.distinct else (*found, Col("n", "int"))

    def children(self) -> tuple[Node, ...]:
        return (self.child,)

    def select(self) -> str:
        items = ", ".join(v.item(self.child.col(v.column).kind) for v in self.keys)
        if self.distinct:
            return f"SELECT DISTINCT {items} FROM {self.child.item()}"
        places = ", ".join(str(i + 1) for i in range(len(self.keys)))
        return f"SELECT {items}, count(*) AS n FROM {self.child.item()} GROUP BY {places}"

    def of(self, *children: Rows) -> Rows:
        groups: dict[tuple, Rows] = {}
        for row in children[0]:
            groups.setdefault(tuple(v.at(row[v.column]) for v in self.keys), []).append(row)
        found = []
        for key, rows in groups.items():
            row = dict(zip([v.name for v in self.keys], key, strict=True))
            if not self.distinct:
                row["n"] = len(rows)
            if "_we" in rows[0]:
                row["_end"] = max(r["_we"] for r in rows)
            found.append(row)
        return found


@dataclass(frozen=True)
class Session(Node):
    """Groups of a SESSION, or (`group` is false) its rows: at the top of a view only."""

    child: Node
    time: str
    key: str | None
    gap: int
    order: tuple[str, ...] = ("window_start", "window_end")
    group: bool = True

    @property
    def cols(self) -> tuple[Col, ...]:
        kind = self.child.col(self.time).kind
        bounds = tuple(Col(name, kind, True) for name in self.order)
        if not self.group:
            others = (c for c in self.child.cols if c.name not in self.order)
            return (*(replace(c, carries=False) for c in others), *bounds)
        return (*bounds, *([Col(self.key, "int")] if self.key else []), Col("n", "int"))

    def children(self) -> tuple[Node, ...]:
        return (self.child,)

    def select(self) -> str:
        kind, key = self.child.col(self.time).kind, [self.key] if self.key else []
        call = ", ".join([over(self.child), self.time, *key, length(kind, self.gap)])
        keys = ", ".join([*self.order, *key])
        if not self.group:
            return f"SELECT {', '.join(c.name for c in self.cols)} FROM SESSION({call})"
        return f"SELECT {keys}, count(*) AS n FROM SESSION({call}) GROUP BY {keys}"

    def of(self, *children: Rows) -> Rows:
        groups: dict[Any, Rows] = {}
        for row in children[0]:
            if row[self.time] is not None:
                groups.setdefault(row[self.key] if self.key else None, []).append(row)
        found = []
        for key, rows in groups.items():
            sessions: list[Rows] = []
            for row in sorted(rows, key=lambda r: r[self.time]):
                if sessions and row[self.time] - sessions[-1][-1][self.time] < self.gap:
                    sessions[-1].append(row)
                else:
                    sessions.append([row])
            for session in sessions:
                end = session[-1][self.time] + self.gap
                bounds = {"window_start": session[0][self.time], "window_end": end, "_end": end}
                if self.group:
                    found.append(bounds | {"n": len(session)} | ({self.key: key} if self.key else {}))
                else:
                    found += [row | bounds for row in session]
        return found


@dataclass(frozen=True)
class Within(Node):
    """count(*) OVER (PARTITION BY a column that closes)."""

    child: Node
    partition: str
    values: tuple[Value, ...]

    @property
    def cols(self) -> tuple[Col, ...]:
        return (
            *replace_carries(Project(self.child, self.values).cols, self.values, self.partition),
            Col("m", "int"),
        )

    def children(self) -> tuple[Node, ...]:
        return (self.child,)

    def select(self) -> str:
        items = ", ".join(v.item(self.child.col(v.column).kind) for v in self.values)
        return f"SELECT {items}, count(*) OVER (PARTITION BY {self.partition}) AS m FROM {self.child.item()}"

    def of(self, *children: Rows) -> Rows:
        many: dict[Any, int] = {}
        for row in children[0]:
            many[row[self.partition]] = many.get(row[self.partition], 0) + 1
        shown = Project(self.child, self.values).of(children[0])
        return [
            {k: v for k, v in row.items() if k not in HIDDEN} | {"m": many[old[self.partition]]}
            for row, old in zip(shown, children[0], strict=True)
        ]


@dataclass(frozen=True)
class Over(Node):
    """count(*) OVER rows of `key` that are near in `time` (RANGE, ticks), or lag or lead of the time by one row; at the
    top of a view only. `function`: range, lag or lead."""

    child: Node
    function: str
    time: str
    key: str
    before: int
    after: int

    @property
    def cols(self) -> tuple[Col, ...]:
        found = tuple(replace(c, carries=c.carries and self.function != "lead") for c in self.child.cols)
        kind = "int" if self.function == "range" else self.child.col(self.time).kind
        return (*found, Col("o", kind))

    def children(self) -> tuple[Node, ...]:
        return (self.child,)

    def select(self) -> str:
        kind = self.child.col(self.time).kind
        over = f"PARTITION BY {self.key} ORDER BY {self.time}"
        call = f"{self.function}({self.time}, 1)"
        if self.function == "range":
            call = "count(*)"
            over += f" RANGE BETWEEN {length(kind, self.before)} PRECEDING AND {length(kind, self.after)} FOLLOWING"
        names = ", ".join(c.name for c in self.child.cols)
        return f"SELECT {names}, {call} OVER ({over}) AS o FROM {self.child.item()}"

    def of(self, *children: Rows) -> Rows:
        found = []
        for row in children[0]:
            t = row[self.time]
            if t is None:
                continue
            others = [r for r in children[0] if r[self.key] == row[self.key] and r[self.time] is not None]
            if self.function == "range":
                near = [r for r in others if -self.before <= r[self.time] - t <= self.after]
                found.append(row | {"o": len(near), "_end": t + self.after + 1})
                continue
            times = sorted(r[self.time] for r in others)
            # Rows of one time come in the order of all their columns.
            same = sorted((r for r in others if r[self.time] == t), key=_order)
            at = times.index(t) + next(i for i, r in enumerate(same) if r is row)
            at += -1 if self.function == "lag" else 1
            other = times[at] if 0 <= at < len(times) else None
            end = t + 1 if self.function == "lag" else None if other is None else other + 1
            found.append({k: v for k, v in row.items() if k not in HIDDEN} | {"o": other, "_end": end})
        return found


def replace_carries(cols: Sequence[Col], values: Sequence[Value], only: str) -> tuple[Col, ...]:
    """Only what comes from the column `only` may still carry a watermark."""
    return tuple(
        replace(c, carries=c.carries and v.column == only) for c, v in zip(cols, values, strict=True)
    )


def _order(row: Row) -> list[tuple[bool, Any]]:
    return [(row[name] is not None, row[name]) for name in sorted(row) if name not in HIDDEN]


def over(node: Node) -> str:
    """A node as the relation of a window function: another one can't stand there by itself."""
    return f"({node.select()})" if isinstance(node, Windowed) else node.item()
