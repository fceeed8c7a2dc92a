"""What simulated projects are made of: one source, some views over it, maybe a sink; with what the oracle says of each.

Times are whole seconds since `BASE`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.oracles.oracle import Row
from tests.oracles.sessions import closed, is_closed, sessions
from tests.oracles.windows import Windows, final, grouped, hop, tumble
from tests.simulate.scripts.topic_acts import Topic
from tests.simulate.world.broker import ADDRESS, SINK_TOPIC, SOURCE_TOPIC

BASE = datetime(2026, 1, 1, tzinfo=UTC)
DELAY = 20
#: Where watermarks may run ahead of event times: by so much, at values above this one.
AHEAD, HIGH = 30, 7

Shown = tuple[Any, ...]
#: Emitted rows of what a view reads, and the watermark in force, to the view's own rows.
Truth = Callable[[Sequence[Row], int | None], list[Shown]]

SOURCE = """CREATE {kind} events (id INT, p VARCHAR, k VARCHAR, v INT, ts TIMESTAMP,
    WATERMARK FOR ts AS {watermark})
WITH (connector = 'filesystem', path = 'input', partition.columns = 'p', max_files_per_batch = '{files}')
FORMAT PLAIN ENCODE JSON;
"""
BEHIND = "ts - INTERVAL '20 seconds'"
TOPIC = """CREATE SOURCE events (id INT, k VARCHAR, v INT, ts TIMESTAMP,
    WATERMARK FOR ts AS {watermark})
WITH (connector = 'kafka', topic = '{name}', properties.bootstrap.server = '{address}',
    properties.isolation.level = '{level}', on_data_loss = '{loss}', idle_advance = '{advance}',
    max_rows_per_batch = '{rows}')
FORMAT PLAIN ENCODE JSON;
"""


@dataclass(frozen=True)
class View:
    """One view. `columns`: those that are compared, as the truth gives them; times as seconds."""

    name: str
    sql: str
    columns: tuple[str, ...]
    truth: Truth
    #: The same where every late row is absorbed (B1), of rows on time, late rows, and the watermark.
    amended: Callable[[Sequence[Row], Sequence[Row], int | None], list[Shown]] | None = None
    #: Sessions that are open. What a late row joins to one of them waits for it (B2).
    waiting: Truth = lambda rows, mark: []
    #: In which windows a time is, where the view aggregates windows.
    windows: Windows | None = None

    @property
    def of_sessions(self) -> bool:
        """Whether its rows are sessions, whose windows an amendment may change."""
        return self.amended is not None and self.windows is None and "window_start" in self.columns

    def window(self, row: Shown) -> tuple[Any, Any]:
        """The window of a row as the truth gives it; None for rows that are in none."""
        names = ("window_start", "window_end")
        found = [row[self.columns.index(name)] if name in self.columns else None for name in names]
        return found[0], found[1]

    def windows_of(self, row: Row) -> list[tuple[int, int]]:
        """In which windows a row is, of a view that aggregates windows."""
        return [] if self.windows is None or row.event_time is None else self.windows(row.event_time)


def _counted(windows: Windows, keys: Sequence[str]) -> Truth:
    def truth(rows: Sequence[Row], mark: int | None) -> list[Shown]:
        groups = final(grouped(rows, windows, keys), mark)
        return [(*g.keys, g.start, g.end, len(g.rows), _sum(g.rows)) for g in groups]

    return truth


def _together(truth: Truth) -> Callable[[Sequence[Row], Sequence[Row], int | None], list[Shown]]:
    return lambda on_time, late, mark: truth([*on_time, *late], mark)


def _sum(rows: Sequence[Row]) -> int | None:
    values = [row.payload["v"] for row in rows if row.payload["v"] is not None]
    return sum(values) if values else None


def _sessions(rows: Sequence[Row], mark: int | None) -> list[Shown]:
    return [(*s.keys, s.start, s.end, len(s.rows)) for s in closed(sessions(rows, 15, ("k",)), mark)]


def _open_sessions(rows: Sequence[Row], mark: int | None) -> list[Shown]:
    return [
        (*s.keys, s.start, s.end, len(s.rows)) for s in sessions(rows, 15, ("k",)) if not is_closed(s, mark)
    ]


def _sorted(rows: Sequence[Row], mark: int | None) -> list[Shown]:
    """C4: rows below the watermark, each once."""
    return [(row.payload["id"], row.event_time) for row in rows if mark is not None and row.event_time < mark]


VIEWS = {
    view.name: view
    for view in (
        View(
            "tumbling",
            "SELECT k, window_start, window_end, count(*) AS n, sum(v) AS s "
            "FROM TUMBLE(events, ts, INTERVAL '10 seconds') GROUP BY k, window_start, window_end",
            ("k", "window_start", "window_end", "n", "s"),
            _counted(tumble(10), ("k",)),
            _together(_counted(tumble(10), ("k",))),
            windows=tumble(10),
        ),
        View(
            "hopping",
            "SELECT k, window_start, window_end, count(*) AS n, sum(v) AS s "
            "FROM HOP(events, ts, INTERVAL '10 seconds', INTERVAL '30 seconds') "
            "GROUP BY k, window_start, window_end",
            ("k", "window_start", "window_end", "n", "s"),
            _counted(hop(10, 30), ("k",)),
            _together(_counted(hop(10, 30), ("k",))),
            windows=hop(10, 30),
        ),
        View(
            "visits",
            "SELECT k, window_start, window_end, count(*) AS n "
            "FROM SESSION(events, ts, k, INTERVAL '15 seconds') GROUP BY k, window_start, window_end",
            ("k", "window_start", "window_end", "n"),
            _sessions,
            _together(_sessions),
            _open_sessions,
        ),
        View("sorted", "SELECT id, ts FROM events", ("id", "ts"), _sorted),
    )
}
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
    the source is a table WITH TTL, whose rows are changes of the row of their key."""

    views: tuple[str, ...]
    files_per_batch: int = 1
    sink: bool = False
    ahead: bool = False
    topic: Topic | None = None
    sent: str | None = None
    ttl: bool = False

    @property
    def delivers(self) -> bool:
        """Whether it has a sink."""
        return self.sink or self.sent is not None

    def sql(self) -> str:
        """Its definitions."""
        text = self._source()
        for name in self.views:
            text += f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name].sql} EMIT ON WINDOW CLOSE;\n"
        return text + self._sink()

    def _source(self) -> str:
        ahead = f"CASE WHEN v > {HIGH} THEN ts + INTERVAL '{AHEAD} seconds' ELSE {BEHIND} END"
        watermark = ahead if self.ahead else BEHIND
        if self.topic is None:
            kind, more = ("TABLE", " WITH TTL, PRIMARY KEY (k)") if self.ttl else ("SOURCE", "")
            return SOURCE.format(kind=kind, files=self.files_per_batch, watermark=watermark + more)
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
