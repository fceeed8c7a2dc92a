"""A made-up state of a live run, and its metrics."""

from __future__ import annotations

from datetime import UTC, datetime

from tidegate.live.metrics import Metrics
from tidegate.store.sinks import SinkStatus
from tidegate.store.status_values import PartitionStatus, ProjectStatus, RelationStatus, ViewStatus

NOON = 1_767_268_800  # 2026-01-01 12:00:00 UTC

MICROS = NOON * 1_000_000


def partition(name: str, seconds: int, state: str, end: int | None) -> PartitionStatus:
    at = MICROS + seconds * 1_000_000
    waits = None if end is None else end - 90
    return PartitionStatus(name, at, "", 90, 80, 9, 1, state, at + 5_000_000, "", end, lag_rows=waits)


STATUS = ProjectStatus(
    "shop",
    "local",
    "warehouse",
    (
        RelationStatus(
            name="clicks",
            kind="source",
            ran=True,
            raw=180,
            on_time=160,
            late=18,
            rejected=2,
            epoch=4,
            time_column="ts",
            time_kind="TIMESTAMP",
            watermark=MICROS,
            watermark_text="",
            behind_newest=None,
            lag=None,
            holds_back=(),
            partitions=(partition("0", 0, "warming (90 of 250)", 100), partition("1", 30, "idle", None)),
            snapshot_id=1,
            committed_at=None,
        ),
        RelationStatus(
            "ids", "source", True, 1, 1, 0, 0, 1, "id", "EPOCH", 7, "7", None, None, (), (), 1, None
        ),
    ),
    (
        ViewStatus(
            name="per_minute",
            ran=True,
            reads=("clicks",),
            emit_on_window_close=True,
            frontier=MICROS - 60_000_000,
            frontier_text="",
            clock=MICROS,
            clock_text="",
            holds_back=(),
            groups=12,
            open=0,
            current=True,
            behind=60.0,
            snapshot_id=1,
            committed_at=None,
            time_kind="TIMESTAMP",
        ),
    ),
    (SinkStatus("out", ("per_minute",), "kafka", "t", True, 3, 4, 1, 10, 2, False, False, None),),
)

HEALTH = {"status": "ok", "groups": {"clicks": {"state": "running", "healthy": True, "failing": []}}}


class Bench:
    """Metrics over a status that can fail, on a clock that stands still."""

    def __init__(self) -> None:
        self.now = 0.0
        self.reads = 0
        self.error: Exception | None = None
        self.metrics = Metrics(
            self._read,
            dict,
            lambda: HEALTH,
            fresh=5.0,
            clock=lambda: self.now,
            now=lambda: datetime.fromtimestamp(NOON + 100, UTC),
        )

    def _read(self) -> ProjectStatus:
        self.reads += 1
        if self.error is not None:
            raise self.error
        return STATUS

    def samples(self) -> dict[tuple[str, tuple[str, ...]], float]:
        """(name, label values) -> value."""
        families = self.metrics.registry.collect()
        return {(s.name, tuple(s.labels.values())): s.value for f in families for s in f.samples}
