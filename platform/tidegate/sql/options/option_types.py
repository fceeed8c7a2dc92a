"""What options of WITH (…) are made of: kinds of values, and the base that each connector's options extend."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from tidegate.sql.dialect.intervals import Length, read_length

#: What can stand after ENCODE.
Encoding = Literal["json", "csv", "parquet", "avro", "protobuf", "bytes"]
_SIZES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_OFF = ("off", "none")
#: Options of a format that say where a registry of schemas is: what it has is about messages.
_REGISTRY = tuple(f"schema.registry{name}" for name in ("", ".subject", ".username", ".password"))
_DAY_SECONDS = 86_400


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
        raise ValueError("the value is empty")
    return value


def _boolean(value: Any) -> Any:
    if isinstance(value, str) and value.lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return value


def _seconds(value: Any) -> Any:
    """`'5 minutes'` as seconds."""
    if not isinstance(value, str):
        return value
    length = read_length(value)
    if length is None or length.months or length.days < 0 or length.micros < 0 or length == Length():
        raise ValueError("expected a length of time such as 30 seconds or 5 minutes")
    return length.days * _DAY_SECONDS + length.micros / 1_000_000


def _optional_seconds(value: Any) -> Any:
    return None if isinstance(value, str) and value.strip().lower() in _OFF else _seconds(value)


def lower(value: Any) -> Any:
    """Before-validator of options that are one of a few words."""
    return value.strip().lower() if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
#: What becomes of columns of the input that are not declared (`plan/columns/taken_in.py`).
SchemaEvolution = Annotated[Literal["report", "add"], BeforeValidator(lower)]
Bytes = Annotated[int, BeforeValidator(_bytes), Field(gt=0)]
Rows = Annotated[int, Field(gt=0)]
Filled = Annotated[str, BeforeValidator(_text)]
Boolean = Annotated[bool, BeforeValidator(_boolean)]
Seconds = Annotated[float, BeforeValidator(_seconds)]
OptionalSeconds = Annotated[float | None, BeforeValidator(_optional_seconds)]


@dataclass(frozen=True)
class Problem:
    """What is wrong with options that are each a value of their type. `option`: its name in SQL; the caret stands at
    its value if it was written (at its name with `at_name`), else at the whole WITH (…)."""

    code: str
    option: str
    message: str
    hint: str | None = None
    at_name: bool = False


class ConnectorOptions(BaseModel):
    """Options of WITH (…); the alias of a field is its name in SQL.

    `open_prefix`: every option `<prefix>name` is an entry of the field of the prefix's name, under any name.
    `live`: rows come as they happen, from a broker. `encodings`: what can stand after ENCODE;
    `refused_format_options`: those of a format that mean nothing here. `message_columns`: (name, Spark type) of what a
    log keeps of every message beside its value.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
    open_prefix: ClassVar[str] = ""
    live: ClassVar[bool] = False
    encodings: ClassVar[tuple[Encoding, ...]] = ("json", "csv", "parquet")
    refused_format_options: ClassVar[tuple[str, ...]] = _REGISTRY
    message_columns: ClassVar[tuple[tuple[str, str], ...]] = ()
    connector: str

    @classmethod
    def known_names(cls) -> tuple[str, ...]:
        """The names in SQL of all options there are, as far as they have names."""
        return tuple(field.alias or name for name, field in cls.model_fields.items())

    def problems(self) -> Iterator[Problem]:
        """What is wrong with the options together."""
        return iter(())

    def identity(self) -> dict[str, str]:
        """Those that decide which rows there are and in which order (R4): a change of one is a new definition."""
        given = self.model_dump().items()
        return {k: str(v) for k, v in given if not k.startswith("max_") and k != "schema_evolution"}


class SinkOptions(ConnectorOptions):
    """What every connector of a sink has. `snapshot`: deliver what is there already, from the beginning. `amendments`:
    what becomes of windows that are amended after they were delivered (B2): upserted, where the connector can change
    what it has delivered, or ignored. `on_change`: what an append-only sink delivers of a new version of its view (E6):
    what ends behind the frontier at which it took the place of the earlier one, or everything; None: it asks."""

    refused_format_options: ClassVar[tuple[str, ...]] = ("case", *_REGISTRY)
    snapshot: Boolean = True
    amendments: Annotated[Literal["ignore", "upsert"], BeforeValidator(lower)] = "ignore"
    on_change: Annotated[Literal["from_frontier", "replay"] | None, BeforeValidator(lower)] = None

    def problems(self) -> Iterator[Problem]:
        if self.upserts and self.on_change is not None:
            message = "a sink that upserts gets the differences between the versions of its view (E6)"
            yield Problem("TG404", "on_change", message, "leave out on_change; or amendments = 'ignore'")

    @property
    def upserts(self) -> bool:
        """Whether amended windows are delivered again."""
        return self.amendments == "upsert"
