"""What a sink is, and which options each of its connectors has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from tidegate.errors import Location
from tidegate.sql.formats import Format
from tidegate.sql.kafka_options import KafkaSinkOptions
from tidegate.sql.option_types import ConnectorOptions, Filled, Problem, SinkOptions

if TYPE_CHECKING:
    from tidegate.sql.catalog import View

#: Behind a sink's name: its own view, if it has a query.
VIEW_SUFFIX = "$rows"


def _table(value: Any) -> Any:
    parts = str(value).split(".")
    if len(parts) > 2 or not all(part.strip() for part in parts):
        raise ValueError("expected a name, or namespace.name")
    return value


class AppendingSinkOptions(SinkOptions):
    """Of a connector that can't change what it has delivered."""

    def problems(self) -> Iterator[Problem]:
        if self.upserts:
            message = (
                f"connector {self.connector} only appends: it can't replace the rows of an amended window"
            )
            hint = "connector = 'iceberg', or 'kafka' with key.columns; or amendments = 'ignore'"
            yield Problem("TG404", "amendments", message, hint)


class FilesystemSinkOptions(AppendingSinkOptions):
    """`connector = 'filesystem'`: files in a folder that is this sink's alone."""

    connector: Literal["filesystem"] = "filesystem"
    path: Filled


class IcebergSinkOptions(SinkOptions):
    """`connector = 'iceberg'`: an ordinary table in the warehouse's catalog, `table` or `namespace.table`; by default
    it has the sink's name."""

    connector: Literal["iceberg"] = "iceberg"
    table: Annotated[str, BeforeValidator(_table)] | None = None


class ConsoleSinkOptions(AppendingSinkOptions):
    """`connector = 'console'`: rows on the screen, of each delivery the first `rows`."""

    connector: Literal["console"] = "console"
    rows: Annotated[int, Field(gt=0, le=10_000)] = 20


SINK_CONNECTORS: dict[str, type[ConnectorOptions]] = {
    "filesystem": FilesystemSinkOptions,
    "iceberg": IcebergSinkOptions,
    "console": ConsoleSinkOptions,
    "kafka": KafkaSinkOptions,
}
LATER_SINK_CONNECTORS = (
    "jdbc",
    "s3",
    "redis",
    "elasticsearch",
    "clickhouse",
    "snowflake",
    "blackhole",
)


@dataclass(frozen=True)
class Sink:
    """Delivers the final rows of a view, or the on-time rows of a relation, to somewhere else: each once; and again
    what is amended later, if it upserts amendments (B2).

    `upstream`: what it delivers. `view`: with a query of its own, that query as a view called `<sink>$rows`, which is
    then also the upstream. `format`: how files are written; None where the connector has its own.
    """

    name: str
    upstream: str
    view: View | None
    connector: SinkOptions
    format: Format | None
    definition: str
    description: str | None = None
    location: Location | None = field(default=None, compare=False)

    @property
    def place(self) -> str:
        """Where the rows go: a folder, a table, a topic, or the console."""
        if isinstance(self.connector, FilesystemSinkOptions):
            return self.connector.path
        if isinstance(self.connector, KafkaSinkOptions):
            return self.connector.topic
        if isinstance(self.connector, IcebergSinkOptions):
            return self.connector.table or self.name
        return "console"


class Sinks:
    """The sinks of a catalog, in the order of definition; names are looked up whatever their case."""

    def __init__(self) -> None:
        self._sinks: dict[str, Sink] = {}

    def __contains__(self, name: str) -> bool:
        return name.casefold() in self._sinks

    def __iter__(self) -> Iterator[Sink]:
        return iter(self._sinks.values())

    def find(self, name: str) -> Sink | None:
        """The sink of this name, or None."""
        return self._sinks.get(name.casefold())

    def of(self, upstream: str) -> tuple[Sink, ...]:
        """Those that deliver this view or relation."""
        return tuple(s for s in self if s.upstream.casefold() == upstream.casefold())

    def add(self, sink: Sink) -> None:
        """The name is free: `Catalog.add_sink` sees to that."""
        self._sinks[sink.name.casefold()] = sink

    def drop(self, name: str) -> Sink:
        """Forget it; KeyError if there is none of this name."""
        return self._sinks.pop(name.casefold())
