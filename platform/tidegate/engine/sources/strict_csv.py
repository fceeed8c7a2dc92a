"""CSV as RFC 4180 has it: records, and the fields of one. Executor side.

A field in quotes may hold delimiters, line breaks and doubled quotes; behind its closing quote comes a delimiter or the
end of the record. A quote inside a field that does not begin with one is a character like any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.engine.sources.strict_json import NotStrict
from tidegate.engine.sources.values import Left, Misfit, Target, number, pattern, time

#: A record may have so many bytes; what is longer is rejected, in pieces, so that a quote that is never closed does not
#: take all memory.
LIMIT = 16 << 20

_OPEN = "unparseable: a quoted field is not closed"
_BEHIND = "unparseable: text behind a quoted field"
_SEVERAL = "unparseable: more than one record"
_NOTHING = "unparseable: an empty record"
_FEW, _MANY = "unparseable: fewer fields than columns", "unparseable: more fields than columns"
TOO_LONG = f"unparseable: a record of more than {LIMIT >> 20} MiB"

_END = re.compile(r"(?:\r\n|\n|\r)\Z")


def fields(text: str, delimiter: str, null: str, wanted: int | None) -> list[str | None]:
    """The fields of one record, with or without a line break behind it; `wanted`: how many there must be. Raises
    NotStrict."""
    if len(text) > LIMIT:
        raise NotStrict(TOO_LONG)
    text = _END.sub("", text)
    if not text:
        raise NotStrict(_NOTHING)
    found: list[str | None] = []
    place = -1
    while place < len(text):
        place += 1
        if text.startswith('"', place):
            end = _closing(text, place + 1)
            value: str | None = text[place + 1 : end].replace('""', '"')
            place = end + 1
            if place < len(text) and text[place] != delimiter:
                raise NotStrict(_BEHIND)
        else:
            end = text.find(delimiter, place)
            end = len(text) if end < 0 else end
            value = text[place:end] or None
            if value and ("\n" in value or "\r" in value):
                raise NotStrict(_SEVERAL)
            place = end
        found.append(None if value == null else value)
        if wanted is not None and len(found) > wanted:
            raise NotStrict(_MANY)
    if wanted is not None and len(found) < wanted:
        raise NotStrict(_FEW)
    return found


def _closing(text: str, place: int) -> int:
    while True:
        end = text.find('"', place)
        if end < 0:
            raise NotStrict(_OPEN)
        if text[end + 1 : end + 2] != '"':
            return end
        place = end + 2


def converted(target: Target, text: str) -> Any:
    """A field's value for an Arrow array of `target.parsed`. Raises Misfit, Left (Spark converts the text)."""
    kind = target.arrow
    if kind is None:
        raise Left
    if pa.types.is_string(kind):
        return text
    if pa.types.is_boolean(kind):
        if text.lower() not in ("true", "false"):
            raise Misfit
        return text.lower() == "true"
    if pa.types.is_temporal(kind):
        return time(target, text)
    return number(target, text.strip(" \t") if pa.types.is_floating(kind) else text)


def regex(filled: Sequence[Target | None], delimiter: str, null: str) -> str | None:
    """RE2 of the records of which each field is plain, without a line break at the end; None if there is none."""
    if (
        len(delimiter.encode()) > 1
        or delimiter in '"\r\n'
        or re.search(r'["\r\n]', null)
        or delimiter in null
    ):
        return None
    out = re.escape(delimiter)
    # With a NULL of its own, nothing in quotes is an empty text.
    some = "+" if null else "*"
    any_text = rf'(?:[^"\r\n{out}][^\r\n{out}]*|"(?:[^"]|""){some}"|)'
    parts = []
    for target in filled:
        plain = pattern(target) if target is not None else None
        if plain is None or target is None:
            parts.append(any_text)
        else:
            nothing = f"|{re.escape(null)}" if null else '|""'
            parts.append(f'(?:{plain}|"{plain}"{nothing}|)')
    body = out.join(parts)
    return rf"\A(?:{body})\z"


def without_end(text: pa.Array) -> pa.Array:
    """Records without the line break behind them."""
    if not pc.any(pc.match_substring_regex(text, r"[\r\n]\z")).as_py():
        return text
    return pc.replace_substring_regex(text, r"(?:\r\n|\n|\r)\z", "")


# -- records of files ------------------------------------------------------------------------------------------


class Records:
    """Cuts a file into records, piece by piece: gives lists of records without their line breaks, each with the places
    in it of pieces of records that are too long."""

    def __init__(self, delimiter: str, limit: int = LIMIT) -> None:
        out = re.escape(delimiter)
        field = rf'(?:"(?:[^"]|"")*"|[^"{out}][^{out}]*|)'
        self._alone = rf"\A{field}(?:{out}{field})*[\r\n]*\z" if len(delimiter.encode()) == 1 else None
        raw = out.encode()
        # What ends inside of a field in quotes.
        self._open = re.compile(
            rb'(?:(?:"(?:[^"]++|"")*+"|(?!"))(?:(?!%b).)*+%b)*+"(?:[^"]++|"")*+\Z' % (raw, raw), re.DOTALL
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
