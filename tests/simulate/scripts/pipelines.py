"""What simulated projects are made of: one source, some views over it, maybe a sink; with what the oracle says of each.

Times are whole seconds since `BASE`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.oracles.oracle import Row
from tests.simulate.scripts.changes import Definition
from tests.simulate.scripts.topic_acts import Topic
from tests.simulate.scripts.views import VIEWS, Shown, View
from tests.simulate.world.broker import ADDRESS, SINK_TOPIC, SOURCE_TOPIC

BASE = datetime(2026, 1, 1, tzinfo=UTC)
DELAY = 20
#: Where watermarks may run ahead of event times: by so much, at values above this one.
AHEAD, HIGH = 30, 7

SOURCE = """CREATE {kind} {name} (id INT, p VARCHAR, k VARCHAR, v INT, {more}ts TIMESTAMP,
    WATERMARK FOR ts AS {watermark})
WITH (connector = 'filesystem', path = '{path}', partition.columns = 'p', max_files_per_batch = '{files}')
FORMAT PLAIN ENCODE JSON;
"""
#: The folders of sources.
INPUTS = {"events": "input", "others": "input_others"}
BEHIND = "ts - INTERVAL '20 seconds'"
TOPIC = """CREATE SOURCE events (id INT, k VARCHAR, v INT, ts TIMESTAMP,
    WATERMARK FOR ts AS {watermark})
WITH (connector = 'kafka', topic = '{name}', properties.bootstrap.server = '{address}',
    properties.isolation.level = '{level}', on_data_loss = '{loss}', idle_advance = '{advance}',
    max_rows_per_batch = '{rows}')
FORMAT PLAIN ENCODE JSON;
"""


SINK = """CREATE SINK delivered FROM {view} WITH (connector = 'filesystem', path = 'out')
FORMAT PLAIN ENCODE CSV (without_header = true);
"""
SENT = """CREATE SINK delivered FROM {view} WITH (connector = 'kafka', topic = '{name}',
    properties.bootstrap.server = '{address}'{key})
FORMAT PLAIN ENCODE JSON;
"""


@dataclass(frozen=True)
class Pipeline:
    """A project. `sink`: of the first view, files. `ahead`: some rows offer a watermark beyond their event time.
    `topic`: what its source reads, if no folder; `sent`: whether the sink sends to a topic, and what is its key. `ttl`:
    the source is a table WITH TTL, whose rows are changes of the row of their key. `upserts`: what is sent follows
    amendments, by the key of the view's rows. `evolves`: its source has columns that change."""

    views: tuple[str, ...]
    files_per_batch: int = 1
    sink: bool = False
    ahead: bool = False
    topic: Topic | None = None
    sent: str | None = None
    ttl: bool = False
    upserts: bool = False
    evolves: bool = False

    @property
    def sources(self) -> tuple[str, ...]:
        """Those that its views read."""
        return tuple(sorted({"events", *(name for view in self.views for name in VIEWS[view].reads)}))

    @property
    def delivers(self) -> bool:
        """Whether it has a sink."""
        return self.sink or self.sent is not None

    def sql(self, definition: Definition | None = None, queries: Mapping[str, View] = VIEWS) -> str:
        """Its definitions. `definition`: of the columns that change; None: as they are at first. `queries`: what is now
        behind the names of views."""
        columns = (definition or Definition()).sql() if self.evolves else ""
        text = "".join(self._source(name, columns if name == "events" else "") for name in self.sources)
        for name in self.views:
            text += f"CREATE MATERIALIZED VIEW {name} AS {queries[name].sql} EMIT ON WINDOW CLOSE;\n"
        return text + self._sink()

    def _source(self, name: str, columns: str) -> str:
        ahead = f"CASE WHEN v > {HIGH} THEN ts + INTERVAL '{AHEAD} seconds' ELSE {BEHIND} END"
        watermark = ahead if self.ahead else BEHIND
        if self.topic is None or name != "events":
            kind, more = ("TABLE", " WITH TTL, PRIMARY KEY (k)") if self.ttl else ("SOURCE", "")
            return SOURCE.format(
                kind=kind,
                name=name,
                more=columns,
                path=INPUTS[name],
                files=self.files_per_batch,
                watermark=watermark + more,
            )
        return TOPIC.format(
            watermark=watermark,
            name=SOURCE_TOPIC,
            address=ADDRESS,
            level="read_committed" if self.topic.committed else "read_uncommitted",
            loss="record" if self.topic.record else "fail",
            advance=str(self.topic.advance).lower(),
            rows=self.topic.rows,
        )

    def _sink(self) -> str:
        if self.sent is not None:
            key = f", key.columns = '{self.sent}'" if self.sent else ""
            key += ", amendments = 'upsert'" if self.upserts else ""
            return SENT.format(view=self.views[0], name=SINK_TOPIC, address=ADDRESS, key=key)
        return SINK.format(view=self.views[0]) if self.sink else ""

    def strategy(self, row: Row) -> int | None:
        """The watermark that a row offers."""
        if row.event_time is None:
            return None
        value = row.payload["v"]
        leads = self.ahead and value is not None and value > HIGH
        return row.event_time + (AHEAD if leads else -DELAY)


def seconds(value: Any) -> Any:
    """A time as the oracles count; other values as they are."""
    if isinstance(value, datetime):
        return int((value.replace(tzinfo=UTC) - BASE).total_seconds())
    return value


def mark(value: int | None) -> int | None:
    """A watermark as the oracles count, of microseconds since 1970."""
    return None if value is None else value // 1_000_000 - int(BASE.timestamp())


def written(at: int) -> str:
    """A time as it stands in a file."""
    return (BASE + timedelta(seconds=at)).strftime("%Y-%m-%d %H:%M:%S")


def as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as it stands in a file."""
    return {**row, "ts": None if row["ts"] is None else written(row["ts"])}


def line_of(view: View, row: Shown) -> str:
    """A row as a line of the sink's files."""
    times = ("window_start", "window_end", "ts")

    def text(name: str, value: Any) -> str:
        if value is None:
            return ""
        if name in times:
            return (BASE + timedelta(seconds=value)).strftime("%Y-%m-%dT%H:%M:%S.000000")
        return str(value)

    return ",".join(text(name, value) for name, value in zip(view.columns, row, strict=True))
