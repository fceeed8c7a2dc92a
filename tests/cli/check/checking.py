"""What tests of `tidegate check` share: definitions to be checked, and what is found in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.store.tables import HadoopTable
from tidegate.iceberg.layout import relation_identity, view_identity
from tidegate.project import Project

Call = Callable[..., Any]


SOURCE = """CREATE SOURCE {name} (id INT, note VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts)
WITH (connector = 'filesystem', path = '{path}') FORMAT PLAIN ENCODE JSON;
"""

VIEW = """CREATE MATERIALIZED VIEW {name} AS SELECT window_start, window_end, {what} AS n
FROM TUMBLE({of}, {time}, INTERVAL '1 hour') GROUP BY window_start, window_end{emit};
"""

EMIT = " EMIT ON WINDOW CLOSE"

SINK = "CREATE SINK {name} FROM {of} WITH (connector = 'console');\n"

MEANT = "-- Without EMIT ON WINDOW CLOSE: the day so far.\n"

AVRO = """CREATE SOURCE s (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts)
WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'localhost:9092')
FORMAT PLAIN ENCODE AVRO (schema.location = 'nope.avsc');
"""

OVER = """CREATE MATERIALIZED VIEW v AS
SELECT id, {call} AS n FROM s;
"""


def source(name: str = "s", path: str = "data") -> str:
    return SOURCE.format(name=name, path=path)


def view(name: str, of: str = "s", time: str = "ts", what: str = "count(*)", emit: str = EMIT) -> str:
    return VIEW.format(name=name, of=of, time=time, what=what, emit=emit)


def found(tidegate: Call, *options: str) -> tuple[int, dict[str, Any]]:
    done = tidegate("check", "--json", *options)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, json.loads(done.stdout)


def places(ones: list[dict[str, Any]]) -> list[tuple[str, str, int, int]]:
    return [(o["code"], o["location"]["file"], o["location"]["line"], o["location"]["column"]) for o in ones]


def deploy(bare: Path) -> None:
    """The tables that a run would have made."""
    catalog = Project.load(bare).catalog()
    for item in catalog.order():
        identity = relation_identity(item) if hasattr(item, "connector") else view_identity(item)  # type: ignore[arg-type]
        properties = {"tidegate.identity": identity, "tidegate.definition": item.definition}
        table = HadoopTable(bare / ".tidegate" / "warehouse" / "main" / item.name, properties)
        table.commit({"tidegate.epoch": 1, "tidegate.watermark": 0, "tidegate.frontier": 0})


def errors(tidegate: Call) -> list[tuple[str, str, int, int]]:
    return places(found(tidegate)[1]["errors"])
