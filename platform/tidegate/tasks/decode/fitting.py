"""Values of one Arrow type as values of another: exactly the same value, or none. Executor side: numpy and pyarrow.

What fits: a number that the wanted type holds exactly, whatever its width or sign; whole numbers that came as DOUBLE; a
time whose microseconds say all of it; a day for its midnight, and back; bytes that are UTF-8 text, and text as bytes.
NULL is NULL of every type. A time with a zone is not one without; digits in text are no number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: Which values do not fit; None: all do.
Misfits = np.ndarray | None

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY_US = 86_400_000_000


def fit(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, Misfits]:
    """`array` as `wanted`, with NULL in the place of each value that does not fit, and which those are."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if isinstance(array.type, pa.ExtensionType):
        array = array.storage
    found = array.type
    if pa.types.is_null(found):
        return pa.nulls(len(array), wanted), None
    if pa.types.is_nested(wanted):
        return _nested(array, wanted)
    if _is_text(wanted) or _is_bytes(wanted):
        return _text(array, wanted) if _is_text(found) or _is_bytes(found) else nothing(array, wanted)
    if found == wanted and not pa.types.is_decimal(found):
        return array, None
    for is_kind, convert in _NUMBERS_AND_TIMES:
        if is_kind(found):
            return convert(array, wanted)
    return nothing(array, wanted)  # a boolean, a time of day


def surely_fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether every value of a stored type fits; text is taken for UTF-8."""
    if found == wanted or pa.types.is_null(found):
        return True
    if pa.types.is_integer(found) and pa.types.is_integer(wanted):
        (least, most), (low, high) = _bounds(found), _bounds(wanted)
        return low <= least and most <= high
    return (_is_text(found) and _is_text(wanted)) or (_is_bytes(found) and _is_bytes(wanted))


def nothing(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, Misfits]:
    """No value of it fits."""
    return pa.nulls(len(array), wanted), _some(np.asarray(array.is_valid()))


def _integers(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, Misfits]:
    if pa.types.is_integer(wanted):
        return _kept(array, _outside(array, *_bounds(wanted)), wanted)
    if pa.types.is_floating(wanted):
        values = np.asarray(array.fill_null(0))
        floats = values.astype(wanted.to_pandas_dtype())
        low, high = _bounds(array.type)
        # The largest integers become a power of two that is none of them.
        inside = (floats >= float(low)) & (floats < float(high + 1))
        exact = inside & (np.where(inside, floats, 0).astype(values.dtype) == values)
        return _converted(array, floats, ~exact, wanted)
    if pa.types.is_decimal(wanted):
        beyond = 10 ** (wanted.precision - wanted.scale)
        bad = _outside(array, 1 - beyond, beyond - 1)
        digits = pa.decimal128(20 if pa.types.is_uint64(array.type) else 19, 0)
        return _kept(_without(array, bad).cast(digits), bad, wanted)
    return nothing(array, wanted)


def _floats(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, Misfits]:
    values = np.asarray(array.cast(pa.float64()).fill_null(0))
    if pa.types.is_float64(wanted):
        return array.cast(wanted), None
    if pa.types.is_float32(wanted):
        with np.errstate(over="ignore"):
            narrow = values.astype(np.float32)
        same = (narrow.astype(np.float64) == values) | np.isnan(values)
        return _converted(array, narrow, ~same, wanted)
    if pa.types.is_integer(wanted):
        low, high = _bounds(wanted)
        whole = np.isfinite(values) & (values == np.trunc(values))
        whole &= (values >= float(low)) & (values < float(high + 1))
        numbers = np.where(whole, values, 0).astype(np.int64)
        return _converted(array, numbers, ~whole, wanted)
    return nothing(array, wanted)


def _decimals(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, Misfits]:
    if pa.types.is_decimal(wanted) or pa.types.is_integer(wanted):
        return _by_halves(array, lambda part: _valid(part.cast(wanted)), wanted)
    return nothing(array, wanted)


def _valid(array: pa.Array) -> pa.Array:
    """The same. Raises ArrowInvalid, also for a number of more digits than its type has: a file may have such."""
    array.validate(full=True)
    return array


def _text(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, Misfits]:
    if _is_bytes(wanted):
        return array.cast(wanted), None
    # Parquet's text is read as it stands in the file, whether or not it is UTF-8.
    raw = array if array.type == wanted or _is_bytes(array.type) else array.cast(wanted)

    def checked(part: pa.Array) -> pa.Array:
        if not _is_bytes(part.type):
            part.validate(full=True)
        return part.cast(wanted)

    return _by_halves(raw, checked, wanted)


def _days(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, Misfits]:
    if pa.types.is_date64(array.type):
        millis = array.cast(pa.int64())
        return _times(millis.cast(pa.timestamp("ms")), wanted)
    if pa.types.is_timestamp(wanted) and wanted.tz is None:
        days = array.cast(pa.int32()).cast(pa.int64())
        most = np.iinfo(np.int64).max // _DAY_US
        bad = _outside(days, -most, most)
        return _kept(pc.multiply(_without(days, bad), _DAY_US), bad, wanted)
    return nothing(array, wanted)


def _times(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, Misfits]:
    per, zoned = _PER_SECOND[array.type.unit], array.type.tz is not None
    ticks = array.cast(pa.int64())
    if pa.types.is_timestamp(wanted) and (not zoned or wanted.tz is not None):
        if per <= 10**6:
            most = np.iinfo(np.int64).max * per // 10**6
            bad = _outside(ticks, -most, most)
            return _kept(pc.multiply(_without(ticks, bad), 10**6 // per), bad, wanted)
        values = np.asarray(ticks.fill_null(0))
        return _converted(array, values // 1000, values % 1000 != 0, wanted)
    if pa.types.is_date32(wanted) and not zoned:
        values = np.asarray(ticks.fill_null(0))
        low, high = _bounds(pa.int32())
        days = values // (86_400 * per)
        bad = (values % (86_400 * per) != 0) | (days < low) | (days > high)
        return _converted(array, np.where(bad, 0, days).astype(np.int32), bad, wanted)
    return nothing(array, wanted)


def _nested(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, Misfits]:
    if pa.types.is_struct(wanted) and pa.types.is_struct(array.type):
        return _structs(array, wanted)
    if pa.types.is_map(wanted) and pa.types.is_map(array.type):
        return _maps(array, wanted)
    is_list = pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list
    if pa.types.is_list(wanted) and any(is_kind(array.type) for is_kind in is_list):
        return _lists(array, wanted)
    return nothing(array, wanted)


def _maps(array: pa.MapArray, wanted: pa.DataType) -> tuple[pa.Array, Misfits]:
    offsets, (keys, items) = entries(array)
    (keys, bad_keys), (items, bad_items) = fit(keys, wanted.key_type), fit(items, wanted.item_type)
    bad = np.zeros(len(array), dtype=bool)
    of_entries = np.repeat(np.arange(len(array)), np.diff(offsets))
    for misfits in (bad_keys, bad_items, np.asarray(keys.is_null())):
        if misfits is not None:
            bad[of_entries[misfits]] = True
    if keys.null_count:
        # No map may have such an entry; its row is rejected.
        there = keys.is_valid()
        offsets = np.concatenate([[0], np.cumsum(np.asarray(there))])[offsets]
        keys, items = keys.filter(there), items.filter(there)
    null = pa.array(np.asarray(array.is_null()) | bad)
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, wanted, mask=null), _some(bad)


def entries(array: pa.MapArray) -> tuple[np.ndarray, tuple[pa.Array, pa.Array]]:
    """Where the entries of each map begin and end among the keys and the items. (What pyarrow makes of a part of an
    array of maps by a cast can end the process.)"""
    offsets = np.asarray(array.offsets, dtype=np.int64)
    start, count = offsets[0], offsets[-1] - offsets[0]
    return offsets - start, (array.keys.slice(start, count), array.items.slice(start, count))


def _structs(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, Misfits]:
    """Fields by their names; one that is not there is NULL."""
    children, bad = [], np.zeros(len(array), dtype=bool)
    for field in wanted:
        place = find(array.type.names, field.name)
        if place == TWICE:
            return nothing(array, wanted)
        if place is None:
            children.append(pa.nulls(len(array), field.type))
            continue
        child, misfits = fit(pc.struct_field(array, [place]), field.type)
        children.append(child)
        bad |= False if misfits is None else misfits
    null = pa.array(np.asarray(array.is_null()) | bad)
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=null), _some(bad)


def _lists(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, Misfits]:
    items, misfits = fit(array.flatten(), wanted.value_type)
    bad = np.zeros(len(array), dtype=bool)
    if misfits is not None:
        bad[np.asarray(pc.list_parent_indices(array))[misfits]] = True
    lengths = np.asarray(pc.list_value_length(array).fill_null(0), dtype=np.int64)
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32())
    null = pa.array(np.asarray(array.is_null()) | bad)
    return pa.ListArray.from_arrays(offsets, items, type=wanted, mask=null), _some(bad)


#: What `find` says of a name that is there more than once.
TWICE = -1


def find(names: list[str], wanted: str) -> int | None:
    """The place of a name: of the same one, else of the one that differs by case only. `TWICE`, or None if there is
    none."""
    same = [i for i, name in enumerate(names) if name == wanted]
    folded = wanted.casefold()
    places = same or [i for i, name in enumerate(names) if name.casefold() == folded]
    if len(places) > 1:
        return TWICE
    return places[0] if places else None


def _by_halves(
    array: pa.Array, convert: Callable[[pa.Array], pa.Array], wanted: pa.DataType
) -> tuple[pa.Array, Misfits]:
    """`convert` refuses an array for one value: what it refuses is halved until that value is alone."""
    parts: list[pa.Array] = []
    bad = np.zeros(len(array), dtype=bool)
    waiting = [(0, len(array))]
    while waiting:
        start, end = waiting.pop()
        try:
            parts.append(convert(array.slice(start, end - start)))
        except pa.ArrowInvalid:
            if end - start == 1:
                bad[start] = True
                parts.append(pa.nulls(1, wanted))
                continue
            middle = (start + end) // 2
            waiting += [(middle, end), (start, middle)]
    return (parts[0] if len(parts) == 1 else pa.concat_arrays(parts)), _some(bad)


def _kept(array: pa.Array, bad: np.ndarray, wanted: pa.DataType) -> tuple[pa.Array, Misfits]:
    """`array` as `wanted`, without the values that do not fit."""
    return _without(array, bad).cast(wanted), _some(bad)


def _converted(
    array: pa.Array, values: np.ndarray, bad: np.ndarray, wanted: pa.DataType
) -> tuple[pa.Array, Misfits]:
    """`values` of `array` as `wanted`; NULL stays NULL, and is no misfit."""
    null = np.asarray(array.is_null())
    return pa.array(values, mask=null | bad).cast(wanted), _some(bad & ~null)


def _without(array: pa.Array, bad: np.ndarray) -> pa.Array:
    return pc.if_else(pa.array(bad), pa.scalar(None, array.type), array) if bad.any() else array


def _outside(array: pa.Array, low: int, high: int) -> np.ndarray:
    """Which integers are below `low` or above `high`; NULLs are not."""
    least, most = _bounds(array.type)
    bad = np.zeros(len(array), dtype=bool)
    values: Any = np.asarray(array.fill_null(0))
    if low > least:
        bad |= values < low
    if high < most:
        bad |= values > high
    outside: np.ndarray = bad & np.asarray(array.is_valid())
    return outside


def _bounds(kind: pa.DataType) -> tuple[int, int]:
    info = np.iinfo(kind.to_pandas_dtype())
    return int(info.min), int(info.max)


def _some(bad: np.ndarray) -> Misfits:
    return bad if bad.any() else None


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return any(is_one(kind) for is_one in (types.is_string, types.is_large_string, types.is_string_view))


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return any(
        is_one(kind)
        for is_one in (
            types.is_binary,
            types.is_large_binary,
            types.is_fixed_size_binary,
            types.is_binary_view,
        )
    )


_NUMBERS_AND_TIMES: list[tuple[Callable[[pa.DataType], bool], Callable[..., tuple[pa.Array, Misfits]]]] = [
    (pa.types.is_integer, _integers),
    (pa.types.is_floating, _floats),
    (pa.types.is_decimal, _decimals),
    (pa.types.is_date, _days),
    (pa.types.is_timestamp, _times),
]
