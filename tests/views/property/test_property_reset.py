"""Random poison, random cuts, a reset at a random place (W9): at the end every view holds what its query says over all
on-time rows of the log, and on the way it never holds anything else of what is final. The truth is plain Python."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

import pytest

from tests.conftest import Workbench
from tests.oracles.oracle import Row
from tests.oracles.over import Call, Rows, over
from tests.oracles.sessions import closed, sessions
from tests.oracles.windows import final, grouped, hop, tumble
from tests.views.property.bundle import instant, plain, with_random_seeds
from tidegate.audit.view import audit_view
from tidegate.session.session import Session

pytestmark = pytest.mark.runner("inprocess")

DELAY, GAP, FAR = 5, 6, 1000
TABLE = """
CREATE TABLE events (c INT, id INT, v INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') APPEND ONLY;
"""
VIEWS = {
    "tumbling": "SELECT c, window_start, window_end, count(*) AS n, sum(v) AS s FROM TUMBLE(events, ts, INTERVAL '10 "
    "seconds') GROUP BY c, window_start, window_end EMIT ON WINDOW CLOSE",
    "hopping": "SELECT c, window_start, window_end, count(*) AS n, sum(v) AS s FROM HOP(events, ts, INTERVAL '5 "
    "seconds', INTERVAL '15 seconds') GROUP BY c, window_start, window_end EMIT ON WINDOW CLOSE",
    "opened": "SELECT c, window_start, window_end, count(*) AS n, sum(v) AS s FROM TUMBLE(events, ts, INTERVAL '10 "
    "seconds') GROUP BY c, window_start, window_end",
    "visits": "SELECT c, window_start, window_end, count(*) AS n, sum(v) AS s FROM SESSION(events, ts, c, INTERVAL '6 "
    "seconds') GROUP BY c, window_start, window_end EMIT ON WINDOW CLOSE",
    "sorted": "SELECT c, id, ts FROM events EMIT ON WINDOW CLOSE",
    "steps": "SELECT c, id, ts, lag(id) OVER (PARTITION BY c ORDER BY ts) AS l, "
    "lead(id) OVER (PARTITION BY c ORDER BY ts) AS f, sum(v) OVER (PARTITION BY c ORDER BY ts) AS s "
    "FROM events EMIT ON WINDOW CLOSE",
    "above": "SELECT window_start, window_end, sum(n) AS n FROM TUMBLE(tumbling, window_end, INTERVAL '30 seconds') "
    "GROUP BY window_start, window_end EMIT ON WINDOW CLOSE",
}


@dataclass
class Gate:
    """W1, W2, W6 and W9 of one partition, in seconds."""

    watermark: int | None = None
    on_time: list[Row] = field(default_factory=list)
    late: int = 0

    def read(self, rows: Iterable[Row]) -> None:
        for row in rows:
            assert row.event_time is not None
            if self.watermark is not None and row.event_time < self.watermark:
                self.late += 1
                continue
            self.on_time.append(row)
            offered = row.event_time - DELAY
            self.watermark = offered if self.watermark is None else max(self.watermark, offered)

    def reset(self, to: int) -> None:
        assert self.watermark is not None
        self.watermark = min(self.watermark, to)


def truth(gate: Gate, name: str) -> list[tuple]:
    """The final rows of a view over the rows on time."""
    rows, mark = gate.on_time, gate.watermark
    if name in ("tumbling", "hopping", "opened"):
        windows = hop(5, 15) if name == "hopping" else tumble(10)
        found = grouped(rows, windows, ("c",))
        found = found if name == "opened" else final(found, mark)
        return [(*g.keys, g.start, g.end, len(g.rows), sum(r.payload["v"] for r in g.rows)) for g in found]
    if name == "visits":
        spans = closed(sessions(rows, GAP, ("c",)), mark)
        return [(*s.keys, s.start, s.end, len(s.rows), sum(r.payload["v"] for r in s.rows)) for s in spans]
    if name == "sorted":
        below = [r for r in rows if mark is not None and r.event_time < mark]
        return [(r.payload["c"], r.payload["id"], r.event_time) for r in below]
    if name == "steps":
        calls = [Call("lag", "id"), Call("lead", "id"), Call("sum", "v", Rows(None))]
        found = over(rows, mark, calls, ("c",))
        return [(r.row.payload["c"], r.row.payload["id"], r.row.event_time, *r.values) for r in found]
    inner = final(grouped(rows, tumble(10), ("c",)), mark)
    sums: Counter[tuple[int, int]] = Counter()
    for g in inner:
        start = g.end - g.end % 30
        sums[(start, start + 30)] += len(g.rows)
    # D3: window_end of `tumbling` has the watermark tumble_end(its frontier).
    reached = None if mark is None else mark - mark % 10 + 10
    return [(s, e, n) for (s, e), n in sums.items() if reached is not None and e <= reached]


def check(session: Session, gate: Gate, views: Sequence[str], whole: bool, told: str) -> None:
    """Every view's final rows; `whole`: all that it shows."""
    for name in views:
        found = Counter(tuple(map(plain, row)) for row in session.table(name).collect())
        expected = Counter(truth(gate, name))
        if not whole and name != "opened":
            # What was emitted before the reset stays until it closes again: only of what is final is anything said.
            ends = final_ends(session, name)
            found = Counter({row: n for row, n in found.items() if row in ends})
        missing, surplus = sorted((expected - found).elements()), sorted((found - expected).elements())
        assert found == expected, f"{name}: missing {missing}, surplus {surplus}; {told}"


def final_ends(session: Session, name: str) -> set[tuple]:
    """The stored rows that end at the view's frontier or before."""
    from pyspark.sql import functions as F

    stored = session.stored(name)
    assert stored is not None

    view = session.catalog.get(name)
    frontier = session.tables.open(stored).current().integer("tidegate.frontier")
    if frontier is None:
        return set()
    mark = F.expr(view.kind.spark_literal(frontier))
    rows = session.tables.rows(stored).where(~F.col("_open") & (F.col("_window_end") <= mark))
    return {tuple(map(plain, row)) for row in rows.select(*[c.name for c in view.columns]).collect()}


def insert(session: Session, rows: Sequence[Row]) -> None:
    values = ", ".join(
        f"({r.payload['c']}, {r.payload['id']}, {r.payload['v']}, '{instant(r.event_time)}')" for r in rows
    )
    session.execute(f"INSERT INTO events VALUES {values}")


def random_rows(rng: Random, around: int, n: int, first: int) -> list[Row]:
    rows = []
    for i in range(first, first + n):
        payload = {"c": rng.randint(1, 4), "id": i, "v": rng.randint(0, 9)}
        rows.append(Row("0", i, around + rng.randint(-12, 14), None, payload))
    return rows


@pytest.mark.slow
def test_property_W9_after_a_reset_every_view_is_what_it_would_be_over_all_rows_on_time(
    new_workbench: Callable[[], Workbench],
) -> None:
    def property(rng: Random) -> None:
        session = new_workbench().session()
        # Some of them: a run of the engine takes long.
        chosen = {*rng.sample(sorted(VIEWS), 3), "steps" if rng.random() < 0.5 else "visits"}
        views = [name for name in VIEWS if name in chosen or (name == "tumbling" and "above" in chosen)]
        session.execute(TABLE + "".join(f"CREATE MATERIALIZED VIEW {n} AS {VIEWS[n]};" for n in views))
        gate, number, around = Gate(), 0, 50
        steps = rng.randint(3, 4)
        poison, told = rng.randint(1, 2), []
        for step in range(steps):
            rows = random_rows(rng, around, rng.randint(8, 20), number)
            if step == poison:
                at = rng.randrange(len(rows))
                far = around + rng.choice((40, FAR, FAR))
                rows[at] = Row("0", rows[at].offset, far, None, rows[at].payload)
            number += len(rows)
            insert(session, rows)
            gate.read(rows)
            told.append([(r.event_time, r.payload["c"], r.payload["id"]) for r in rows])
            if rng.random() < 0.7 or step == poison:
                session.execute("FLUSH")
                check(session, gate, views, False, f"step {step}: {json.dumps(told)}")
            if step >= poison and rng.random() < 0.6:
                to = around + rng.randint(-15, 10)
                session.execute(f"ALTER TABLE events RESET WATERMARK TO '{instant(to)}'")
                gate.reset(to)
                told.append(["reset", to])
                if rng.random() < 0.5:
                    session.execute("FLUSH")
                    check(session, gate, views, False, f"reset: {json.dumps(told)}")
            around += rng.randint(0, 12)
        last = [Row("0", number, 3 * FAR, None, {"c": 1, "id": number, "v": 1})]
        last += [Row("0", number + 1, 3 * FAR + 100, None, {"c": 9, "id": number + 1, "v": 1})]
        insert(session, last)
        gate.read(last)
        session.execute("FLUSH")
        check(session, gate, views, True, json.dumps(told))
        for name in views:
            assert audit_view(session, name).ok, f"{audit_view(session, name)}; {told}"

    with_random_seeds(property)
