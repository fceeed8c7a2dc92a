"""Footers of Parquet files, looked at where there is time for it. Executor side, too: pyarrow only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem


@dataclass(frozen=True)
class Problem:
    """`path` is no Parquet file (`error` says why), or has only the columns `present`."""

    path: str
    error: str | None
    present: list[str]


@dataclass(frozen=True)
class Footers:
    """Finds the first file, among paths of `filesystem`, that is broken or lacks a column of `wanted`."""

    filesystem: FileSystem
    wanted: tuple[str, ...]

    def __call__(self, paths: Iterable[str]) -> Iterator[Problem]:
        for path in paths:
            try:
                present = pq.read_schema(path, filesystem=self.filesystem).names
            except pa.ArrowInvalid as error:
                yield Problem(path, str(error), [])
                return
            if not {name.casefold() for name in self.wanted} <= {name.casefold() for name in present}:
                yield Problem(path, None, present)
                return
