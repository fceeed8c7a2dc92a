"""SET, RESET and SHOW of session settings: their grammar and what they name."""

from __future__ import annotations

import re

from sqlglot.tokenizer_core import Token, TokenType

from tidegate.errors import did_you_mean
from tidegate.sql.codes import error
from tidegate.sql.cursor import Cursor, is_word
from tidegate.sql.settings import Settings, find, hint
from tidegate.sql.statements import SetSetting, ShowSettings
from tidegate.sql.syntax import Name, SetSyntax, ShowSettingSyntax
from tidegate.sql.text import Span, Text, token_span

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


#: What decides where, or as whom, things run.
_OF_SPARK = re.compile(r"(spark|hadoop|hive|fs|javax)\.", re.IGNORECASE)


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


def analyse_set(text: Text, syntax: SetSyntax) -> SetSetting:
    """The statement. TG408 for a value that a known setting can't have; an unknown name is only warned of, when it
    runs, but for Spark's (TG409): somebody would believe that it was set (X1)."""
    if syntax.name is not None and _OF_SPARK.match(syntax.name.text):
        message = f"{syntax.name.text} is an internal setting, which SQL can't change"
        todo = "set Spark's settings under spark.conf, in the environment's file"
        raise error("TG409", message, text.at(syntax.name.span), todo)
    if syntax.name is None or syntax.value is None:
        return SetSetting(syntax.name.text if syntax.name else None, None)
    Settings().set(syntax.name.text, syntax.value.text, text.at(syntax.value.span))
    return SetSetting(syntax.name.text, syntax.value.text)


def analyse_show_setting(text: Text, syntax: ShowSettingSyntax) -> ShowSettings:
    """Raises TG409 for a setting that there isn't."""
    if syntax.name is None:
        return ShowSettings(None)
    known = find(syntax.name.text)
    if known is None:
        message = f'there is no setting "{syntax.name.text}"'
        raise error("TG409", message, text.at(syntax.name.span), hint(syntax.name.text))
    return ShowSettings(known.name)


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
