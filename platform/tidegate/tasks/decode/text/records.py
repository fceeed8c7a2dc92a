"""The records of a text file, piece by piece: lines, or what CSV makes of them. Executor side."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pyarrow import NativeFile

#: Bytes that are read at a time.
CHUNK = 4 << 20
_BREAK = re.compile(rb"\r\n?|\n")


def chunks_of(file: NativeFile, start: int, end: int) -> Iterator[bytes]:
    """The lines of a file that begin at `start` or later, and before `end`."""
    until = line_start(file, end)
    place = line_start(file, start)
    file.seek(place)
    while place < until and (chunk := file.read(min(CHUNK, until - place))):
        place += len(chunk)
        yield chunk


def line_start(file: NativeFile, at: int) -> int:
    """Where the first line begins that does not begin before `at`; the file's end if there is none."""
    if at == 0:
        return 0
    place = at - 1
    file.seek(place)
    while chunk := file.read(1 << 16):
        found = _BREAK.search(chunk)
        if found is not None:
            cut_in_two = chunk.endswith(b"\r") and found.end() == len(chunk) and file.read(1) == b"\n"
            return place + found.end() + cut_in_two
        place += len(chunk)
    return place


def lines_of(chunks: Iterable[bytes], limit: int) -> Iterator[tuple[list[bytes], list[int]]]:
    """Lists of lines without their ends, each with the places in it of pieces of lines that are longer than `limit`."""
    tail, cut_off = b"", False
    for chunk in chunks:
        block = tail + chunk
        # A line break may be cut in two.
        end = max(block.rfind(b"\n"), block.rfind(b"\r", 0, len(block) - 1)) + 1
        found, tail = block[:end].splitlines(), block[end:]
        pieces = [0] if cut_off and found else []
        cut_off = cut_off and not found
        if len(tail) > limit:
            pieces.append(len(found))
            found.append(tail)
            tail, cut_off = b"", True
        yield found, pieces
    if tail:
        yield tail.splitlines(), [0] if cut_off else []


class Records:
    """Cuts a CSV file into records, piece by piece: gives lists of records without their line breaks, each with the
    places in it of pieces of records that are longer than `limit` bytes: so a quote that is never closed does not take
    all memory."""

    def __init__(self, delimiter: str, limit: int) -> None:
        out = re.escape(delimiter)
        field = rf'(?:"(?:[^"]|"")*"|[^"{out}][^{out}]*|)'
        self._alone = rf"\A{field}(?:{out}{field})*[\r\n]*\z" if len(delimiter.encode()) == 1 else None
        raw = out.encode()
        # What ends inside of a field in quotes. It can be read in one way only, without possessive quantifiers: before
        # Python 3.11.5 these do not always match what they should (gh-106052).
        quoted = rb'"[^"]*(?:""[^"]*)*'
        self._open = re.compile(
            rb'(?:(?:%b"(?!")|(?!"))(?:(?!%b).)*%b)*%b\Z' % (quoted, raw, raw, quoted), re.DOTALL
        )
        self._limit = limit
        #: Of the record that has not ended: its lines since the last piece, their bytes, whether there was a piece, and
        #: what stands for all that came before: a quote if it is in one, a letter inside of any other field.
        self._begun: list[bytes] = []
        self._size, self._cut_off, self._before = 0, False, b""

    def __call__(self, chunks: Iterable[bytes]) -> Iterator[tuple[list[bytes], list[int]]]:
        tail = b""
        for chunk in chunks:
            lines = (tail + chunk).splitlines(keepends=True)
            # A line break may be cut in two.
            tail = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
            if len(tail) > self._limit:
                lines, tail = [*lines, tail], b""
            yield self._records(lines)
        found, pieces = self._records([tail] if tail else [])
        if self._begun:
            self._give(found, pieces, True)
        yield found, pieces

    def _records(self, lines: list[bytes]) -> tuple[list[bytes], list[int]]:
        found: list[bytes] = []
        pieces: list[int] = []
        start = 0
        for place in self._suspects(lines):
            if place < start:
                continue
            found += map(_bare, lines[start:place])
            start = place
            while start < len(lines):
                start += 1
                if self._ends_with(lines[start - 1]):
                    self._give(found, pieces, True)
                    break
                if self._size > self._limit:
                    self._give(found, pieces, False)
        found += map(_bare, lines[start:])
        return found, pieces

    def _ends_with(self, line: bytes) -> bool:
        """Whether the record ends with this line, which belongs to it."""
        inside = self._open.match(self._before + line)
        self._before = b'"' if inside else b"x"
        self._begun.append(line)
        self._size += len(line)
        return inside is None and line.endswith((b"\n", b"\r"))

    def _give(self, found: list[bytes], pieces: list[int], ended: bool) -> None:
        if self._cut_off or not ended:
            pieces.append(len(found))
        record = b"".join(self._begun)
        # The last line break of a quote that is never closed is inside of it.
        found.append(_bare(record) if ended and self._before != b'"' else record)
        self._begun, self._size, self._cut_off = [], 0, not ended
        if ended:
            self._before = b""

    def _suspects(self, lines: list[bytes]) -> list[int]:
        """The lines that may not be records of their own, in order."""
        quoted = [i for i, line in enumerate(lines) if b'"' in line]
        if quoted and self._alone is not None:
            asked = pa.array([lines[i] for i in quoted], pa.binary())
            alone = np.asarray(pc.match_substring_regex(asked, self._alone))
            quoted = [quoted[i] for i in np.flatnonzero(~alone)]
        first = {0} if lines and self._before else set()
        last = {len(lines) - 1} if lines and not lines[-1].endswith((b"\n", b"\r")) else set()
        return sorted(first | last | set(quoted))


def _bare(line: bytes) -> bytes:
    if line.endswith(b"\r\n"):
        return line[:-2]
    return line[:-1] if line.endswith((b"\n", b"\r")) else line
