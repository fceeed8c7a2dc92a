"""Connectors: which options each has, of what type, with which defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, InstanceOf, PlainSerializer, ValidationError

from tidegate.errors import Location, TidegateError, did_you_mean
from tidegate.sql.dialect.codes import error, unsupported
from tidegate.sql.dialect.query import Query
from tidegate.sql.dialect.text import Text
from tidegate.sql.grammar.syntax import FormatSyntax, OptionSyntax
from tidegate.sql.options.formats import Format
from tidegate.sql.options.kafka_options import KafkaOptions
from tidegate.sql.options.option_types import (
    Bytes,
    ConnectorOptions,
    Filled,
    Names,
    Problem,
    Rows,
    SchemaEvolution,
)
from tidegate.sql.options.options import located, once


class FilesystemOptions(ConnectorOptions):
    """`connector = 'filesystem'`: files below `path`, of one format. Partition and order of a row come from
    the named columns, else from its folder, file name and position. `partitions` names all partitions
    beforehand (W6)."""

    connector: Literal["filesystem"] = "filesystem"
    path: Filled
    partition_columns: Names = Field((), alias="partition.columns")
    order_column: Filled | None = Field(None, alias="order.column")
    partitions: Names = ()
    max_files_per_batch: Rows = 1000
    max_bytes_per_batch: Bytes = 2**30
    schema_evolution: SchemaEvolution = Field("report", alias="schema.evolution")


class ReplayOptions(ConnectorOptions):
    """`connector = 'replay'`: one data set, read in the order of `order_columns` as if it arrived that way.
    `filter` is Spark SQL text: rows for which it is not true are not part of the source."""

    connector: Literal["replay"] = "replay"
    path: Filled
    partition_columns: Names = Field((), alias="partition.columns")
    order_columns: Names = Field((), alias="order.columns")
    filter: Filled | None = None
    max_rows_per_batch: Rows = 50_000


#: Where a row of a log stands, and when it arrived: what `LogOptions.sql` reads and yields beside the gate's columns.
LOG_PLACE = ("_source_partition", "_offset", "_arrival")


class LogOptions(ConnectorOptions):
    """The implicit connector of WATERMARK(…) in FROM (W14), which nobody writes in WITH (…): the on-time rows of
    `relation`'s log. `sql` is Spark SQL that reads `slice`, those rows with `LOG_PLACE`, and yields the gate's columns
    and these three."""

    connector: Literal["log"] = "log"
    relation: str
    sql: Annotated[Query, InstanceOf(), PlainSerializer(str)]
    max_rows_per_batch: Rows = 1_000_000


#: What of a connector and its format an environment does not allow (X1).
Guard = Callable[[ConnectorOptions, Format | None], Iterator[Problem]]

CONNECTORS: dict[str, type[ConnectorOptions]] = {
    "filesystem": FilesystemOptions,
    "replay": ReplayOptions,
    "kafka": KafkaOptions,
}
LATER_CONNECTORS = ("kinesis", "pulsar", "nats", "datagen", "s3", "iceberg")


def read_connector(
    text: Text,
    options: tuple[OptionSyntax, ...],
    whole: Location,
    connectors: Mapping[str, type[ConnectorOptions]] = CONNECTORS,
    later: Sequence[str] = LATER_CONNECTORS,
) -> ConnectorOptions:
    """The options of WITH (…), checked: of one of `connectors`; those in `later` are TG106. Raises TG401–TG405."""
    given = once(text, options)
    if "connector" not in given:
        for option in options:
            if hint := did_you_mean(option.name.text, ["connector"]):
                raise error("TG402", f'unknown option "{option.name.text}"', text.at(option.name.span), hint)
        hint = " or ".join(f"connector = '{name}'" for name in connectors)
        raise error("TG403", "WITH needs a connector", whole, hint)
    chosen = given["connector"]
    model = connectors.get(chosen.value.lower())
    if model is None:
        where = text.at(chosen.value_span)
        there_are = f"available connectors: {', '.join(sorted(connectors))}"
        if chosen.value.lower() in later:
            raise unsupported(f"connector '{chosen.value}'", where, there_are)
        hint = did_you_mean(chosen.value, connectors) or there_are
        raise error("TG401", f"unknown connector '{chosen.value}'", where, hint)
    values = _values(text, model, given)
    values["connector"] = chosen.value.lower()
    try:
        options_ = model(**values)
    except ValidationError as problem:
        raise _invalid(text, model, given, whole, problem) from None
    for wrong in options_.problems():
        raise located(text, given, whole, wrong)
    return options_


def guarded(
    text: Text,
    guard: Guard | None,
    written: tuple[OptionSyntax, ...],
    whole: Location,
    options: ConnectorOptions,
    syntax: FormatSyntax | None,
    form: Format | None,
) -> None:
    """Raises the first that `guard` says, at the option of WITH (…) or of FORMAT that it is about."""
    given = once(text, (*written, *(syntax.options if syntax is not None else ())))
    for wrong in guard(options, form) if guard is not None else ():
        raise located(text, given, whole, wrong)


def _fields(model: type[ConnectorOptions]) -> dict[str, str]:
    """SQL name to field, without the field that open names go into."""
    inside = model.open_prefix.removesuffix(".")
    return {f.alias or name: name for name, f in model.model_fields.items() if not inside or name != inside}


def _values(text: Text, model: type[ConnectorOptions], given: Mapping[str, OptionSyntax]) -> dict[str, Any]:
    """By field. Raises TG402 for an unknown name."""
    fields, prefix = _fields(model), model.open_prefix
    values: dict[str, Any] = {}
    for name, option in given.items():
        if name in fields:
            values[fields[name]] = option.value
        elif prefix and name.startswith(prefix) and name != prefix:
            values.setdefault(prefix.removesuffix("."), {})[option.name.text[len(prefix) :]] = option.value
        else:
            connector = given["connector"].value
            hint = did_you_mean(name, model.known_names()) or f"{connector} has {', '.join(fields)}"
            if prefix and f"{prefix}{name}" in model.known_names():
                hint = f'did you mean "{prefix}{name}"?'
            message = f'connector {connector} has no option "{option.name.text}"'
            raise error("TG402", message, text.at(option.name.span), hint)
    return values


def _invalid(
    text: Text,
    model: type[ConnectorOptions],
    given: Mapping[str, OptionSyntax],
    whole: Location,
    problem: ValidationError,
) -> TidegateError:
    """TG403 or TG404 for the first value that is missing or not of its type."""
    first = problem.errors()[0]
    sql_name = next(s for s, f in _fields(model).items() if first["loc"][:1] in ((f,), (s,)))
    if first["type"] == "missing":
        message = f"connector {given['connector'].value} needs {sql_name}"
        return error("TG403", message, whole, f"{sql_name} = '…'")
    reason = first["msg"].removeprefix("Value error, ")
    hint = None
    if first["type"] in ("int_parsing", "greater_than", "greater_than_equal"):
        reason = "expected a whole number above zero"
    if first["type"] == "literal_error":
        reason = f"expected {first['ctx']['expected']}"
        words = [w for w in first["ctx"]["expected"].split("'") if w.isalpha() and w != "or"]
        hint = did_you_mean(given[sql_name].value, words)
    return error("TG404", f"{sql_name}: {reason}", text.at(given[sql_name].value_span), hint)


def connector_of(options: Sequence[OptionSyntax] | None) -> type[ConnectorOptions]:
    """What WITH (…) names, for those who ask before the rest of it is checked; the bare base if it names none."""
    names = [o.value.lower() for o in options or () if o.name.text.lower() == "connector"]
    return CONNECTORS.get(names[0], ConnectorOptions) if names else ConnectorOptions
