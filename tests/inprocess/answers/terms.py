"""Expressions as this process reads them, and types."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa


class Declined(Exception):
    """It is not answered here."""


class Failed(BaseException):
    """What the answer was asked of has failed, with its own `error`: a broker, or a function of Python."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


#: What goes wrong here in what the server may still answer, or refuse in its own words.
NOT_HERE = (
    Declined,
    pa.ArrowException,
    ValueError,
    TypeError,
    LookupError,
    OverflowError,
    NotImplementedError,
)


@dataclass(frozen=True, slots=True)
class Name:
    """A column, or a field in it."""

    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """A literal."""

    scalar: Any


@dataclass(frozen=True, slots=True)
class Call:
    """A function of terms."""

    function: str
    given: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """A term as another type of Arrow."""

    term: Term
    type: Any


@dataclass(frozen=True, slots=True)
class Work:
    """A function of Python over arrays. `kind`: Spark's type of its result, or the text of that."""

    function: Any
    kind: Any
    given: Term


@dataclass(frozen=True, slots=True)
class Struct:
    """Terms as the fields of one value."""

    names: tuple[str, ...]
    given: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """A function over the neighbours of a row. `orders`: terms, whether they ascend, and whether NULL comes first.
    `frame`: whether it counts rows, and from which to which; None: as Spark takes it."""

    function: str
    given: tuple[Term, ...]
    partition: tuple[Term, ...]
    orders: tuple[tuple[Term, bool, bool], ...]
    frame: tuple[bool, int | None, int | None] | None


@dataclass(frozen=True, slots=True)
class Star:
    """All columns; `of`: all fields of a column."""

    of: Name | None = None


Term = Name | Value | Call | Cast | Work | Struct | Window | Star
#: A term, and the name that it has in a result; None: it has none that is known here.
Named = tuple[Term, str | None]

#: What `count(*)` counts.
ONE = Value(pa.scalar(1, pa.int32()))

_TYPES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "timestamp_ntz": pa.timestamp("us"),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ltz": pa.timestamp("us", "UTC"),
}


def arrow_type(given: Any) -> Any:
    """Of a type of Spark."""
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import DayTimeIntervalType

    if isinstance(given, DayTimeIntervalType):
        raise Declined
    try:
        return to_arrow_type(given)
    except PySparkTypeError:
        raise Declined from None


def type_of_work(work: Work) -> Any:
    """The type of what a function of Python gives."""
    text = getattr(work.kind, "data_type_string", None)
    return arrow_type(work.kind) if text is None else type_of(text)


@lru_cache(1024)
def type_of(text: str) -> Any:
    """Of Spark's words for it."""
    return _TYPES[text.lower()] if text.lower() in _TYPES else arrow_type(type_in_spark(text))


@lru_cache(1024)
def type_in_spark(text: str) -> Any:
    """Of Spark's words for it."""
    from tests.inprocess.server import parsed_type

    return parsed_type(text)
