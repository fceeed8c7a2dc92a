"""pyarrow's client of S3 whose files can be read to their end although answers break off, and that leaves no folders.

A file is read by many requests, and the client repeats one that a server refuses for now. It does not repeat one whose
answer ends too early: it has passed on a part of it by then. Here this part is asked for again.

Where pyarrow removes something, it puts an empty object in the place of the folder that this was in. Nobody here needs
it, and other programs list it. So another client removes objects where there is one (`jvm/conditional.py`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import fs

Answer = TypeVar("Answer")

#: Seconds between tries.
_PAUSES = (0.1, 0.4, 1.6)
#: What pyarrow's client says where an answer broke off (also where a refusal had more bytes than were asked for), and
#: Iceberg's.
_BROKEN_OFF = re.compile(r"AWS Error INTERNAL_FAILURE|Premature end of Content-Length delimited message body")


def repeated(ask: Callable[[], Answer]) -> Answer:
    """The answer to a question that changes nothing, asked again where an answer of S3 breaks off. Raises what the last
    try does."""
    for seconds in _PAUSES:
        try:
            return ask()
        except Exception as error:
            if _BROKEN_OFF.search(str(error)) is None:
                raise
            time.sleep(seconds)
    return ask()


class S3Files(fs.S3FileSystem):  # type: ignore[misc]  # pyarrow has no types
    """`pyarrow.fs.S3FileSystem`, with `open_input_file` and `open_input_stream` that repeat what broke off. `remover`:
    removes objects by their paths, those that are there, and says whether it could; None: only pyarrow can, as in
    tasks and in commands without Spark."""

    remover: Callable[[Sequence[str]], bool] | None = None

    def delete_file(self, path: str) -> None:
        if self.remover is None:
            super().delete_file(path)
        elif not self.remover([path]):
            # It may have been removed all the same, though nobody has said so.
            with suppress(FileNotFoundError):
                super().delete_file(path)

    def delete_dir(self, path: str) -> None:
        folder = path.rstrip("/")
        if self.remover is not None:
            found = self.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True))
            paths = [f.path if f.type == fs.FileType.File else f"{f.path}/" for f in found]
            if self.remover([*paths, f"{folder}/"]):
                return
        super().delete_dir(path)

    def move(self, src: str, dest: str) -> None:
        if self.remover is None:
            super().move(src, dest)
        else:
            self.copy_file(src, dest)
            self.delete_file(src)

    def open_input_file(self, path: str) -> pa.NativeFile:
        return S3File(_Parts(repeated(lambda: super(S3Files, self).open_input_file(path))), "r")

    def open_input_stream(
        self, path: str, compression: str | None = "detect", buffer_size: int | None = None
    ) -> pa.NativeFile:
        """See pyarrow. `buffer_size` is left aside: whoever reads says how much."""
        file = self.open_input_file(path)
        if compression == "detect":
            compression = pa.lib._detect_compression(path)
        return file if compression is None else pa.CompressedInputStream(file, compression)

    @classmethod
    def like(cls, client: fs.S3FileSystem) -> S3Files:
        """One with the settings of pyarrow's own."""
        (settings,) = client.__reduce__()[1]
        return cls(**settings)

    def __reduce__(self) -> tuple[Any, ...]:
        _, settings = super().__reduce__()
        return _made_of, settings


def _made_of(settings: dict[str, Any]) -> S3Files:
    return S3Files(**settings)


class S3File(pa.PythonFile):  # type: ignore[misc]  # pyarrow has no types
    """A file on S3, open to be read anywhere."""

    def __init__(self, parts: _Parts, mode: str) -> None:
        # pyarrow has taken both before.
        self.metadata = parts.metadata


class _Parts:
    """What `pa.PythonFile` asks of a file: a part, or to go to another place. `metadata`: what the store says of it, an
    ETag for one."""

    def __init__(self, file: pa.NativeFile) -> None:
        self._file = file
        self.seek, self.tell, self.close, self.metadata = file.seek, file.tell, file.close, file.metadata

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)

    def read(self, size: int | None = None) -> bytes:
        return bytes(self.read_buffer(size))

    def read_buffer(self, size: int | None = None) -> pa.Buffer:
        """The next `size` bytes, without a copy; fewer only at the end of the file."""
        start = self._file.tell()

        def ask() -> pa.Buffer:
            self._file.seek(start)
            return self._file.read_buffer(size)

        return repeated(ask)
