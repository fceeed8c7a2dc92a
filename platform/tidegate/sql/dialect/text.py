"""The text of a file of statements: from character offsets to lines and columns for carets."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from sqlglot import exp
from sqlglot.tokens import Token

from tidegate.errors import Location

E = TypeVar("E", bound=exp.Expr)
Span = tuple[int, int]
"""Offsets of the first and the last character, both included."""


@dataclass(frozen=True)
class Text:
    """`sql` as it stands in `file`, whose first line has the number `base_line`."""

    sql: str
    file: str = "<sql>"
    base_line: int = 1
    _starts: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        starts = [0, *(i + 1 for i, c in enumerate(self.sql) if c == "\n")]
        object.__setattr__(self, "_starts", tuple(starts))

    def at(self, span: Span) -> Location:
        """The location of a span; one of several lines ends with its first line."""
        start, end = span
        start = min(start, max(len(self.sql) - 1, 0))
        row = bisect_right(self._starts, start) - 1
        first = self._starts[row]
        line = self.sql[first : self._starts[row + 1] - 1 if row + 1 < len(self._starts) else None].rstrip(
            "\r"
        )
        length = max(1, min(end, first + len(line) - 1) - start + 1)
        return Location(self.file, self.base_line + row, start - first + 1, length, line)

    def slice(self, span: Span) -> str:
        """The characters of a span."""
        return self.sql[span[0] : span[1] + 1]


def token_span(first: Token, last: Token | None = None) -> Span:
    """From the start of `first` to the end of `last` (or of `first`)."""
    return first.start, (last or first).end


def node_span(node: exp.Expr) -> Span:
    """Where an expression stands. The parser notes it for whole expressions; for others it is what their
    names and literals cover."""
    meta = node.meta
    if "span" in meta:
        span: Span = meta["span"]
        return span
    inner = [n.meta for n in node.walk() if "start" in n.meta or "span" in n.meta]
    if not inner:
        parent = node.parent
        return node_span(parent) if parent is not None else (0, 0)
    starts = [m["span"][0] if "span" in m else m["start"] for m in inner]
    ends = [m["span"][1] if "span" in m else m["end"] for m in inner]
    return min(starts), max(ends)


def with_places(node: E) -> E:
    """As `copy()`, which takes longer: it copies each offset of each place, though nobody changes one."""
    copy = without_places(node, _part_with_places)
    copy.comments = node.comments and [*node.comments]
    copy.meta.update(node.meta)
    return copy


def _part_with_places(node: exp.Expr) -> exp.Expr:
    return with_places(node)


def without_places(node: E, made: Callable[[exp.Expr], exp.Expr] | None = None) -> E:
    """A copy that only knows what it says, for Spark: places take most of the time of `copy()`. `made`: what its parts
    become; by default, copies of this kind."""
    part = made or without_places
    parts: dict[str, object] = {}
    for key, value in node.args.items():
        if isinstance(value, exp.Expr):
            parts[key] = part(value)
        elif isinstance(value, list):
            parts[key] = [part(v) if isinstance(v, exp.Expr) else v for v in value]
        else:
            parts[key] = value
    return type(node)(**parts)


def last_open(sql: str) -> int | None:
    """The offset of the quote or comment that is open at the end of `sql`."""
    position, quote = 0, None
    opened = 0
    while position < len(sql):
        c = sql[position]
        if quote is None:
            if c == "-" and sql.startswith("--", position):
                position = sql.find("\n", position)
                if position < 0:
                    break
            elif c == "/" and sql.startswith("/*", position):
                end = _end_of_comment(sql, position)
                if end < 0:
                    return position
                position = end
            elif c in "'\"`":
                quote, opened = c, position
        elif c == "\\" and quote == "'":
            position += 1
        elif c == quote:
            quote = None
        position += 1
    return opened if quote else None


def _end_of_comment(sql: str, start: int) -> int:
    """The offset of the last character of the block comment that opens at `start`, or -1. Comments nest."""
    depth = 0
    for sign in re.finditer(r"/\*|\*/", sql[start:]):
        depth += 1 if sign[0] == "/*" else -1
        if depth == 0:
            return start + sign.end() - 1
    return -1
