"""A relation's progress: what the gate must remember between batches, committed with the rows (R1)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.engine.commit import Snapshot
from tidegate.engine.layout import PROGRESS
from tidegate.engine.writer import Target
from tidegate.store.status import UNKNOWN_PARTITION
from tidegate.watermark import GateState, publish, start_watermark


@dataclass(frozen=True)
class ConsumedFile:
    """A file of a file source that is in the log. `modified`: ms since the epoch."""

    path: str
    size: int
    modified: int
    rows: int


@dataclass
class Progress:
    """State after the last commit: epoch, published watermark `G`, and every partition's gate state."""

    epoch: int = 0
    published: int | None = None
    states: dict[str, GateState] = field(default_factory=dict)

    @classmethod
    def load(cls, snapshot: Snapshot, target: Target) -> Progress:
        """Read what the newest commit recorded; empty if there is none."""
        uri = snapshot.summary.get("tidegate.progress")
        if uri is None:
            return cls()
        path = target.data_path + uri.removeprefix(target.data_uri)
        table = pq.read_table(path, filesystem=target.filesystem, columns=["_source_partition", "_progress"])
        states = {}
        for name, entry in zip(
            table.column("_source_partition").to_pylist(), table.column("_progress").to_pylist(), strict=True
        ):
            if name is not None:
                states[name] = GateState.from_dict({k: entry[k] for k in GateState().to_dict()})
        return cls(snapshot.integer("tidegate.epoch") or 0, snapshot.integer("tidegate.watermark"), states)

    def enumerate(self, partitions: Iterable[str]) -> None:
        """Let partitions take part before their first row is judged (W6); those without a row yet start at `G` (R3)."""
        for name in partitions:
            if name != UNKNOWN_PARTITION and not _rows(self.states.get(name)):
                self.states[name] = GateState(watermark=start_watermark(self.published))

    def after(self, epoch: int, judged: dict[str, GateState], last: bool = False) -> Progress:
        """The progress once a batch is committed: new states, and `G` over all that take part (W6).

        `last`: nothing waits behind this batch, so a partition without a row has none, and takes no part. (An
        empty file has a folder, and a row that does not parse can seem to name a partition.)
        """
        states = self.states | judged
        taking_part = [
            s.watermark
            for name, s in states.items()
            if name != UNKNOWN_PARTITION and not (last and not _rows(s))
        ]
        return Progress(epoch, publish(taking_part, self.published), states)

    def totals(self) -> dict[str, int]:
        """Rows so far by outcome, over all partitions."""
        return {
            "on_time": sum(s.on_time for s in self.states.values()),
            "late": sum(s.late for s in self.states.values()),
            "rejected": sum(s.rejected for s in self.states.values()),
        }

    def summary(self, file: dict[str, Any]) -> dict[str, str]:
        """What the snapshot summary says, so that a reader needs no data file for it."""
        facts: dict[str, Any] = {
            "epoch": self.epoch,
            "progress": file["uri"],
            "partitions": len(self.states),
            **self.totals(),
        }
        if self.published is not None:
            facts["watermark"] = self.published
        return {f"tidegate.{key}": str(value) for key, value in facts.items()}

    def write(self, target: Target, at: datetime, files: list[ConsumedFile]) -> dict[str, Any]:
        """Write the progress rows as one small file of the log; its description for the commit."""
        source = {
            "watermark": self.published,
            "published": self.published,
            "state": "active" if self.published is not None else "warming",
            "next_offset": None,
            **self.totals(),
            "max_event_time": max(
                (s.max_event_time for s in self.states.values() if s.max_event_time is not None), default=None
            ),
            "files": [vars(f) for f in files],
        }
        entries = [source]
        for state in self.states.values():
            label = (
                "active" if state.watermark is not None else "empty" if not state.next_offset else "warming"
            )
            entries.append(state.to_dict() | {"published": self.published, "state": label, "files": None})
        names = [None, *self.states]
        schema = pa.schema(
            [
                target.schema.field(n)
                for n in ("_outcome", "_source_partition", "_arrival", "_epoch", "_progress")
            ]
        )
        table = pa.table(
            [
                pa.array([PROGRESS] * len(names)),
                pa.array(names, pa.string()),
                pa.array([at] * len(names), pa.timestamp("us", tz="UTC")),
                pa.array([self.epoch] * len(names)),
                pa.array(entries, schema.field("_progress").type),
            ],
            schema=schema,
        )
        name = f"progress-{self.epoch:08d}-{uuid.uuid4().hex[:12]}.parquet"
        pq.write_table(table, f"{target.data_path}/{name}", filesystem=target.filesystem, compression="zstd")
        size = target.filesystem.get_file_info(f"{target.data_path}/{name}").size
        return {
            "uri": f"{target.data_uri}/{name}",
            "rows": len(names),
            "bytes": size,
            "split": PROGRESS,
            "day": None,
            "bounds": {},
        }


def _rows(state: GateState | None) -> int:
    """How many rows a partition has had."""
    return state.on_time + state.late + state.rejected if state is not None else 0
