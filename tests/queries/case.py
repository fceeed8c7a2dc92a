"""Tables and queries that are asked: names that are hard to write or that the engine uses itself, values at the ends of
their types, and the parts that a query is made of.

A query is made of parts that speak of columns by number, so that the same one can be written over other names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

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
