"""Rows against the lines that are expected: numbers by value, blanks between columns whatever their number."""

from __future__ import annotations

import difflib
import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from tidegate.testing.records import SortMode

_HASHED = re.compile(r"(\d+) values hashing to ([0-9a-f]{32})")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


@dataclass(frozen=True)
class ResultRows:
    """What a query gave: rendered values, and which columns are numbers (`float`: only as exact as C7 says)."""

    values: tuple[tuple[str, ...], ...]
    kinds: tuple[str, ...]


def differences(
    rows: ResultRows, expected: Sequence[str], sort: SortMode, valuewise: bool = False
) -> str | None:
    """A unified diff of the expected lines and the actual ones; None if they agree."""
    if len(expected) == 1 and (match := _HASHED.fullmatch(expected[0].strip())):
        flat = _sorted_values(rows, sort)
        if int(match[1]) == len(flat) and match[2] == _digest(flat):
            return None
        return _diff(expected, [hashed(rows, sort)])
    actual = _arranged(rows, sort)
    lines = list(expected)
    if valuewise and sort != "valuesort":
        lines = _grouped(lines, len(rows.kinds))
    if sort == "valuesort":
        wanted = sorted((token for line in lines for token in line.split()), key=_sort_key)
        # Values with blanks in them can't be told from several: compare the words of all.
        words = sorted((word for value in actual for word in value[0].split()), key=_sort_key)
        if len(wanted) == len(words) and all(map(_same_word, wanted, words)):
            return None
        return _diff(wanted, [value[0] for value in actual])
    if sort == "rowsort":
        lines.sort(key=_line_key)
    if len(lines) == len(actual) and all(
        _same_row(line, row, rows.kinds) for line, row in zip(lines, actual, strict=True)
    ):
        return None
    return _diff(*_aligned(lines, actual, rows.kinds))


def expected_lines(rows: ResultRows, sort: SortMode) -> list[str]:
    """The rows as they are to stand in a test file."""
    return [" ".join(row) for row in _arranged(rows, sort)]


def hashed(rows: ResultRows, sort: SortMode) -> str:
    """The one line that stands for a long result."""
    flat = _sorted_values(rows, sort)
    return f"{len(flat)} values hashing to {_digest(flat)}"


def _arranged(rows: ResultRows, sort: SortMode) -> list[tuple[str, ...]]:
    if sort == "valuesort":
        return [(v,) for v in sorted((v for row in rows.values for v in row), key=_sort_key)]
    if sort == "rowsort":
        return sorted(rows.values, key=lambda row: _line_key(" ".join(row)))
    return list(rows.values)


def _sorted_values(rows: ResultRows, sort: SortMode) -> list[str]:
    if sort == "valuesort":
        return sorted(v for row in rows.values for v in row)
    ordered = sorted(rows.values) if sort == "rowsort" else rows.values
    return [v for row in ordered for v in row]


def _digest(values: Sequence[str]) -> str:
    return hashlib.md5("".join(f"{v}\n" for v in values).encode(), usedforsecurity=False).hexdigest()


def _grouped(lines: list[str], columns: int) -> list[str]:
    width = max(1, columns)
    return ["\t".join(lines[i : i + width]) for i in range(0, len(lines), width)]


def _same_row(line: str, row: Sequence[str], kinds: Sequence[str]) -> bool:
    """Whether a line says this row: tabs cut it into columns if their number fits, else blanks cut it into words."""
    cells = line.split("\t")
    if len(cells) == len(row):
        pairs = zip(cells, row, kinds, strict=True)
        if all(_same_value(" ".join(c.split()), " ".join(v.split()), k) for c, v, k in pairs):
            return True
    words = line.split()
    position = 0
    for value, kind in zip(row, kinds, strict=True):
        count = len(value.split())
        if not _same_value(" ".join(words[position : position + count]), " ".join(value.split()), kind):
            return False
        position += count
    return position == len(words)


def _same_value(expected: str, actual: str, kind: str) -> bool:
    if expected == actual:
        return True
    if kind not in ("exact", "float"):
        return False
    wanted, found = _number(expected), _number(actual)
    if wanted is None or found is None:
        return False
    if kind == "exact":
        return wanted == found
    return math.isclose(float(wanted), float(found), rel_tol=1e-9, abs_tol=1e-12)


def _same_word(expected: str, actual: str) -> bool:
    wanted, found = _number(expected), _number(actual)
    return expected == actual or (wanted is not None and wanted == found)


def _number(text: str) -> Decimal | None:
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def _sort_key(word: str) -> tuple[str, str]:
    number = _number(word)
    return (word if number is None else f"{number.normalize():f}", word)


def _line_key(line: str) -> tuple[list[str], str]:
    """Numbers that are equal sort alike, however they are written."""
    return ([_sort_key(word)[0] for word in line.split()], line)


def _aligned(
    lines: list[str], rows: list[tuple[str, ...]], kinds: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Both as lines; those that mean the same are written the same, so that the diff shows only what differs."""
    shown = [" ".join(row) for row in rows]
    unmatched = list(range(len(rows)))
    said = []
    for line in lines:
        same = next((i for i in unmatched if _same_row(line, rows[i], kinds)), None)
        if same is not None:
            unmatched.remove(same)
        said.append(line if same is None else shown[same])
    return said, shown


def _diff(expected: Sequence[str], actual: Sequence[str]) -> str:
    lines = difflib.unified_diff(list(expected), list(actual), "expected", "actual", lineterm="", n=3)
    return "\n".join(line for line in lines if not line.startswith("@@"))
