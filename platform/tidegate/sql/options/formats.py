"""FORMAT PLAIN ENCODE …: which encodings there are, with which options, and what they ask of a source's columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from tidegate.confidential import (
    MALFORMED,
    MALFORMED_HINT,
    is_malformed,
    variables,
)
from tidegate.errors import TidegateError, did_you_mean
from tidegate.sql.dialect.codes import error, unsupported
from tidegate.sql.dialect.text import Text
from tidegate.sql.dialect.types import display
from tidegate.sql.grammar.syntax import ColumnSyntax, FormatSyntax
from tidegate.sql.options.option_types import ConnectorOptions, Encoding, Problem
from tidegate.sql.options.options import located, once

LOCATION, REGISTRY = "schema.location", "schema.registry"
SUBJECT, USERNAME, PASSWORD = (f"{REGISTRY}.{name}" for name in ("subject", "username", "password"))
MESSAGE = "message"
_SCHEMA = (LOCATION, REGISTRY, SUBJECT, USERNAME, PASSWORD)
#: How a registry is reached: nothing of it decides what a row is.
ACCESS = (REGISTRY, USERNAME, PASSWORD)

FORMAT_OPTIONS: dict[str, tuple[str, ...]] = {
    "json": ("timestamp_format", "case", REGISTRY, SUBJECT, USERNAME, PASSWORD),
    "csv": ("without_header", "delimiter", "null_value", "timestamp_format"),
    "parquet": (),
    "avro": _SCHEMA,
    "protobuf": (MESSAGE, *_SCHEMA),
    "bytes": (),
}
_FILES = ConnectorOptions.encodings
_LATER = ("UPSERT", "DEBEZIUM", "DEBEZIUM_MONGO", "MAXWELL", "CANAL")


class Format(BaseModel):
    """How rows are written. `options`: those that were given, by their names in SQL and as written (`${NAME}` is not
    expanded): CSV `without_header` ('true' or 'false', files only), `delimiter`, `null_value`, `timestamp_format`;
    JSON `timestamp_format`, `case` ('sensitive' or 'insensitive': how names are compared) and `schema.registry`; AVRO
    and PROTOBUF `schema.location` (a file of the project) or `schema.registry`, and PROTOBUF `message`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    encode: Encoding
    options: dict[str, str] = {}

    def identity(self) -> str:
        """What decides rows (R4): all but how a registry is reached."""
        kept = {name: value for name, value in self.options.items() if name not in ACCESS}
        if self.encode == "json" and REGISTRY in self.options:
            # A message may begin with the id of a schema. (No schema decides what JSON is.)
            kept = {name: value for name, value in kept.items() if name != SUBJECT} | {"framed": "true"}
        return str(self.model_copy(update={"options": kept}))


#: The names of a schema's fields; None where the schema can't be looked at (there is no such file, or it is in a
#: registry). Raises TidegateError for a file that holds no schema.
SchemaReader = Callable[[Format], Sequence[str] | None]


def read_format(
    text: Text, syntax: FormatSyntax, connector: ConnectorOptions | type[ConnectorOptions] = ConnectorOptions
) -> Format:
    """FORMAT PLAIN ENCODE … of a connector, checked. Raises TG402–TG406, TG410."""
    if syntax.format.text.upper() != "PLAIN":
        where = text.at(syntax.format.span)
        if syntax.format.text.upper() in _LATER:
            raise unsupported(
                f"FORMAT {syntax.format.text.upper()}",
                where,
                "write FORMAT PLAIN, with which rows can only be added",
            )
        hint = did_you_mean(syntax.format.text, ["PLAIN"]) or "write FORMAT PLAIN"
        raise error("TG406", f'unknown format "{syntax.format.text}"', where, hint)
    encode = _encoding(text, syntax, connector)
    given = once(text, syntax.options)
    known = tuple(n for n in FORMAT_OPTIONS[encode] if n not in connector.refused_format_options)
    for name, option in given.items():
        if name not in known:
            where, what = text.at(option.name.span), encode.upper()
            if name in FORMAT_OPTIONS[encode]:
                message = (
                    (
                        "the option case applies only to reading: a sink writes the names of its columns as "
                        "they are"
                    )
                    if name == "case"
                    else f"the option {name} applies only to files: a message has no header"
                    if name == "without_header"
                    else f"the option {name} applies only to messages of a source"
                )
                raise error("TG402", message, where, "leave it out")
            options = f"available options: {', '.join(known)}" if known else None
            meant = did_you_mean(name, known) or options
            raise error("TG402", f'{what} has no option "{option.name.text}"', where, meant)
        problem = _value_problem(name, option.value)
        if problem:
            raise error("TG404", f"{name}: {problem}", text.at(option.value_span))
    for wrong in _problems(encode, {name: option.value for name, option in given.items()}):
        raise located(text, given, text.at(syntax.encode.span), wrong)
    return Format(encode=encode, options={n: _value(n, o.value) for n, o in given.items()})


def _encoding(
    text: Text, syntax: FormatSyntax, connector: ConnectorOptions | type[ConnectorOptions]
) -> Encoding:
    encode = syntax.encode.text.lower()
    for known_encoding in connector.encodings:
        if encode == known_encoding:
            return known_encoding
    where, known = text.at(syntax.encode.span), [name.upper() for name in connector.encodings]
    available = f"available encodings: {', '.join(known)}"
    if encode == "parquet":
        raise error("TG406", "PARQUET is a format of files, not of messages", where, available)
    if encode in FORMAT_OPTIONS:
        raise unsupported(f"ENCODE {encode.upper()}", where, available)
    hint = did_you_mean(encode, connector.encodings) or available
    raise error("TG406", f'unknown encoding "{syntax.encode.text}"', where, hint)


def _value_problem(name: str, value: str) -> str | None:
    if name == "without_header" and value.lower() not in ("true", "false"):
        return "expected true or false"
    if name == "case" and value.lower() not in ("sensitive", "insensitive"):
        return "expected sensitive or insensitive"
    if name == "delimiter" and len(value.replace("\\t", "\t")) != 1:
        return "expected one character"
    if name in (*_SCHEMA, MESSAGE) and not value.strip():
        return "the value is empty"
    return None


def _value(name: str, value: str) -> str:
    if name in ("without_header", "case"):
        return value.lower()
    return value.replace("\\t", "\t") if name == "delimiter" else value


def _problems(encode: str, given: Mapping[str, str]) -> Iterator[Problem]:
    """What is wrong with the options of AVRO and PROTOBUF together."""
    if encode not in ("avro", "protobuf", "json"):
        return
    example = "schemas/orders.avsc" if encode == "avro" else "schemas/orders.desc"
    for name in ACCESS:
        if is_malformed(given.get(name, "")):
            yield Problem("TG404", name, f"{name}: {MALFORMED}", MALFORMED_HINT)
    url = given.get(REGISTRY)
    if url is not None and not variables(url) and not re.match(r"https?://[^/]", url):
        message = f"{REGISTRY}: expected an address such as https://registry.example.com"
        yield Problem("TG404", REGISTRY, message)
    if url is None and LOCATION not in given and encode != "json":
        hint = f"write ({LOCATION} = '{example}') to use a file of the project, or ({REGISTRY} = 'https://…')"
        yield Problem("TG403", LOCATION, f"{encode.upper()} needs a schema", hint)
    if url is not None and LOCATION in given and encode == "avro":
        message = (
            f"{LOCATION} and {REGISTRY} cannot both be given: a registry has the writer's schema "
            "of every message"
        )
        yield Problem("TG404", LOCATION, message, "keep one of the two", at_name=True)
    for name in (SUBJECT, USERNAME, PASSWORD):
        if name in given and url is None:
            yield Problem(
                "TG404", name, f"{name} needs {REGISTRY}", f"{REGISTRY} = 'https://…'", at_name=True
            )
    if encode == "protobuf" and MESSAGE not in given and LOCATION in given:
        hint = "write message = 'package.Name', as it is named in the .proto file"
        yield Problem("TG403", MESSAGE, "PROTOBUF needs the name of its message", hint)


def check_columns(
    text: Text,
    syntax: FormatSyntax,
    form: Format,
    columns: Sequence[ColumnSyntax],
    schemas: SchemaReader | None,
) -> None:
    """What an encoding asks of the columns that are read: BYTES exactly one BYTEA (TG214); AVRO and PROTOBUF fields of
    the schema (TG202), where it can be looked at."""
    stored = [c for c in columns if c.generated is None]
    if form.encode == "bytes":
        for column in stored:
            if str(column.type) != "binary" or len(stored) > 1:
                what = f'"{column.name.text}" is {display(str(column.type))}'
                message = f"{what}: with ENCODE BYTES, a source has exactly one column, of type BYTEA"
                if str(column.type) == "binary":
                    message = (
                        f"this source declares {len(stored)} columns: with ENCODE BYTES, it has exactly one, "
                        "of type BYTEA"
                    )
                hint = (
                    "declare payload BYTEA, and compute the rest from it in generated columns: name TYPE "
                    "AS expression"
                )
                raise error("TG214", message, text.at(column.name.span), hint)
    fields = _fields(text, syntax, form, schemas)
    for column in stored if fields is not None else ():
        if column.name.text.casefold() not in {field.casefold() for field in fields or ()}:
            location = form.options[LOCATION]
            hint = (
                did_you_mean(column.name.text, fields or ())
                or f"its fields are {', '.join((fields or ())[:20])}"
            )
            message = f'the schema {location} has no field "{column.name.text}"'
            raise error("TG202", message, text.at(column.name.span), hint)


def _fields(
    text: Text, syntax: FormatSyntax, form: Format, schemas: SchemaReader | None
) -> Sequence[str] | None:
    if schemas is None or LOCATION not in form.options:
        return None
    try:
        return schemas(form)
    except TidegateError as problem:
        # About the message where it is the message that is not there.
        given = once(text, syntax.options)
        of_message = MESSAGE in given and f'"{given[MESSAGE].value}"' in problem.message
        where = text.at(given[MESSAGE if of_message else LOCATION].value_span)
        raise TidegateError(problem.code, problem.message, hint=problem.hint, location=where) from None
