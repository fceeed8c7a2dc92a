"""The grammar of SET, RESET and SHOW of session settings."""

from __future__ import annotations

from sqlglot.tokens import Token, TokenType

from tidegate.errors import did_you_mean
from tidegate.sql.dialect.text import Span, token_span
from tidegate.sql.grammar.cursor import Cursor, is_word
from tidegate.sql.grammar.syntax import Name, SetSyntax, ShowSettingSyntax
from tidegate.sql.settings import find

Head = tuple[Span, str | None]


def read_set(cursor: Cursor, head: Head) -> SetSyntax:
    """`SET [SESSION | LOCAL] name {= | TO} value`, `SET TIME ZONE value`; the cursor is behind SET."""
    if cursor.word() in ("SESSION", "LOCAL") and cursor.word(1) not in ("", "TO"):
        cursor.index += 1
    if cursor.word() == "TIME" and cursor.word(1) == "ZONE":
        name = Name("timezone", token_span(cursor.take(), cursor.take()))
    else:
        name = _name(cursor)
        if not cursor.accept_sign(TokenType.EQ):
            cursor.expect("TO", clause="SET name = value")
    first = cursor.peek()
    if first is None:
        cursor.fail("expected a value")
    last = cursor.tokens[-1]
    cursor.index = len(cursor.tokens)
    span = token_span(first, last)
    if first is last and first.text.upper() == "DEFAULT" and is_word(first):
        return SetSyntax(*head, name, None)
    quoted = first is last and first.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
    return SetSyntax(*head, name, Name(first.text if quoted else cursor.text.slice(span), span))


def read_reset(cursor: Cursor, head: Head) -> SetSyntax:
    """`RESET name` or `RESET ALL`; the cursor is behind RESET."""
    if cursor.accept("ALL"):
        return SetSyntax(*head, None, None)
    return SetSyntax(*head, _name(cursor), None)


def read_show_setting(cursor: Cursor, head: Head, others: tuple[str, ...]) -> ShowSettingSyntax | None:
    """`SHOW name` or `SHOW ALL`; None if what follows SHOW may be a misspelt one of the `others` that it can show."""
    if cursor.accept("ALL"):
        return ShowSettingSyntax(*head, None)
    if cursor.word() == "TIME" and cursor.word(1) == "ZONE":
        return ShowSettingSyntax(*head, Name("timezone", token_span(cursor.take(), cursor.take())))
    token = cursor.peek()
    if token is None or not is_word(token):
        return None
    if find(token.text) is None and did_you_mean(token.text, others):
        return None
    return ShowSettingSyntax(*head, _name(cursor))


def _name(cursor: Cursor) -> Name:
    """A name, with dots in it where others group their settings (`a.b`)."""
    first: Token | None = cursor.peek()
    name = cursor.name("the name of a setting")
    last = first
    while cursor.accept_sign(TokenType.DOT):
        last = cursor.peek()
        part = cursor.name("the rest of the name")
        name = Name(f"{name.text}.{part.text}", name.span)
    assert first is not None
    return Name(name.text, token_span(first, last))
