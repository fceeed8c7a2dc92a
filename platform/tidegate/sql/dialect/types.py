"""Types: what users write (PostgreSQL's and Spark's names) and what Spark stores.

Inside tidegate a type is a `SparkType`; `str()` of it is Spark DDL in lower case: `bigint`, `decimal(28,10)`,
`array<string>`, `struct<a:string,b:int>`. TIMESTAMP is without time zone (`timestamp_ntz`), TIMESTAMPTZ with
(`timestamp`); DECIMAL without precision is `decimal(28,10)`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache

from sqlglot import exp

UNKNOWN = "unknown"
DECIMAL_DEFAULT = (28, 10)


@dataclass(frozen=True)
class SparkType:
    """A Spark SQL type. `params` are precision and scale of a decimal, `args` the element type of an array,
    key and value of a map, field types of a struct (named by `fields`)."""

    name: str
    params: tuple[int, ...] = ()
    args: tuple[SparkType, ...] = ()
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.name == "struct":
            inner = ",".join(f"{_ddl_name(n)}:{t}" for n, t in zip(self.fields, self.args, strict=True))
            return f"struct<{inner}>"
        if self.args:
            return f"{self.name}<{','.join(map(str, self.args))}>"
        if self.params:
            return f"{self.name}({','.join(map(str, self.params))})"
        return self.name

    def field(self, name: str) -> SparkType | None:
        """The type of a struct's field, whatever its case; None if there is none."""
        for field, type_ in zip(self.fields, self.args, strict=False):
            if field.casefold() == name.casefold():
                return type_
        return None

    @property
    def is_integer(self) -> bool:
        """tinyint, smallint, int or bigint."""
        return self.name in INTEGERS

    @property
    def is_numeric(self) -> bool:
        """An integer, float, double, decimal, or a number whose exact type is not known."""
        return self.name in INTEGERS or self.name in ("float", "double", "decimal", "numeric")

    @property
    def is_exact(self) -> bool:
        """Whether every part of the type is known."""
        if self.name in ("numeric", "void") or (self.name == "decimal" and not self.params):
            return False
        return all(t.is_exact for t in self.args)


INTEGERS = ("tinyint", "smallint", "int", "bigint")
STRING = SparkType("string")
BOOLEAN = SparkType("boolean")
INT = SparkType("int")
BIGINT = SparkType("bigint")
DOUBLE = SparkType("double")
DATE = SparkType("date")
TIMESTAMP = SparkType("timestamp_ntz")
TIMESTAMPTZ = SparkType("timestamp")

# As users write them. DDL statements read these names themselves; casts inside expressions go through sqlglot
# (`from_datatype`), which knows the same ones.
NAMES: dict[str, SparkType] = {
    **dict.fromkeys(("VARCHAR", "TEXT", "STRING", "CHARACTER VARYING", "JSONB", "JSON"), STRING),
    **dict.fromkeys(("SMALLINT", "INT2", "SHORT"), SparkType("smallint")),
    **dict.fromkeys(("INT", "INTEGER", "INT4"), INT),
    **dict.fromkeys(("BIGINT", "INT8", "LONG"), BIGINT),
    **dict.fromkeys(("TINYINT", "BYTE"), SparkType("tinyint")),
    **dict.fromkeys(("REAL", "FLOAT", "FLOAT4"), SparkType("float")),
    **dict.fromkeys(("DOUBLE", "DOUBLE PRECISION", "FLOAT8"), DOUBLE),
    **dict.fromkeys(("NUMERIC", "DECIMAL", "DEC"), SparkType("decimal", DECIMAL_DEFAULT)),
    **dict.fromkeys(("BOOLEAN", "BOOL"), BOOLEAN),
    **dict.fromkeys(("BYTEA", "BINARY", "VARBINARY"), SparkType("binary")),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP WITHOUT TIME ZONE"), TIMESTAMP),
    **dict.fromkeys(("TIMESTAMPTZ", "TIMESTAMP_LTZ", "TIMESTAMP WITH TIME ZONE"), TIMESTAMPTZ),
    "DATE": DATE,
    "VARIANT": SparkType("variant"),
}
NESTED = ("ARRAY", "MAP", "STRUCT")

# Types people know from elsewhere, with what to write instead.
ABSENT: dict[str, str] = {
    "TIME": "keep the time of day in a TIMESTAMP, or as seconds in an INT",
    "TIMETZ": "use TIMESTAMPTZ",
    "DATETIME": "use TIMESTAMP",
    "UUID": "use VARCHAR",
    "CHAR": "use VARCHAR: strings have no fixed length here",
    "CHARACTER": "use VARCHAR: strings have no fixed length here",
    "INTERVAL": "store a length of time as a number, and multiply it by INTERVAL '1 second' in the query",
    "SERIAL": "use BIGINT: tidegate does not number rows",
    "BIGSERIAL": "use BIGINT: tidegate does not number rows",
    "MONEY": "use DECIMAL(19, 4)",
}

_DISPLAY = {
    "timestamp_ntz": "TIMESTAMP",
    "timestamp": "TIMESTAMPTZ",
    "string": "VARCHAR",
    "binary": "BYTEA",
    "float": "REAL",
}


def decimal_problem(precision: int, scale: int) -> str | None:
    """Why DECIMAL(precision, scale) can't be, or None."""
    if not 1 <= precision <= 38:
        return "the precision of a DECIMAL must be 1 to 38"
    if not 0 <= scale <= precision:
        return "the scale of a DECIMAL must be 0 to its precision"
    return None


def display(ddl: str) -> str:
    """A Spark type as the user writes it: `timestamp_ntz` is TIMESTAMP, `array<string>` is VARCHAR[]."""
    return ddl if ddl == UNKNOWN else _display(parse_ddl(ddl))


def _display(type_: SparkType) -> str:
    if type_.name == "array":
        return f"{_display(type_.args[0])}[]"
    if type_.name == "map":
        return f"MAP<{', '.join(map(_display, type_.args))}>"
    if type_.name == "struct":
        pairs = zip(type_.fields, type_.args, strict=True)
        return f"STRUCT<{', '.join(f'{name} {_display(t)}' for name, t in pairs)}>"
    params = f"({', '.join(map(str, type_.params))})" if type_.params else ""
    return _DISPLAY.get(type_.name, type_.name.upper()) + params


@cache
@lru_cache(1024)
def parse_ddl(ddl: str) -> SparkType:
    """Spark DDL, as `str(SparkType)` writes it and as Spark's `simpleString` does, back to a `SparkType`.
    Raises ValueError for text that is not such a type."""
    type_, rest = _read_ddl(ddl.strip())
    if rest.strip():
        raise ValueError(f"not a Spark type: {ddl!r}")
    return type_


def _read_ddl(text: str) -> tuple[SparkType, str]:
    match = re.match(r"\s*(interval [a-z ]+|[a-z_]+)\s*", text, re.IGNORECASE)
    if match is None:
        raise ValueError(f"not a Spark type: {text!r}")
    name, rest = match[1].lower().strip(), text[match.end() :]
    if name in ("array", "map", "struct") and rest.startswith("<"):
        fields, args, rest = [], [], rest[1:]
        while not rest.startswith(">"):
            if name == "struct":
                named = re.match(r"\s*(`(?:[^`]|``)*`|[^:`<>,\s]+)\s*:", rest)
                if named is None:
                    raise ValueError(f"not a Spark type: {text!r}")
                fields.append(named[1].strip("`").replace("``", "`"))
                rest = rest[named.end() :]
            arg, rest = _read_ddl(rest)
            args.append(arg)
            rest = rest.lstrip()
            if not rest.startswith((",", ">")):
                raise ValueError(f"not a Spark type: {text!r}")
            rest = rest[1:].lstrip() if rest.startswith(",") else rest
        return SparkType(name, args=tuple(args), fields=tuple(fields)), rest[1:]
    params = re.match(r"\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", rest)
    if params:
        numbers = tuple(int(p) for p in params.groups() if p is not None)
        if name == "decimal" and len(numbers) == 1:
            numbers = (*numbers, 0)
        return SparkType(name, params=numbers), rest[params.end() :]
    return SparkType(name), rest


def _ddl_name(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else f"`{name.replace('`', '``')}`"


_FROM_SQLGLOT: dict[exp.DType, SparkType] = {
    exp.DType.VARCHAR: STRING,
    exp.DType.TEXT: STRING,
    exp.DType.JSON: STRING,
    exp.DType.JSONB: STRING,
    exp.DType.TINYINT: SparkType("tinyint"),
    exp.DType.SMALLINT: SparkType("smallint"),
    exp.DType.INT: INT,
    exp.DType.BIGINT: BIGINT,
    exp.DType.FLOAT: SparkType("float"),
    exp.DType.DOUBLE: DOUBLE,
    exp.DType.BOOLEAN: BOOLEAN,
    exp.DType.BINARY: SparkType("binary"),
    exp.DType.VARBINARY: SparkType("binary"),
    exp.DType.DATE: DATE,
    exp.DType.TIMESTAMP: TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: TIMESTAMP,
    exp.DType.TIMESTAMPTZ: TIMESTAMPTZ,
    exp.DType.TIMESTAMPLTZ: TIMESTAMPTZ,
    exp.DType.VARIANT: SparkType("variant"),
}


def from_datatype(node: exp.DataType) -> SparkType:
    """The type of a cast. Raises ValueError with the reason if tidegate does not have it."""
    kind = node.this
    inner = node.expressions
    if kind is exp.DType.ARRAY and len(inner) == 1:
        return SparkType("array", args=(from_datatype(inner[0]),))
    if kind is exp.DType.MAP and len(inner) == 2:
        return SparkType("map", args=tuple(from_datatype(t) for t in inner))
    if kind is exp.DType.STRUCT and inner and all(isinstance(f, exp.ColumnDef) for f in inner):
        if any(f.args.get("constraints") for f in inner):
            raise ValueError("a field of a STRUCT has only a name and a type")
        return SparkType(
            "struct",
            args=tuple(from_datatype(f.args["kind"]) for f in inner),
            fields=tuple(f.name for f in inner),
        )
    if kind is exp.DType.DECIMAL:
        numbers = [int(p.name) for p in inner]
        precision, scale = (*numbers, 0)[:2] if numbers else DECIMAL_DEFAULT
        if problem := decimal_problem(precision, scale):
            raise ValueError(problem)
        return SparkType("decimal", (precision, scale))
    known = _FROM_SQLGLOT.get(kind)
    name = kind.value if isinstance(kind, exp.DType) else str(kind)
    if known is None or inner:
        hint = ABSENT.get(name, "only DECIMAL has a length or precision" if inner else "")
        raise ValueError(f"there is no type {node.sql(dialect='postgres')}" + (f": {hint}" if hint else ""))
    return known
