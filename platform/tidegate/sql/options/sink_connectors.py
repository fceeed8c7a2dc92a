"""Which options each connector of a sink has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from tidegate.sql.options.kafka_options import KafkaSinkOptions
from tidegate.sql.options.option_types import ConnectorOptions, Filled, Problem, SinkOptions

#: Beside the namespaces of a warehouse: plans and positions (`Storage.work_folder`).
_WORK = "_streams"


def _table(value: Any) -> Any:
    parts = str(value).split(".")
    if len(parts) > 2 or not all(part.strip() for part in parts):
        raise ValueError("expected a name, or namespace.name")
    for part in parts:
        # A catalog in a folder makes folders of them: main/orders.x would be within somebody's table.
        odd = re.search(r"[/\\]|\$(?!\{)", part) is not None or not part.isprintable()
        if odd or part != part.strip():
            raise ValueError(f'"{part}" can\'t be a name: tidegate uses names for files and folders')
    if len(parts) == 2 and parts[0].casefold() == _WORK:
        raise ValueError(f"{parts[0]} is reserved: tidegate keeps positions there")
    return value


class AppendingSinkOptions(SinkOptions):
    """Of a connector that can't change what it has delivered."""

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
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
