"""One deterministic event log: what every engine reads, and what the oracle reckons with.

A partition is a log: offsets are the order of arrival. Event times rise with the offset, less up to `disorder_s`; a
share of the rows is pushed back further, so that some of them are late. Times are whole milliseconds, which every peer
can represent.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

#: 2026-01-01 00:00 UTC, in microseconds: a whole minute.
BASE = 1_767_225_600_000_000
SECOND = 1_000_000


@dataclass(frozen=True)
class Load:
    """`per_second`: rows per second of event time, of all partitions together. `late_share` of the rows are pushed back
    by `late_s` (from, to) seconds. `weights`: the partitions' shares, even without. `payload`: bytes of text per row.
    `chunk`: rows in a file."""

    rows: int
    partitions: int = 4
    keys: int = 10_000
    per_second: int = 10_000
    disorder_s: float = 4.0
    late_share: float = 0.005
    late_s: tuple[float, float] = (10.0, 600.0)
    weights: tuple[float, ...] = ()
    payload: int = 100
    chunk: int = 250_000
    seed: int = 1

    def name(self) -> str:
        """Of the folder that holds it: the same load, the same name."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:12]

    def lengths(self) -> list[int]:
        """Rows of each partition; their sum is `rows`."""
        weights = np.asarray(self.weights or (1.0,) * self.partitions)
        ends = np.round(np.cumsum(weights) / weights.sum() * self.rows).astype(int)
        return np.diff(ends, prepend=0).tolist()


@dataclass(frozen=True)
class Events:
    """Columns of a log, rows in the order of (partition, offset). `ts`: microseconds since 1970, UTC."""

    part: np.ndarray
    off: np.ndarray
    ts: np.ndarray
    key: np.ndarray
    amount: np.ndarray

    def __len__(self) -> int:
        return len(self.ts)

    def where(self, mask: np.ndarray) -> Events:
        return Events(self.part[mask], self.off[mask], self.ts[mask], self.key[mask], self.amount[mask])


def events(load: Load) -> Events:
    """The whole log."""
    logs = [_log(load, part, rows) for part, rows in enumerate(load.lengths())]
    return Events(*(np.concatenate(column) for column in zip(*logs, strict=True)))


def _log(load: Load, part: int, rows: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng([load.seed, part])
    # All partitions cover the same time, however uneven they are.
    span = load.rows / load.per_second * SECOND
    ts = BASE + (np.arange(rows) * (span / max(rows, 1))).astype(np.int64)
    ts -= (rng.random(rows) * load.disorder_s * SECOND).astype(np.int64)
    low, high = load.late_s
    pushed = ((low + rng.random(rows) * (high - low)) * SECOND).astype(np.int64)
    ts -= np.where(rng.random(rows) < load.late_share, pushed, 0)
    ts -= ts % 1000
    key = rng.integers(0, load.keys, rows, dtype=np.int64)
    amount = rng.integers(1, 1000, rows, dtype=np.int64)
    return np.full(rows, part, np.int32), np.arange(rows, dtype=np.int64), ts, key, amount


def payloads(rows: int, width: int, seed: tuple[int, ...]) -> pa.Array:
    """Texts of hex digits: as incompressible as text of that width can be."""
    digits = np.random.default_rng(seed).integers(0, 16, (rows, width), dtype=np.uint8)
    text = np.frombuffer(b"0123456789abcdef", np.uint8)[digits]
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), rows, [None, pa.py_buffer(text.tobytes())])
    return fixed.cast(pa.binary()).cast(pa.string())


def chunks(log: Events, size: int) -> Iterator[tuple[int, Events]]:
    """(partition, rows) of at most `size` rows each, the partitions in turn: the order of arrival."""
    starts = np.searchsorted(log.part, np.arange(log.part.max() + 2)) if len(log) else np.array([0])
    for at in range(0, int(np.diff(starts).max(initial=0)), size):
        for part, (start, end) in enumerate(pairwise(starts)):
            if start + at < end:
                yield part, log.where(slice(start + at, min(end, start + at + size)))


def table(rows: Events, width: int, part: int) -> pa.Table:
    """The columns that files have: part, off, ts, key, amount, payload."""
    first = int(rows.off[0]) if len(rows) else 0
    return pa.table(
        {
            "part": pa.array(rows.part),
            "off": pa.array(rows.off),
            "ts": pa.array(rows.ts).cast(pa.timestamp("us")),
            "key": pa.array(rows.key),
            "amount": pa.array(rows.amount),
            "payload": payloads(len(rows), width, (77, part, first)),
        }
    )


def write_files(load: Load, log: Events, folder: Path, logs: bool = False) -> None:
    """Parquet: `folder`/parquet, a file per chunk; with `logs` also `folder`/logs, one file for each partition (for
    Flink, whose watermarks are those of a subtask, and so of a file). Names and times of modification are in the order
    of arrival."""
    modified = BASE // SECOND
    writers: dict[int, pq.ParquetWriter] = {}
    (folder / "parquet").mkdir(parents=True, exist_ok=True)
    for made, (part, rows) in enumerate(chunks(log, load.chunk), 1):
        data = table(rows, load.payload, part)
        path = folder / "parquet" / f"{made:06d}-{part}.parquet"
        pq.write_table(data, path, compression="snappy", use_dictionary=False)
        os.utime(path, (modified + made, modified + made))
        if logs:
            (folder / "logs").mkdir(exist_ok=True)
            if part not in writers:
                path = folder / "logs" / f"{part}.parquet"
                writers[part] = pq.ParquetWriter(
                    path, data.schema, compression="snappy", use_dictionary=False
                )
            writers[part].write_table(data)
    for writer in writers.values():
        writer.close()


def prepared(load: Load, root: Path, say: Callable[[str], None], logs: bool = False) -> tuple[Path, Events]:
    """The folder of a load's files below `root`, made unless it is there, and its rows."""
    log = events(load)
    folder = root / (load.name() + ("-logs" if logs else ""))
    done = folder / "done"
    if not done.is_file():
        say(f"writing {load.rows:,} rows in {load.partitions} partitions")
        write_files(load, log, folder, logs)
        done.touch()
    return folder, log


def messages(rows: Events, width: int, seed: int = 77) -> list[bytes]:
    """The rows as JSON, one message each: ts, key, amount, payload."""
    texts = payloads(len(rows), width, (seed, len(rows))).to_pylist()
    stamps = np.datetime_as_string(rows.ts.astype("datetime64[us]").astype("datetime64[ms]")).tolist()
    columns = zip(stamps, rows.key.tolist(), rows.amount.tolist(), texts, strict=True)
    return [
        b'{"ts":"%s","key":%d,"amount":%d,"payload":"%s"}'
        % (ts.replace("T", " ").encode(), key, amount, text.encode())
        for ts, key, amount, text in columns
    ]
