"""Sources and sinks that reach something outside, and what is refused of them."""

from __future__ import annotations

from tidegate.sql import analyse
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.statements.statements import CreateRelation

FILES = "CREATE SOURCE s (id INT) WITH (connector = '{connector}', path = '{path}') FORMAT PLAIN ENCODE JSON;"

KAFKA = (
    "CREATE SOURCE s (id INT) WITH (connector = 'kafka', topic = '{topic}', "
    "properties.bootstrap.server = '{server}'{more}) FORMAT PLAIN ENCODE {encode};"
)

SINK = (
    "CREATE TABLE t (id INT, at TIMESTAMP, WATERMARK FOR at AS at) APPEND ONLY; "
    "CREATE SINK s FROM t WITH (connector = '{connector}', {options}) FORMAT PLAIN ENCODE JSON;"
)


def kafka(server: str = "127.0.0.1:9092", more: str = "", topic: str = "t", encode: str = "JSON") -> str:
    return KAFKA.format(server=server, more=f", {more}" if more else "", topic=topic, encode=encode)


def registry(url: str) -> str:
    return kafka(encode=f"AVRO (schema.registry = '{url}')")


def files(path: str, connector: str = "filesystem") -> str:
    return FILES.format(path=path, connector=connector)


def sink(path: str) -> str:
    return SINK.format(connector="filesystem", options=f"path = '{path}'")


def define(sql: str, catalog: Catalog) -> None:
    """What a session does with CREATE SOURCE and CREATE TABLE."""
    for statement in analyse(sql, catalog):
        if isinstance(statement, CreateRelation):
            catalog.add(statement.relation)
