"""Texts of any format into Arrow, whole batches at once where they are plain. Executor side.

What is plain is recognized by patterns and converted by pyarrow; only what is not is looked at alone. Rows that do not
fit a column keep what could be read of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.tasks.decode.limits import Limits
from tidegate.tasks.decode.raw_text import as_text
from tidegate.tasks.decode.reasons import INVALID_UTF8, NULL_VALUE
from tidegate.tasks.decode.values import DeclaredColumn, Left, Misfit, finished

#: pyarrow's parser takes up to 100,000 rows, and int32 offsets, at once.
ROWS, BYTES = 1 << 16, 1 << 28


@dataclass(frozen=True)
class Decoded:
    """`columns`: one array for each target, None where Spark converts them all. `left`: for each target the text of
    values that Spark converts (of JSON as JSON), NULL elsewhere. `whole`: rows whose columns without an array Spark
    reads from the text itself. `why`: the reason of a row that is none."""

    columns: list[pa.Array | None]
    left: list[pa.Array]
    whole: pa.Array
    raw: pa.Array
    why: pa.Array


@dataclass
class ParsedPart:
    """Rows of a batch, by their places in it; `columns` are parsed and not finished, None is NULL throughout."""

    places: np.ndarray
    columns: list[pa.Array | None]
    left: list[pa.Array | None]
    whole: bool = False


class TextDecoder(Protocol):
    """JSON or CSV; pickled into the tasks."""

    targets: tuple[DeclaredColumn, ...]
    limits: Limits
    #: Whether a message may begin with the id of a registry's schema.
    framed: bool

    def too_many(self, text: bytes) -> bool:
        """Whether a text has more values than a row may have."""

    def plain(self, text: pa.Array, places: np.ndarray) -> tuple[list[ParsedPart], np.ndarray]:
        """Parts of what is plain, and the places of what is not. `text`: a text for each place."""

    def one(self, text: str) -> tuple[list[Any], list[str | None], str | None]:
        """The values, those that are left, and the reason of one text."""


def decode(decoder: TextDecoder, value: pa.Array) -> Decoded:
    """What becomes of texts (binary, UTF-8; NULL for a message without a value), in their order."""
    with decoder.limits.bounded():
        return _decoded(decoder, value)


def _decoded(decoder: TextDecoder, value: pa.Array) -> Decoded:
    count, targets = len(value), decoder.targets
    why: dict[int, str] = {int(i): NULL_VALUE for i in np.flatnonzero(np.asarray(value.is_null()))}
    raw: dict[int, str] = {}
    value = _within_limits(decoder, value, why, raw)
    text, places = _texts(value, why, raw)
    parts, rest = decoder.plain(text, places) if len(places) else ([], places)
    if len(rest):
        parts.append(_one_by_one(decoder, value, rest, why, raw))
    if why:
        bad = np.array(sorted(why), dtype=np.int64)
        others = np.setdiff1d(bad, np.concatenate([bad[:0], *(part.places for part in parts)]))
        parts.append(ParsedPart(others, [None] * len(targets), [None] * len(targets)))
    return Decoded(
        [
            finished(_joined([p.columns[i] for p in parts], parts, count, t.parsed), t.arrow)
            if t.parsed is not None
            else None
            for i, t in enumerate(targets)
        ],
        [_joined([p.left[i] for p in parts], parts, count, pa.string()) for i in range(len(targets))],
        _joined(
            [pa.repeat(pa.scalar(True), len(p.places)) if p.whole else None for p in parts],
            parts,
            count,
            pa.bool_(),
        ),
        sparse(raw, count),
        sparse(why, count),
    )


def parsed(decoder: TextDecoder, value: pa.Array) -> dict[str, pa.Array]:
    """Of texts (of any number): `c…` and `t…`, a target's values and what is left to Spark of them (if anything may
    be), `_raw`, `_why`, `_text` where something is left or what the row must have is NULL, and `_whole`."""
    chunks = []
    for piece in pieces(pa.RecordBatch.from_arrays([value], ["value"]), "value"):
        texts, found = decode_messages(decoder, piece.column("value"))
        needed = pc.or_(found.whole.fill_null(False), _incomplete(decoder.targets, found))
        columns = {}
        for place, target in enumerate(decoder.targets):
            if target.arrow is not None:
                columns[f"c{place}"] = found.columns[place]
            if target.may_be_left:
                columns[f"t{place}"] = found.left[place]
                needed = pc.or_(needed, found.left[place].is_valid())
        text = pa.nulls(len(texts), pa.string())
        if pc.any(needed).as_py():
            text = pc.if_else(needed, texts, pa.scalar(None, texts.type)).cast(pa.string())
        chunks.append(columns | {"_raw": found.raw, "_why": found.why, "_text": text, "_whole": found.whole})
    if len(chunks) == 1:
        return chunks[0]
    return {name: pa.concat_arrays([chunk[name] for chunk in chunks]) for name in chunks[0]}


def decode_messages(decoder: TextDecoder, value: pa.Array) -> tuple[pa.Array, Decoded]:
    """The texts of messages, and what becomes of them. Where clients of a registry have put the id of a schema before a
    text, a byte 0 and four more (no JSON begins so), a reason names the schema."""
    if not decoder.framed:
        return value, decode(decoder, value)
    framed = pc.and_(pc.starts_with(value, b"\0"), pc.greater_equal(pc.binary_length(value), 5)).fill_null(
        False
    )
    # (Without an end, pyarrow 26 fails on some batches.)
    text = pc.if_else(framed, pc.binary_slice(value, 5, BYTES), value)
    found = decode(decoder, text)
    refused = pc.and_(framed, found.why.is_valid())
    if pc.any(refused).as_py():
        numbers = pc.binary_slice(value.filter(refused), 1, 5).cast(pa.binary(4))
        ids = np.frombuffer(numbers.buffers()[1], ">u4", len(numbers), 4 * numbers.offset).astype(np.uint32)
        parts = (found.why.filter(refused), " (schema ", pa.array(ids).cast(pa.string()), ")")
        found = replace(
            found, why=pc.replace_with_mask(found.why, refused, pc.binary_join_element_wise(*parts, ""))
        )
    return text, found


def _incomplete(targets: Sequence[DeclaredColumn], found: Decoded) -> pa.Array:
    """Which rows the gate may reject, since a column that they must have is NULL here."""
    incomplete = pa.repeat(pa.scalar(False), len(found.why))
    for place, target in enumerate(targets):
        column = found.columns[place]
        if target.required and (column is None or column.null_count):
            nothing = found.left[place].is_null()
            nothing = nothing if column is None else pc.and_(nothing, column.is_null())
            incomplete = pc.or_(incomplete, nothing)
    return pc.and_(incomplete, found.why.is_null())


def parsed_fields(targets: Sequence[DeclaredColumn]) -> list[tuple[str, str]]:
    """The columns of `parsed`, with Spark's types."""
    fields = []
    for place, target in enumerate(targets):
        if target.arrow is not None:
            fields.append((f"c{place}", target.type))
        if target.may_be_left:
            fields.append((f"t{place}", "string"))
    return [*fields, ("_raw", "string"), ("_why", "string"), ("_text", "string"), ("_whole", "boolean")]


def pieces(batch: pa.RecordBatch, column: str) -> list[pa.RecordBatch]:
    """A batch in slices that `decode` takes."""
    found, start = [] if batch.num_rows else [batch], 0
    while start < batch.num_rows:
        piece = batch.slice(start, ROWS)
        while piece.column(column).nbytes > BYTES and piece.num_rows > 1:
            piece = piece.slice(0, piece.num_rows // 2)
        start += piece.num_rows
        found.append(piece)
    return found


def _within_limits(
    decoder: TextDecoder, value: pa.Array, why: dict[int, str], raw: dict[int, str]
) -> pa.Array:
    """The values, NULL where one is more than a row may be."""
    limits = decoder.limits
    lengths = pc.binary_length(value)
    suspects = pc.greater(lengths, min(limits.row_bytes, limits.values)).fill_null(False)
    if not pc.any(suspects).as_py():
        return value
    beyond = np.zeros(len(value), dtype=bool)
    for place in np.flatnonzero(np.asarray(suspects)):
        data = value[int(place)].as_py()
        if len(data) > limits.row_bytes:
            reason = limits.too_long
        elif decoder.too_many(data):
            reason = limits.too_many
        else:
            continue
        beyond[place] = True
        why[int(place)], raw[int(place)] = reason, as_text(data)
    return pc.if_else(pa.array(beyond), pa.scalar(None, value.type), value)


def _texts(value: pa.Array, why: dict[int, str], raw: dict[int, str]) -> tuple[pa.Array, np.ndarray]:
    """The values that are text, and their places."""
    places = np.arange(len(value))
    if why:
        places = places[np.asarray(value.is_valid())]
        value = value.drop_null()
    try:
        return value.cast(pa.string()), places
    except pa.ArrowInvalid:
        good = []
        for index, one in enumerate(value):
            data = one.as_py()
            try:
                data.decode()
                good.append(index)
            except UnicodeDecodeError:
                place = int(places[index])
                why[place], raw[place] = INVALID_UTF8, as_text(data)
        taken = np.array(good, dtype=np.int64)
        return value.take(pa.array(taken)).cast(pa.string()), places[taken]


def _one_by_one(
    decoder: TextDecoder, value: pa.Array, places: np.ndarray, why: dict[int, str], raw: dict[int, str]
) -> ParsedPart:
    rows, lefts = [], []
    for place in places:
        text = value[int(place)].as_py().decode()
        row, left, reason = decoder.one(text)
        if reason is not None:
            why[int(place)], raw[int(place)] = reason, text
        rows.append(row)
        lefts.append(left)
    columns: list[pa.Array | None] = []
    for i, target in enumerate(decoder.targets):
        columns.append(None if target.parsed is None else pa.array([row[i] for row in rows], target.parsed))
    return ParsedPart(
        places, columns, [pa.array([x[i] for x in lefts], pa.string()) for i in range(len(columns))]
    )


def _joined(
    arrays: list[pa.Array | None], parts: list[ParsedPart], count: int, kind: pa.DataType
) -> pa.Array:
    """One array of all places from those of the parts; NULL where no part has one."""
    if len(parts) == 1 and arrays[0] is not None:
        return arrays[0]
    if all(array is None for array in arrays):
        return pa.nulls(count, kind)
    whole = [
        pa.nulls(len(p.places), kind) if array is None else array
        for array, p in zip(arrays, parts, strict=True)
    ]
    places = np.concatenate([part.places for part in parts])
    return pa.concat_arrays(whole).take(pa.array(np.argsort(places, kind="stable")))


def sparse(found: Mapping[int, str], count: int) -> pa.Array:
    """Texts by their places among `count`, NULL elsewhere."""
    if not found:
        return pa.nulls(count, pa.string())
    places = np.full(count, -1)
    places[list(found)] = range(len(found))
    return pa.array(list(found.values()), pa.string()).take(pa.array(places, mask=places < 0))


def without(places: np.ndarray, parts: list[ParsedPart]) -> np.ndarray:
    """The places that are in none of the parts."""
    taken = np.concatenate([np.empty(0, dtype=np.int64), *(part.places for part in parts)])
    return places[:0] if len(taken) == len(places) else np.setdiff1d(places, taken)


def one_row(
    targets: Sequence[DeclaredColumn], convert: Callable[[int], Any], raw: Callable[[int], str]
) -> tuple[list[Any], list[str | None], str | None]:
    """The values of a row, one column after the other; the first that does not fit gives the reason. What does not fit
    into a column that was taken in is NULL: no row is rejected for what its definition does not declare."""
    row: list[Any] = [None] * len(targets)
    left: list[str | None] = [None] * len(targets)
    reason = None
    for place, target in enumerate(targets):
        try:
            row[place] = convert(place)
        except Left:
            left[place] = raw(place)
        except Misfit:
            reason = reason or (None if target.optional else target.misfit)
    return row, left, reason


def offsets_of(array: pa.Array) -> np.ndarray:
    """The n + 1 offsets of a string array, as it is sliced."""
    offsets = np.frombuffer(array.buffers()[1], np.int32)
    return offsets[array.offset : array.offset + len(array) + 1]
