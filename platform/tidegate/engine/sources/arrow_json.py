"""JSON messages into Arrow inside the gate's task: a row never becomes one of the JVM's.

What a message says is what `decode.py` says: Spark's `from_json`. The parser here (pyarrow's) is another one, so it is
asked only where both are known to agree (`tests/engine/test_arrow_json.py` compares them), and it takes a batch whole
or not at all: one message that it does not read, or that Spark might read otherwise, raises Unread, and the
micro-batch is judged by Spark's parser. So no row is ever decided by which of the two has read it (W4).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from tidegate.engine.sources import Unread
from tidegate.engine.sources.binary import NULL_VALUE
from tidegate.engine.sources.reasons import reasons, where_null
from tidegate.watermark import Expression

if TYPE_CHECKING:
    from tidegate.sql.catalog import Relation

_TYPES = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_NOT_READ = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowCapacityError)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
#: Micro-batches that are left to Spark after one that was refused, at most.
_LONGEST_PAUSE = 64

#: pyarrow's parser takes up to 100,000 rows, and int32 offsets, at once.
_ROWS, _BYTES = 1 << 16, 1 << 28
#: Jackson's limits: digits of a number, depth of nesting, characters of a name. Below the last, the first two can be
#: reached, but only by messages at least as long. What is as long as the last is Spark's to read.
_DIGITS, _DEPTH, LONG = 1000, 1000, 50_000
#: Every so many bytes a look at whether a number is there: a run of `_DIGITS` can't hide between.
_STRIDE = 50

_OPEN, _CLOSE, _COLON, _ZULU = (ord(c) for c in "{}:Z")
_WHITESPACE = " \t\r\n"
_IN_NUMBERS = np.isin(np.arange(256), np.frombuffer(b"0123456789+-.eE", np.uint8))
_NUMBER = re.compile(rb"[0-9+\-.eE]{%d}" % _DIGITS)
#: Of the numbers that are none, each parser knows its own.
_NOT_FINITE = re.compile(rb"[\s:,\[\-](?:NaN|Inf(?:inity)?)[\s,}\]]")
_BEFORE_VALUES = np.isin(np.arange(256), np.frombuffer(b" \t\r\n:,[-", np.uint8))
#: Offsets that Java's and Arrow's calendars both know.
_OFFSET = r"(?:Z|[+-](?:0[0-9]|1[0-7]):[0-5][0-9])$"


def supports(relation: Relation) -> bool:
    """Whether JsonReader reads this relation's messages: JSON without options into plain columns, none of them and
    no strategy computed by Spark."""
    form, watermark = relation.format, relation.watermark
    return (
        form is not None
        and form.encode == "json"
        and not form.options
        and all(c.generated is None and _arrow_type(c.type) is not None for c in relation.columns)
        and (watermark is None or not isinstance(watermark.strategy, Expression))
    )


def json_reader(relation: Relation, arrived: datetime) -> JsonReader:
    """The reader of a relation that `supports` allows, for rows that came at `arrived` (aware)."""
    fields = [(c.name, _arrow_type(c.type)) for c in relation.columns]
    return JsonReader(
        schema=pa.schema(fields),
        time_column=relation.watermark.column if relation.watermark is not None else None,
        not_null=tuple(c.name for c in relation.columns if not c.nullable),
        changes=bool(relation.primary_key),
        kept=tuple(name for name, _ in relation.message_columns),
        arrival=(arrived - _EPOCH) // timedelta(microseconds=1),
    )


class Turns:
    """Whether the next micro-batch of a source is tried here. After one that was refused some are left to Spark: twice
    as many after each refusal, half as many after each that was read, so that a poisoned source costs hardly more than
    without this reader. Which of the two reads a batch decides nothing but its cost."""

    def __init__(self) -> None:
        self._pause = self._left = 0
        self._trying = False

    def ours(self) -> bool:
        """Ask once for each batch; one that was not refused until the next was read."""
        if self._left:
            self._left -= 1
            return False
        if self._trying:
            self._pause //= 2
        self._trying = True
        return True

    def refused(self) -> None:
        """What was tried came to nothing."""
        self._trying = False
        self._pause = self._left = min(2 * self._pause or 1, _LONGEST_PAUSE)


def _arrow_type(kind: str) -> pa.DataType | None:
    decimal = _DECIMAL.fullmatch(kind)
    return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else _TYPES.get(kind)


@dataclass(frozen=True)
class JsonReader:
    """From batches with `value` (binary), `_partition` (a number), `_offset`, what the log keeps of messages, and
    `_long` (for a message that was left behind) to batches as `gate_input` shapes them. Raises Unread.

    `schema`: the relation's columns. `changes`: they are changes by key, all upserts. `kept`: names of what the log
    keeps of messages. `arrival`: µs since the epoch, UTC.
    """

    schema: pa.Schema
    time_column: str | None
    not_null: tuple[str, ...]
    changes: bool
    kept: tuple[str, ...]
    arrival: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if pc.any(batch.column("_long")).as_py():
                raise Unread("a message that is Spark's to read")
            start = 0
            while start < batch.num_rows:
                piece = batch.slice(start, _ROWS)
                while piece.column("value").nbytes > _BYTES and piece.num_rows > 1:
                    piece = piece.slice(0, piece.num_rows // 2)
                start += piece.num_rows
                yield self._shape(piece)

    def _shape(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        n, value = batch.num_rows, batch.column("value")
        columns = self._columns(value)
        reason = reasons(n, columns, self.time_column, self.not_null)
        reason = where_null(value, NULL_VALUE, reason)
        if self.changes:
            columns["_op"] = pa.repeat("upsert", n)
        numbers = batch.column("_partition").dictionary_encode()
        names = numbers.dictionary.cast(pa.string())
        columns["_source_partition"] = pa.DictionaryArray.from_arrays(numbers.indices, names)
        columns["_offset"] = batch.column("_offset")
        columns["_arrival"] = pa.repeat(pa.scalar(self.arrival, pa.timestamp("us", tz="UTC")), n)
        columns["_raw"] = pa.nulls(n, pa.string())
        for name in self.kept:
            columns[name] = batch.column(name)
        columns["_reason"] = reason
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _columns(self, value: pa.Array) -> dict[str, pa.Array]:
        """The relation's columns of every message; NULL throughout for one without a value."""
        if not value.null_count:
            return self._parse(value)
        if value.null_count == len(value):
            return {f.name: pa.nulls(len(value), f.type) for f in self.schema}
        known = np.asarray(value.is_valid())
        parsed = self._parse(value.drop_null())
        places = pa.array(np.cumsum(known) - 1, mask=~known)
        return {name: column.take(places) for name, column in parsed.items()}

    def _parse(self, value: pa.Array) -> dict[str, pa.Array]:
        text = lines(value)
        asked = pa.schema(
            [(f.name, pa.string() if pa.types.is_temporal(f.type) else f.type) for f in self.schema]
        )
        try:
            table = pj.read_json(
                pa.BufferReader(text),
                # One block: lines are messages, and none is cut.
                read_options=pj.ReadOptions(use_threads=False, block_size=text.size + 1),
                parse_options=pj.ParseOptions(explicit_schema=asked, unexpected_field_behavior="ignore"),
            )
        except _NOT_READ as error:
            raise Unread(str(error)) from None
        # Each message begins and ends like an object, and a line break is allowed neither in a string nor between `}`
        # and `{` inside of an object. So each holds at least one whole object: as many rows as messages are one each.
        if table.num_rows != len(value):
            raise Unread("more than one object in a message")
        return {f.name: _column(table.column(f.name), f.type) for f in self.schema}


def lines(value: pa.Array) -> pa.Buffer:
    """Messages (at least one, none NULL), each with a line break behind it, and maybe some inside.

    Raises Unread for what is not text from `{` to `}`, and where the two parsers are known to differ.
    """
    try:
        text = value.cast(pa.string())
    except pa.ArrowInvalid:
        raise Unread("not UTF-8") from None
    lengths = np.asarray(pc.binary_length(text))
    if not _enclosed(text, lengths):
        text = pc.utf8_trim(text, _WHITESPACE)
        lengths = np.asarray(pc.binary_length(text))
        if not _enclosed(text, lengths):
            raise Unread("not an object")
    joined = pc.binary_join_element_wise(text, "", "\n")
    start, end = _offsets(joined)[[0, -1]]
    out = joined.buffers()[2].slice(start, end - start)
    data = np.frombuffer(out, np.uint8)
    if not data.min():
        raise Unread("a NUL")
    if (_may_stand(b"NaN", data) or _may_stand(b"Inf", data)) and _NOT_FINITE.search(data):
        raise Unread("a number that is none")
    _check_limits(text, lengths, data)
    return out


def _may_stand(word: bytes, data: np.ndarray) -> bool:
    """Whether a value may begin with these three letters; behind them there are more bytes, and before them."""
    at = np.flatnonzero(data == word[0])
    found = (data[at + 1] == word[1]) & (data[at + 2] == word[2]) & _BEFORE_VALUES[data[at - 1]]
    return bool(found.any())


def _enclosed(text: pa.Array, lengths: np.ndarray) -> bool:
    """Whether every text begins with `{` and ends with `}`."""
    if int(lengths.min()) < len("{}"):
        return False
    offsets, data = _offsets(text), np.frombuffer(text.buffers()[2], np.uint8)
    return bool((data[offsets[:-1]] == _OPEN).all() and (data[offsets[1:] - 1] == _CLOSE).all())


def _check_limits(text: pa.Array, lengths: np.ndarray, data: np.ndarray) -> None:
    longest = int(lengths.max())
    if longest >= LONG:
        raise Unread("a message that may be beyond the limits of Spark's parser")
    if longest >= 2 * _DEPTH:
        deep = text.filter(pa.array(lengths >= 2 * _DEPTH))
        opened = np.asarray(pc.count_substring(deep, "{")) + np.asarray(pc.count_substring(deep, "["))
        if int(opened.max()) >= _DEPTH:
            raise Unread("a message that may be nested too deeply for Spark's parser")
    if longest >= _DIGITS:
        looks = _IN_NUMBERS[data[::_STRIDE]]
        others = np.flatnonzero(np.concatenate(([True], ~looks, [True])))
        if int(np.diff(others).max()) >= _DIGITS // _STRIDE and _NUMBER.search(data):
            raise Unread("a number too long for Spark's parser")


def _column(parsed: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """A parsed column in its own type. Raises Unread for values that Spark reads otherwise, or not."""
    column = pa.concat_arrays(parsed.chunks) if parsed.num_chunks else pa.nulls(0, parsed.type)
    if pa.types.is_floating(kind):
        values = np.asarray(column.fill_null(1.0))
        # "-0" is 0 as an integer is, and -0.0 is not.
        if not np.isfinite(values).all() or (np.signbit(values) & (values == 0)).any():
            raise Unread("a number that Spark's parser may read otherwise")
    elif pa.types.is_decimal(kind):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise Unread(str(error)) from None
    elif pa.types.is_date(kind):
        return _cast(column, kind)
    elif pa.types.is_timestamp(kind):
        return _timestamps(column, kind)
    return column


def _timestamps(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Timestamps to the second or finer; with a time zone, where they name an offset, and UTC where they do not."""
    if int(pc.max(pc.binary_length(texts)).as_py() or 0) > len("2026-01-01 00:00:00.000000"):
        # Spark cuts nanoseconds off.
        texts = pc.replace_substring_regex(texts, r"(\.[0-9]{6})[0-9]{1,3}", r"\1")
    known = texts.drop_null()
    if not len(known):
        return pa.nulls(len(texts), kind)
    if int(pc.min(pc.binary_length(known)).as_py()) < len("2026-01-01 00:00:00"):
        _refuse_time()
    data, ends = np.frombuffer(known.buffers()[2], np.uint8), _offsets(known)
    # Both colons: hours and minutes alone, with an offset behind them, may be as long.
    if not all(
        (data[ends[:-1] + len(upto)] == _COLON).all() for upto in ("2026-01-01 00", "2026-01-01 00:00")
    ):
        _refuse_time()
    if kind.tz is None:
        return _cast(texts, kind)
    plain = pa.timestamp(kind.unit)
    if (data[ends[1:] - 1] == _ZULU).all():
        return _cast(texts, kind)
    zoned = pc.match_substring_regex(texts, _OFFSET)
    if not pc.any(zoned).as_py():
        return _cast(texts, plain).cast(kind)
    nothing = pa.scalar(None, pa.string())
    with_zone = _cast(pc.if_else(zoned, texts, nothing), kind)
    without = _cast(pc.if_else(zoned, nothing, texts), plain).cast(kind)
    return pc.coalesce(with_zone, without)


def _cast(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid as error:
        raise Unread(str(error)) from None


def _refuse_time() -> NoReturn:
    raise Unread("a time written in a way that only Spark's parser knows")


def _offsets(array: pa.Array) -> np.ndarray:
    """The n + 1 offsets of a string or binary array, as it is sliced."""
    offsets = np.frombuffer(array.buffers()[1], np.int32)
    return offsets[array.offset : array.offset + len(array) + 1]
