"""CREATE SOURCE and CREATE TABLE: columns, generated columns, the watermark and its strategy, options."""

from __future__ import annotations

from sqlglot import exp

from tidegate.errors import TidegateError, did_you_mean
from tidegate.sql.catalog import RESERVED_COLUMNS, Column, Relation, Watermark
from tidegate.sql.codes import error, unsupported
from tidegate.sql.connectors import ConnectorOptions, Format, ReplayOptions, read_connector, read_format
from tidegate.sql.create_syntax import refuse_ttl
from tidegate.sql.dialect import parse_expression, tokenize
from tidegate.sql.intervals import constant_ticks, read_interval
from tidegate.sql.rewrite import safe_sql
from tidegate.sql.scope import Scope, columns_of, require_scalar, require_type
from tidegate.sql.syntax import ColumnSyntax, CreateRelationSyntax, Name, WatermarkSyntax
from tidegate.sql.text import Text, node_span
from tidegate.sql.types import SparkType, display
from tidegate.watermark import Column as ColumnStrategy
from tidegate.watermark import Delay, Expression, Strategy, TimeKind


def analyse_relation(text: Text, syntax: CreateRelationSyntax) -> Relation:
    """Raises TG2xx for names and types, TG3xx for the watermark, TG4xx for options."""
    check_object_name(text, syntax.name)
    columns = _columns(text, syntax)
    watermark = _watermark(text, syntax, columns)
    if syntax.kind == "table":
        if syntax.options is not None and syntax.options_span:
            where = text.at(syntax.options_span)
            raise unsupported(
                "WITH (…) on a table", where, "CREATE SOURCE reads from outside; a table takes INSERTs"
            )
        if syntax.format is not None:
            raise unsupported(
                "FORMAT on a table", text.at(syntax.format.format.span), "a table takes INSERTs"
            )
        if watermark is not None and not syntax.append_only:
            where = text.at(syntax.watermarks[0].span)
            hint = "write APPEND ONLY after the columns"
            raise error(
                "TG305", f'table "{syntax.name.text}" has a watermark but is not APPEND ONLY', where, hint
            )
        return _relation(text, syntax, columns, watermark, None, None)
    if syntax.options is None or syntax.options_span is None:
        hint = "WITH (connector = 'filesystem', path = '…') FORMAT PLAIN ENCODE JSON; a table needs none"
        raise error("TG403", f'source "{syntax.name.text}" has no connector', text.at(syntax.name.span), hint)
    connector = read_connector(text, syntax.options, text.at(syntax.options_span))
    if syntax.format is None:
        hint = "FORMAT PLAIN ENCODE JSON, CSV or PARQUET after WITH (…)"
        raise error("TG403", f'source "{syntax.name.text}" has no FORMAT', text.at(syntax.name.span), hint)
    format_ = read_format(text, syntax.format)
    connector = _check_option_columns(text, syntax, connector, columns)
    return _relation(text, syntax, columns, watermark, connector, format_)


def check_object_name(text: Text, name: Name) -> None:
    """TG205 for names that would be mistaken for system tables."""
    if "$" in name.text or not name.text.strip():
        raise error("TG205", f'"{name.text}" can\'t be a name', text.at(name.span), "$ is for system tables")
    if name.text.startswith(".") or any(c in "/\\" or not c.isprintable() for c in name.text):
        raise error(
            "TG205", f'"{name.text}" can\'t be a name', text.at(name.span), "it names files and folders"
        )


def check_column_name(text: Text, name: Name) -> None:
    """TG205 for the columns that tidegate adds itself."""
    if name.text.casefold() in RESERVED_COLUMNS or name.text.casefold().startswith("_key_"):
        hint = f"tidegate adds a column of this name: use {name.text.lstrip('_')}"
        raise error("TG205", f'"{name.text}" is reserved', text.at(name.span), hint)


def _relation(
    text: Text,
    syntax: CreateRelationSyntax,
    columns: tuple[Column, ...],
    watermark: Watermark | None,
    connector: ConnectorOptions | None,
    format_: Format | None,
) -> Relation:
    definition = text.slice(syntax.span)
    where = text.at(syntax.name.span)
    name = syntax.name.text
    return Relation(
        syntax.kind, name, columns, watermark, connector, format_, definition, syntax.description, where
    )


def _columns(text: Text, syntax: CreateRelationSyntax) -> tuple[Column, ...]:
    seen: set[str] = set()
    for column in syntax.columns:
        check_column_name(text, column.name)
        if column.name.text.casefold() in seen:
            raise error("TG206", f'column "{column.name.text}" is there twice', text.at(column.name.span))
        seen.add(column.name.text.casefold())
    if not any(c.generated is None for c in syntax.columns):
        raise error("TG102", f'"{syntax.name.text}" has no column of its own', text.at(syntax.name.span))
    plain = {c.name.text: str(c.type) for c in syntax.columns if c.generated is None}
    done: list[Column] = []
    for column in syntax.columns:
        if column.generated is None:
            done.append(Column(column.name.text, str(column.type), column.nullable, None, column.comment))
            continue
        # A generated column sees all that are not, wherever they stand, and the generated ones before it.
        in_sight = [c for c in done if c.name not in plain] + [Column(n, t) for n, t in plain.items()]
        done.append(_generated(text, syntax, column, in_sight))
    return tuple(done)


def _generated(
    text: Text, syntax: CreateRelationSyntax, column: ColumnSyntax, in_sight: list[Column]
) -> Column:
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
            raise error("TG218", message, where, None if own else f"define {name} first")
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
        message = f'"{column.name.text}" is {display(str(wanted))}, but this is {_shown(found)}'
        raise error("TG214", message, text.at(node_span(column.generated)))
    sql = safe_sql(resolved, scope.lookup)
    if found != wanted:
        sql = f"TRY_CAST({sql} AS {wanted})"
    return Column(column.name.text, str(wanted), column.nullable, sql, column.comment)


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


def _shown(type_: SparkType) -> str:
    return "a number" if not type_.is_exact and type_.is_numeric else display(str(type_))


def _scope(text: Text, syntax: CreateRelationSyntax, columns: list[Column] | tuple[Column, ...]) -> Scope:
    name = syntax.name.text
    return Scope(text, columns_of(columns), frozenset([name.casefold()]), f'in {syntax.kind} "{name}"')


def _watermark(text: Text, syntax: CreateRelationSyntax, columns: tuple[Column, ...]) -> Watermark | None:
    if not syntax.watermarks:
        return None
    if len(syntax.watermarks) > 1:
        where = text.at(syntax.watermarks[1].span)
        raise error("TG302", f'"{syntax.name.text}" has more than one WATERMARK', where, "keep one")
    watermark = syntax.watermarks[0]
    if watermark.ttl is not None:
        refuse_ttl(syntax.kind, text.at(watermark.ttl))
    name = watermark.column.text
    column = next((c for c in columns if c.name.casefold() == name.casefold()), None)
    if column is None:
        hint = did_you_mean(name, [c.name for c in columns])
        message = f'there is no column "{name}" in {syntax.kind} "{syntax.name.text}"'
        raise error("TG202", message, text.at(watermark.column.span), hint)
    kind = TimeKind.from_spark_type(column.type)
    if kind is None:
        needs = "a watermark needs TIMESTAMP, TIMESTAMPTZ, DATE or an integer"
        message = f'"{column.name}" is {display(column.type)}: {needs}'
        hint = f"add a column such as: event_time TIMESTAMP AS CAST({column.name} AS TIMESTAMP)"
        raise error("TG301", message, text.at(watermark.column.span), hint)
    scope = _scope(text, syntax, columns)
    strategy = _strategy(text, scope, watermark, column, kind)
    return Watermark(column.name, kind, strategy, watermark.text)


def _strategy(
    text: Text, scope: Scope, watermark: WatermarkSyntax, column: Column, kind: TimeKind
) -> Strategy:
    resolved = scope.resolve(watermark.expression)
    require_scalar(text, resolved, "in a watermark")
    node = resolved.unnest()
    where = text.at(node_span(watermark.expression))
    if _is_column(node, column):
        return ColumnStrategy()
    if isinstance(node, exp.Add | exp.Sub) and _is_column(node.this.unnest(), column):
        shift = node.expression.unnest()
        if isinstance(shift, exp.Literal) and shift.is_string:
            hint = f"write: INTERVAL {text.slice(node_span(shift))}"
            raise error("TG303", "this is a text, not an INTERVAL", text.at(node_span(shift)), hint)
        try:
            ticks = constant_ticks(text, node.expression, kind)
        except ValueError as problem:
            if kind is TimeKind.EPOCH or not _has_months(node.expression):
                forms = {TimeKind.EPOCH: "an integer", TimeKind.DATE: "INTERVAL '5 days'"}
                hint = "write " + forms.get(kind, "INTERVAL '5 seconds'")
                raise error("TG303", str(problem), text.at(node_span(node.expression)), hint) from None
            # Months differ in length: evaluated row by row.
            ticks = None
        if ticks is not None:
            return Delay(ticks if isinstance(node, exp.Sub) else -ticks)
    found = scope.type(resolved)
    if found is not None and found.name != "void" and str(found) != column.type:
        both = kind is TimeKind.EPOCH and found.is_integer
        if not both:
            message = f"this is {_shown(found)}, but {column.name} is {display(column.type)}"
            hint = f"a watermark has the type of its column: CAST(… AS {display(column.type)})"
            raise error("TG303", message, where, hint)
    sql = safe_sql(resolved, scope.lookup)
    if found is None or str(found) != column.type:
        sql = f"TRY_CAST({sql} AS {column.type})"
    return Expression(sql)


def _has_months(node: exp.Expr) -> bool:
    lengths = [read_interval(i) for i in node.find_all(exp.Interval)]
    return any(length is not None and length.months for length in lengths)


def _is_column(node: exp.Expr, column: Column) -> bool:
    return isinstance(node, exp.Column) and node.name.casefold() == column.name.casefold()


def _check_option_columns(
    text: Text, syntax: CreateRelationSyntax, connector: ConnectorOptions, columns: tuple[Column, ...]
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
    text: Text, syntax: CreateRelationSyntax, span: tuple[int, int], columns: tuple[Column, ...]
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
            raise error("TG404", "filter: this is empty", text.at(span))
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
