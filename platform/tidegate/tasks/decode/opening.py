"""Files before they are decoded: compressed, damaged, or of a file system that does not answer. Executor side, too."""

from __future__ import annotations

import pyarrow as pa
from pyarrow.fs import FileSystem

#: Endings of names by which pyarrow decompresses a file when it opens it as a stream.
SUFFIXES = (".gz", ".bz2", ".lz4", ".zst")
#: What a file that is no good Parquet makes of pyarrow. An OSError may also be the file system's.
DAMAGED = (pa.ArrowException, OSError, ValueError)
#: How pyarrow begins what S3 has answered, or has not.
_OF_STORE = "AWS Error "
#: Bytes that are read at a time.
_PART = 8 << 20


def compressed(path: str) -> bool:
    """Whether pyarrow decompresses the file when it opens it as a stream."""
    return path.endswith(SUFFIXES)


def without_suffix(path: str) -> str:
    """The name that a file has when it is not compressed."""
    return path.rpartition(".")[0] if compressed(path) else path


def still_there(filesystem: FileSystem, path: str, error: BaseException | None = None) -> None:
    """Raises an OSError if it is the file system that does not answer, and not the file that is damaged. `error`: what
    reading it has met; a file system that answers again has not made a damaged file of it."""
    if error is not None and (getattr(error, "errno", None) is not None or _OF_STORE in str(error)):
        raise error
    # As it is: a file may be called as if it were compressed.
    with filesystem.open_input_stream(path, compression=None) as stream:
        while stream.read(_PART):
            pass
