"""Random tables and views over them, for `test_property_queries.py`, with conditions and aggregates of all sorts."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.queries.case import (
    EXTREMES,
    INTEGERS,
    NAMES,
    NOON,
    NUMBERS,
    SECOND,
    Case,
    Sql,
    column,
    filled,
    literal,
    text,
)

#: Conditions that speak of no column.
CONSTANT = [
    "TRUE",
    "FALSE",
    "1 = 1",
    "1 = 2",
    "NULL IS NULL",
    "'a' = 'a'",
    "'a' IN ('a', 'b')",
    "3 IN (1, 2, 3)",
    "5 % 2 = 1",
    "TRUE = FALSE",
]


RELATIONS = {
    "tumble": [
        "TUMBLE(t, {t}, INTERVAL '10 seconds')",
        "TUMBLE(t, {t}, INTERVAL '7 seconds', INTERVAL '3 seconds')",
    ],
    "hop": [
        "HOP(t, {t}, INTERVAL '5 seconds', INTERVAL '20 seconds')",
        "HOP(t, {t}, INTERVAL '3 seconds', INTERVAL '9 seconds', INTERVAL '1 second')",
    ],
}


SESSION = "SESSION(t, {t}, {k}, INTERVAL '8 seconds')"


Items = list[tuple[Sql, str | None]]


class _Drawn:
    """A table, drawn at random, and what parts of a query about it are drawn from."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.taken: set[str] = set()
        count = self.count = self.draw(st.integers(3, 6))
        time_type = self.pick(["TIMESTAMP", "TIMESTAMP", "TIMESTAMPTZ"])
        key_type = self.pick(["VARCHAR", "VARCHAR", "BIGINT", "INT", "BOOLEAN", "DATE", *EXTREMES])
        self.types = (
            time_type,
            key_type,
            *(self.pick([*EXTREMES, "BIGINT", "BIGINT", "INT", "DOUBLE"]) for _ in range(count - 2)),
        )
        names = self.draw(
            st.lists(st.sampled_from(NAMES), min_size=count, max_size=count, unique_by=str.casefold)
        )
        if self.chance(5):
            names[-1] = names[0].swapcase()  # differs by case only, or not at all
        if self.chance(15):
            names[-1] = f"{names[2]}_{self.pick(['sum', 'count', 'min', 'max', 'all', 'mean'])}"
        if self.chance(10):
            names[1] = f"_{self.pick(['sum', 'count', 'key', 'min'])}_{names[2]}"
        self.names = tuple(names)
        self.rows = tuple(
            tuple(self.value(i) for i in range(count)) for _ in range(self.draw(st.integers(0, 12)))
        )

    def pick(self, some: Any) -> Any:
        return self.draw(st.sampled_from(some))

    def chance(self, percent: int) -> bool:
        return self.draw(st.integers(0, 99)) < percent

    def value(self, i: int) -> Any:
        if i == 0:
            if self.chance(3):
                return self.pick([0, -1, 253_402_300_800 * SECOND, -62_200_000_000 * SECOND, 2**61])
            return NOON + self.draw(st.integers(-30, 90)) * self.pick([SECOND, SECOND, SECOND // 2, 1])
        if self.chance(15):
            return None
        if self.types[i] in INTEGERS and self.chance(60):
            return self.draw(st.integers(-4, 4))
        if i == 1:
            return (
                self.pick(EXTREMES[self.types[1]][:3])
                if self.chance(80)
                else self.pick(EXTREMES[self.types[1]])
            )
        return self.pick(EXTREMES[self.types[i]])

    def of(self, *kinds: str) -> list[int]:
        return [i for i, t in enumerate(self.types) if t in kinds and i > 0]

    def number(self) -> Sql:
        found = self.of(*INTEGERS)
        how = self.draw(st.integers(0, 9))
        if how < 5 and found:
            return column(self.pick(found))
        if how < 7 and found:
            return filled(f"«0» % {self.pick([1, 2, 3, 7, 2**31, 2**63 - 1])}", column(self.pick(found)))
        if how == 7:
            return text(f"{self.draw(st.integers(-9, 9))} % {self.pick([1, 2, 5])}")
        return text(str(self.pick([0, 1, -1, 2, 3, 2**31, -(2**31), 2**63 - 1, -(2**63) + 1, "1.5", "1e3"])))

    def operand(self, i: int) -> Sql:
        same = self.of(self.types[i])
        if len(same) > 1 and self.chance(30):
            return column(self.pick(same))
        return text("NULL" if self.chance(5) else literal(self.pick(EXTREMES[self.types[i]]), self.types[i]))

    def simple(self) -> Sql:
        how = self.draw(st.integers(0, 11))
        sign = self.pick(["=", "<>", "!=", "<", "<=", ">", ">="])
        some = self.draw(st.integers(1, self.count - 1))
        if how < 3:
            return filled(f"«0» {sign} «1»", self.number(), self.number())
        if how < 6:
            return filled(f"«0» {sign} «1»", column(some), self.operand(some))
        if how == 6:
            return filled(f"«0» IS {self.pick(['', 'NOT '])}NULL", column(some))
        if how == 7:
            listed = ", ".join(
                str(self.draw(st.integers(-3, 3))) for _ in range(self.draw(st.integers(1, 3)))
            )
            return filled(f"«0» {self.pick(['', 'NOT '])}IN ({listed})", self.number())
        if how == 8:
            return filled(
                f"«0» {self.pick(['', 'NOT '])}BETWEEN «1» AND «2»",
                self.number(),
                self.number(),
                self.number(),
            )
        if how == 9:
            listed = [literal(v, self.types[some]) for v in EXTREMES[self.types[some]][:2]]
            listed += ["NULL"] if self.chance(20) else []
            return filled(f"«0» IN ({', '.join(listed)})", column(some))
        if how == 10:
            return text(self.pick(CONSTANT))
        booleans = self.of("BOOLEAN")
        return column(self.pick(booleans)) if booleans else filled("«0» = «0»", column(some))

    def condition(self, depth: int) -> Sql:
        how = self.draw(st.integers(0, 5)) if depth else 5
        if how < 2:
            return filled(
                f"(«0») {self.pick(['AND', 'OR'])} («1»)",
                self.condition(depth - 1),
                self.condition(depth - 1),
            )
        if how == 2:
            return filled("NOT («0»)", self.condition(depth - 1))
        return self.simple()

    def aggregate(self, plain: bool) -> Sql:
        some = self.draw(st.integers(1, self.count - 1))
        numbers = self.of(*NUMBERS)
        how = self.draw(st.integers(0, 7 if plain else 12))
        if how == 0:
            return text("count(*)")
        if how < 3 or not numbers:
            return filled(f"{self.pick(['count', 'min', 'max'])}(«0»)", column(some))
        if how < 8:
            return filled(
                f"{self.pick(['sum', 'avg', 'min', 'max', 'sum', 'count'])}(«0»)", column(self.pick(numbers))
            )
        of_number = column(self.pick(numbers))
        if how == 8:
            return filled("sum(«0») FILTER (WHERE «1»)", of_number, self.simple())
        if how == 9:
            return filled(f"{self.pick(['sum', 'count', 'avg'])}(DISTINCT «0»)", of_number)
        if how == 10:
            return filled(f"sum(«0» {self.pick(['+', '-', '*'])} «1»)", of_number, self.number())
        if how == 11:
            return filled("coalesce(sum(«0»), 0) + count(*)", of_number)
        return filled(f"max({self.pick(['abs(«0»)', '-«0»'])})", of_number)

    def alias(self) -> str:
        found = self.pick([name for name in NAMES if name.casefold() not in self.taken])
        self.taken.add(found.casefold())
        return found

    def of_rows(self, kind: str) -> Items:
        """What a sorted view selects, or one with OVER."""
        self.taken |= {name.casefold() for name in self.names}
        items: Items = [(column(0), None), (column(1), self.alias())]
        items += [(column(i), self.alias() if self.chance(50) else None) for i in range(2, self.count)]
        if kind == "over":
            call = self.pick(["row_number()", "sum(«0»)", "lag(«0»)", "count(«0»)", "avg(«0»)", "max(«0»)"])
            numbers = self.of(*NUMBERS)
            if not numbers and "«0»" in call:
                call = "row_number()"
            call = call.replace("«0»", "«2»")
            over = filled(
                f"{call} OVER (PARTITION BY «0» ORDER BY «1»)",
                column(1),
                column(0),
                column(self.pick(numbers or [1])),
            )
            items.append((over, self.alias()))
        return items

    def of_windows(self, kind: str, plain: bool, keys: list[Sql]) -> tuple[Items, Sql | None]:
        """What a view of windows or sessions selects, and its HAVING; more `keys` are added."""
        if not plain and self.chance(40):
            keys.append(
                filled(
                    self.pick(["coalesce(«0», «0»)", "«0» IS NULL"]),
                    column(self.draw(st.integers(1, self.count - 1))),
                )
            )
        extra = [*range(1, self.count)]
        if kind != "session" and extra and self.chance(30):
            keys.append(column(self.pick(extra)))
        bounds = self.pick([["window_end"], ["window_start", "window_end"]])
        if kind != "session" and self.chance(30):
            bounds = ["window_start"]
        items: Items = [(text(b), None) for b in bounds]
        items += [(k, self.alias()) for k in keys]
        items += [(self.aggregate(plain), self.alias()) for _ in range(self.draw(st.integers(1, 4)))]
        keys += [text(b) for b in bounds]
        having = None
        if not plain and self.chance(50):
            of_number = column(self.pick(self.of(*NUMBERS) or [1]))
            call = self.pick(
                ["count(«0»)", "count(*)", "sum(«0»)", "avg(«0»)", "count(DISTINCT «0»)", "max(«0»)"]
            )
            call = call if self.of(*NUMBERS) else "count(«0»)"
            having = filled(f"{call} {self.pick(['>', '<=', '<>'])} {self.pick([0, 1, 2])}", of_number)
        return items, having


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """`Case`s."""
    one = _Drawn(draw)
    plain = one.chance(70)
    kind = one.pick(
        ["tumble", "hop", "session", "sorted", "over", "over"]
        if not plain
        else ["tumble", "tumble", "hop", "session"]
    )
    where = one.condition(2) if one.chance(50) and (kind != "session" or not plain) else None
    keys: list[Sql] = [column(1)] if kind == "session" or one.chance(70) else []
    relations = {name: one.pick(texts) for name, texts in RELATIONS.items()} | {"session": SESSION}
    having = None
    if kind in ("sorted", "over"):
        items, keys = one.of_rows(kind), []
    else:
        items, having = one.of_windows(kind, plain, keys)
    marks = [None, *(NOON + s * SECOND for s in (-100, 0, 7, 10, 20, 33))]
    return Case(
        one.names,
        one.types,
        one.rows,
        relations.get(kind, "t"),
        tuple(items),
        tuple(keys),
        where,
        having,
        kind,
        frontier=one.pick(marks),
        reached=NOON + one.pick([10, 33, 50, 200, 10**7]) * SECOND,
        tasks=one.pick([1, 1, 2, 3]),
    )
