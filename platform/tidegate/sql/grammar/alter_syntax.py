"""The grammar of ALTER: a watermark's strategy is changed (W13), the watermark itself is set (W9), or a column is
changed (E1)."""

from __future__ import annotations

from sqlglot.tokens import TokenType

from tidegate.sql.dialect.codes import unsupported
from tidegate.sql.dialect.text import Span, token_span
from tidegate.sql.grammar.create_syntax import read_column, read_watermark
from tidegate.sql.grammar.cursor import Cursor
from tidegate.sql.grammar.syntax import AlterColumnSyntax, AlterWatermarkSyntax, Name, ResetWatermarkSyntax
from tidegate.sql.grammar.type_syntax import read_type

USAGE = (
    "ALTER SOURCE name ALTER WATERMARK FOR column AS expression, "
    "ALTER SOURCE name RESET WATERMARK TO 'timestamp', "
    "or ALTER SOURCE name ADD COLUMN column TYPE, DROP COLUMN, RENAME COLUMN or ALTER COLUMN"
)
_KINDS = ("SOURCE", "TABLE")
_ACTIONS = ("ALTER", "MODIFY", "RESET", "ADD", "DROP", "RENAME")
_OTHER_ACTIONS = ("SET", "OWNER", "CONNECTOR", "REFRESH", "FORMAT", "SWAP")
_OF_COLUMN = "ALTER COLUMN column TYPE type, or ALTER COLUMN column DROP NOT NULL"
_OTHER_KINDS = ("MATERIALIZED", "VIEW", "SINK", "INDEX", "SCHEMA", "DATABASE", "USER", "SYSTEM", "FUNCTION")


AlterSyntax = AlterWatermarkSyntax | ResetWatermarkSyntax | AlterColumnSyntax


def read_alter(cursor: Cursor, head: tuple[Span, str | None]) -> AlterSyntax:
    """From the word after ALTER to the end of the statement. Raises TG102, TG104, TG106."""
    kind = _kind(cursor)
    if cursor.word() == "IF" and cursor.word(1) == "EXISTS":
        raise unsupported("ALTER … IF EXISTS", cursor.here(), "leave out IF EXISTS")
    name = cursor.name(f"the name of the {kind.text}")
    action = cursor.word()
    if action in ("ADD", "DROP", "RENAME") or (action == "ALTER" and cursor.word(1) == "COLUMN"):
        return _of_column(cursor, head, kind, name)
    if action in ("ALTER", "MODIFY"):
        cursor.index += 1
        if cursor.word() == "COLUMN":
            raise unsupported("MODIFY COLUMN", cursor.here(), f"write {_OF_COLUMN}")
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
    cursor.fail("expected ADD, DROP, RENAME or ALTER COLUMN, or ALTER, MODIFY or RESET WATERMARK", USAGE)


def _of_column(cursor: Cursor, head: tuple[Span, str | None], kind: Name, name: Name) -> AlterColumnSyntax:
    """One action on one column; the word COLUMN may be missing, but not behind ALTER."""
    action = cursor.take().text.upper()
    if action == "RENAME" and cursor.word() == "TO":
        raise unsupported(
            f"ALTER {kind.text.upper()} … RENAME TO", cursor.here(), "DROP it and create it again"
        )
    cursor.accept("COLUMN")
    if cursor.word() == "IF" and cursor.word(1) in ("EXISTS", "NOT"):
        raise unsupported(f"{action} COLUMN IF …", cursor.here(), "leave out the condition")
    if action == "ADD":
        start = cursor.index
        column = read_column(cursor)
        if column.renamed_from is not None:
            hint = "write RENAME COLUMN column TO new_name"
            raise unsupported("RENAMED FROM in ADD COLUMN", cursor.text.at(column.renamed_from.span), hint)
        found = AlterColumnSyntax(*head, kind, name, "add", column.name, written=cursor.span_since(start))
    elif action == "DROP":
        found = AlterColumnSyntax(*head, kind, name, "drop", cursor.name("a column"))
        if cursor.word() in ("CASCADE", "RESTRICT"):
            hint = "change or DROP what reads the column first"
            raise unsupported(f"DROP COLUMN … {cursor.word()}", cursor.here(), hint)
    elif action == "RENAME":
        column_name = cursor.name("a column")
        cursor.expect("TO", clause="RENAME COLUMN column TO new_name")
        found = AlterColumnSyntax(*head, kind, name, "rename", column_name, cursor.name("the new name"))
    else:
        found = _of_type(cursor, head, kind, name)
    if not cursor.done():
        cursor.fail("expected the end of the statement", "write one ALTER statement for each column")
    return found


def _of_type(cursor: Cursor, head: tuple[Span, str | None], kind: Name, name: Name) -> AlterColumnSyntax:
    column = cursor.name("a column")
    if cursor.accept("DROP"):
        cursor.expect("NOT", "NULL", clause="DROP NOT NULL")
        return AlterColumnSyntax(*head, kind, name, "nullable", column)
    if cursor.word() == "SET" and cursor.word(1) == "NOT":
        hint = "stored rows may have no value of it; filter the rows in the view, with WHERE"
        raise unsupported("SET NOT NULL", cursor.here(), hint)
    if cursor.word() in ("SET", "DROP") and cursor.word(1) == "DEFAULT":
        raise unsupported(f"{cursor.word()} DEFAULT", cursor.here(), "use coalesce in the view")
    if cursor.word() == "SET":
        cursor.expect("SET", "DATA", clause="SET DATA TYPE")
    if cursor.word() != "TYPE":
        cursor.misspelt("TYPE", _OF_COLUMN)
    cursor.index += 1
    start = cursor.index
    read_type(cursor)
    return AlterColumnSyntax(*head, kind, name, "type", column, written=cursor.span_since(start))


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
