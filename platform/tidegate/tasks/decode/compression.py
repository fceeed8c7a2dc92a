"""Files that are compressed, as their names say. Executor side, too."""

from __future__ import annotations

#: Endings of names by which pyarrow decompresses a file when it opens it as a stream.
SUFFIXES = (".gz", ".bz2", ".lz4", ".zst")


def compressed(path: str) -> bool:
    """Whether pyarrow decompresses the file when it opens it as a stream."""
    return path.endswith(SUFFIXES)


def without_suffix(path: str) -> str:
    """The name that a file has when it is not compressed."""
    return path.rpartition(".")[0] if compressed(path) else path
