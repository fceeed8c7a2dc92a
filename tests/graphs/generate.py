"""Random graphs of views over three inputs: `world(rng)` is a few sources and the views over them, as SQL and as what
they mean (`model.py`). A view may turn out to be one that is refused: watermarks are lost on the way, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from tests.graphs.model import STEP, Col, Filter, Join, Node, Project, Read, Union, Value, length
from tests.graphs.windows import Group, Over, Session, Windowed, Within

TYPES = {"ts": "TIMESTAMP", "tz": "TIMESTAMPTZ", "date": "DATE", "epoch": "BIGINT"}
#: Where the random times begin, in ticks: two hours, or days, before a new year.
BEGIN = {
    "ts": 1_767_218_400_000_000,
    "tz": 1_767_218_400_000_000,
    "date": 20_452,
    "epoch": 1_767_218_400,
}
MICROS = ("ts", "tz")


@dataclass(frozen=True)
class Source:
    """A table with the columns id, k and ts; its watermark is `delay` ticks behind the newest ts."""

    name: str
    kind: str
    delay: int

    @property
    def cols(self) -> tuple[Col, ...]:
        return Col("id", "int"), Col("k", "int"), Col("ts", self.kind, True)

    def sql(self) -> str:
        mark = f"ts - {length(self.kind, self.delay)}" if self.delay else "ts"
        columns = f"id BIGINT, k BIGINT, ts {TYPES[self.kind]}, WATERMARK FOR ts AS {mark}"
        return f"CREATE TABLE {self.name} ({columns}) APPEND ONLY"


@dataclass(frozen=True)
class View:
    name: str
    query: Node

    @property
    def cols(self) -> tuple[Col, ...]:
        return self.query.cols

    def sql(self) -> str:
        return f"CREATE MATERIALIZED VIEW {self.name} AS {self.query.select()} EMIT ON WINDOW CLOSE"


@dataclass
class Maker:
    """Makes views over what there is. `objects`: the columns of each; `depth`: how many views it stands on, one on the
    other."""

    rng: Random
    objects: dict[str, tuple[Col, ...]] = field(default_factory=dict)
    depth: dict[str, int] = field(default_factory=dict)
    names: int = 0

    def sources(self) -> list[Source]:
        """Three of them, mostly of one kind of time."""
        kinds = self.rng.choice(
            [
                ["ts"],
                ["ts"],
                ["ts"],
                ["ts", "tz"],
                ["tz"],
                ["date"],
                ["epoch"],
                ["ts", "epoch"],
                ["ts", "date"],
            ]
        )
        found = []
        for name in "abc":
            kind = self.rng.choice(kinds)
            source = Source(name, kind, STEP[kind] * self.rng.choice([0, 0, 0, 1, 3]))
            self.add(source)
            found.append(source)
        return found

    def add(self, one: Source | View, cols: tuple[Col, ...] | None = None) -> None:
        """Others may read it from now on; `cols`: with the watermarks that it really carries."""
        self.objects[one.name] = cols or one.cols
        below = one.query.reads() if isinstance(one, View) else []
        self.depth[one.name] = max((self.depth[name] + 1 for name in below), default=0)

    def view(self, name: str) -> View:
        """A random view over what has been added."""
        node = self._node(self.rng.choice([0, 1, 1, 2, 2, 3]))
        top = self.rng.random()
        if top < 0.08:
            node = self._session(node) or node
        elif top < 0.16:
            node = self._over(node) or node
        elif top < 0.5:
            node = self._group(node) or node
        if isinstance(node, Read | Windowed) and self.rng.random() < 0.7:
            node = self._project(node)
        return View(name, node)

    def _node(self, size: int) -> Node:
        if size <= 0:
            return self._read()
        make = self.rng.choices(
            [self._project, self._filter, self._window, self._union, self._join, self._group, self._within],
            [3, 1, 4, 3, 4, 2, 0.6],
        )[0]
        if make in (self._union, self._join):
            left = self.rng.randrange(size)
            return make(self._node(left), self._node(size - 1 - left)) or self._read()
        child = self._node(size - 1)
        return make(child) or child

    def _read(self) -> Read:
        names = [name for name, depth in self.depth.items() if depth < 4]
        name = self.rng.choice(names if self.rng.random() < 0.75 else ["a", "b", "c"])
        return Read(name, self.objects[name])

    def _times(self, node: Node) -> list[Col]:
        return [c for c in node.cols if c.carries]

    def _name(self) -> str:
        self.names += 1
        return f"c{self.names}"

    def _steps(self, kind: str, least: int, most: int) -> int:
        """A random length in ticks: whole steps, rarely a tick more or less."""
        found = STEP[kind] * self.rng.randint(least, most)
        return found + self.rng.choice([-1, 1]) if kind in MICROS and self.rng.random() < 0.05 else found

    def _value(self, col: Col) -> Value:
        if not col.carries or self.rng.random() < 0.5:
            return Value(col.name, "column", col.name if self.rng.random() < 0.7 else self._name())
        if col.kind in MICROS:
            how = self.rng.choices(
                ["shift", "hour", "day", "month", "epoch", "year"], [6, 4, 1, 0.4, 1.5, 0.4]
            )[0]
        else:
            how = "shift"
        by = self._steps(col.kind, -4, 4) if how == "shift" else 0
        how = "column" if how == "shift" and not by else how
        return Value(col.name, how, self._name(), by)

    def _values(self, node: Node) -> tuple[Value, ...]:
        cols = list(node.cols)
        self.rng.shuffle(cols)
        times = [c for c in cols if c.carries]
        kept = [c for c in cols if c.carries or self.rng.random() < 0.8]
        values = [self._value(c) for c in kept]
        if times and self.rng.random() < 0.4:
            values.append(self._value(self.rng.choice(times)))
        self.rng.shuffle(values)
        unique = {v.name: v for v in values}
        return tuple(unique.values())

    def _project(self, node: Node) -> Node:
        return Project(node, self._values(node))

    def _filter(self, node: Node) -> Node | None:
        cols = [c for c in node.cols if c.kind == "int"]
        if not cols:
            return None
        by = self.rng.choice([2, 3])
        return Filter(node, self.rng.choice(cols).name, by, self.rng.randrange(by))

    def _window(self, node: Node) -> Windowed | None:
        times = self._times(node)
        if not times:
            return None
        col = self.rng.choice(times)
        step = STEP[col.kind]
        weights = [5, 2, 1, 0.4 if col.kind in MICROS else 0]
        function = self.rng.choices(["TUMBLE", "HOP", "CUMULATE", "MONTH"], weights)[0]
        slide = step * self.rng.choice([1, 2, 2, 3, 4, 6])
        size = slide if function == "TUMBLE" else slide * self.rng.choice([2, 3])
        offset = step * self.rng.choice([0, 0, 0, 1])
        return Windowed(node, function, col.name, slide, size, offset)

    def _union(self, left: Node, right: Node) -> Node | None:
        """Columns are paired by kind: a time with a time, ids with ids."""
        pairs: list[tuple[Col, Col]] = []
        for kinds in (MICROS, ("date",), ("epoch",), ("year",), ("int",)):
            a, b = (
                [c for c in n.cols if c.kind in kinds and c.carries == (kinds != ("int",))]
                for n in (left, right)
            )
            self.rng.shuffle(a)
            self.rng.shuffle(b)
            pairs += zip(a, b, strict=False)
        if not any(a.carries for a, _ in pairs):
            return None
        self.rng.shuffle(pairs)
        sides = []
        names = [self._name() for _ in pairs]
        for cols in zip(*pairs, strict=True):
            values = [
                self._value(c) if self.rng.random() < 0.3 else Value(c.name, "column", c.name) for c in cols
            ]
            values = [
                Value(v.column, v.how, n, v.by) if v.kind(c.kind) == c.kind else Value(v.column, "column", n)
                for v, n, c in zip(values, names, cols, strict=True)
            ]
            sides.append(values)
        return Union(Project(left, tuple(sides[0])), Project(right, tuple(sides[1])))

    def _join(self, left: Node, right: Node) -> Node | None:
        pairs = [
            (a, b)
            for a in self._times(left)
            for b in self._times(right)
            if a.kind == b.kind or (a.kind in MICROS and b.kind in MICROS)
        ]
        if not pairs:
            return None
        a, b = self.rng.choice(pairs)
        low = high = 0
        if self.rng.random() < 0.5:
            low = self._steps(b.kind, -5, 3)
            high = low + STEP[b.kind] * self.rng.randint(0, 4)
        how = self.rng.choices(["INNER", "LEFT", "RIGHT", "FULL"], [4, 4, 1, 1])[0]
        same = None
        ints = [[c.name for c in n.cols if c.kind == "int"] for n in (left, right)]
        if all(ints) and self.rng.random() < 0.5:
            same = (self.rng.choice(ints[0]), self.rng.choice(ints[1]))
        values = [("both", Value(a.name, "column", self._name()))] if how == "FULL" else []
        for side, node in (("l", left), ("r", right)):
            values += [(side, Value(v.column, v.how, self._name(), v.by)) for v in self._values(node)]
        self.rng.shuffle(values)
        return Join(how, left, right, a.name, b.name, low, high, same, tuple(values))

    def _group(self, node: Node) -> Group | None:
        times = self._times(node)
        if not times:
            return None
        if isinstance(node, Windowed) and self.rng.random() < 0.7:
            names = self.rng.choice([["window_start"], ["window_end"], ["window_start", "window_end"]])
            keys = [
                Value(name, "column", name if self.rng.random() < 0.8 else self._name()) for name in names
            ]
        else:
            keys = [self._value(self.rng.choice(times))]
        others = [c for c in node.cols if c.kind == "int" or c.carries]
        if others and self.rng.random() < 0.6:
            keys.append(self._value(self.rng.choice(others)))
        self.rng.shuffle(keys)
        unique = {v.name: v for v in keys if v.name != "n"}
        return Group(node, tuple(unique.values()), self.rng.random() < 0.25) if unique else None

    def _within(self, node: Node) -> Within | None:
        times = self._times(node)
        values = tuple(v for v in self._values(node) if v.name != "m")
        return Within(node, self.rng.choice(times).name, values) if times and values else None

    def _session(self, node: Node) -> Session | None:
        times = [c for c in self._times(node) if c.name not in ("window_start", "window_end")]
        if not times:
            return None
        col = self.rng.choice(times)
        keys = [c.name for c in node.cols if c.kind == "int" and c.name != "n"]
        key = self.rng.choice(keys) if keys and self.rng.random() < 0.6 else None
        order = ["window_start", "window_end"]
        self.rng.shuffle(order)
        gap, group = STEP[col.kind] * self.rng.choice([2, 3, 5]), self.rng.random() < 0.7
        return Session(node, col.name, key, gap, tuple(order), group)

    def _over(self, node: Node) -> Over | None:
        times, keys = self._times(node), [c.name for c in node.cols if c.kind == "int" and c.name != "o"]
        if not times or not keys or any(c.name == "o" for c in node.cols):
            return None
        col = self.rng.choice(times)
        function = self.rng.choice(["range", "range", "lag", "lead"])
        before, after = (STEP[col.kind] * self.rng.randint(0, 3) for _ in range(2))
        return Over(node, function, col.name, self.rng.choice(keys), before, after)


@dataclass(frozen=True)
class Insert:
    """Rows (id, k, ticks of ts) for one source."""

    source: str
    rows: tuple[tuple[int, int | None, int], ...]


def history(rng: Random, sources: Sequence[Source], rounds: int) -> list[list[Insert]]:
    """What is inserted before each FLUSH: the sources lag each other, often share times, and some rows are late."""
    pace, spread = rng.choice([1, 2, 6]), rng.choice([1, 3, 8])
    behind = {s.name: rng.choice([0, 0, 1, 3, 10]) for s in sources}
    found, number, now = [], 0, 0
    for _ in range(rounds):
        now += rng.randint(0, 2 * pace)
        inserts = []
        for source in sources:
            if rng.random() < 0.4:
                continue
            rows = []
            for _ in range(rng.randint(1, 3)):
                number += 1
                step = now - behind[source.name] - rng.randrange(spread)
                t = BEGIN[source.kind] + step * STEP[source.kind]
                t += rng.choice([0] * 20 + [1, -1]) if source.kind in MICROS else 0
                rows.append((number, rng.choice([0, 0, 1, None]), t))
            inserts.append(Insert(source.name, tuple(rows)))
            if rng.random() < 0.2:
                behind[source.name] = rng.choice([0, 1, 3, 10])
        found.append(inserts)
    return found


def far(sources: Sequence[Source]) -> list[Insert]:
    """A row for each source, far ahead of all others: whatever waits for a watermark waits no more."""
    years = {
        "ts": 40 * 366 * 86_400_000_000,
        "tz": 40 * 366 * 86_400_000_000,
        "date": 40 * 366,
        "epoch": 40 * 366 * 86_400,
    }
    return [Insert(s.name, ((-1 - i, 0, BEGIN[s.kind] + years[s.kind]),)) for i, s in enumerate(sources)]
