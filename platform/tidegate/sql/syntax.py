"""What a statement says, before any name in it is looked up: small frozen records with the place of every
word."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tidegate.sql.text import Span
from tidegate.sql.types import SparkType


@dataclass(frozen=True)
class Name:
    """A name or word, without its quotes."""

    text: str
    span: Span


@dataclass(frozen=True)
class ColumnSyntax:
    name: Name
    type: SparkType | None
    nullable: bool
    generated: exp.Expr | None
    comment: str | None


@dataclass(frozen=True)
class WatermarkSyntax:
    """`WATERMARK FOR column AS expression [WITH TTL]`; `text` is the expression as written."""

    column: Name
    expression: exp.Expr
    text: str
    span: Span
    ttl: Span | None


@dataclass(frozen=True)
class OptionSyntax:
    name: Name
    value: str
    value_span: Span


@dataclass(frozen=True)
class FormatSyntax:
    format: Name
    encode: Name
    options: tuple[OptionSyntax, ...]


@dataclass(frozen=True)
class StatementSyntax:
    """`span` covers the statement without its semicolon; `description` is the comment right above it."""

    span: Span
    description: str | None


@dataclass(frozen=True)
class CreateRelationSyntax(StatementSyntax):
    kind: str
    name: Name
    if_not_exists: bool
    columns: tuple[ColumnSyntax, ...]
    watermarks: tuple[WatermarkSyntax, ...]
    options: tuple[OptionSyntax, ...] | None
    options_span: Span | None
    format: FormatSyntax | None
    append_only: bool


@dataclass(frozen=True)
class CreateViewSyntax(StatementSyntax):
    """`emit` is where EMIT ON WINDOW CLOSE stands."""

    name: Name
    if_not_exists: bool
    query: exp.Expr
    query_span: Span
    emit: Span | None


@dataclass(frozen=True)
class InsertSyntax(StatementSyntax):
    """`rows` for VALUES, one tuple of expressions each with its span, or `query`."""

    table: Name
    columns: tuple[Name, ...] | None
    rows: tuple[tuple[Span, tuple[exp.Expr, ...]], ...] | None
    query: exp.Expr | None
    query_span: Span


@dataclass(frozen=True)
class FlushSyntax(StatementSyntax):
    pass


@dataclass(frozen=True)
class DropSyntax(StatementSyntax):
    kind: Name
    name: Name
    if_exists: bool


@dataclass(frozen=True)
class ShowSyntax(StatementSyntax):
    what: str
    kind: Name | None
    name: Name | None


@dataclass(frozen=True)
class DescribeSyntax(StatementSyntax):
    name: Name
    extended: bool


@dataclass(frozen=True)
class ExplainSyntax(StatementSyntax):
    """Of a name, or of a CREATE statement that has not run."""

    name: Name | None
    create: CreateRelationSyntax | CreateViewSyntax | None


@dataclass(frozen=True)
class SelectSyntax(StatementSyntax):
    query: exp.Expr
