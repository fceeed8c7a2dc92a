"""The engine's way from a topic into a log, in one small world: its connector for Kafka, its feed with durable
plans, its log, gate task, progress and protocol of commits. Only what is outside of them is a value (`outside.py`); the
reading of messages is left out, since a row here is a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest.mock import patch

import pyarrow as pa

from tests.small.agree import STRATEGIES
from tests.small.histories import PARTITIONS, Time
from tests.small.outside import Crash, Durable, Kept, Outside, Table
from tidegate.errors import TidegateError
from tidegate.iceberg.progress import LogProgress
from tidegate.iceberg.protocol import Snapshot
from tidegate.ingest.connector import BatchPlan, BatchRows
from tidegate.ingest.ingest import Log, well_ordered
from tidegate.ingest.sources.kafka import KafkaConnector
from tidegate.ingest.stream import SourceFeed
from tidegate.plan.stages import batch_stages
from tidegate.runtime.stages import Stages
from tidegate.sql.statements.analysis import load_catalog
from tidegate.tasks import gate as gate_task
from tidegate.tasks.memories import MemoryFiles
from tidegate.tasks.writer import WriteTarget
from tidegate.watermark import GateState

NOW = datetime(2026, 1, 1, tzinfo=UTC)

#: What the strategies of `agree.py` are in SQL.
_STRATEGIES = {
    "delayed": "ts - 1",
    "ahead": "ts + CASE WHEN ts % 2 = 1 THEN 1 ELSE -1 END",
    "with_holes": "NULLIF(ts, 2)",
}
_SOURCE = """CREATE {kind} events (k INT{key}, ts BIGINT, WATERMARK FOR ts AS {strategy}{ttl})
WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'nowhere:9092', idle_timeout = 'off')
FORMAT PLAIN ENCODE JSON;
"""

Topic = tuple[tuple[Time, ...], ...]


@cache
def relation(strategy: str, expires: bool) -> Any:
    """The source, or the table WITH TTL, of this strategy."""
    words = ("TABLE", ", PRIMARY KEY (k)", " WITH TTL") if expires else ("SOURCE", "", "")
    kind, key, ttl = words
    text = _SOURCE.format(kind=kind, key=key, ttl=ttl, strategy=_STRATEGIES[strategy])
    catalog = load_catalog([("events.sql", text)])
    found = catalog.get("events")
    return found, Stages(batch_stages(found, lambda name: "small"))


@dataclass(frozen=True)
class Judged:
    """A data file of a log: (partition, offset, event time, outcome, the watermark as of the row)."""

    rows: tuple[tuple[str, int, Time, str, int | None], ...]


@dataclass(frozen=True)
class Written:
    """A progress file of a log."""

    progress: LogProgress


class _Writer:
    """Of the data file that was written last."""

    rows: ClassVar[list[Any]] = []

    def __init__(self, *_: Any) -> None:
        self.rows.clear()

    def add(self, rows: pa.Table) -> None:
        names = ["_source_partition", "_offset", "ts", "_outcome", "_wm"]
        self.rows.extend(tuple(row.values()) for row in rows.select(names).to_pylist())

    def close(self) -> list[dict[str, str]]:
        return []


#: What the gate's task has said of a batch, and the rows that it has written.
_judged: dict[Any, tuple[list[str], Judged]] = {}


#: Whose engine code runs now.
_now: list[Outside] = []


def _put(what: str, content: Any) -> str:
    outside = _now[0]
    uri = f"{what} {len(outside.crashes)} after {outside.durable.ids}"
    outside.effect(f"write {what}", lambda d: d)
    outside.scratch[uri] = content
    return uri


def _write(progress: LogProgress, *_: Any, **__: Any) -> dict[str, str]:
    """As `LogProgress.write`."""
    return {"uri": _put("progress", Written(progress))}


def _load(snapshot: Snapshot, _: Any) -> LogProgress:
    """As `LogProgress.load`: states come back as they were written."""
    uri = snapshot.summary.get("tidegate.progress")
    if uri is None:
        return LogProgress()
    commit = next(one for one in _now[0].durable.commits if one.id == snapshot.commit)
    found: LogProgress = dict(commit.files)[uri].progress
    states = {name: GateState.from_dict(state.to_dict()) for name, state in found.states.items()}
    return replace(found, states=states)


@contextmanager
def played() -> Iterator[None]:
    """While the block runs, logs write and read values."""
    _judged.clear()
    with (
        patch.object(gate_task, "FileWriter", _Writer),
        patch.object(LogProgress, "write", _write),
        patch.object(LogProgress, "load", _load),
    ):
        yield


class SmallConnector(KafkaConnector):
    """Whose messages are times: it plans as users' do, and reads none."""

    def read(self, plan: BatchPlan) -> BatchRows:
        return BatchRows(lambda: plan, ("_offset",), numbering=False, aligned=True)  # type: ignore[arg-type,return-value]


class SmallLog(Log):
    """A log whose rows come as values, and go through the gate's own task."""

    def __init__(self, outside: Outside, topic: Topic, setting: Setting) -> None:
        self.relation, self.stages = relation(setting.strategy, setting.expires)
        self.table, self._topic = Table(outside, "commit log"), topic  # type: ignore[assignment]
        self._offered, self.state = STRATEGIES[setting.strategy], None
        self._memories = MemoryFiles(outside, "memory")  # type: ignore[arg-type]
        self.reload()

    def _target_now(self) -> WriteTarget:
        wm = pa.schema([("_wm", pa.int64())])
        return SimpleNamespace(schema=wm)  # type: ignore[return-value]

    def _judge(self, epoch: int, rows: BatchRows, arrived: datetime, decisions: Any) -> list[dict[str, Any]]:
        if rows.frame is None:
            return []
        task = self._task(epoch, rows, arrived, decisions, sorted_=False)
        batch = self._batch(rows.frame(), task.has_strategy)  # type: ignore[arg-type]
        # The same rows on the same states are judged once in a walk: all else of a task is the same for all.
        names = tuple(str(batch.column(name)) for name in batch.schema.names)
        asked = names, repr(task.states), task.published, task.config
        if asked not in _judged:
            lines = [line for found in task(iter([batch])) for line in found.column(0).to_pylist()]
            _judged[asked] = lines, Judged(tuple(_Writer.rows))
        lines, written = _judged[asked]
        reports = [json.loads(line) | {"files": []} for line in lines]
        reports[0]["files"] = [{"uri": _put("data", written)}]
        assert well_ordered(reports)
        return reports

    def _batch(self, plan: BatchPlan, has_strategy: bool) -> pa.RecordBatch:
        rows = [
            (unit["p"], offset, self._topic[int(unit["p"])][offset])
            for unit in plan.units
            for offset in range(unit["from"], unit["until"])
        ]
        times = [time for _, _, time in rows]
        columns: dict[str, pa.Array] = {
            "ts": pa.array(times, pa.int64()),
            "_source_partition": pa.array([p for p, _, _ in rows]),
            "_offset": pa.array([o for _, o, _ in rows], pa.int64()),
            "_reason": pa.array(["null_event_time" if t is None else None for t in times], pa.string()),
        }
        if has_strategy:
            values = [None if t is None else self._offered(t) for t in times]
            columns["_strategy"] = pa.array(values, pa.int64())
        return pa.RecordBatch.from_pydict(columns)


@dataclass(frozen=True)
class Ran:
    """What one process did: the worlds that a crash before each of its effects leaves, with what was on its way then;
    the world that it left at its end; how it failed, if it did."""

    crashes: tuple[Crash, ...]
    end: Durable
    requests: tuple[Kept | None, ...]
    error: Exception | None = None


@dataclass(frozen=True)
class Setting:
    """What does not change in a walk."""

    strategy: str = "delayed"
    expires: bool = False


def run(
    durable: Durable,
    topic: Topic,
    setting: Setting,
    most: int | None = None,
    land_at: int | None = None,
    lost: str | None = None,
) -> Ran:
    """One process reads all that waits, as `session.run.run_source` does. `most`: rows of a batch; `land_at`, `lost`:
    of `Outside`."""
    outside = Outside(durable, land_at, lost)
    _now[:] = [outside]
    log = SmallLog(outside, topic, setting)
    connector = SmallConnector(
        None,  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
        log.relation,
        log.relation.connector,
        log,
        SimpleNamespace(source=lambda *_: _Broker(topic)),  # type: ignore[arg-type]
        most,
    )
    error = None
    try:
        log.progress.enumerate(connector.pending().partitions)
        storage = SimpleNamespace(filesystem=lambda uri: (outside, uri))
        feed = SourceFeed(storage, log, connector, "work", lambda: NOW)  # type: ignore[arg-type]
        while feed.ready() and feed.advance(lambda event: None):
            pass
        _same(log.progress, _load(log.table.current(), None))
    except (TidegateError, ConnectionError) as found:
        error = found
    return Ran(tuple(outside.crashes), outside.durable, tuple(outside.requests), error)


def _same(goes_on: LogProgress, fresh: LogProgress) -> None:
    """R1: a process that goes on knows what a new one would read."""
    assert goes_on == fresh, (goes_on, fresh)


class _Broker:
    def __init__(self, topic: Topic) -> None:
        self._topic = topic

    def latest(self) -> dict[str, int]:
        return {name: len(rows) for name, rows in zip(PARTITIONS, self._topic, strict=True)}

    def earliest(self) -> dict[str, int]:
        return dict.fromkeys(PARTITIONS, 0)

    def topic_id(self) -> str:
        return "topic"
