"""The grammar of ALTER: a watermark's strategy is changed (W13), or the watermark itself is set (W9)."""

from __future__ import annotations

from sqlglot.tokens import TokenType

from tidegate.sql.dialect.codes import unsupported
from tidegate.sql.dialect.text import Span, token_span
from tidegate.sql.grammar.create_syntax import read_watermark
from tidegate.sql.grammar.cursor import Cursor
from tidegate.sql.grammar.syntax import AlterWatermarkSyntax, Name, ResetWatermarkSyntax

USAGE = (
    "ALTER SOURCE name ALTER WATERMARK FOR column AS expression, "
    "or ALTER SOURCE name RESET WATERMARK TO 'timestamp'"
)
_KINDS = ("SOURCE", "TABLE")
_ACTIONS = ("ALTER", "MODIFY", "RESET")
_OTHER_ACTIONS = ("ADD", "DROP", "RENAME", "SET", "OWNER", "CONNECTOR", "REFRESH", "FORMAT", "SWAP")
_OTHER_KINDS = ("MATERIALIZED", "VIEW", "SINK", "INDEX", "SCHEMA", "DATABASE", "USER", "SYSTEM", "FUNCTION")


def read_alter(cursor: Cursor, head: tuple[Span, str | None]) -> AlterWatermarkSyntax | ResetWatermarkSyntax:
    """From the word after ALTER to the end of the statement. Raises TG102, TG104, TG106."""
    kind = _kind(cursor)
    if cursor.word() == "IF" and cursor.word(1) == "EXISTS":
        raise unsupported("ALTER … IF EXISTS", cursor.here(), "leave out IF EXISTS")
    name = cursor.name(f"the name of the {kind.text}")
    action = cursor.word()
    if action in ("ALTER", "MODIFY"):
        if cursor.word(1) == "COLUMN":
            cursor.index += 1
            raise unsupported(f"{action} COLUMN", cursor.here(), "DROP it and create it again")
        cursor.index += 1
        if cursor.word() != "WATERMARK":
            cursor.misspelt("WATERMARK", f"{action} WATERMARK FOR column AS expression")
        return AlterWatermarkSyntax(*head, kind, name, read_watermark(cursor))
    if action == "RESET":
        cursor.expect("RESET", "WATERMARK", "TO", clause="RESET WATERMARK TO 'timestamp'")
        return ResetWatermarkSyntax(*head, kind, name, _value(cursor))
    if action in _OTHER_ACTIONS:
        raise unsupported(
            f"ALTER {kind.text.upper()} … {action}", cursor.here(), "DROP it and create it again"
        )
    cursor.refuse_misspelt(_ACTIONS, f"in ALTER {kind.text.upper()}")
    cursor.fail("expected ALTER, MODIFY or RESET WATERMARK", USAGE)


def _kind(cursor: Cursor) -> Name:
    start = cursor.index
    word = cursor.word()
    if word in _KINDS:
        cursor.index += 1
        return Name(word.lower(), cursor.span_since(start))
    if word in _OTHER_KINDS:
        what = "MATERIALIZED VIEW" if word == "MATERIALIZED" else word
        instead = (
            "DROP it and create it again; a watermark is altered where it is declared: ALTER SOURCE name …"
        )
        raise unsupported(f"ALTER {what}", cursor.here(), instead if what == "MATERIALIZED VIEW" else None)
    cursor.refuse_misspelt(_KINDS, "in ALTER")
    cursor.fail("expected SOURCE or TABLE", USAGE)


def _value(cursor: Cursor) -> Name:
    """A text in quotes, maybe with a type before it (`TIMESTAMP '…'`), or a whole number."""
    start = cursor.index
    if cursor.word() in ("TIMESTAMP", "TIMESTAMPTZ", "DATE"):
        cursor.index += 1
    minus = "-" if cursor.accept_sign(TokenType.DASH) else ""
    token = cursor.peek()
    if token is None or token.token_type not in (TokenType.STRING, TokenType.NUMBER):
        cursor.fail(
            "expected a time in quotes, or a whole number", "RESET WATERMARK TO '2026-01-01 10:00:00'"
        )
    cursor.index += 1
    return Name(minus + token.text, (cursor.tokens[start].start, token_span(token)[1]))
