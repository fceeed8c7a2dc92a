"""Sessions put together from sessions (C3): of some rows at first, of a key's whole slice in the end. Executor side.

A row is a session of its own. Sessions of one key join where one begins less than the gap after the last row of those
before it; that does not depend on which of them were joined first, so tasks join what they have, and then each other's.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.tasks.pane_parts import LAST, PANE, ROWS, SAFE, key_names, pane_names, parts_of
from tidegate.watermark import PaneWindows

_NUMBER = "_number"
#: Numbers below it are sorted by counting.
_SMALL = 1 << 16


def of_rows(rows: pa.Table, pane_windows: PaneWindows) -> pa.Table:
    """Each row as a session, with the columns of panes. `rows`: PANE is their time."""
    columns = [rows.column(PANE), rows.column(PANE), *(rows.column(k.name) for k in pane_windows.keys)]
    columns.append(pa.chunked_array([np.ones(rows.num_rows, np.int64)]))
    for part in parts_of(pane_windows):
        column = rows.column(part.column)
        if part.function == "count":
            column = column.is_valid().cast(pa.int64())
        elif part.function == "sum" and pa.types.is_integer(column.type):
            column = column.cast(pa.int64())
        columns.append(column)
    return pa.table(columns, names=pane_names(pane_windows))


def joined(sessions: pa.Table, pane_windows: PaneWindows, gap: int) -> pa.Table:
    """The sessions that these come to. `gap`: ticks; rows exactly that far apart are two sessions."""
    parts, keys = parts_of(pane_windows), key_names(pane_windows)
    first, last = (np.asarray(sessions.column(name)) for name in (PANE, LAST))
    codes = _codes([sessions.column(name) for name in keys], len(first))
    order = np.lexsort((first, codes.astype(np.uint16) if codes.max(initial=0) < _SMALL else codes))
    begins = _begins(first[order], last[order], codes[order], gap)
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(begins) - 1
    wanted = [(PANE, "min"), (LAST, "max"), (ROWS, "sum"), *((p.name, p.merge) for p in parts)]
    found = (
        sessions.append_column(_NUMBER, pa.array(number))
        .group_by(_NUMBER, use_threads=False)
        .aggregate(wanted)
    )
    found = found.take(pc.sort_indices(found.column(_NUMBER)))
    of_key = pa.array(order[begins])
    columns = [found.column(f"{PANE}_min"), found.column(f"{LAST}_max")]
    columns += [sessions.column(name).take(of_key) for name in keys]
    columns += [found.column(f"{name}_{how}") for name, how in wanted[2:]]
    return pa.table(columns, names=pane_names(pane_windows))


def _begins(first: np.ndarray, last: np.ndarray, codes: np.ndarray, gap: int) -> np.ndarray:
    """Which of these, sorted by key and start, are the first of a joined session: booleans."""
    begins = np.ones(len(first), bool)
    begins[1:] = codes[1:] != codes[:-1]
    if np.array_equal(first, last):
        begins[1:] |= first[1:] - last[:-1] >= gap
        return begins
    # The latest row of the key so far: by ranks, which leave room for the key above them.
    values, ranks = np.unique(last, return_inverse=True)
    segment = np.cumsum(begins) - 1
    reached = np.maximum.accumulate(segment * len(values) + ranks) - segment * len(values)
    begins[1:] |= first[1:] - values[reached[:-1]] >= gap
    return begins


def _codes(keys: Iterable[pa.ChunkedArray], rows: int) -> np.ndarray:
    """A number for each row: the same one where all keys are the same, NULLs among them."""
    codes, most = np.zeros(rows, np.int64), 1
    for key in keys:
        encoded = key.dictionary_encode(null_encoding="encode")  # one dictionary for all chunks
        if not encoded.num_chunks:
            continue
        distinct = len(encoded.chunk(0).dictionary)
        if most * distinct >= SAFE:
            codes = np.unique(codes, return_inverse=True)[1]
            most = rows
        codes = codes * distinct + np.concatenate([np.asarray(chunk.indices) for chunk in encoded.chunks])
        most *= distinct
    return codes
