"""Decoders that really end their process, over a text with KILL in it, or over so many texts at once; and that never
come back from one with HANG (they compute) or SLEEP (they wait)."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.tasks.crashes.parquet_crashes import Reading
from tidegate.tasks.decode.text.bulk import ParsedPart, parsed
from tidegate.tasks.decode.text.decoders import JsonDecoder
from tidegate.tasks.decode.text.files import JsonFiles
from tidegate.tasks.gate import GateTask
from tidegate.tasks.parquet import row_groups
from tidegate.tasks.parquet.parquet import ParquetReader


@dataclass
class KillingDecoder(JsonDecoder):
    """`most`: more texts than that are too many for it."""

    most: int = 1 << 30

    def plain(self, text: pa.Array, places: np.ndarray) -> tuple[list[ParsedPart], np.ndarray]:
        if len(text) > self.most or any("KILL" in one for one in text.to_pylist()):
            os.kill(os.getpid(), signal.SIGKILL)
        while any("HANG" in one for one in text.to_pylist()):
            pass
        while any("SLEEP" in one for one in text.to_pylist()):
            time.sleep(60)
        return super().plain(text, places)


def killing(made: Any, most: int = 1 << 30) -> KillingDecoder:
    """As the decoder that was made."""
    assert isinstance(made, JsonDecoder)
    return KillingDecoder(made.targets, made.insensitive, made.limits, most=most)


def refuse(values: Any) -> None:
    """As a decoder whose registry does not answer."""
    print("to standard output")
    raise ValueError


def no_memory(values: Any) -> None:
    """As one that has come to the limit of its memory."""
    raise MemoryError


def busy(decoder: Any, values: Any) -> None:
    """Decodes, works for longer than the decoder may, and decodes again."""
    for _ in range(2):
        parsed(decoder, pa.array(values, pa.binary()))
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass


class Unloadable:
    """What needs a library that there is no memory for."""

    def __reduce__(self) -> Any:
        return (_load, ("a.so: failed to map segment from shared object",))


def _load(message: str) -> None:
    raise ImportError(message)


class Unreadable:
    """What can be sent, and not be received."""

    def __call__(self, values: Any) -> None:
        raise AssertionError

    def __reduce__(self) -> Any:
        return (int, ("no number",))


class KillingReading(Reading):
    """Ends its process over a row whose `s` is KILL, over a batch in which a row has HIDE (as if it could not be
    decoded), and over a file that is called open."""

    def __call__(self, values: Any) -> object:
        if "open" in self.path.rpartition("/")[2]:
            os.kill(os.getpid(), signal.SIGKILL)
        with armed():
            return super().__call__(values)


class KillingReader(ParquetReader):
    """In the gate's own tasks, as `KillingReading`."""

    def __call__(self, batches: Any) -> Any:
        with armed():
            yield from super().__call__(batches)


@contextmanager
def armed() -> Iterator[None]:
    """Meanwhile this process ends over such rows."""
    fitted, bounds = row_groups.fit, row_groups.in_bounds

    def fit(array: pa.Array, wanted: pa.DataType) -> Any:
        if "KILL" in array.to_pylist():
            os.kill(os.getpid(), signal.SIGKILL)
        while "HANG" in array.to_pylist():
            pass
        while "SLEEP" in array.to_pylist():
            time.sleep(60)
        return fitted(array, wanted)

    def in_bounds(batch: pa.RecordBatch, *given: Any) -> Any:
        if any("HIDE" in column.to_pylist() for column in batch.columns):
            os.kill(os.getpid(), signal.SIGKILL)
        return bounds(batch, *given)

    row_groups.fit, row_groups.in_bounds = fit, in_bounds  # type: ignore[assignment]
    try:
        yield
    finally:
        row_groups.fit, row_groups.in_bounds = fitted, bounds


@dataclass(frozen=True)
class KillingFiles(JsonFiles):
    """Ends its process where a batch has more than `most_files`, or two tasks are at it at a time, which `alone` (a
    file) tells; as if the machine had no more memory."""

    most_files: int = field(default=1 << 30, kw_only=True)
    alone: str | None = field(default=None, kw_only=True)

    def __call__(self, batches: Any) -> Any:
        if len({span.path for task in self.tasks for span in task}) > self.most_files:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.alone is None:
            yield from super().__call__(batches)
            return
        with open(self.alone, "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(1)  # so that the other is at it now, if there is one
            yield from super().__call__(batches)


def killing_files(made: Any, most_files: int = 1 << 30, alone: Path | None = None) -> KillingFiles:
    """As the reader that was made."""
    assert isinstance(made, JsonFiles)
    given = made.filesystem, made.decoder, made.tasks, made.crashed, made.at_most
    lock = None if alone is None else str(alone)
    return KillingFiles(*given, place=made.place, most_files=most_files, alone=lock)


class FewRows(ParquetReader):
    """Ends its process over more rows at a time than the three that it is told to read."""

    def __call__(self, batches: Any) -> Any:
        for rows in super().__call__(batches):
            if rows.num_rows > 3:
                os.kill(os.getpid(), signal.SIGKILL)
            yield rows


class KillingGate(GateTask):
    """Ends its process over more than four rows."""

    def __call__(self, batches: Any) -> Any:
        found = list(batches)
        if sum(batch.num_rows for batch in found) > 4:
            os.kill(os.getpid(), signal.SIGKILL)
        yield from super().__call__(iter(found))
