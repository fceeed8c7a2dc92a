"""What a statement says, before any name in it is looked up: small frozen records with the place of every
word."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from tidegate.sql.dialect.text import Span
from tidegate.sql.dialect.types import SparkType


@dataclass(frozen=True)
class Name:
    """A name or word, without its quotes."""

    text: str
    span: Span


@dataclass(frozen=True)
class ColumnSpans:
    """Where the definition of a column stands, and the parts of it that ALTER changes."""

    whole: Span
    type: Span | None = None
    not_null: Span | None = None
    renamed_from: Span | None = None


@dataclass(frozen=True)
class ColumnSyntax:
    """`renamed_from`: what the column was called before (`RENAMED FROM old`). `spans`: None for one that INCLUDE
    makes."""

    name: Name
    type: SparkType | None
    nullable: bool
    generated: exp.Expr | None
    comment: str | None
    primary_key: Span | None = None
    renamed_from: Name | None = None
    spans: ColumnSpans | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class PrimaryKeySyntax:
    """`PRIMARY KEY (a, b)`, or PRIMARY KEY behind one column."""

    columns: tuple[Name, ...]
    span: Span


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
    primary_keys: tuple[PrimaryKeySyntax, ...] = ()


@dataclass(frozen=True)
class CreateViewSyntax(StatementSyntax):
    """`emit` is where EMIT ON WINDOW CLOSE stands; `renamed_from` what the view was called before."""

    name: Name
    if_not_exists: bool
    query: exp.Expr
    query_span: Span
    emit: Span | None
    renamed_from: Name | None = None


@dataclass(frozen=True)
class CreateSinkSyntax(StatementSyntax):
    """`CREATE SINK name FROM upstream | AS query WITH (…) FORMAT …`; `emit` as in `CreateViewSyntax`."""

    name: Name
    if_not_exists: bool
    upstream: Name | None
    query: exp.Expr | None
    query_span: Span | None
    emit: Span | None
    options: tuple[OptionSyntax, ...] | None
    options_span: Span | None
    format: FormatSyntax | None


@dataclass(frozen=True)
class AlterWatermarkSyntax(StatementSyntax):
    """`ALTER TABLE|SOURCE name ALTER|MODIFY WATERMARK FOR column AS expression [WITH TTL]` (W13)."""

    kind: Name
    name: Name
    watermark: WatermarkSyntax


@dataclass(frozen=True)
class AlterColumnSyntax(StatementSyntax):
    """`ALTER TABLE|SOURCE name` and one action: `ADD COLUMN definition`, `DROP COLUMN column`, `RENAME COLUMN column TO
    to`, `ALTER COLUMN column TYPE type` or `ALTER COLUMN column DROP NOT NULL` (E1 to E3). `written`: the definition
    or the type."""

    kind: Name
    name: Name
    action: Literal["add", "drop", "rename", "type", "nullable"]
    column: Name
    to: Name | None = None
    written: Span | None = None


@dataclass(frozen=True)
class ResetWatermarkSyntax(StatementSyntax):
    """`ALTER TABLE|SOURCE name RESET WATERMARK TO 'ts'` (W9); `value` is the text in the quotes."""

    kind: Name
    name: Name
    value: Name


@dataclass(frozen=True)
class InsertSyntax(StatementSyntax):
    """`rows` for VALUES, one tuple of expressions each with its span, or `query`."""

    table: Name
    columns: tuple[Name, ...] | None
    rows: tuple[tuple[Span, tuple[exp.Expr, ...]], ...] | None
    query: exp.Expr | None
    query_span: Span


@dataclass(frozen=True)
class UpdateSyntax(StatementSyntax):
    """`assignments`: columns with their new values, in the order of the statement."""

    table: Name
    assignments: tuple[tuple[Name, exp.Expr], ...]
    where: exp.Expr | None


@dataclass(frozen=True)
class DeleteSyntax(StatementSyntax):
    table: Name
    where: exp.Expr | None


@dataclass(frozen=True)
class FlushSyntax(StatementSyntax):
    pass


@dataclass(frozen=True)
class SetSyntax(StatementSyntax):
    """`SET name = value`, or RESET (`value` None; of everything: `name` None too)."""

    name: Name | None
    value: Name | None


@dataclass(frozen=True)
class ShowSettingSyntax(StatementSyntax):
    """`SHOW name`, or SHOW ALL (`name` None)."""

    name: Name | None


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
    create: CreateRelationSyntax | CreateViewSyntax | CreateSinkSyntax | None


@dataclass(frozen=True)
class SelectSyntax(StatementSyntax):
    query: exp.Expr
