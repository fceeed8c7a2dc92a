"""ALTER of a column (E1 to E3): the CREATE statement as its author would have edited it."""

from __future__ import annotations

from dataclasses import replace

from sqlglot.tokens import TokenType

from tidegate.errors import TidegateError, did_you_mean
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.objects import Relation
from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.dialect import tokenize
from tidegate.sql.dialect.text import Span, Text
from tidegate.sql.grammar.syntax import AlterColumnSyntax, ColumnSpans, ColumnSyntax, CreateRelationSyntax
from tidegate.sql.resolve.relations import analyse_relation
from tidegate.sql.statements.alter import created_by
from tidegate.sql.statements.statements import AlterColumn

#: A part of a text, and what comes into its place.
_Edit = tuple[Span, str]


def analyse_alter_column(
    text: Text, syntax: AlterColumnSyntax, relation: Relation, catalog: Catalog
) -> AlterColumn:
    """The relation with the changed column; everything else of its text stays as it was written.

    Raises TG202 for a column that is not there; otherwise what CREATE would raise for the changed text, at the column
    in the ALTER statement.
    """
    written = Text(relation.definition)
    created = created_by(written)
    edits, clause = _edits(text, syntax, relation, written, created)
    definition = written.sql
    for (start, end), new in sorted(edits, reverse=True):
        definition = definition[:start] + new + definition[end + 1 :]
    again = Text(definition)
    where = text.at(syntax.column.span)
    try:
        altered = analyse_relation(again, created_by(again), catalog.schemas, catalog.guard)
    except TidegateError as wrong:
        message, hint = wrong.message, wrong.hint
        if syntax.action in ("drop", "rename"):
            message = f'the rest of the definition of "{relation.name}" needs column "{syntax.column.text}": {message}'
            hint = "change or drop what needs the column first"
        raise TidegateError(wrong.code, message, hint=hint, location=where) from None
    kept = replace(altered, description=relation.description, location=relation.location)
    return AlterColumn(kept, clause, where)


def _edits(
    text: Text, syntax: AlterColumnSyntax, relation: Relation, written: Text, created: CreateRelationSyntax
) -> tuple[list[_Edit], str]:
    """What is edited in the CREATE statement, and what a person who edits it by hand has to do there."""
    if syntax.action == "add":
        assert syntax.written is not None
        definition = text.slice(syntax.written)
        return [_inserted(created, definition)], f"add {definition}"
    column = _column(text, syntax, relation, created)
    spans = column.spans
    if spans is None:
        message = f'column "{column.name.text}" is made by INCLUDE'
        raise error("TG106", f"{message}, which ALTER does not change", text.at(syntax.column.span))
    name = written.slice(column.name.span)
    if syntax.action == "drop":
        return [(_with_comma(written, spans.whole), "")], f"remove {name}"
    if syntax.action == "rename":
        return _renamed(text, syntax, written, column, spans)
    if syntax.action == "nullable":
        hint = f"remove NOT NULL from {name}"
        return [(spans.not_null, "")] if spans.not_null is not None else [], hint
    assert syntax.written is not None
    type_ = text.slice(syntax.written)
    if spans.type is None:
        return [((column.name.span[1] + 1, column.name.span[1]), f" {type_}")], f"write {name} {type_}"
    return [(spans.type, type_)], f"write {name} {type_}"


def _renamed(
    text: Text, syntax: AlterColumnSyntax, written: Text, column: ColumnSyntax, spans: ColumnSpans
) -> tuple[list[_Edit], str]:
    assert syntax.to is not None
    old, new = written.slice(column.name.span), text.slice(syntax.to.span)
    edits: list[_Edit] = [(column.name.span, new)]
    if spans.renamed_from is not None:
        edits.append((spans.renamed_from, f"RENAMED FROM {old}"))
    else:
        end = spans.whole[1]
        edits.append(((end + 1, end), f" RENAMED FROM {old}"))
    return edits, f"write {new} … RENAMED FROM {old}"


def _column(
    text: Text, syntax: AlterColumnSyntax, relation: Relation, created: CreateRelationSyntax
) -> ColumnSyntax:
    name = syntax.column.text.casefold()
    for column in created.columns:
        if column.name.text.casefold() == name:
            return column
    names = [column.name.text for column in created.columns]
    message = f'{relation.kind} "{relation.name}" declares no column "{syntax.column.text}"'
    hint = did_you_mean(syntax.column.text, names) or f"available columns: {', '.join(names)}"
    raise error("TG202", message, text.at(syntax.column.span), hint)


def _inserted(created: CreateRelationSyntax, definition: str) -> _Edit:
    """Behind the last column in the brackets."""
    end = max(column.spans.whole[1] for column in created.columns if column.spans is not None)
    return (end + 1, end), f", {definition}"


def _with_comma(written: Text, column: Span) -> Span:
    """The column, and the comma that goes with it: behind it, or before the last one."""
    tokens = tokenize(written)
    following = next(token for token in tokens if token.start > column[1])
    if following.token_type is TokenType.COMMA:
        return column[0], following.end
    before = [token for token in tokens if token.end < column[0]][-1]
    return (before.start if before.token_type is TokenType.COMMA else column[0]), column[1]
