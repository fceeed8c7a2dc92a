"""Messages that are not text (AVRO, PROTOBUF) into Arrow, inside Spark's tasks. Executor side: pyarrow and the
encoding's own library.

A decoder turns the bytes of one message into values; whole columns become Arrow arrays of exactly the declared types.
A value that its column can't hold (an integer too large, a decimal with more digits) makes the message `unparseable`,
names the column, and touches no other message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from tidegate.tasks.decode.columns import Wanted
from tidegate.tasks.decode.limits import Limits
from tidegate.tasks.decode.raw_text import in_base64
from tidegate.tasks.decode.reasons import NULL_VALUE

#: Why a message is no row (W5).
UNPARSEABLE = "unparseable: not a message of its schema"
UNKNOWN_SCHEMA = "unknown_schema"
#: Bytes of messages that are decoded at a time.
_PART = 4 << 20

Convert = Callable[[Any], Any]
#: What a conversion raises for a value that it can't convert.
_NO_CONVERSION = (LookupError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError)
_NO_VALUE = (
    pa.ArrowInvalid,
    pa.ArrowTypeError,
    pa.ArrowNotImplementedError,
    OverflowError,
    TypeError,
    ValueError,
)


class Undecodable(Exception):
    """A message that is no row; `reason` as the log has it."""

    def __init__(self, reason: str = UNPARSEABLE) -> None:
        super().__init__(reason)
        self.reason = reason


class Incompatible(Exception):
    """A field of a schema that the declared column can't hold; the message says what it is. `column`: which one."""

    column: Wanted | None = None


def filling(column: Wanted, make: Callable[[], Convert]) -> Convert | None:
    """What fills a column. One that was taken in is NULL where a value can't be had; None if none can be. Raises
    Incompatible with the column."""
    try:
        return _or_null(make()) if column.optional else make()
    except Incompatible as error:
        if column.optional:
            return None
        problem = Incompatible(f'"{column.name}": the schema\'s field is {error}')
        problem.column = column
        raise problem from None


def _or_null(convert: Convert) -> Convert:
    def converted(value: Any) -> Any:
        try:
            return convert(value)
        except _NO_CONVERSION:
            return None

    return converted


def unfit(problem: Incompatible, number_: int) -> str:
    """The reason of messages whose schema, with this id, does not fit the columns."""
    reason = problem.column.misfit if problem.column is not None else UNPARSEABLE
    return f"{reason} (schema {number_})"


class Decoder(Protocol):
    """One encoding with one source's schema; pickled into the tasks."""

    limits: Limits

    def read(self, value: bytes) -> list[Any]:
        """A value for each declared column, ready for an Arrow array of its type. Raises Undecodable."""


@dataclass(frozen=True)
class DecodeTask:
    """From an Arrow array of messages to one of rows: `c0`, `c1`, … in the order of `columns`, `_raw`, `_why`."""

    decoder: Decoder
    columns: tuple[Wanted, ...]

    def __call__(self, messages: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for batch in messages:
            parts = [self._decode(part) for part in _parts(batch)]
            yield parts[0] if len(parts) == 1 else pa.concat_arrays(parts)

    def _decode(self, batch: pa.Array) -> pa.Array:
        with self.decoder.limits.bounded():
            return self._decoded(batch)

    def _decoded(self, batch: pa.Array) -> pa.Array:
        raw: list[str | None] = [None] * len(batch)
        why: list[str | None] = [None] * len(batch)
        nothing = [None] * len(self.columns)
        rows: list[list[Any]] = []
        values = batch.to_pylist()
        for index, value in enumerate(values):
            if value is None:
                why[index] = NULL_VALUE
                rows.append(nothing)
                continue
            try:
                if len(value) > self.decoder.limits.row_bytes:
                    raise Undecodable(self.decoder.limits.too_long)
                rows.append(self.decoder.read(value))
            except Undecodable as error:
                why[index], raw[index] = error.reason, in_base64(value)
                rows.append(nothing)
        arrays = []
        for number, column in enumerate(self.columns):
            array, wrong = _array([row[number] for row in rows], column.type)
            for index in () if column.optional else wrong:
                # The first column that does not fit names the reason.
                why[index] = why[index] or column.misfit
                raw[index] = in_base64(values[index])
            if column.required and array.null_count:
                # The gate rejects it, and its bytes say what it has instead.
                for index in np.flatnonzero(np.asarray(array.is_null())).tolist():
                    if raw[index] is None and values[index] is not None:
                        raw[index] = in_base64(values[index])
            arrays.append(array)
        names = [*(f"c{i}" for i in range(len(self.columns))), "_raw", "_why"]
        return pa.StructArray.from_arrays(
            [*arrays, pa.array(raw, pa.string()), pa.array(why, pa.string())], names
        )


def _parts(batch: pa.Array) -> list[pa.Array]:
    """A batch in parts that are not large: Python's values take many times the bytes of their messages."""
    if len(batch) < 2 or batch.nbytes <= _PART:
        return [batch]
    middle = len(batch) // 2
    return [*_parts(batch.slice(0, middle)), *_parts(batch.slice(middle))]


def _array(values: list[Any], type_: pa.DataType) -> tuple[pa.Array, list[int]]:
    """The values as an array, and the places of those that do not fit (NULL in it)."""
    try:
        return pa.array(values, type_), []
    except _NO_VALUE:
        wrong = []
    for index, value in enumerate(values):
        try:
            pa.array([value], type_)
        except _NO_VALUE:
            wrong.append(index)
    misfits = set(wrong)
    return pa.array([None if i in misfits else v for i, v in enumerate(values)], type_), wrong


def same(value: Any) -> Any:
    """The conversion that does nothing."""
    return value


def number(target: pa.DataType) -> Convert:
    """From an integer. Raises Incompatible."""
    if pa.types.is_integer(target) or pa.types.is_decimal(target):
        return same
    if pa.types.is_floating(target):
        return float
    raise Incompatible("an integer")


def time(unit: int, per: int = 1, what: str = "a time") -> Callable[[pa.DataType], Convert]:
    """From an integer of `unit` microseconds (or, with `per`, of 1/`per` of one) since 1970."""

    def convert(target: pa.DataType) -> Convert:
        if not pa.types.is_timestamp(target):
            raise Incompatible(what)
        return same if unit == per == 1 else lambda value: value * unit // per

    return convert


def only(fits: Callable[[pa.DataType], bool], what: str) -> Callable[[pa.DataType], Convert]:
    """As it is, into columns of one kind."""

    def convert(target: pa.DataType) -> Convert:
        if not fits(target):
            raise Incompatible(what)
        return same

    return convert


is_date = only(pa.types.is_date, "a date")
is_string = only(pa.types.is_string, "text")
is_binary = only(pa.types.is_binary, "bytes")
is_boolean = only(pa.types.is_boolean, "a boolean")
is_floating = only(pa.types.is_floating, "a floating-point number")
is_decimal = only(pa.types.is_decimal, "a decimal")


def list_of(item: Convert) -> Convert:
    """Every item of an array; NULL stays NULL."""
    return lambda values: [None if v is None else item(v) for v in values]


def map_of(key: Convert, item: Convert) -> Convert:
    """Every entry of a map, as Arrow wants it."""
    return lambda values: [(key(k), None if v is None else item(v)) for k, v in values.items()]


def zigzag(value: bytes, place: int) -> tuple[int, int]:
    """The integer that begins at a place, as Avro and registries' clients write it, and the place behind it. Raises
    IndexError for bytes that end too early."""
    result = shift = 0
    while shift < 64:
        byte = value[place]
        result |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return (result >> 1) ^ -(result & 1), place
    raise IndexError
