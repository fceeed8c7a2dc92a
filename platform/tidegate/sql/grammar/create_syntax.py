"""The grammar of CREATE SOURCE and CREATE TABLE: columns, watermark, options, format."""

from __future__ import annotations

from typing import NoReturn

from sqlglot import exp
from sqlglot.tokens import TokenType

from tidegate.confidential import is_secret
from tidegate.errors import Location, did_you_mean
from tidegate.sql.dialect.codes import error, unsupported
from tidegate.sql.dialect.parsing import parse_expression
from tidegate.sql.dialect.system_names import HEADERS, KEY, OFFSET, PARTITION, ROWTIME
from tidegate.sql.dialect.text import Span, token_span
from tidegate.sql.dialect.types import NAMES
from tidegate.sql.grammar.cursor import Cursor, is_word
from tidegate.sql.grammar.syntax import (
    ColumnSpans,
    ColumnSyntax,
    CreateRelationSyntax,
    FormatSyntax,
    Name,
    OptionSyntax,
    PrimaryKeySyntax,
    WatermarkSyntax,
)
from tidegate.sql.grammar.type_syntax import read_type

_CLAUSES = ("APPEND ONLY", "WITH", "FORMAT")
_CONSTRAINTS = {
    "UNIQUE": None,
    "CHECK": "filter the rows in the view, with WHERE",
    "REFERENCES": None,
    "FOREIGN KEY": None,
    "CONSTRAINT": None,
    "DEFAULT": "use a generated column: name TYPE AS coalesce(other, value)",
    "INCLUDE": None,
}
_RENAMED = ["RENAMED", "FROM"]
#: What INCLUDE names, as hidden columns.
_INCLUDED = {"KEY": KEY, "PARTITION": PARTITION, "OFFSET": OFFSET, "TIMESTAMP": ROWTIME, "HEADER": HEADERS}


def read_create_relation(cursor: Cursor, head: tuple[Span, str | None]) -> CreateRelationSyntax:
    """From the word SOURCE or TABLE to the end of the statement."""
    kind = cursor.take().text.lower()
    if_not_exists = cursor.if_not_exists()
    name = cursor.name(f"the name of the {kind}")
    if cursor.word() == "AS":
        raise unsupported(
            f"CREATE {kind.upper()} … AS SELECT",
            cursor.here(),
            "CREATE the table first, then use INSERT INTO … SELECT",
        )
    columns, watermarks, keys = _columns(cursor, kind)
    append_only, options, options_span, format_ = False, None, None, None
    seen: set[str] = set()
    while not cursor.done():
        start, where = cursor.index, cursor.here()
        clause = cursor.word()
        if clause in seen and clause != "INCLUDE":
            raise error("TG108", f"{clause} is given twice", where)
        seen.add(clause)
        if clause == "APPEND":
            cursor.expect("APPEND", "ONLY", clause="APPEND ONLY")
            if kind == "source":
                raise error("TG102", "a source is always append-only", where, "leave out APPEND ONLY")
            append_only = True
        elif clause == "WITH":
            if cursor.word(1) == "TTL":
                refuse_ttl(kind, where)
            cursor.index += 1
            options = tuple(cursor.listed(lambda: read_option(cursor), "WITH"))
            options_span = cursor.span_since(start)
        elif clause == "FORMAT":
            format_ = read_format_clause(cursor)
        elif clause == "INCLUDE":
            columns.append(_include(cursor))
        else:
            cursor.refuse_misspelt([w for c in _CLAUSES for w in c.split()] + ["ENCODE"], "after the columns")
            cursor.fail(f"expected {' or '.join(_CLAUSES[kind == 'source' :])}")
    return CreateRelationSyntax(
        *head,
        kind,
        name,
        if_not_exists,
        tuple(columns),
        tuple(watermarks),
        options,
        options_span,
        format_,
        append_only,
        tuple(keys),
    )


def _columns(
    cursor: Cursor, kind: str
) -> tuple[list[ColumnSyntax], list[WatermarkSyntax], list[PrimaryKeySyntax]]:
    """What stands in the brackets: the columns, watermarks and keys, those in a column's definition included."""
    columns: list[ColumnSyntax] = []
    watermarks: list[WatermarkSyntax] = []
    keys: list[PrimaryKeySyntax] = []
    for item in cursor.listed(lambda: _item(cursor), f"the name of the {kind}"):
        if isinstance(item, WatermarkSyntax):
            watermarks.append(item)
        elif isinstance(item, PrimaryKeySyntax):
            keys.append(item)
        else:
            columns.append(item)
            if item.primary_key is not None:
                keys.append(PrimaryKeySyntax((item.name,), item.primary_key))
    return columns, watermarks, keys


def _include(cursor: Cursor) -> ColumnSyntax:
    """RisingWave's `INCLUDE KEY | PARTITION | OFFSET | TIMESTAMP | HEADER [AS name]`: a column that is computed from a
    hidden one."""
    cursor.expect("INCLUDE")
    kind, where = cursor.word(), cursor.here()
    if kind not in _INCLUDED:
        if (hint := did_you_mean(kind, _INCLUDED)) and kind:
            raise error("TG104", f'"{cursor.take().text}" in INCLUDE', where, hint)
        what = f"INCLUDE {kind}".strip()
        raise unsupported(what, where, f"available: INCLUDE {', '.join(_INCLUDED)}")
    token = cursor.take()
    following = cursor.peek()
    if following is not None and following.token_type is TokenType.STRING:
        hint = (
            "write INCLUDE HEADER AS headers, and read one header with a generated column: name VARCHAR AS …"
        )
        raise unsupported("INCLUDE HEADER with the name of one header", cursor.here(), hint)
    name = Name(f"_rw_kafka_{kind.lower()}", token_span(token))
    if cursor.accept("AS"):
        name = cursor.name("a column")
    hidden = exp.column(exp.to_identifier(_INCLUDED[kind], quoted=True))
    hidden.meta["span"] = hidden.this.meta["span"] = token_span(token)
    return ColumnSyntax(name, None, True, hidden, None, None)


def refuse_ttl(kind: str, where: Location) -> NoReturn:
    """TG304 (W10): WITH TTL that is not part of a table's WATERMARK clause."""
    if kind == "source":
        raise error(
            "TG304", "WITH TTL is for tables with a PRIMARY KEY, not for sources", where, "leave it out"
        )
    hint = "write it inside the clause: WATERMARK FOR column AS expression WITH TTL"
    raise error("TG304", "WITH TTL belongs to the WATERMARK clause", where, hint)


def _item(cursor: Cursor) -> ColumnSyntax | WatermarkSyntax | PrimaryKeySyntax:
    token = cursor.peek()
    if token is None:
        cursor.fail("expected a column")
    if cursor.word(1) == "FOR":
        return read_watermark(cursor)
    if cursor.word() in _CONSTRAINTS and cursor.word() != "INCLUDE":
        raise unsupported(cursor.word(), cursor.here(), _CONSTRAINTS[cursor.word()])
    if at_primary_key(cursor):
        return _primary_key(cursor)
    if token.token_type is TokenType.STAR:
        raise unsupported("* for all columns of the data", cursor.here(), "name the columns and their types")
    # A column may have the name watermark; WATERMARK ON ts AS … is none.
    if (
        cursor.word() == "WATERMARK"
        and (did_you_mean(cursor.word(1), ["FOR"]) or "AS" in (cursor.word(2), cursor.word(3)))
        and cursor.word(1) not in NAMES
    ):
        cursor.index += 1
        cursor.misspelt("FOR", "WATERMARK FOR column AS expression")
    return read_column(cursor)


def read_watermark(cursor: Cursor) -> WatermarkSyntax:
    """`WATERMARK FOR column AS expression [WITH TTL]`, up to a comma, a closing bracket or the end."""
    start = cursor.index
    cursor.expect("WATERMARK", clause="WATERMARK FOR column AS expression")
    cursor.expect("FOR")
    column = cursor.name("a column")
    cursor.expect("AS", clause="WATERMARK FOR column AS expression")
    tokens = cursor.until(TokenType.COMMA, TokenType.R_PAREN)
    ttl = None
    if len(tokens) > 2 and tokens[-2].text.upper() == "WITH" and is_word(tokens[-2]):
        if tokens[-1].text.upper() != "TTL":
            cursor.index -= 1
            cursor.misspelt("TTL", "WITH TTL")
        ttl = token_span(tokens[-2], tokens[-1])
        tokens = tokens[:-2]
    text = cursor.text.slice(token_span(tokens[0], tokens[-1]))
    return WatermarkSyntax(column, parse_expression(cursor.text, tokens), text, cursor.span_since(start), ttl)


def at_primary_key(cursor: Cursor) -> bool:
    """Whether PRIMARY KEY comes next. The tokenizer takes it for one word; `primary` alone may be a column."""
    return cursor.word() == "PRIMARY KEY" or (cursor.word() == "PRIMARY" and cursor.word(1) == "KEY")


def _primary_key(cursor: Cursor) -> PrimaryKeySyntax:
    """`PRIMARY KEY (a, b)` among the columns."""
    start = cursor.index
    cursor.index += 1 if cursor.word() == "PRIMARY KEY" else 2
    names = cursor.listed(lambda: cursor.name("a column"), "PRIMARY KEY")
    return PrimaryKeySyntax(tuple(names), cursor.span_since(start))


def read_column(cursor: Cursor) -> ColumnSyntax:
    """`name TYPE` and what may follow, up to a comma, a closing bracket or the end."""
    begins = cursor.index
    name = cursor.name("a column")
    type_, nullable, generated, comment, key, renamed = None, None, None, None, None, None
    type_span, not_null_span, renamed_span = None, None, None
    if cursor.word() != "AS":
        start = cursor.index
        type_ = read_type(cursor)
        type_span = cursor.span_since(start)
    while not cursor.done():
        token = cursor.peek()
        if token is None or token.token_type in (TokenType.COMMA, TokenType.R_PAREN):
            break
        before: dict[str, object] = {"NOT": nullable, "NULL": nullable, "COMMENT": comment}
        if before.get(cursor.word()) is not None:
            what = "COMMENT" if cursor.word() == "COMMENT" else "NULL or NOT NULL"
            raise error("TG108", f"{what} is given twice", cursor.here())
        start = cursor.index
        if cursor.word() == "NOT":
            cursor.expect("NOT", "NULL", clause="NOT NULL")
            nullable, not_null_span = False, cursor.span_since(start)
        elif cursor.accept("NULL"):
            nullable = True
        elif cursor.accept("COMMENT"):
            comment = _string(cursor).text
        elif cursor.accept("AS"):
            generated = _generated(cursor)
        elif cursor.word() == "RENAMED":
            if renamed is not None:
                raise error("TG108", "RENAMED FROM is given twice", cursor.here())
            cursor.expect("RENAMED", "FROM", clause="RENAMED FROM old_name")
            renamed = cursor.name("the name that the column had before")
            renamed_span = cursor.span_since(start)
        elif at_primary_key(cursor):
            if key is not None:
                raise error("TG108", "PRIMARY KEY is given twice", cursor.here())
            cursor.index += 1 if cursor.word() == "PRIMARY KEY" else 2
            key = cursor.span_since(start)
        elif cursor.word() == "GENERATED":
            raise error(
                "TG104", "GENERATED ALWAYS in a column", cursor.here(), "write: name TYPE AS expression"
            )
        elif cursor.word() in _CONSTRAINTS:
            raise unsupported(cursor.word(), cursor.here(), _CONSTRAINTS[cursor.word()])
        else:
            hint = (
                did_you_mean(token.text, ["NOT", "COMMENT", "NULL", "AS", "PRIMARY", "RENAMED"])
                or "is a comma missing?"
            )
            cursor.fail('expected "," or ")" after the column', hint)
    spans = ColumnSpans(cursor.span_since(begins), type_span, not_null_span, renamed_span)
    return ColumnSyntax(name, type_, nullable is not False, generated, comment, key, renamed, spans)


def _generated(cursor: Cursor) -> exp.Expr:
    tokens = cursor.until(TokenType.COMMA, TokenType.R_PAREN)
    # A constraint behind the expression is not part of it.
    words = [t.text.upper() if is_word(t) else "" for t in tokens]
    ends = [i for i, w in enumerate(words) if i and (w == "PRIMARY KEY" or words[i : i + 2] == _RENAMED)]
    if ends:
        cursor.index -= len(tokens) - ends[0]
        tokens = tokens[: ends[0]]
    return parse_expression(cursor.text, tokens)


def read_option(cursor: Cursor) -> OptionSyntax:
    """`name = 'value'` in WITH (…)."""
    token = cursor.peek()
    if token is not None and token.token_type is TokenType.STRING:
        cursor.index += 1
        name = Name(token.text, token_span(token))
    else:
        start = cursor.index
        parts = [cursor.name("an option").text]
        while cursor.accept_sign(TokenType.DOT):
            parts.append(cursor.name("an option").text)
        name = Name(".".join(parts), cursor.span_since(start))
    cursor.expect_sign(TokenType.EQ, "=", f"{name.text}")
    value = cursor.peek()
    if value is None or not (
        value.token_type in (TokenType.STRING, TokenType.NUMBER) or cursor.word() in ("TRUE", "FALSE")
    ):
        hint = f"{name.text} = '…'"
        if is_secret(name.text):
            # What stands there may be the secret, in the wrong quotes.
            raise error("TG102", "expected a value in single quotes", cursor.here(), hint)
        cursor.fail("expected a value in quotes", hint)
    cursor.index += 1
    text = value.text.lower() if is_word(value) else value.text
    return OptionSyntax(name, text, token_span(value))


def _string(cursor: Cursor) -> Name:
    token = cursor.peek()
    if token is None or token.token_type is not TokenType.STRING:
        cursor.fail("expected a string in quotes")
    cursor.index += 1
    return Name(token.text, token_span(token))


def read_format_clause(cursor: Cursor) -> FormatSyntax:
    """`FORMAT PLAIN ENCODE encoding [(options)]`."""
    cursor.expect("FORMAT")
    format_ = cursor.name("PLAIN")
    cursor.expect("ENCODE", clause="FORMAT PLAIN ENCODE …")
    encode = cursor.name("JSON, CSV or PARQUET")
    options: tuple[OptionSyntax, ...] = ()
    token = cursor.peek()
    if token is not None and token.token_type is TokenType.L_PAREN:
        options = tuple(cursor.listed(lambda: read_option(cursor), "ENCODE"))
    return FormatSyntax(format_, encode, options)
