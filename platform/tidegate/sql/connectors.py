"""Connectors and formats: which options each has, of what type, with which defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from tidegate.errors import Location, did_you_mean
from tidegate.sql.codes import error, unsupported
from tidegate.sql.syntax import FormatSyntax, OptionSyntax
from tidegate.sql.text import Text

_SIZES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def _names(value: Any) -> Any:
    """`'a, b'` is two names."""
    if not isinstance(value, str):
        return value
    names = tuple(part.strip() for part in value.split(","))
    if not all(names):
        raise ValueError("expected names separated by commas")
    return names


def _bytes(value: Any) -> Any:
    """`'512 MB'`, `'1 GiB'` or a number of bytes."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"\s*(\d+)\s*([A-Za-z]*)\s*", value)
    if match is None or match[2].upper() not in _SIZES:
        raise ValueError("expected a size such as 512 MB or 1 GiB")
    return int(match[1]) * _SIZES[match[2].upper()]


def _text(value: Any) -> Any:
    if isinstance(value, str) and not value.strip():
        raise ValueError("this is empty")
    return value


Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Bytes = Annotated[int, BeforeValidator(_bytes), Field(gt=0)]
Rows = Annotated[int, Field(gt=0)]
Filled = Annotated[str, BeforeValidator(_text)]


class ConnectorOptions(BaseModel):
    """Options of WITH (…); the alias of a field is its name in SQL."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
    connector: str


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


class ReplayOptions(ConnectorOptions):
    """`connector = 'replay'`: one data set, read in the order of `order_columns` as if it arrived that way.
    `filter` is Spark SQL text: rows for which it is not true are not part of the source."""

    connector: Literal["replay"] = "replay"
    path: Filled
    partition_columns: Names = Field((), alias="partition.columns")
    order_columns: Names = Field((), alias="order.columns")
    filter: Filled | None = None
    max_rows_per_batch: Rows = 50_000


class LogOptions(ConnectorOptions):
    """The implicit connector of WATERMARK(…) in FROM (W14), which nobody writes in WITH (…): the on-time rows of
    `relation`'s log. `sql` is Spark SQL that reads `{slice}`, those rows with `_source_partition`, `_offset` and
    `_arrival`, and yields the gate's columns and these three."""

    connector: Literal["log"] = "log"
    relation: str
    sql: str
    max_rows_per_batch: Rows = 1_000_000


class Format(BaseModel):
    """How rows are written in files. `options`: CSV `without_header` ('true' or 'false'), `delimiter`,
    `null_value`, `timestamp_format`; JSON `timestamp_format`; only those that were given, by these names."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    encode: Literal["json", "csv", "parquet"]
    options: dict[str, str] = {}


CONNECTORS: dict[str, type[ConnectorOptions]] = {"filesystem": FilesystemOptions, "replay": ReplayOptions}
LATER_CONNECTORS = ("kafka", "kinesis", "pulsar", "nats", "datagen", "s3", "iceberg")
FORMAT_OPTIONS = {
    "json": ("timestamp_format",),
    "csv": ("without_header", "delimiter", "null_value", "timestamp_format"),
    "parquet": (),
}


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
        there_are = f"there are {' and '.join(connectors)}"
        if chosen.value.lower() in later:
            raise unsupported(f"connector '{chosen.value}'", where, there_are)
        hint = did_you_mean(chosen.value, connectors) or there_are
        raise error("TG401", f"unknown connector '{chosen.value}'", where, hint)
    fields = {field.alias or name: name for name, field in model.model_fields.items()}
    for name, option in given.items():
        if name not in fields:
            hint = did_you_mean(name, fields) or f"{chosen.value} has {', '.join(n for n in fields)}"
            message = f'connector {chosen.value} has no option "{option.name.text}"'
            raise error("TG402", message, text.at(option.name.span), hint)
    values = {fields[name]: option.value for name, option in given.items()}
    values["connector"] = chosen.value.lower()
    try:
        return model(**values)
    except ValidationError as problem:
        first = problem.errors()[0]
        sql_name = next((s for s, f in fields.items() if first["loc"][:1] in ((f,), (s,))), "")
        if first["type"] == "missing":
            raise error(
                "TG403", f"connector {chosen.value} needs {sql_name}", whole, f"{sql_name} = '…'"
            ) from None
        reason = first["msg"].removeprefix("Value error, ")
        if first["type"] in ("int_parsing", "greater_than"):
            reason = "expected a whole number above zero"
        message = f"{sql_name}: {reason}"
        raise error("TG404", message, text.at(given[sql_name].value_span)) from None


def read_format(text: Text, syntax: FormatSyntax) -> Format:
    """FORMAT PLAIN ENCODE …, checked. Raises TG402, TG404–TG406."""
    if syntax.format.text.upper() != "PLAIN":
        where = text.at(syntax.format.span)
        if syntax.format.text.upper() in ("UPSERT", "DEBEZIUM", "DEBEZIUM_MONGO", "MAXWELL", "CANAL"):
            raise unsupported(
                f"FORMAT {syntax.format.text.upper()}", where, "FORMAT PLAIN: rows are only added"
            )
        hint = did_you_mean(syntax.format.text, ["PLAIN"]) or "there is FORMAT PLAIN"
        raise error("TG406", f'unknown format "{syntax.format.text}"', where, hint)
    encode = syntax.encode.text.lower()
    if encode not in FORMAT_OPTIONS:
        where = text.at(syntax.encode.span)
        if encode in ("avro", "protobuf", "bytes"):
            raise unsupported(f"ENCODE {encode.upper()}", where, "there are JSON, CSV and PARQUET")
        hint = did_you_mean(encode, FORMAT_OPTIONS) or "there are JSON, CSV and PARQUET"
        raise error("TG406", f'unknown encoding "{syntax.encode.text}"', where, hint)
    given = once(text, syntax.options)
    known = FORMAT_OPTIONS[encode]
    for name, option in given.items():
        if name not in known:
            hint = did_you_mean(name, known) or (f"there are {', '.join(known)}" if known else None)
            message = f'{encode.upper()} has no option "{option.name.text}"'
            raise error("TG402", message, text.at(option.name.span), hint)
        problem = _format_problem(name, option.value)
        if problem:
            raise error("TG404", f"{name}: {problem}", text.at(option.value_span))
    return Format(encode=encode, options={n: _format_value(n, o.value) for n, o in given.items()})


def _format_problem(name: str, value: str) -> str | None:
    if name == "without_header" and value.lower() not in ("true", "false"):
        return "expected true or false"
    if name == "delimiter" and len(value.replace("\\t", "\t")) != 1:
        return "expected one character"
    return None


def _format_value(name: str, value: str) -> str:
    if name == "without_header":
        return value.lower()
    return value.replace("\\t", "\t") if name == "delimiter" else value


def once(text: Text, options: tuple[OptionSyntax, ...]) -> dict[str, OptionSyntax]:
    """The options by their names in lower case. Raises TG405 for one that is there twice."""
    given: dict[str, OptionSyntax] = {}
    for option in options:
        name = option.name.text.lower()
        if name in given:
            raise error("TG405", f"{name} is there twice", text.at(option.name.span))
        given[name] = option
    return given
