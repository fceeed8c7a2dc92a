"""The definition of a source or table as its log has kept it, read again."""

from __future__ import annotations

from tidegate.errors import TidegateError
from tidegate.sql.catalog.objects import Relation
from tidegate.sql.dialect.text import Text
from tidegate.sql.grammar.grammar import read_statement, split
from tidegate.sql.grammar.syntax import CreateRelationSyntax
from tidegate.sql.resolve.relations import analyse_relation


def stored_relation(definition: str) -> Relation | None:
    """What the text of a CREATE SOURCE or CREATE TABLE says; None if this release can't read it. What is around it is
    not looked at: a schema file that it names may be gone, and what it reaches was allowed once."""
    text = Text(definition, "<stored definition>")
    try:
        (syntax,) = [read_statement(text, tokens, description) for tokens, description in split(text)]
        return analyse_relation(text, syntax) if isinstance(syntax, CreateRelationSyntax) else None
    except (TidegateError, ValueError):
        return None
