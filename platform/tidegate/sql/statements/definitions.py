"""Asset files, read but not resolved: the definitions that stand in them, and what is wrong with their text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from sqlglot.tokens import Token

from tidegate.errors import Location, Problems, TidegateError
from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.dialect import over_lines, readable, tokenize
from tidegate.sql.dialect.text import Span, Text, token_span
from tidegate.sql.grammar.front_matter import Block, defined_name, find_blocks
from tidegate.sql.grammar.grammar import read_statement, split
from tidegate.sql.grammar.syntax import (
    AlterColumnSyntax,
    CreateRelationSyntax,
    CreateSinkSyntax,
    CreateViewSyntax,
    Name,
)

_DEFINES = re.compile(
    r'\bCREATE\s+(?:SOURCE|TABLE|SINK|MATERIALIZED\s+VIEW)\s+(?:IF\s+NOT\s+EXISTS\s+)?("[^"]+"|\w+)',
    re.IGNORECASE,
)


@dataclass
class Definitions:
    """The definitions of all files, each with the text of its file. `alters`: how columns of relations are changed;
    `blocks`: the front matter above them."""

    relations: list[tuple[Text, CreateRelationSyntax]] = field(default_factory=list)
    alters: list[tuple[Text, AlterColumnSyntax]] = field(default_factory=list)
    views: list[tuple[Text, CreateViewSyntax]] = field(default_factory=list)
    sinks: list[tuple[Text, CreateSinkSyntax]] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    _first: dict[str, Location] = field(default_factory=dict)
    _again: set[tuple[str, Span]] = field(default_factory=set)

    def declare(self, text: Text, name: Name) -> None:
        """Raises TG204 if a statement before this one defines the name, whether that can be understood or not."""
        where = text.at(name.span)
        first = self._first.setdefault(name.text.casefold(), where)
        if first != where:
            self._again.add((text.file, name.span))
            hint = f"it is defined at {first.file}:{first.line}"
            raise error("TG204", f'"{name.text}" exists already', where, hint)

    def is_again(self, text: Text, name: Name) -> bool:
        """Whether an earlier statement defines the name, so that this one is not what it means."""
        return (text.file, name.span) in self._again


def read_definitions(files: Iterable[tuple[str, str]], problems: Problems) -> Definitions:
    """What asset files (name, text) define, in the order of the files. Raises TG107 for a statement that is neither a
    CREATE nor an ALTER of a column, TG204 for a name that is defined twice; `problems` takes down every error of every
    statement instead."""
    found = Definitions()
    for file, content in files:
        text, tokens = _tokens(Text(content, file), problems)
        if "---" in content:
            found.blocks += find_blocks(text, tokens, problems)
        for statement, description in split(text, tokens):
            with problems.caught():
                _declare(found, text, statement)
            with problems.caught(*defined_in(text.slice(token_span(statement[0], statement[-1])))):
                _read(found, text, statement, description)
    return found


def defined_in(text: str) -> list[str]:
    """The names that a text defines, as far as that can be seen in one that can't be read."""
    return [name.strip('"') for name in _DEFINES.findall(text)]


def _tokens(text: Text, problems: Problems) -> tuple[Text, list[Token]]:
    """The tokens of a file. Of one that is not SQL up to its end: of the statements in front of what is not."""
    try:
        return text, tokenize(text)
    except TidegateError as unreadable:
        start = _before_open_quote(text)
        with problems.caught(*defined_in(text.sql[len(start.sql) :])):
            raise unreadable from None
        return start, tokenize(start)


def _before_open_quote(text: Text) -> Text:
    """The statements that are what their author wrote: up to the first one that can't be understood and has a string
    over several lines, for this is what a missing quote makes of it."""
    start, end = readable(text), 0
    for tokens, _ in split(start):
        if any(over_lines(start, tokens)):
            try:
                read_statement(start, tokens)
            except TidegateError:
                return Text(start.sql[:end], text.file, text.base_line)
        end = tokens[-1].end + 1
    return start


def _declare(found: Definitions, text: Text, tokens: list[Token]) -> None:
    try:
        name = defined_name(text, tokens)
    except TidegateError:
        return  # `_read` says what is wrong with it
    if name is not None:
        found.declare(text, name)


def _read(found: Definitions, text: Text, tokens: list[Token], description: str | None) -> None:
    syntax = read_statement(text, tokens, description)
    if isinstance(syntax, CreateRelationSyntax):
        found.relations.append((text, syntax))
    elif isinstance(syntax, AlterColumnSyntax):
        found.alters.append((text, syntax))
    elif isinstance(syntax, CreateViewSyntax):
        found.views.append((text, syntax))
    elif isinstance(syntax, CreateSinkSyntax):
        found.sinks.append((text, syntax))
    else:
        start = tokens[0]
        hint = "files in assets/ only contain definitions; run this statement with: tidegate sql"
        where = text.at((start.start, start.end))
        raise error("TG107", f"{start.text.upper()} can't be in an asset file", where, hint)
