"""What SOURCE_WATERMARK() remembers, made again from the log (W9): as if no row beyond the reset had ever led.

A row that poisoned the watermark has also made every row after it look far out of order, which the next 5,000 rows
would suffer from. So each partition's rows are taken once more, in their order, and those beyond the reset raise
nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tidegate.iceberg.layout import LATE, ON_TIME, ticks_of
from tidegate.tasks.memories import MemoryFiles
from tidegate.tasks.writer import run_task
from tidegate.watermark import GateState, SourceWatermark
from tidegate.watermark.memory import StrategyMemory

if TYPE_CHECKING:
    from tidegate.iceberg.tables import Tables
    from tidegate.sql.catalog.objects import Relation


@dataclass(frozen=True)
class _Relearn:
    """Called by `mapInArrow` with (partition, time in ticks), in order; `before`: rows of each partition that the
    log does not have any more."""

    strategy: SourceWatermark
    limit: int
    before: Mapping[str, int]
    memories: MemoryFiles

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: dict[str, GateState] = {}
        for batch in batches:
            names, times = batch.column(0).to_numpy(zero_copy_only=False), batch.column(1).to_numpy()
            for name in dict.fromkeys(names):
                own = times[names == name]
                if name not in found:
                    found[name] = GateState(memory=self.strategy.resumed(self.before.get(name, 0), None))
                every = np.ones(len(own), dtype=bool)
                offer = self.strategy.offer(found[name].memory, own, every, own <= self.limit)
                found[name].memory = offer.memory
        if found:
            self.memories.put_away(found)
            texts = {name: state.memory.text for name, state in found.items() if state.memory is not None}
            yield pa.RecordBatch.from_pydict({"report": [json.dumps(texts)]})


def relearned(
    tables: Tables,
    relation: Relation,
    table: str,
    snapshot: int | None,
    states: Mapping[str, GateState],
    memories: MemoryFiles,
    limit: int,
) -> dict[str, StrategyMemory | None]:
    """By partition, what the strategy remembers once the watermark was reset to `limit`, by the log at a snapshot.
    Windows over preceding rows (W11) remember values of the log's last rows, and the log stays as it is: so do they."""
    from pyspark.sql import functions as F

    mark = relation.watermark
    if mark is None or not isinstance(mark.strategy, SourceWatermark):
        return {name: state.memory for name, state in states.items()}
    rows = tables.rows(table, snapshot).where(F.col("_outcome").isin(ON_TIME, LATE))
    kept = rows.groupBy("_source_partition").count().collect()  # Bounded: a row for each partition.
    there = {row[0]: row[1] for row in kept}
    before = {name: s.on_time + s.late - there.get(name, 0) for name, s in states.items()}
    narrow = rows.select(
        "_source_partition", ticks_of(mark.column, mark.kind).alias("x"), "_epoch", "_offset"
    )
    narrow = narrow.repartition("_source_partition").sortWithinPartitions(
        "_source_partition", "_epoch", "_offset"
    )
    task = _Relearn(mark.strategy, limit, before, memories)
    found: dict[str, StrategyMemory | None] = {}
    for texts in run_task(narrow.select("_source_partition", "x"), task):
        found |= {name: StrategyMemory(text=text) for name, text in texts.items()}
    return found
