"""The grammar of statements: which words come in which order, everything else is an error where it stands.

Expressions and queries inside a statement are cut out by their brackets and commas and given to the dialect,
which must understand all of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from tidegate.errors import TidegateError, did_you_mean
from tidegate.sql.dialect.codes import error, unsupported
from tidegate.sql.dialect.dialect import EMIT, EMIT_WORDS, tokenize
from tidegate.sql.dialect.parsing import parse_expression, parse_query
from tidegate.sql.dialect.text import Span, Text, token_span
from tidegate.sql.grammar.alter_syntax import read_alter
from tidegate.sql.grammar.change_syntax import read_delete, read_update
from tidegate.sql.grammar.create_syntax import read_create_relation
from tidegate.sql.grammar.cursor import Cursor, is_word
from tidegate.sql.grammar.front_matter import without_front_matter
from tidegate.sql.grammar.semicolons import BEGINS, because_of_semicolon
from tidegate.sql.grammar.set_syntax import read_reset, read_set, read_show_setting
from tidegate.sql.grammar.sink_syntax import read_create_sink
from tidegate.sql.grammar.syntax import (
    CreateRelationSyntax,
    CreateSinkSyntax,
    CreateViewSyntax,
    DescribeSyntax,
    DropSyntax,
    ExplainSyntax,
    FlushSyntax,
    InsertSyntax,
    Name,
    SelectSyntax,
    ShowSettingSyntax,
    ShowSyntax,
    StatementSyntax,
)

STATEMENTS = (
    "CREATE SOURCE",
    "CREATE TABLE",
    "CREATE MATERIALIZED VIEW",
    "CREATE SINK",
    "ALTER",
    "INSERT INTO",
    "UPDATE",
    "DELETE FROM",
    "FLUSH",
    "DROP",
    "SET",
    "RESET",
    "SHOW",
    "DESCRIBE",
    "EXPLAIN",
    "SELECT",
    "WITH",
)
_LATER = {
    "MERGE": "write INSERT, which replaces the row with the same PRIMARY KEY; or UPDATE, or DELETE",
    "TRUNCATE": "write DELETE FROM, or DROP the table and create it again",
    "REFRESH": "a materialized view needs no REFRESH: `tidegate run` updates it",
}
_LATER_CREATE = {
    "VIEW": "write CREATE MATERIALIZED VIEW",
    "INDEX": None,
    "FUNCTION": None,
    "SCHEMA": None,
    "DATABASE": None,
    "CONNECTION": None,
    "SECRET": None,
}
_QUERY_STARTS = ("SELECT", "WITH", "VALUES", "FROM")


def split(text: Text, read: list[Token] | None = None) -> Iterator[tuple[list[Token], str | None]]:
    """Each statement's tokens without the semicolon, and the comment right above it. `read`: the tokens of the whole
    text, where they are known. Raises TG101."""
    tokens: list[Token] = []
    end = -1
    for token in [*(tokenize(text) if read is None else read), None]:
        if token is not None and token.token_type is not TokenType.SEMICOLON:
            tokens.append(token)
            continue
        if tokens:
            yield tokens, _description(text.sql[end + 1 : tokens[0].start], first=end < 0)
        tokens = []
        end = token.end if token is not None else end


def read_statement(text: Text, tokens: list[Token], description: str | None = None) -> StatementSyntax:
    """The statement that these tokens are. Raises TG102–TG106 where they are not."""
    try:
        return _read(text, tokens, description)
    except TidegateError as refused:
        raise because_of_semicolon(text, tokens, refused) or refused from None


def _read(text: Text, tokens: list[Token], description: str | None) -> StatementSyntax:
    cursor = Cursor(text, tokens)
    head = (token_span(tokens[0], tokens[-1]), description)
    word = cursor.word()
    if word in _QUERY_STARTS or tokens[0].token_type is TokenType.L_PAREN:
        _refuse_emit(cursor)
        return SelectSyntax(*head, parse_query(text, tokens))
    if word in _LATER:
        raise unsupported(word, cursor.here(), _LATER[word])
    reader = {
        "CREATE": _create,
        "ALTER": read_alter,
        "INSERT": _insert,
        "UPDATE": read_update,
        "DELETE": read_delete,
        "FLUSH": lambda _, head: FlushSyntax(*head),
        "DROP": _drop,
        "SET": read_set,
        "RESET": read_reset,
        "SHOW": _show,
        "DESCRIBE": _describe,
        "DESC": _describe,
        "EXPLAIN": _explain,
    }.get(word)
    if reader is None:
        starts = [s.split()[0] for s in STATEMENTS]
        hint = (
            did_you_mean(tokens[0].text, starts)
            or f"statements start with {', '.join(dict.fromkeys(starts))}"
        )
        raise error("TG103", f'unknown statement "{tokens[0].text}"', cursor.here(), hint)
    cursor.index = 1
    statement = reader(cursor, head)
    if not cursor.done():
        cursor.fail("the statement should end here", _comma_hint(cursor))
    return statement


def _comma_hint(cursor: Cursor) -> str | None:
    return "statements are separated by ;" if cursor.word() in {s.split()[0] for s in STATEMENTS} else None


def _create(
    cursor: Cursor, head: tuple[Span, str | None]
) -> CreateRelationSyntax | CreateViewSyntax | CreateSinkSyntax:
    if cursor.word() == "OR":
        raise unsupported("OR REPLACE", cursor.here(), "DROP it first")
    if cursor.word() in ("SOURCE", "TABLE"):
        return read_create_relation(cursor, head)
    if cursor.word() == "SINK":
        return read_create_sink(cursor, head, _take_emit)
    if cursor.word() in _LATER_CREATE:
        raise unsupported(f"CREATE {cursor.word()}", cursor.here(), _LATER_CREATE[cursor.word()])
    if cursor.word() != "MATERIALIZED":
        token = cursor.peek()
        hint = did_you_mean(token.text, ["SOURCE", "TABLE", "MATERIALIZED", "SINK"]) if token else None
        if token and hint:
            raise error("TG104", f'"{cursor.take().text}" in CREATE', cursor.text.at(token_span(token)), hint)
        cursor.fail("expected SOURCE, TABLE, MATERIALIZED VIEW or SINK")
    cursor.expect("MATERIALIZED", "VIEW", clause="CREATE MATERIALIZED VIEW")
    if_not_exists = cursor.if_not_exists()
    name = cursor.name("the name of the view")
    token = cursor.peek()
    if token is not None and token.token_type is TokenType.L_PAREN:
        raise unsupported(
            "a list of column names", cursor.here(), "name the columns in the query: SELECT x AS name"
        )
    if cursor.word() == "WITH":
        raise unsupported("WITH (…) on a materialized view", cursor.here())
    before = None
    if cursor.word() == "RENAMED":
        cursor.expect("RENAMED", "FROM", clause="RENAMED FROM old_name")
        if cursor.word() == "AS":
            cursor.fail("expected the name that the view had before")
        before = cursor.name("the name that the view had before")
    cursor.expect("AS", clause="CREATE MATERIALIZED VIEW name AS SELECT …")
    emit = _take_emit(cursor)
    rest = cursor.tokens[cursor.index :]
    if not rest:
        cursor.fail("expected a query")
    cursor.index = len(cursor.tokens)
    query = parse_query(cursor.text, rest)
    return CreateViewSyntax(*head, name, if_not_exists, query, token_span(rest[0], rest[-1]), emit, before)


def _take_emit(cursor: Cursor) -> Span | None:
    """Cut EMIT ON WINDOW CLOSE off the end of the tokens. A misspelt one is TG104 at the first wrong word:
    left in the query, `EMIT` would pass for the alias of a table."""
    tokens = cursor.tokens
    for i in range(cursor.index, len(tokens)):
        if tokens[i].token_type is EMIT or _looks_like_emit(tokens, i):
            break
    else:
        return None
    words = 1 if tokens[i].token_type is EMIT else len(EMIT_WORDS)
    if words > 1:
        at = Cursor(cursor.text, tokens)
        at.index = i
        at.expect(*EMIT_WORDS, clause=" ".join(EMIT_WORDS))
    span = token_span(tokens[i], tokens[i + words - 1])
    if i + words < len(tokens):
        if any(t.token_type is EMIT for t in tokens[i + words :]):
            following = tokens[i + words]
            begins = following.text.upper() in BEGINS
            hint = f"is a ; missing before {following.text}?" if begins else "keep one of them"
            message = "EMIT ON WINDOW CLOSE is given twice"
            raise error("TG108", message, cursor.text.at(token_span(following)), hint)
        cursor.index = i + words
        cursor.fail("EMIT ON WINDOW CLOSE must be the end of the statement")
    cursor.tokens = tokens[:i]
    return span


def _looks_like_emit(tokens: list[Token], i: int) -> bool:
    """Whether a misspelt EMIT ON WINDOW CLOSE starts here: a word like EMIT, and one of the other words after
    it."""
    if not is_word(tokens[i]) or not _is_like(tokens[i].text, "EMIT"):
        return False
    following = [t.text.upper() for t in tokens[i + 1 : i + 4] if is_word(t)]
    close = sum(any(_is_like(f, w) for f in following) for w in EMIT_WORDS[1:])
    return close >= 2 or (tokens[i].text.upper() == "EMIT" and following[:1] == ["ON"])


@lru_cache(4096)
def _is_like(word: str, wanted: str) -> bool:
    """Every word of every view is asked about, and most of them are the same in all."""
    return did_you_mean(word, [wanted]) is not None


def _refuse_emit(cursor: Cursor) -> None:
    for i, token in enumerate(cursor.tokens):
        if token.token_type is EMIT:
            cursor.index = i
            hint = "only a materialized view can have EMIT: CREATE MATERIALIZED VIEW name AS SELECT …"
            cursor.fail("the query should end here", hint)


def _insert(cursor: Cursor, head: tuple[Span, str | None]) -> InsertSyntax:
    cursor.expect("INTO", clause="INSERT INTO")
    table = cursor.name("the name of a table")
    columns = None
    token = cursor.peek()
    if token is not None and token.token_type is TokenType.L_PAREN and cursor.word(1) not in _QUERY_STARTS:
        columns = tuple(cursor.listed(lambda: cursor.name("a column"), "INSERT INTO table"))
    start = cursor.index
    if cursor.accept("VALUES"):
        rows = [_row(cursor)]
        while cursor.accept_sign(TokenType.COMMA):
            rows.append(_row(cursor))
        if cursor.word() == "RETURNING":
            raise unsupported("RETURNING", cursor.here())
        return InsertSyntax(*head, table, columns, tuple(rows), None, cursor.span_since(start))
    token = cursor.peek()
    if cursor.word() not in _QUERY_STARTS and not (token and token.token_type is TokenType.L_PAREN):
        cursor.misspelt("VALUES", "INSERT INTO table VALUES (…) or SELECT …")
    rest = cursor.tokens[start:]
    cursor.index = len(cursor.tokens)
    query = parse_query(cursor.text, rest)
    return InsertSyntax(*head, table, columns, None, query, token_span(rest[0], rest[-1]))


def _row(cursor: Cursor) -> tuple[Span, tuple[exp.Expr, ...]]:
    start = cursor.index

    def value() -> exp.Expr:
        if cursor.word() == "DEFAULT":
            raise unsupported(
                "DEFAULT", cursor.here(), "write NULL, or name the other columns after the table"
            )
        return parse_expression(cursor.text, cursor.until(TokenType.COMMA, TokenType.R_PAREN))

    values = tuple(cursor.listed(value, "VALUES"))
    return cursor.span_since(start), values


def _kind(cursor: Cursor, clause: str) -> Name:
    """SOURCE, TABLE, MATERIALIZED VIEW or SINK."""
    start = cursor.index
    if cursor.accept("MATERIALIZED"):
        cursor.expect("VIEW", clause="MATERIALIZED VIEW")
        return Name("materialized view", cursor.span_since(start))
    if cursor.accept("SOURCE") or cursor.accept("TABLE") or cursor.accept("SINK"):
        return Name(cursor.tokens[start].text.lower(), cursor.span_since(start))
    cursor.refuse_misspelt(["SOURCE", "TABLE", "MATERIALIZED", "SINK"], f"in {clause}")
    if cursor.word() in _LATER_CREATE:
        instead = f"write {clause} MATERIALIZED VIEW" if cursor.word() == "VIEW" else None
        raise unsupported(f"{clause} {cursor.word()}", cursor.here(), instead)
    cursor.fail("expected SOURCE, TABLE, MATERIALIZED VIEW or SINK")


def _drop(cursor: Cursor, head: tuple[Span, str | None]) -> DropSyntax:
    kind = _kind(cursor, "DROP")
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name("a name")
    if cursor.word() in ("CASCADE", "RESTRICT"):
        raise unsupported(cursor.word(), cursor.here(), "DROP the views that read it first")
    return DropSyntax(*head, kind, name, if_exists)


_SHOW = ("SOURCES", "TABLES", "MATERIALIZED", "SINKS", "COLUMNS", "CREATE")


def _show(cursor: Cursor, head: tuple[Span, str | None]) -> ShowSyntax | ShowSettingSyntax:
    if cursor.accept("SOURCES"):
        return ShowSyntax(*head, "sources", None, None)
    if cursor.accept("SINKS"):
        return ShowSyntax(*head, "sinks", None, None)
    if cursor.accept("TABLES"):
        return ShowSyntax(*head, "tables", None, None)
    if cursor.accept("MATERIALIZED"):
        cursor.expect("VIEWS", clause="SHOW MATERIALIZED VIEWS")
        return ShowSyntax(*head, "materialized views", None, None)
    if cursor.accept("COLUMNS"):
        cursor.expect("FROM", clause="SHOW COLUMNS FROM name")
        return ShowSyntax(*head, "columns", None, cursor.name("a name"))
    if cursor.accept("CREATE"):
        return ShowSyntax(*head, "create", _kind(cursor, "SHOW CREATE"), cursor.name("a name"))
    setting = read_show_setting(cursor, head, _SHOW)
    if setting is not None:
        return setting
    cursor.refuse_misspelt(_SHOW, "in SHOW")
    cursor.fail("expected SOURCES, TABLES, MATERIALIZED VIEWS, SINKS, COLUMNS FROM, CREATE, ALL or a setting")


def _describe(cursor: Cursor, head: tuple[Span, str | None]) -> DescribeSyntax:
    extended = cursor.accept("EXTENDED")
    return DescribeSyntax(*head, cursor.name("a name"), extended)


def _explain(cursor: Cursor, head: tuple[Span, str | None]) -> ExplainSyntax:
    if cursor.word() == "CREATE":
        span = token_span(cursor.take(), cursor.tokens[-1])
        return ExplainSyntax(*head, None, _create(cursor, (span, None)))
    if cursor.word() in _QUERY_STARTS:
        raise unsupported(
            "EXPLAIN of a query", cursor.here(), "EXPLAIN a name, or CREATE MATERIALIZED VIEW … AS …"
        )
    return ExplainSyntax(*head, cursor.name("a name or CREATE"), None)


def _description(gap: str, first: bool) -> str | None:
    """The `--` lines right above a statement, without a blank line between, and without its front matter."""
    lines = gap.split("\n")
    # What shares a line with the end of the statement before belongs to that one.
    lines = without_front_matter(lines[:-1] if first else lines[1:-1])
    found: list[str] = []
    for line in reversed(lines):
        if not line.strip().startswith("--"):
            break
        found.append(line.strip().lstrip("-").strip())
    return "\n".join(reversed(found)).strip() or None
