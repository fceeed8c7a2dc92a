"""The grammar of CREATE SINK: what is delivered, to where, and how it is written."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from tidegate.sql.dialect.codes import error, unsupported
from tidegate.sql.dialect.parsing import parse_query
from tidegate.sql.dialect.text import Span, token_span
from tidegate.sql.grammar.create_syntax import read_format_clause, read_option
from tidegate.sql.grammar.cursor import Cursor
from tidegate.sql.grammar.syntax import CreateSinkSyntax, FormatSyntax, OptionSyntax

_CLAUSE = "CREATE SINK name FROM relation | AS SELECT …"


def read_create_sink(
    cursor: Cursor, head: tuple[Span, str | None], take_emit: Callable[[Cursor], Span | None]
) -> CreateSinkSyntax:
    """From the word SINK to the end of the statement. `take_emit` cuts EMIT ON WINDOW CLOSE off the end of a query."""
    cursor.expect("SINK")
    if cursor.word() == "INTO":
        raise unsupported("CREATE SINK INTO a table", cursor.here(), "INSERT INTO table SELECT …")
    if_not_exists = cursor.if_not_exists()
    name = cursor.name("the name of the sink")
    upstream = query = query_span = emit = None
    if cursor.accept("FROM"):
        upstream = cursor.name("a view, source or table")
    elif cursor.accept("AS"):
        query, query_span, emit = _query(cursor, take_emit)
    else:
        cursor.refuse_misspelt(["FROM", "AS"], "in CREATE SINK")
        if cursor.word() == "INTO":
            raise unsupported("CREATE SINK INTO a table", cursor.here(), "INSERT INTO table SELECT …")
        cursor.fail(f"expected FROM or AS ({_CLAUSE})")
    options, options_span, format_ = _clauses(cursor)
    return CreateSinkSyntax(
        *head, name, if_not_exists, upstream, query, query_span, emit, options, options_span, format_
    )


def _query(cursor: Cursor, take_emit: Callable[[Cursor], Span | None]) -> tuple[exp.Expr, Span, Span | None]:
    """The query, up to WITH and a bracket: the WITH of a query is followed by a name."""
    end = _end_of_query(cursor.tokens, cursor.index)
    inner = Cursor(cursor.text, cursor.tokens[:end])
    inner.index = cursor.index
    emit = take_emit(inner)
    tokens = inner.tokens[inner.index :]
    if not tokens:
        cursor.fail("expected a query")
    query = parse_query(cursor.text, tokens)
    cursor.index = end
    return query, token_span(tokens[0], tokens[-1]), emit


def _end_of_query(tokens: list[Token], start: int) -> int:
    depth = 0
    for i in range(start, len(tokens)):
        kind = tokens[i].token_type
        following = tokens[i + 1].token_type if i + 1 < len(tokens) else None
        if depth == 0 and kind is TokenType.WITH and following is TokenType.L_PAREN:
            return i
        depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
    return len(tokens)


def _clauses(cursor: Cursor) -> tuple[tuple[OptionSyntax, ...] | None, Span | None, FormatSyntax | None]:
    """WITH (…) and FORMAT, in any order."""
    options, options_span, format_ = None, None, None
    seen: set[str] = set()
    while not cursor.done():
        start, where, clause = cursor.index, cursor.here(), cursor.word()
        if clause in seen:
            raise error("TG108", f"{clause} is given twice", where)
        seen.add(clause)
        if cursor.accept("WITH"):
            options = tuple(cursor.listed(lambda: read_option(cursor), "WITH"))
            options_span = cursor.span_since(start)
        elif clause == "FORMAT":
            format_ = read_format_clause(cursor)
        else:
            cursor.refuse_misspelt(["WITH", "FORMAT", "ENCODE"], "in CREATE SINK")
            cursor.fail("expected WITH (…) or FORMAT")
    return options, options_span, format_
