"""Whether a file is damaged, or its file system does not answer. Executor side."""

from __future__ import annotations

import pyarrow as pa
from pyarrow.fs import FileSystem

#: What a file that is no good Parquet makes of pyarrow. An OSError may also be the file system's.
DAMAGED = (pa.ArrowException, OSError, ValueError)
#: Bytes that are read at a time.
_PART = 8 << 20


def still_there(filesystem: FileSystem, path: str) -> None:
    """Raises an OSError if it is the file system that does not answer."""
    # As it is: a file may be called as if it were compressed.
    with filesystem.open_input_stream(path, compression=None) as stream:
        while stream.read(_PART):
            pass
