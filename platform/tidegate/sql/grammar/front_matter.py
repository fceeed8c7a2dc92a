"""Front matter: what a data team says about an asset beside its SQL, between two `-- ---` lines right above it.

    -- ---
    -- owners: [team:shops]
    -- schedule: "*/15 * * * *"
    -- ---
    -- Orders of each hour.
    CREATE MATERIALIZED VIEW …

Line comments and not a block: a cron expression holds `*/`, which ends a block. Any other tool reads a comment.
The lines are YAML; `project/front_matter.py` reads them. Here they are found, and told to which statement they belong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from sqlglot.tokens import Token, TokenType

from tidegate.errors import FAIL_FAST, Location, Problems
from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.text import Text
from tidegate.sql.grammar.cursor import Cursor, is_word
from tidegate.sql.grammar.semicolons import BEGINS, missing_semicolon
from tidegate.sql.grammar.syntax import Name

_FENCE = re.compile(r"^\s*--\s+---\s*$")
_COMMENT = re.compile(r"^(\s*--+)(.*)$")

Partitioning = Literal["day", "hour", "none"]


@dataclass(frozen=True)
class Block:
    """The YAML above one statement. `yaml`: what is above it as blank lines, and blanks in place of the dashes, so that
    places in it are places in the file; `lines`: the file's own lines, for errors."""

    name: str
    file: str
    yaml: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Annotations:
    """What is said about one source, table, view or sink, beyond its description and those of its columns.

    `tags`: name and value, `""` for a bare one. `fresh_within`, `warn_within`: seconds since it was last brought up to
    date.
    `partitions`: None where nothing is said. `cron`: with its time zone, and whether it runs as soon as it is deployed.
    """

    owners: tuple[str, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()
    group: str | None = None
    fresh_within: int | None = None
    warn_within: int | None = None
    partitions: Partitioning | None = None
    cron: str | None = None
    timezone: str = "UTC"
    enabled: bool = True

    @property
    def tag_names(self) -> tuple[str, ...]:
        """Each tag as `--select tag:` may write it: its name, and `name=value` where it has a value."""
        return tuple(
            t for name, value in self.tags for t in ((name, f"{name}={value}") if value else (name,))
        )


def without_front_matter(lines: Iterable[str]) -> list[str]:
    """The lines that are not between fences: what the description above a statement is looked for in."""
    kept: list[str] = []
    inside = False
    for line in lines:
        if _FENCE.match(line):
            inside = not inside
        elif not inside:
            kept.append(line)
    return kept


def find_blocks(text: Text, tokens: list[Token], problems: Problems = FAIL_FAST) -> list[Block]:
    """The front matter of a file that was read as `tokens`. Raises TG109 for one that is not closed, that has other
    lines in it, or that stands above no CREATE or above one that has its own; TG102 where a ; is missing before the
    CREATE below. `problems` takes these down instead."""
    lines = text.sql.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    # A line inside a string is no comment.
    fences = [
        i
        for i, line in enumerate(lines)
        if _FENCE.match(line) and not any(t.start < starts[i] <= t.end for t in tokens)
    ]
    found: dict[int, Block] = {}
    for opened, closed in zip(fences[::2], [*fences[1::2], None], strict=False):
        where = text.at((starts[opened] + lines[opened].index("--"), starts[opened] + len(lines[opened]) - 1))
        inside = lines[opened + 1 : closed] if closed is not None else []
        if closed is None or not all(_COMMENT.match(line) for line in inside):
            hint = "end it with another line `-- ---`, and begin each line between the two with --"
            with problems.caught():
                raise error("TG109", "this front matter is not closed", where, hint)
            # From here on, nobody knows which line opens one and which line closes one.
            break
        with problems.caught():
            first, name = _described(text, tokens, starts[closed], where)
            if first in found:
                raise error(
                    "TG109", "this statement has front matter already", where, "merge the two into one"
                )
            yaml = "\n" * (opened + 1) + "\n".join(_without_dashes(line) for line in inside)
            found[first] = Block(name, text.file, yaml, tuple(lines))
    return list(found.values())


def _described(text: Text, tokens: list[Token], offset: int, where: Location) -> tuple[int, str]:
    """The index of the first token of the statement right below, and the name of what it defines."""
    first = next((i for i, token in enumerate(tokens) if token.start >= offset), None)
    if first is not None and first > 0 and tokens[first - 1].token_type is not TokenType.SEMICOLON:
        if is_word(tokens[first]) and tokens[first].text.upper() in BEGINS:
            raise missing_semicolon(text, tokens[first - 1], tokens[first])
        first = None
    if first is None or tokens[first].token_type is TokenType.SEMICOLON:
        raise error(
            "TG109",
            "there is no CREATE below this front matter",
            where,
            "front matter must stand directly above a CREATE",
        )
    name = defined_name(text, tokens[first:])
    if name is None:
        hint = "front matter describes the object that a CREATE defines"
        raise error("TG109", "front matter above a statement that defines nothing", where, hint)
    return first, name.text


def defined_name(text: Text, tokens: list[Token]) -> Name | None:
    """The name in CREATE SOURCE | TABLE | MATERIALIZED VIEW | SINK [IF NOT EXISTS] name; None for other statements.
    Raises TG102 where it is missing."""
    cursor = Cursor(text, tokens)
    if not cursor.accept("CREATE"):
        return None
    if not (
        cursor.accept("MATERIALIZED", "VIEW") or any(cursor.accept(k) for k in ("SOURCE", "TABLE", "SINK"))
    ):
        return None
    cursor.accept("IF", "NOT", "EXISTS")
    return cursor.name("a name")


def _without_dashes(line: str) -> str:
    match = _COMMENT.match(line)
    assert match is not None  # `find_blocks` takes no other lines
    return " " * len(match[1]) + match[2]
