"""Definitions as stored tables have kept them, read again: rarely, so what analyses them is loaded then."""

from __future__ import annotations

from tidegate.errors import TidegateError
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.objects import Relation, View
from tidegate.sql.dialect.text import Text
from tidegate.sql.grammar.grammar import read_statement, split
from tidegate.sql.grammar.syntax import CreateRelationSyntax, CreateViewSyntax, StatementSyntax

#: One that an earlier release took may be nested more deeply than this one takes.
_NOT_READABLE = (TidegateError, ValueError, RecursionError)


def stored_relation(definition: str) -> Relation | None:
    """What the text of a CREATE SOURCE or CREATE TABLE says; None if this release can't read it. What is around it is
    not looked at: a schema file that it names may be gone, and what it reaches was allowed once."""
    from tidegate.sql.resolve.relations import analyse_relation

    text = Text(definition, "<stored definition>")
    try:
        syntax = _statement(text)
        return analyse_relation(text, syntax) if isinstance(syntax, CreateRelationSyntax) else None
    except _NOT_READABLE:
        return None


def stored_view(definition: str, catalog: Catalog) -> View | None:
    """What the text of a CREATE MATERIALIZED VIEW says of the definitions of a catalog; None if this release can't read
    it, or if what it reads is not there any more."""
    from tidegate.sql.views.views import analyse_view

    text = Text(definition, "<stored definition>")
    try:
        syntax = _statement(text)
        return analyse_view(text, syntax, catalog) if isinstance(syntax, CreateViewSyntax) else None
    except _NOT_READABLE:
        return None


def _statement(text: Text) -> StatementSyntax:
    """Raises ValueError if there are several."""
    (syntax,) = [read_statement(text, tokens, description) for tokens, description in split(text)]
    return syntax
