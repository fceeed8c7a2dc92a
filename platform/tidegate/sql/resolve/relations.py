"""CREATE SOURCE and CREATE TABLE: columns, generated columns, the watermark and its strategy, options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from sqlglot import exp
from sqlglot.tokens import TokenType

from tidegate.errors import TidegateError, did_you_mean
from tidegate.sql.catalog.objects import CatalogColumn, Relation, Watermark, is_reserved
from tidegate.sql.dialect.clock_literals import refuse_clock_literals
from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.dialect import tokenize
from tidegate.sql.dialect.inner_names import MARK
from tidegate.sql.dialect.parsing import parse_expression
from tidegate.sql.dialect.rewrite import safe_sql
from tidegate.sql.dialect.system_names import ROWTIME
from tidegate.sql.dialect.text import Text, node_span
from tidegate.sql.dialect.types import SparkType, display, parse_ddl
from tidegate.sql.grammar.create_syntax import refuse_ttl
from tidegate.sql.grammar.syntax import ColumnSyntax, CreateRelationSyntax, Name
from tidegate.sql.options.connectors import Guard, ReplayOptions, connector_of, guarded, read_connector
from tidegate.sql.options.evolution import evolution_problem
from tidegate.sql.options.formats import Format, SchemaReader, check_columns, read_format
from tidegate.sql.options.gate_options import (
    future_skew,
    read_gate_options,
    refuse_other_options,
    refuse_without_watermark,
    split_options,
)
from tidegate.sql.options.option_types import ConnectorOptions
from tidegate.sql.options.options import located, once
from tidegate.sql.resolve.hidden import message_columns
from tidegate.sql.resolve.scope import ColumnScope, ScopeColumn, known, require_scalar, require_type
from tidegate.sql.resolve.strategies import analyse_strategy, shown_type
from tidegate.sql.resolve.tables import check_table, primary_key, with_key
from tidegate.watermark import TimeKind

#: Bytes of a name in UTF-8: file systems take 255 for a folder, and the engine puts words behind it.
_LONGEST_NAME = 200


def analyse_relation(
    text: Text,
    syntax: CreateRelationSyntax,
    schemas: SchemaReader | None = None,
    guard: Guard | None = None,
) -> Relation:
    """`schemas`: to compare the columns with a schema file. `guard`: what connectors may reach. Raises TG2xx for names
    and types, TG3xx for the watermark, TG4xx for options."""
    check_object_name(text, syntax.name)
    columns = _columns(text, syntax)
    gate, options = split_options(syntax.options)
    watermark = analyse_watermark(text, syntax, columns)
    if watermark is None and syntax.kind == "table":
        refuse_without_watermark(text, gate, f'table "{syntax.name.text}"')
    key = primary_key(text, syntax, columns)
    columns = with_key(columns, key)
    ttl = syntax.kind == "table" and check_table(text, syntax, watermark, key)
    if syntax.kind == "table" and options and not any(o.name.text.lower() == "connector" for o in options):
        refuse_other_options(text, options)
    if syntax.kind == "table" and not options:
        if syntax.format is not None:
            hint = (
                "add WITH (connector = '…', …), which says where its rows come from; a table without "
                "a connector takes INSERTs"
            )
            raise error("TG403", "FORMAT without a connector", text.at(syntax.format.format.span), hint)
        return _relation(text, syntax, columns, watermark, None, None, key, ttl)
    if syntax.options is None or syntax.options_span is None:
        hint = (
            "add WITH (connector = 'filesystem', path = '…') FORMAT PLAIN ENCODE JSON; only a "
            "table can be without a connector"
        )
        raise error("TG403", f'source "{syntax.name.text}" has no connector', text.at(syntax.name.span), hint)
    connector = read_connector(text, options, text.at(syntax.options_span))
    if syntax.format is None:
        names = [name.upper() for name in connector.encodings]
        hint = f"FORMAT PLAIN ENCODE {', '.join(names[:-1])} or {names[-1]} after WITH (…)"
        what = f'{syntax.kind} "{syntax.name.text}" has no FORMAT'
        raise error("TG403", what, text.at(syntax.name.span), hint)
    format_ = read_format(text, syntax.format, connector)
    guarded(text, guard, options, text.at(syntax.options_span), connector, syntax.format, format_)
    check_columns(text, syntax.format, format_, syntax.columns, schemas)
    if (wrong := evolution_problem(connector, format_, bool(key))) is not None:
        raise located(text, once(text, options), text.at(syntax.options_span), wrong)
    connector = _check_option_columns(text, syntax, connector, columns)
    return _relation(text, syntax, columns, watermark, connector, format_, key, ttl)


def check_object_name(text: Text, name: Name) -> None:
    """TG205 for names that would be mistaken for system tables."""
    if "$" in name.text or not name.text.strip():
        raise error(
            "TG205",
            f'"{name.text}" can\'t be a name',
            text.at(name.span),
            "names with $ are reserved for system tables",
        )
    if name.text.startswith(".") or any(c in "/\\" or not c.isprintable() for c in name.text):
        raise error(
            "TG205",
            f'"{name.text}" can\'t be a name',
            text.at(name.span),
            "tidegate uses the name for files and folders",
        )
    if len(name.text.encode()) > _LONGEST_NAME:
        message = f"this name has {len(name.text.encode())} bytes; at most {_LONGEST_NAME} are allowed"
        raise error(
            "TG205", message, text.at(name.span), "use a shorter name: tidegate uses it for files and folders"
        )


def check_column_name(text: Text, name: Name) -> None:
    """TG205 for the columns that tidegate adds itself, and for names like theirs."""
    if MARK in name.text:
        raise error(
            "TG205", "this name contains the control character 31", text.at(name.span), "leave it out"
        )
    if is_reserved(name.text):
        hint = f"tidegate adds a column with this name: use {name.text.lstrip('_$')}"
        raise error("TG205", f'"{name.text}" is reserved', text.at(name.span), hint)


def _relation(
    text: Text,
    syntax: CreateRelationSyntax,
    columns: tuple[CatalogColumn, ...],
    watermark: Watermark | None,
    connector: ConnectorOptions | None,
    format_: Format | None,
    key: tuple[str, ...] = (),
    ttl: bool = False,
) -> Relation:
    definition = text.slice(syntax.span)
    where = text.at(syntax.name.span)
    name = syntax.name.text
    gate = read_gate_options(text, split_options(syntax.options)[0])
    return Relation(
        syntax.kind,
        name,
        columns,
        watermark,
        connector,
        format_,
        definition,
        syntax.description,
        where,
        key,
        ttl,
        gate,
    )


def _columns(text: Text, syntax: CreateRelationSyntax) -> tuple[CatalogColumn, ...]:
    seen: set[str] = set()
    for column in syntax.columns:
        check_column_name(text, column.name)
        if column.name.text.casefold() in seen:
            raise error("TG206", f'column "{column.name.text}" is given twice', text.at(column.name.span))
        seen.add(column.name.text.casefold())
    if not any(c.generated is None for c in syntax.columns):
        raise error("TG102", f'"{syntax.name.text}" has only generated columns', text.at(syntax.name.span))
    plain = {c.name.text: str(c.type) for c in syntax.columns if c.generated is None}
    done: list[CatalogColumn] = []
    for column in syntax.columns:
        if column.generated is None:
            done.append(_catalog_column(column, str(column.type)))
            continue
        # A generated column sees all that are not, wherever they stand, and the generated ones before it.
        in_sight = [c for c in done if c.name not in plain] + [CatalogColumn(n, t) for n, t in plain.items()]
        done.append(_generated(text, syntax, column, in_sight))
    return tuple(done)


def _generated(
    text: Text, syntax: CreateRelationSyntax, column: ColumnSyntax, in_sight: list[CatalogColumn]
) -> CatalogColumn:
    assert column.generated is not None
    later = {c.name.text.casefold() for c in syntax.columns} - {c.name.casefold() for c in in_sight}
    for used in column.generated.find_all(exp.Column):
        name = used.parts[0].name
        if name.casefold() in later:
            own = name.casefold() == column.name.text.casefold()
            message = (
                f'"{column.name.text}" is computed from {"itself" if own else f"{name}, which comes later"}'
            )
            where = text.at(node_span(used.parts[0]))
            raise error("TG218", message, where, None if own else f"define {name} before it")
    scope = _scope(text, syntax, in_sight)
    resolved = scope.resolve(column.generated)
    require_scalar(text, resolved, "in a generated column")
    found = scope.type(resolved)
    wanted = column.type or (found if found is not None and found.is_exact else None)
    if wanted is None:
        hint = f"write its type: {column.name.text} TIMESTAMP AS …"
        message = f'the type of "{column.name.text}" is not known'
        raise error("TG219", message, text.at(column.name.span), hint)
    if found is not None and not _converts(found, wanted):
        message = f'"{column.name.text}" is {display(str(wanted))}, but this is {shown_type(found)}'
        raise error("TG214", message, text.at(node_span(column.generated)))
    sql = safe_sql(resolved, scope.lookup)
    if found != wanted:
        refuse_clock_literals(text, resolved, scope.type, wanted)
        sql = f"TRY_CAST({sql} AS {wanted})"
    return _catalog_column(column, str(wanted), sql)


def _catalog_column(column: ColumnSyntax, kind: str, generated: str | None = None) -> CatalogColumn:
    before = column.renamed_from.text if column.renamed_from is not None else None
    return CatalogColumn(column.name.text, kind, column.nullable, generated, column.comment, before)


def _converts(found: SparkType, wanted: SparkType) -> bool:
    """Whether a value may be assigned to a column of this type: what a cast would only ever turn into NULL or
    nonsense is an error."""
    times = ("timestamp_ntz", "timestamp", "date")
    if found == wanted or found.name in ("void", "string", "variant"):
        return True
    if found.is_numeric:
        return wanted.is_numeric or wanted.name == "string"
    if found.name in times:
        return wanted.name in (*times, "string")
    if found.name in ("array", "map", "struct"):
        return wanted.name == found.name
    return wanted.name == "string"


def _scope(
    text: Text, syntax: CreateRelationSyntax, columns: list[CatalogColumn] | tuple[CatalogColumn, ...]
) -> ColumnScope:
    """These columns, and what every message has beside them: of Kafka alone it is there before the gate."""
    name, messages = syntax.name.text, dict(connector_of(syntax.options).message_columns)
    hidden = [
        ScopeColumn(c.stored, known(c.type), written=c.name, starred=False)
        for c in (message_columns(messages) if messages else ())
    ]
    seen = (*(ScopeColumn(c.name, known(c.type)) for c in columns), *hidden)
    return ColumnScope(text, seen, frozenset([name.casefold()]), f'in {syntax.kind} "{name}"')


@dataclass(frozen=True)
class TimeColumn:
    """A column that could be added: its `name`, its `type`, and how it follows from the others, as users write it."""

    name: str
    type: str
    sql: str


def as_time(column: CatalogColumn, columns: Sequence[CatalogColumn]) -> TimeColumn | None:
    """The column that holds the time which is in a text or a number; None for other types."""
    taken = {c.name.casefold() for c in columns}
    name = next(n for i in count(1) if (n := f"event_time{i if i > 1 else ''}") not in taken)
    plain = (
        re.fullmatch(r"[A-Za-z_]\w*", column.name)
        and tokenize(Text(column.name))[0].token_type is TokenType.VAR
    )
    written = column.name if plain else '"' + column.name.replace('"', '""') + '"'
    found = parse_ddl(column.type)
    if found.name == "string":
        return TimeColumn(name, "TIMESTAMP", f"CAST({written} AS TIMESTAMP)")
    if found.name in ("double", "float", "decimal"):
        return TimeColumn(name, "TIMESTAMPTZ", f"timestamp_seconds({written})")
    return None


def analyse_watermark(
    text: Text, syntax: CreateRelationSyntax, columns: tuple[CatalogColumn, ...]
) -> Watermark | None:
    """The WATERMARK clause over these columns, with the gate's options.

    Raises TG202, TG301-TG304, TG331, TG403-TG405.
    """
    if not syntax.watermarks:
        return None
    if len(syntax.watermarks) > 1:
        where = text.at(syntax.watermarks[1].span)
        raise error("TG302", f'"{syntax.name.text}" has more than one WATERMARK', where, "keep one")
    watermark = syntax.watermarks[0]
    if watermark.ttl is not None and syntax.kind == "source":
        refuse_ttl(syntax.kind, text.at(watermark.ttl))
    name = watermark.column.text
    column = next((c for c in columns if c.name.casefold() == name.casefold()), None)
    if column is None:
        hint = did_you_mean(name, [c.name for c in columns])
        if name.casefold() == ROWTIME and connector_of(syntax.options).message_columns:
            hint = f"give it a column of its own: event_time TIMESTAMPTZ AS {ROWTIME}"
        message = f'there is no column "{name}" in {syntax.kind} "{syntax.name.text}"'
        raise error("TG202", message, text.at(watermark.column.span), hint)
    kind = TimeKind.from_spark_type(column.type)
    if kind is None:
        needs = "a watermark needs TIMESTAMP, TIMESTAMPTZ, DATE or an integer"
        message = f'"{column.name}" is {display(column.type)}: {needs}'
        hint = "name a column that holds a time"
        if (time := as_time(column, columns)) is not None:
            hint = (
                f"add a column for it, and write the name of that column here: {time.name} "
                f"{time.type} AS {time.sql}"
            )
        raise error("TG301", message, text.at(watermark.column.span), hint)
    scope = _scope(text, syntax, columns)
    given, others = split_options(syntax.options)
    options = read_gate_options(text, given)
    strategy = analyse_strategy(text, scope, watermark, column, kind, options)
    skew = future_skew(text, given, options, kind, column.name, connector_of(others).live)
    by_batch = options.watermark_granularity == "batch"
    return Watermark(column.name, kind, strategy, watermark.text, skew, by_batch)


def _check_option_columns(
    text: Text, syntax: CreateRelationSyntax, connector: ConnectorOptions, columns: tuple[CatalogColumn, ...]
) -> ConnectorOptions:
    """Options that name columns or hold an expression (TG407; TG102, TG2xx inside the string)."""
    known = {c.name.casefold(): c.name for c in columns}
    given = {o.name.text.lower(): o for o in syntax.options or ()}
    for option in ("partition.columns", "order.columns", "order.column"):
        if option not in given:
            continue
        for name in given[option].value.split(","):
            if name.strip().casefold() not in known:
                hint = did_you_mean(name.strip(), known.values())
                where = text.at(given[option].value_span)
                message = f'{option}: there is no column "{name.strip()}"'
                raise error("TG407", message, where, hint)
    if not isinstance(connector, ReplayOptions) or connector.filter is None:
        return connector
    return connector.model_copy(update={"filter": _filter(text, syntax, given["filter"].value_span, columns)})


def _filter(
    text: Text, syntax: CreateRelationSyntax, span: tuple[int, int], columns: tuple[CatalogColumn, ...]
) -> str:
    """The SQL inside a string: carets count from the string's own place in the file where that is
    possible."""
    raw = text.slice(span)
    plain = raw.startswith("'") and "''" not in raw[1:-1] and "\\" not in raw
    if plain:
        # Blanks keep every offset, so locations inside are those of the file.
        tokens_of, inner_text = Text(" " * (span[0] + 1) + raw[1:-1], text.file, text.base_line), text
    else:
        value = next(o.value for o in syntax.options or () if o.value_span == span)
        tokens_of = inner_text = Text(value, text.file, text.base_line)
    try:
        tokens = tokenize(tokens_of)
        if not tokens:
            raise error("TG404", "filter: the value is empty", text.at(span))
        node = parse_expression(inner_text, tokens)
        scope = _scope(inner_text, syntax, columns)
        resolved = scope.resolve(node)
        require_scalar(inner_text, resolved, "in a filter")
        require_type(inner_text, resolved, scope.type(resolved), ("boolean",), "a filter")
    except TidegateError as problem:
        if plain:
            raise
        raise error(problem.code, f"filter: {problem.message}", text.at(span), problem.hint) from None
    return safe_sql(resolved, scope.lookup)
