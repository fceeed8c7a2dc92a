"""Which statements only read: another process than the one that is asked may carry them out."""

from __future__ import annotations

from tidegate.errors import TidegateError
from tidegate.sql.dialect.text import Text
from tidegate.sql.grammar.grammar import read_statement, split
from tidegate.sql.grammar.syntax import (
    DescribeSyntax,
    ExplainSyntax,
    SelectSyntax,
    ShowSettingSyntax,
    ShowSyntax,
)

_QUESTIONS = (SelectSyntax, ShowSyntax, ShowSettingSyntax, DescribeSyntax, ExplainSyntax)


def only_reads(text: str) -> bool:
    """Whether all statements only read, up to the first one that cannot be read at all: none behind it is carried
    out."""
    source = Text(text, "<sql>")
    try:
        return all(
            isinstance(read_statement(source, tokens, description), _QUESTIONS)
            for tokens, description in split(source)
        )
    except TidegateError:
        return True
