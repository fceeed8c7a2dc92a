"""Random tables and views over them, for `test_property_queries.py`: names that are hard to write or that the engine
uses itself, values at the ends of their types, conditions and aggregates of all sorts.

A query is made of parts that speak of columns by number, so that the same one can be written over other names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

BEGIN = datetime(2026, 1, 1)
SECOND = 1_000_000
#: In microseconds since 1970.
NOON = int((BEGIN - datetime(1970, 1, 1)).total_seconds()) * SECOND

WORDS = """select from where group order by having window timestamp interval null true false case when end as in is not
    and or between like join on using over partition rows range distinct all union with values table view create emit
    close left right full cross lateral date time decimal key value count sum avg min max n first last row element"""
ENGINE = """_pane _last _number _count _sum count_all _rows_ v_sum v_count a_min a_max b_sum _sum_v _count_v _min_v
    input_0 _time _path _row _block _metadata _x _was _late _upto _newest _unit0 _gone _by_0 _hash _commit _then _kind
    _using_1_0 _time_1 _column_0 _column_1 _step _partial ts k v window_start_ report c0 p0 k0 _c0 w spark_catalog
    _tidegate _seq _task _place _session _groups _case file path _1 _2 id"""
ODD = [
    'a"b',
    "a'b",
    "a`b",
    "``",
    "a\\b",
    "a.b",
    ".a",
    "a.",
    "a..b",
    " a",
    "a ",
    "a b",
    "-a",
    "--",
    "/*",
    "a;b",
    "a,b",
    "(a)",
    "a[0]",
    "1a",
    "1",
    "%s",
    "{0}",
    "{input}",
    "a\tb",
    "a=b",
    "#",
    "@a",
    "données",
    "имя",
    "時刻",
    "ﬁ",
    "ß",
    "İ",
    "ı",
    "K",
    "😀",
    "e\u0301",
    "x" * 300,
    "é" * 120,
]
NAMES = [*dict.fromkeys([*WORDS.split(), *ENGINE.split(), *ODD])]

EXTREMES: dict[str, list[Any]] = {
    "BIGINT": [0, 1, -1, 3, 2**63 - 1, -(2**63), 2**62, 2**53 + 1],
    "INT": [0, 1, -1, 2, 5, 2**31 - 1, -(2**31)],
    "SMALLINT": [0, 1, -1, 7, 2**15 - 1, -(2**15)],
    "TINYINT": [0, 1, -1, 7, 2**7 - 1, -(2**7)],
    "REAL": [0.0, -0.0, 1.5, -2.25, 2.0**127, 2.0**-149, float("inf"), float("-inf"), float("nan")],
    "DOUBLE": [0.0, -0.0, 1.5, -2.25, 1e308, -1e308, 5e-324, float("inf"), float("-inf"), float("nan")],
    "VARCHAR": ["", "a", "b", "A", " a", "é", "e\u0301", "\U0001f600", "a'b", "NULL", "x" * 200, "\x01"],
    "BYTEA": [b"", b"a", b"b", b"\x00", b"\xff\xfe"],
    "BOOLEAN": [True, False],
    "DATE": [date(2026, 1, 1), date(1970, 1, 1), date(1969, 12, 31), date(1, 1, 1), date(9999, 12, 31)],
    "TIMESTAMP": [0, -1, NOON, NOON + 1, -62_135_596_800 * SECOND, 253_402_300_800 * SECOND - 1],
    "TIMESTAMPTZ": [0, -1, NOON, NOON + 1, -62_135_596_800 * SECOND, 253_402_300_800 * SECOND - 1],
    "DECIMAL(10, 2)": [Decimal("0.00"), Decimal("1.50"), Decimal("-99999999.99"), Decimal("99999999.99")],
    "DECIMAL(38, 4)": [
        Decimal("0.0000"),
        Decimal("0.0001"),
        Decimal("9" * 34 + ".9999"),
        Decimal("-" + "9" * 34),
    ],
}
INTEGERS = ("BIGINT", "INT", "SMALLINT", "TINYINT")
NUMBERS = (*INTEGERS, "REAL", "DOUBLE", "DECIMAL(10, 2)", "DECIMAL(38, 4)")
Sql = Callable[[list[str]], str]
"""SQL, given the names of the columns in quotes."""


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class Case:
    """A table and a view over it. Columns by number, 0 is the time; `aliases`: of the items, None: as the column."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    relation: str
    items: tuple[tuple[Sql, str | None], ...]
    keys: tuple[Sql, ...]
    where: Sql | None
    having: Sql | None
    kind: str
    frontier: int | None = None
    reached: int | None = None
    tasks: int = 1
    plain_names: tuple[str, ...] = field(default=(), compare=False)

    def sql(self, hard: bool = True) -> str:
        """The two statements; not `hard`: over names that nobody would stumble over."""
        names = self.names if hard else tuple(f"easy{i}" for i in range(len(self.names)))
        columns = [quoted(n) for n in names]
        fields = ", ".join(f"{c} {t}" for c, t in zip(columns, self.types, strict=True))
        table = f"CREATE TABLE t ({fields}, WATERMARK FOR {columns[0]} AS {columns[0]}) APPEND ONLY;\n"
        items = []
        for i, (sql, alias) in enumerate(self.items):
            text = sql(columns)
            name = (quoted(alias) if hard else f"out{i}") if alias is not None else None
            items.append(f"{text} AS {name}" if name else text)
        source = self.relation.replace("{t}", columns[0]).replace("{k}", columns[1])
        view = f"CREATE MATERIALIZED VIEW w AS SELECT {', '.join(items)} FROM {source}"
        if self.where is not None:
            view += f" WHERE {self.where(columns)}"
        if self.keys:
            view += f" GROUP BY {', '.join(k(columns) for k in self.keys)}"
        if self.having is not None:
            view += f" HAVING {self.having(columns)}"
        return table + view + " EMIT ON WINDOW CLOSE;"


def text(sql: str) -> Sql:
    return lambda _: sql


def column(i: int) -> Sql:
    return lambda columns: columns[i]


def filled(pattern: str, *parts: Sql) -> Sql:
    """`pattern` with the parts in the places of «0», «1», …"""

    def write(columns: list[str]) -> str:
        pieces = pattern.split("«")
        found = [pieces[0]]
        for piece in pieces[1:]:
            number, rest = piece.split("»", 1)
            found += [parts[int(number)](columns), rest]
        return "".join(found)

    return write


def literal(value: Any, type_: str) -> str:
    """As SQL, where this dialect can write it."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'" if "\\" not in value else "'x'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'" if value.year > 999 else "DATE '0001-01-01'"
    if type_ in ("TIMESTAMP", "TIMESTAMPTZ"):
        time = datetime(1970, 1, 1) + timedelta(microseconds=value)
        shown = time.strftime("%Y-%m-%d %H:%M:%S.%f").rjust(26, "0")
        return f"{type_} '{shown}{'+00:00' if type_ == 'TIMESTAMPTZ' else ''}'"
    if isinstance(value, float):
        return f"CAST('{value}' AS {type_})"
    if isinstance(value, bytes):
        return f"unhex('{value.hex()}')"
    return str(value)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """`Case`s."""

    def pick(some: Any) -> Any:
        return draw(st.sampled_from(some))

    def chance(percent: int) -> bool:
        return draw(st.integers(0, 99)) < percent

    count = draw(st.integers(3, 6))
    time_type = pick(["TIMESTAMP", "TIMESTAMP", "TIMESTAMPTZ"])
    key_type = pick(["VARCHAR", "VARCHAR", "BIGINT", "INT", "BOOLEAN", "DATE", *EXTREMES])
    types = (
        time_type,
        key_type,
        *(pick([*EXTREMES, "BIGINT", "BIGINT", "INT", "DOUBLE"]) for _ in range(count - 2)),
    )
    names = draw(st.lists(st.sampled_from(NAMES), min_size=count, max_size=count, unique_by=str.casefold))
    if chance(5):
        names[-1] = names[0].swapcase()  # differs by case only, or not at all
    if chance(15):
        names[-1] = f"{names[2]}_{pick(['sum', 'count', 'min', 'max', 'all', 'mean'])}"
    if chance(10):
        names[1] = f"_{pick(['sum', 'count', 'key', 'min'])}_{names[2]}"

    def value(i: int) -> Any:
        if i == 0:
            if chance(3):
                return pick([0, -1, 253_402_300_800 * SECOND, -62_200_000_000 * SECOND, 2**61])
            return NOON + draw(st.integers(-30, 90)) * pick([SECOND, SECOND, SECOND // 2, 1])
        if chance(15):
            return None
        if types[i] in INTEGERS and chance(60):
            return draw(st.integers(-4, 4))
        if i == 1:
            return pick(EXTREMES[types[1]][:3]) if chance(80) else pick(EXTREMES[types[1]])
        return pick(EXTREMES[types[i]])

    rows = tuple(tuple(value(i) for i in range(count)) for _ in range(draw(st.integers(0, 12))))

    def of(*kinds: str) -> list[int]:
        return [i for i, t in enumerate(types) if t in kinds and i > 0]

    def number() -> Sql:
        found = of(*INTEGERS)
        how = draw(st.integers(0, 9))
        if how < 5 and found:
            return column(pick(found))
        if how < 7 and found:
            return filled(f"«0» % {pick([1, 2, 3, 7, 2**31, 2**63 - 1])}", column(pick(found)))
        if how == 7:
            return text(f"{draw(st.integers(-9, 9))} % {pick([1, 2, 5])}")
        return text(str(pick([0, 1, -1, 2, 3, 2**31, -(2**31), 2**63 - 1, -(2**63) + 1, "1.5", "1e3"])))

    def operand(i: int) -> Sql:
        same = of(types[i])
        if len(same) > 1 and chance(30):
            return column(pick(same))
        return text("NULL" if chance(5) else literal(pick(EXTREMES[types[i]]), types[i]))

    def simple() -> Sql:
        how = draw(st.integers(0, 11))
        sign = pick(["=", "<>", "!=", "<", "<=", ">", ">="])
        some = draw(st.integers(1, count - 1))
        if how < 3:
            return filled(f"«0» {sign} «1»", number(), number())
        if how < 6:
            return filled(f"«0» {sign} «1»", column(some), operand(some))
        if how == 6:
            return filled(f"«0» IS {pick(['', 'NOT '])}NULL", column(some))
        if how == 7:
            listed = ", ".join(str(draw(st.integers(-3, 3))) for _ in range(draw(st.integers(1, 3))))
            return filled(f"«0» {pick(['', 'NOT '])}IN ({listed})", number())
        if how == 8:
            return filled(f"«0» {pick(['', 'NOT '])}BETWEEN «1» AND «2»", number(), number(), number())
        if how == 9:
            listed = [literal(v, types[some]) for v in EXTREMES[types[some]][:2]]
            listed += ["NULL"] if chance(20) else []
            return filled(f"«0» IN ({', '.join(listed)})", column(some))
        if how == 10:
            return text(
                pick(
                    [
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
                )
            )
        booleans = of("BOOLEAN")
        return column(pick(booleans)) if booleans else filled("«0» = «0»", column(some))

    def condition(depth: int) -> Sql:
        how = draw(st.integers(0, 5)) if depth else 5
        if how < 2:
            return filled(f"(«0») {pick(['AND', 'OR'])} («1»)", condition(depth - 1), condition(depth - 1))
        if how == 2:
            return filled("NOT («0»)", condition(depth - 1))
        return simple()

    def aggregate(plain: bool) -> Sql:
        some = draw(st.integers(1, count - 1))
        numbers = of(*NUMBERS)
        how = draw(st.integers(0, 7 if plain else 12))
        if how == 0:
            return text("count(*)")
        if how < 3 or not numbers:
            return filled(f"{pick(['count', 'min', 'max'])}(«0»)", column(some))
        if how < 8:
            return filled(f"{pick(['sum', 'avg', 'min', 'max', 'sum', 'count'])}(«0»)", column(pick(numbers)))
        of_number = column(pick(numbers))
        if how == 8:
            return filled("sum(«0») FILTER (WHERE «1»)", of_number, simple())
        if how == 9:
            return filled(f"{pick(['sum', 'count', 'avg'])}(DISTINCT «0»)", of_number)
        if how == 10:
            return filled(f"sum(«0» {pick(['+', '-', '*'])} «1»)", of_number, number())
        if how == 11:
            return filled("coalesce(sum(«0»), 0) + count(*)", of_number)
        return filled(f"max({pick(['abs(«0»)', '-«0»'])})", of_number)

    taken: set[str] = set()

    def alias() -> str:
        found = pick([name for name in NAMES if name.casefold() not in taken])
        taken.add(found.casefold())
        return found

    plain = chance(70)
    kind = pick(
        ["tumble", "hop", "session", "sorted", "over", "over"]
        if not plain
        else ["tumble", "tumble", "hop", "session"]
    )
    where = condition(2) if chance(50) and (kind != "session" or not plain) else None
    keys: list[Sql] = [column(1)] if kind == "session" or chance(70) else []
    relation = {
        "tumble": pick(
            [
                "TUMBLE(t, {t}, INTERVAL '10 seconds')",
                "TUMBLE(t, {t}, INTERVAL '7 seconds', INTERVAL '3 seconds')",
            ]
        ),
        "hop": pick(
            [
                "HOP(t, {t}, INTERVAL '5 seconds', INTERVAL '20 seconds')",
                "HOP(t, {t}, INTERVAL '3 seconds', INTERVAL '9 seconds', INTERVAL '1 second')",
            ]
        ),
        "session": "SESSION(t, {t}, {k}, INTERVAL '8 seconds')",
    }.get(kind, "t")
    items: list[tuple[Sql, str | None]] = []
    having = None
    if kind in ("sorted", "over"):
        taken |= {name.casefold() for name in names}
        items = [(column(0), None), (column(1), alias())]
        items += [(column(i), alias() if chance(50) else None) for i in range(2, count)]
        keys = []
        if kind == "over":
            call = pick(["row_number()", "sum(«0»)", "lag(«0»)", "count(«0»)", "avg(«0»)", "max(«0»)"])
            numbers = of(*NUMBERS)
            if not numbers and "«0»" in call:
                call = "row_number()"
            call = call.replace("«0»", "«2»")
            over = filled(
                f"{call} OVER (PARTITION BY «0» ORDER BY «1»)",
                column(1),
                column(0),
                column(pick(numbers or [1])),
            )
            items.append((over, alias()))
    else:
        if not plain and chance(40):
            keys.append(
                filled(pick(["coalesce(«0», «0»)", "«0» IS NULL"]), column(draw(st.integers(1, count - 1))))
            )
        extra = [*range(1, count)]
        if kind != "session" and extra and chance(30):
            keys.append(column(pick(extra)))
        bounds = pick([["window_end"], ["window_start", "window_end"]])
        if kind != "session" and chance(30):
            bounds = ["window_start"]
        items = [(text(b), None) for b in bounds]
        items += [(k, alias()) for k in keys]
        items += [(aggregate(plain), alias()) for _ in range(draw(st.integers(1, 4)))]
        keys += [text(b) for b in bounds]
        if not plain and chance(50):
            of_number = column(pick(of(*NUMBERS) or [1]))
            call = pick(["count(«0»)", "count(*)", "sum(«0»)", "avg(«0»)", "count(DISTINCT «0»)", "max(«0»)"])
            call = call if of(*NUMBERS) else "count(«0»)"
            having = filled(f"{call} {pick(['>', '<=', '<>'])} {pick([0, 1, 2])}", of_number)
    marks = [None, *(NOON + s * SECOND for s in (-100, 0, 7, 10, 20, 33))]
    return Case(
        tuple(names),
        types,
        rows,
        relation,
        tuple(items),
        tuple(keys),
        where,
        having,
        kind,
        frontier=pick(marks),
        reached=NOON + pick([10, 33, 50, 200, 10**7]) * SECOND,
        tasks=pick([1, 1, 2, 3]),
    )
