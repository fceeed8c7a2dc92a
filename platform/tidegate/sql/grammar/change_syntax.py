"""The grammar of UPDATE and DELETE."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokens import TokenType

from tidegate.sql.dialect.codes import unsupported
from tidegate.sql.dialect.parsing import parse_expression
from tidegate.sql.dialect.text import Span
from tidegate.sql.grammar.cursor import Cursor
from tidegate.sql.grammar.syntax import DeleteSyntax, Name, UpdateSyntax


def read_update(cursor: Cursor, head: tuple[Span, str | None]) -> UpdateSyntax:
    """From the word after UPDATE to the end of the statement."""
    table = cursor.name("the name of a table")
    _refuse_alias(cursor)
    cursor.expect("SET", clause="UPDATE table SET column = value")
    assignments = [_assignment(cursor)]
    while cursor.accept_sign(TokenType.COMMA):
        assignments.append(_assignment(cursor))
    return UpdateSyntax(*head, table, tuple(assignments), _where(cursor, "FROM", "RETURNING"))


def read_delete(cursor: Cursor, head: tuple[Span, str | None]) -> DeleteSyntax:
    """From the word after DELETE to the end of the statement."""
    cursor.expect("FROM", clause="DELETE FROM table")
    table = cursor.name("the name of a table")
    _refuse_alias(cursor)
    return DeleteSyntax(*head, table, _where(cursor, "USING", "RETURNING"))


def _refuse_alias(cursor: Cursor) -> None:
    if cursor.word() == "AS":
        raise unsupported("another name for the table", cursor.here(), "use the name of the table itself")


def _assignment(cursor: Cursor) -> tuple[Name, exp.Expr]:
    token = cursor.peek()
    if token is not None and token.token_type is TokenType.L_PAREN:
        raise unsupported("(a, b) = (…)", cursor.here(), "write: SET a = …, b = …")
    column = cursor.name("a column")
    cursor.expect_sign(TokenType.EQ, "=", column.text)
    if cursor.word() == "DEFAULT":
        raise unsupported("DEFAULT", cursor.here(), "write NULL")
    stops = (TokenType.COMMA, TokenType.WHERE, TokenType.FROM, TokenType.RETURNING)
    return column, parse_expression(cursor.text, cursor.until(*stops))


def _where(cursor: Cursor, *later: str) -> exp.Expr | None:
    if cursor.word() in later:
        hint = (
            "the condition may hold a subquery: WHERE id IN (SELECT …)"
            if cursor.word() != "RETURNING"
            else None
        )
        raise unsupported(cursor.word(), cursor.here(), hint)
    if not cursor.accept("WHERE"):
        return None
    condition = parse_expression(cursor.text, cursor.until(TokenType.RETURNING))
    if cursor.word() == "RETURNING":
        raise unsupported("RETURNING", cursor.here())
    return condition
