"""Random rows, random batch cuts, random ticks: gate, log and views on Spark equal the oracle (W1-W6, C2, W4, A1)."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import SPARK, Workbench
from tests.oracles.oracle import Oracle, Row, View
from tidegate.audit.source import audit_source
from tidegate.audit.view import audit_view
from tidegate.ingest.connector import BatchRows
from tidegate.session.session import Session

pytestmark = pytest.mark.runner("inprocess")

THOROUGH = os.environ.get("TIDEGATE_HYPOTHESIS") == "thorough"
SECOND = 1_000_000
BEGIN = datetime(2026, 1, 1)
ARRIVED = datetime(2026, 1, 1, tzinfo=UTC)

#: (clause, the same in Python). The second runs ahead of the event time, the third is NULL on some rows (W2).
STRATEGIES = {
    "ts - INTERVAL '7 seconds'": lambda row: row.event_time - 7 * SECOND,
    "ts + INTERVAL '5 seconds'": lambda row: row.event_time + 5 * SECOND,
    "CASE WHEN v % 3 = 0 THEN NULL ELSE ts - INTERVAL '2 seconds' END": lambda row: (
        None if row.payload["v"] % 3 == 0 else row.event_time - 2 * SECOND
    ),
}
VIEWS = {
    "tumbling": View(
        "tumbling", size=10 * SECOND, keys=("k",), aggregates={"n": ("count", None), "s": ("sum", "v")}
    ),
    "hopping": View(
        "hopping",
        size=30 * SECOND,
        slide=10 * SECOND,
        offset=3 * SECOND,
        aggregates={"n": ("count", None), "s": ("max", "v")},
        where=lambda row: row.payload["v"] > 1,
        emit_on_window_close=False,
    ),
}
SQL = """
CREATE TABLE events (v INT, k VARCHAR, ts TIMESTAMP NOT NULL, WATERMARK FOR ts AS {strategy}) APPEND ONLY;
CREATE MATERIALIZED VIEW tumbling AS
SELECT window_start, window_end, k, count(*) AS n, sum(v) AS s FROM TUMBLE(events, ts, INTERVAL '10 seconds')
GROUP BY window_start, window_end, k EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW hopping AS
SELECT window_start, window_end, count(*) AS n, max(v) AS s
FROM HOP(events, ts, INTERVAL '10 seconds', INTERVAL '30 seconds', INTERVAL '3 seconds')
WHERE v > 1 GROUP BY window_start, window_end;
"""


@dataclass
class Case:
    """Rows in arrival order: (partition, seconds or None, key, value); `cuts`: where a batch ends; `ticks`: whether
    the views are brought up to date after that batch; `tasks`: shuffle the batch over tasks beforehand."""

    strategy: str
    rows: list[tuple[str, int | None, str, int]]
    cuts: set[int] = field(default_factory=set)
    ticks: list[bool] = field(default_factory=list)
    tasks: list[bool] = field(default_factory=list)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    row = st.tuples(
        st.sampled_from("ab"),
        st.one_of(st.none(), st.integers(0, 90), st.integers(0, 90), st.integers(0, 90)),
        st.sampled_from("xy"),
        st.integers(0, 5),
    )
    rows = draw(st.lists(row, min_size=4, max_size=60))
    cuts = draw(st.sets(st.integers(1, len(rows) - 1), max_size=3))
    flags = st.lists(st.booleans(), min_size=len(cuts) + 1, max_size=len(cuts) + 1)
    return Case(draw(st.sampled_from(sorted(STRATEGIES))), rows, cuts, draw(flags), draw(flags))


class Play:
    """One case on Spark and on the oracle, side by side."""

    def __init__(self, workbench: Workbench, case: Case) -> None:
        self.case = case
        self.session: Session = workbench.assets(events=SQL.format(strategy=case.strategy)).session()
        self.log = self.session.log(self.session.relation("events"))
        self.views = {name: self.session.view_table(self.session.catalog.get(name)) for name in VIEWS}
        self.oracle = Oracle(STRATEGIES[case.strategy], VIEWS.values())
        self.offsets: dict[str, int] = {}

    def run(self) -> None:
        partitions = {partition for partition, *_ in self.case.rows}
        self.oracle.enumerate(partitions)
        self.log.progress.enumerate(partitions)
        edges = [0, *sorted(self.case.cuts), len(self.case.rows)]
        for i, (start, end) in enumerate(pairwise(edges)):
            self.batch(self.case.rows[start:end], scattered=self.case.tasks[i])
            if self.case.ticks[i]:
                self.tick()
        self.tick()

    def batch(self, rows: list[tuple[str, int | None, str, int]], scattered: bool) -> None:
        data = []
        for partition, second, key, value in rows:
            offset = self.offsets.get(partition, 0)
            self.offsets[partition] = offset + 1
            ts = None if second is None else BEGIN + timedelta(seconds=second)
            data.append((value, key, ts, partition, offset))
            time = ticks(ts)
            reject = "null_event_time" if second is None else None
            self.oracle.read(Row(partition, offset, time, reject, {"k": key, "v": value}))
        self.oracle.flush()
        frame = self.session.spark.createDataFrame(
            data, "v int, k string, ts timestamp_ntz, _source_partition string, _offset bigint"
        ).selectExpr("*", "CAST(NULL AS STRING) AS _raw", f"TIMESTAMP '{ARRIVED:%Y-%m-%d}' AS _arrival")
        # Said to be aligned although two tasks may share a partition: the reports have to show it (the order trap).
        frame = frame.repartition(2) if scattered else frame.coalesce(1)
        self.log.add(
            self.log.progress.epoch + 1,
            BatchRows(lambda: frame, ("_offset",), numbering=False, aligned=True),
            ARRIVED,
        )

    def tick(self) -> None:
        for view in self.views.values():
            view.tick()

    def check(self) -> None:
        seen = {
            (r["partition"], r["offset"]): (r["outcome"], ticks(r["watermark"]))
            for r in self.session.table("events$raw").collect()
        }
        decisions = self.oracle.decisions
        assert seen == {(d.row.partition, d.row.offset): (d.outcome, d.found) for d in decisions}
        assert {p: s.watermark for p, s in self.log.progress.states.items()} == self.oracle.wp
        assert self.log.progress.published == self.oracle.g
        for name in VIEWS:
            columns = ["window_start", "window_end", *VIEWS[name].keys, "n", "s"]
            stored = self.session.table(name).select(columns).collect()
            shown = [(ticks(row[0]), ticks(row[1]), *row[2:]) for row in stored]
            expected = [tuple(group[column] for column in columns) for group in self.oracle.shows(name)]
            assert sorted(shown) == sorted(expected)
            assert audit_view(self.session, name).ok
        assert audit_source(self.session, "events").ok


def ticks(value: datetime | None) -> int | None:
    return None if value is None else (value - datetime(1970, 1, 1)) // timedelta(microseconds=1)


@pytest.mark.slow
@pytest.mark.runner("inprocess", "spark", long_run="inprocess")
def test_property_spark_equals_the_oracle(new_workbench: Callable[[], Workbench], runner: str) -> None:
    # (Without a JVM the simulator's histories have random cuts, too.)
    usual, thorough = (1, 4) if runner == SPARK else (8, 24)

    @settings(max_examples=thorough if THOROUGH else usual)
    @given(cases())
    def property(case: Case) -> None:
        play = Play(new_workbench(), case)
        play.run()
        play.check()

    property()
