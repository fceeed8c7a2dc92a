"""Options of `connector = 'kafka'`, of sources and of sinks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from tidegate.confidential import MALFORMED, MALFORMED_HINT, is_malformed
from tidegate.errors import did_you_mean
from tidegate.sql.options.kafka_properties import KNOWN, REFUSED
from tidegate.sql.options.option_types import (
    Boolean,
    ConnectorOptions,
    Encoding,
    Filled,
    Names,
    OptionalSeconds,
    Problem,
    Rows,
    SchemaEvolution,
    Seconds,
    SinkOptions,
    lower,
)

#: RisingWave's name for it, and Kafka's own.
BOOTSTRAP = ("bootstrap.server", "bootstrap.servers")
_PREFIX = "properties."
#: What a log keeps of a message beside its value, partition and offset: its timestamp (W12), key and headers.
MESSAGE_COLUMNS = (
    ("_rowtime", "timestamp"),
    ("_key", "binary"),
    ("_headers", "array<struct<key:string,value:binary>>"),
)


class KafkaOptions(ConnectorOptions):
    """`connector = 'kafka'`: the messages of one topic; partition and order of a row are those of its message.

    `properties`: of the Kafka client, by their names without `properties.`. All text is as written: `${NAME}` is
    expanded where a client is made, and kept nowhere else (`project.kafka.java_properties`). `startup_mode`,
    `startup_timestamp` (ms since 1970): where a source without a log begins; then it continues from its log.
    `idle_timeout` (s, None is off), `idle_advance`: W7. `stall_timeout` (s): W8. `on_data_loss`: what to do if the
    topic no longer holds the next row; 'record' goes on and writes the gap to the log. `reader`: 'java' lets Spark's
    connector read, even where tasks could (`kafka_reader.py`).
    """

    open_prefix: ClassVar[str] = _PREFIX
    live: ClassVar[bool] = True
    encodings: ClassVar[tuple[Encoding, ...]] = ("json", "csv", "avro", "protobuf", "bytes")
    refused_format_options: ClassVar[tuple[str, ...]] = ("without_header",)
    message_columns: ClassVar[tuple[tuple[str, str], ...]] = MESSAGE_COLUMNS
    connector: Literal["kafka"] = "kafka"
    topic: Filled
    properties: dict[str, str] = Field(default_factory=dict)
    startup_mode: Annotated[Literal["earliest", "latest", "timestamp"], BeforeValidator(lower)] = Field(
        "earliest", alias="scan.startup.mode"
    )
    startup_timestamp: Annotated[int, Field(ge=0)] | None = Field(None, alias="scan.startup.timestamp.millis")
    group_prefix: Filled | None = Field(None, alias="group.id.prefix")
    max_rows_per_batch: Rows = 1_000_000
    idle_timeout: OptionalSeconds = 300.0
    idle_advance: Boolean = False
    stall_timeout: Seconds = 300.0
    on_data_loss: Annotated[Literal["fail", "record"], BeforeValidator(lower)] = "fail"
    reader: Annotated[Literal["auto", "java"], BeforeValidator(lower)] = "auto"
    schema_evolution: SchemaEvolution = Field("report", alias="schema.evolution")

    @classmethod
    def known_names(cls) -> tuple[str, ...]:
        return _known_names(cls)

    def problems(self) -> Iterator[Problem]:
        yield from client_problems(self.topic, self.properties)
        if self.startup_mode == "timestamp" and self.startup_timestamp is None:
            hint = "scan.startup.timestamp.millis = '1700000000000', in milliseconds since 1970 (UTC)"
            message = "scan.startup.mode 'timestamp' needs scan.startup.timestamp.millis"
            yield Problem("TG403", "scan.startup.mode", message, hint)
        if self.startup_mode != "timestamp" and self.startup_timestamp is not None:
            message = (
                f"scan.startup.timestamp.millis does nothing with scan.startup.mode '{self.startup_mode}'"
            )
            hint = "scan.startup.mode = 'timestamp', or leave it out"
            yield Problem("TG404", "scan.startup.timestamp.millis", message, hint, at_name=True)
        if self.idle_advance and self.idle_timeout is None:
            message = "idle_advance needs an idle_timeout: without one, no partition ever becomes idle (W7)"
            yield Problem("TG404", "idle_advance", message, "idle_timeout = '5 minutes'")

    def identity(self) -> dict[str, str]:
        """Only the topic: how it is reached, where reading began and how waiting is measured make no other rows."""
        return {"connector": self.connector, "topic": self.topic}


class KafkaSinkOptions(SinkOptions):
    """`connector = 'kafka'`: each row is a message of `topic`. `key`: the columns that make its key, without which
    messages have none; `key_encode`: as a JSON object, or the value of the one column as text. `properties`: as for
    sources."""

    open_prefix: ClassVar[str] = _PREFIX
    encodings: ClassVar[tuple[Encoding, ...]] = ("json",)
    connector: Literal["kafka"] = "kafka"
    topic: Filled
    properties: dict[str, str] = Field(default_factory=dict)
    key: Names = Field((), alias="key.columns")
    key_encode: Annotated[Literal["json", "text"], BeforeValidator(lower)] = Field("json", alias="key.encode")

    @classmethod
    def known_names(cls) -> tuple[str, ...]:
        return _known_names(cls)

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        yield from client_problems(self.topic, self.properties)
        for name, value in self.properties.items():
            lowered, option = name.lower(), _PREFIX + name
            if lowered == "acks" and value.strip().lower() not in ("all", "-1"):
                message = f"{option} must be 'all': a row is delivered only when all in-sync replicas have it"
                yield Problem("TG404", option, message, "write 'all', or leave the option out")
            if lowered == "enable.idempotence" and value.strip().lower() != "true":
                message = f"{option} must be 'true': otherwise, a row that is sent again is stored twice"
                yield Problem("TG404", option, message, "write 'true', or leave the option out")
            if lowered in ("transactional.id", "transaction.timeout.ms"):
                message = f"{option} can't be set: the tasks of a delivery have no transaction in common"
                yield Problem(
                    "TG402",
                    option,
                    message,
                    "leave it out; docs/sinks.md explains what a delivery guarantees",
                    at_name=True,
                )
        if self.upserts and not self.key:
            message = (
                "amendments = 'upsert' needs key.columns: a new message replaces the one of the same key"
            )
            yield Problem(
                "TG403", "amendments", message, "key.columns = '…' names the columns that identify a row"
            )
        if self.key_encode == "text" and len(self.key) != 1:
            given = f"{len(self.key)} columns are given" if self.key else "no column is given"
            message = f"key.encode 'text' needs exactly one column in key.columns, but {given}"
            yield Problem("TG404", "key.encode", message, "key.encode = 'json'")


def _known_names(model: type[ConnectorOptions]) -> tuple[str, ...]:
    own = (field.alias or name for name, field in model.model_fields.items() if name != "properties")
    return (*own, *(_PREFIX + name for name in (BOOTSTRAP[0], *sorted(KNOWN))))


def written_servers(properties: Mapping[str, str]) -> str:
    """The addresses of the broker as they are written in the options: fit for errors, since no variable is expanded."""
    return next(value for name, value in properties.items() if name.lower() in BOOTSTRAP)


def client_problems(topic: str, properties: Mapping[str, str]) -> Iterator[Problem]:
    """What is wrong with a topic and the client's properties: servers missing, a `${` that is no variable, a name
    that is almost one of Kafka's, a property that tidegate sets itself."""
    if is_malformed(topic):
        yield Problem("TG404", "topic", f"topic: {MALFORMED}", MALFORMED_HINT)
    for name, value in properties.items():
        option = _PREFIX + name
        lowered = name.lower()
        if instead := REFUSED.get(lowered):
            yield Problem("TG402", option, f"{option} can't be set: {instead[0]}", instead[1], at_name=True)
        if lowered not in KNOWN and lowered not in BOOTSTRAP:
            near = did_you_mean(option, [_PREFIX + n for n in (*KNOWN, BOOTSTRAP[0])], cutoff=0.93)
            if near:
                yield Problem("TG402", option, f'Kafka has no property "{name}"', near, at_name=True)
        if is_malformed(value):
            yield Problem("TG404", option, f"{option}: {MALFORMED}", MALFORMED_HINT)
    given = [name for name in properties if name.lower() in BOOTSTRAP]
    if len(given) > 1:
        message = f"{_PREFIX}{given[1]} and {_PREFIX}{given[0]} cannot both be given"
        yield Problem("TG405", _PREFIX + given[1], message, "keep one of the two", at_name=True)
    if not given:
        hint = "properties.bootstrap.server = 'host:9092'"
        yield Problem(
            "TG403", _PREFIX + BOOTSTRAP[0], "connector kafka needs properties.bootstrap.server", hint
        )
    elif not properties[given[0]].strip():
        yield Problem("TG404", _PREFIX + given[0], f"{_PREFIX}{given[0]}: the value is empty", "host:9092")
