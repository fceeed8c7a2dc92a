"""Random rows, cuts and moments of amendment: revisions on Spark equal the oracle (B1-B3, A1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest

from tests.conftest import Workbench
from tests.oracles.amend import Amended
from tests.oracles.oracle import Decision, Oracle, Row, View, derived
from tests.views.property.test_property_on_spark import SECOND, VIEWS, Case, Play, ticks
from tidegate.amend.run import amend
from tidegate.audit.view import audit_view

pytestmark = pytest.mark.runner("inprocess")

STRATEGY = "ts - INTERVAL '7 seconds'"
MORE = """
CREATE MATERIALIZED VIEW doubled AS SELECT w.window_start, w.window_end, sum(w.n) AS n
FROM TUMBLE(tumbling, window_end, INTERVAL '20 seconds') AS w GROUP BY w.window_start, w.window_end
EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW in_order AS SELECT ts, k, v FROM events EMIT ON WINDOW CLOSE;
"""
IN_ORDER = View("in_order", size=1, keys=("place",), aggregates={"n": ("count", None)})


class Placed(Oracle):
    """An oracle whose rows know where they stand in the log."""

    def read(self, row: Row) -> Decision:
        row.payload["place"] = (row.partition, row.offset, row.payload["k"], row.payload["v"])
        return super().read(row)


class Amending(Play):
    """A case that is amended now and then, on Spark and on the oracle."""

    def __init__(self, workbench: Workbench, case: Case) -> None:
        super().__init__(workbench.assets(more=MORE), case)
        self.oracle = Placed(lambda row: row.event_time - 7 * SECOND, [*VIEWS.values(), IN_ORDER])
        self.amended = {name: Amended(self.oracle, name) for name in self.oracle.views}
        for name in ("doubled", "in_order"):
            self.views[name] = self.session.view_table(self.session.catalog.get(name))

    def amend(self) -> dict[str, int]:
        """How many windows of each view were hit."""
        done = {report.view: report for report in amend(self.session)}
        for name, amended in self.amended.items():
            before = {start: len(amended.absorbed.get(start, [])) for start in amended.absorbed}
            hit = amended.amend()
            late = sum(len(amended.absorbed[start]) - before.get(start, 0) for start in hit)
            assert (done[name].windows, done[name].late) == (len(hit), late), name
        return {name: report.windows for name, report in done.items()}

    def check(self) -> None:
        for name, amended in self.amended.items():
            if name == "in_order":
                rows = sorted((g["window_start"], g["place"]) for g in amended.shows())
                shown = [(ticks(r[0]), *r[1:]) for r in self.session.table(name).collect()]
                assert shown == [(time, *place[2:]) for time, place in rows]
                continue
            columns = ["window_start", "window_end", *self.oracle.views[name].keys, "n", "s"]
            stored = self.session.table(name).select(columns).collect()
            assert Counter((ticks(r[0]), ticks(r[1]), *r[2:]) for r in stored) == Counter(
                tuple(group[column] for column in columns) for group in amended.shows()
            )
            history = self.session.table(f"{name}$revisions").where("NOT is_tombstone")
            found = history.select("window_start", "revision").collect()
            assert Counter((ticks(r[0]), r[1]) for r in found) == Counter(amended.history())
        self.check_doubled()
        for name in self.amended:
            audit = audit_view(self.session, name)
            assert audit.ok, (name, audit.to_dict())

    def check_doubled(self) -> None:
        """The view downstream: sums of what its upstream shows, of the windows that it has closed."""
        marks = derived(VIEWS["tumbling"], self.oracle.g)
        sums: Counter[int] = Counter()
        for group in self.amended["tumbling"].shows():
            sums[group["window_end"] // (20 * SECOND) * 20 * SECOND] += group["n"]
        expected = {start: n for start, n in sums.items() if marks and start + 20 * SECOND <= marks[1]}
        stored = self.session.table("doubled").collect()
        assert {ticks(r["window_start"]): r["n"] for r in stored} == expected
        assert len(stored) == len(expected)


@pytest.mark.slow
def test_B1_B2_B3_property_amendments_equal_the_oracle(new_workbench: Callable[[], Workbench]) -> None:
    seed = Random().randrange(1 << 30)
    print(f"seed {seed}")
    rng = Random(seed)
    now, rows = 0, []
    for _ in range(150):
        now += rng.choice([0, 0, 1, 1, 2, 3])
        behind = rng.choice([0, 0, 2, 5, 15, 40])
        second = None if rng.random() < 0.03 else max(now - behind, 0)
        rows.append((rng.choice("ab"), second, rng.choice("xy"), rng.randrange(6)))
    edges = [0, rng.randrange(40, 120), 150]
    play = Amending(new_workbench(), Case(STRATEGY, rows))
    partitions = {partition for partition, *_ in rows}
    play.oracle.enumerate(partitions)
    play.log.progress.enumerate(partitions)
    for start, end in pairwise(edges):
        play.batch(rows[start:end], scattered=False)
        play.tick()
        play.amend()
    play.check()
    assert play.amended["tumbling"].revisions
    # B3: there is nothing left to do.
    assert set(play.amend().values()) == {0}
    # B1: a backfill finds what is there already.
    again = amend(play.session, ["tumbling", "in_order"], False, after="2025-12-31", upto="2026-01-02")
    assert {r.view: r.windows for r in again} == {"tumbling": 0, "in_order": 0, "doubled": 0}
