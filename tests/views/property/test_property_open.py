"""Random cases: a view without EMIT ON WINDOW CLOSE shows what SQL gives over all rows that are on time (C2, W3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

import pytest

from tests.conftest import Workbench
from tests.oracles.cases import Seen, Shape, beside, by_case, feed, marks
from tests.oracles.joins import Join
from tests.oracles.oracle import Row
from tests.oracles.over import Call, Rows, so_far
from tests.oracles.windows import cumulate, grouped, instant, top, tumble
from tests.views.property.bundle import CASES, Bundle, Checked, with_random_seeds

pytestmark = pytest.mark.runner("inprocess")

SHAPE = Shape(deltas=(0, 1, 2, 3, 4, 5, 6), keys=("x", "x", "y", None), rows=7)


def cumulating(seen: Mapping[str, Seen]) -> list[tuple]:
    return [(*g.keys, g.start, g.end, len(g.rows)) for g in grouped(seen["a"].rows, cumulate(5, 15), ("c",))]


def by_time(seen: Mapping[str, Seen]) -> list[tuple]:
    return [(*g.keys, g.start, len(g.rows)) for g in grouped(seen["a"].rows, instant, ("c",))]


def leads(seen: Mapping[str, Seen]) -> list[tuple]:
    calls = [Call("lead", "v"), Call("sum", "v", Rows(-1, 1)), Call("rank")]
    found = so_far(seen["a"].rows, calls, ("c", "k"))
    return [(one.row.payload["c"], one.row.payload["id"], *one.values) for one in found]


def full_join(seen: Mapping[str, Seen]) -> list[tuple]:
    join = Join(before=5, after=2, keys=("c", "k"), kind="full")
    left, right = by_case(seen["a"].rows), by_case(seen["b"].rows)
    # Case by case: the case is among the keys.
    pairs = [p for c in left.keys() | right.keys() for p in join.pairs(left.get(c, []), right.get(c, []))]
    return [((a or b).payload["c"], a and a.payload["id"], b and b.payload["id"]) for a, b in pairs]


def united(seen: Mapping[str, Seen]) -> list[tuple]:
    return [(row.payload["c"], row.payload["id"], row.event_time) for name in "ab" for row in seen[name].rows]


def best_of_each_window(seen: Mapping[str, Seen]) -> list[tuple]:
    def latest_first(row: Row) -> tuple:
        return -row.event_time, row.payload["id"]

    groups = grouped(seen["a"].rows, tumble(10), ("c",))
    return [(*g.keys, g.start, r.payload["id"], n) for g in groups for r, n in top(g.rows, 1, latest_first)]


VIEWS = [
    Checked(
        "cumulating",
        "SELECT c, window_start, window_end, count(*) AS n "
        "FROM CUMULATE(a, ts, INTERVAL '5 seconds', INTERVAL '15 seconds') GROUP BY c, window_start, window_end",
        cumulating,
        emit=False,
    ),
    Checked("by_time", "SELECT c, ts, count(*) AS n FROM a GROUP BY c, ts", by_time, emit=False),
    Checked(
        "leads",
        "SELECT c, id, lead(v) OVER w AS l, "
        "sum(v) OVER (PARTITION BY c, k ORDER BY ts ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s, "
        "rank() OVER w AS r FROM a WINDOW w AS (PARTITION BY c, k ORDER BY ts)",
        leads,
        emit=False,
    ),
    Checked(
        "full_join",
        "SELECT coalesce(a.c, b.c) AS c, a.id AS a_id, b.id AS b_id FROM a FULL JOIN b "
        "ON a.c = b.c AND a.k = b.k "
        "AND a.ts BETWEEN b.ts - INTERVAL '5 seconds' AND b.ts + INTERVAL '2 seconds'",
        full_join,
        emit=False,
    ),
    Checked("united", "SELECT c, id, ts FROM a UNION ALL SELECT c, id, ts FROM b", united, emit=False),
    Checked(
        "best_of_each_window",
        "SELECT c, window_start, id, rn FROM (SELECT *, row_number() OVER ("
        "PARTITION BY window_start, window_end, c ORDER BY ts DESC, id) AS rn "
        "FROM TUMBLE(a, ts, INTERVAL '10 seconds')) AS numbered WHERE rn = 1",
        best_of_each_window,
        emit=False,
    ),
]


@pytest.mark.slow
def test_property_C2_open_views_equal_the_oracle(new_workbench: Callable[[], Workbench]) -> None:
    def property(rng: Random) -> None:
        watermarks = marks(rng)
        a = feed(rng, CASES, SHAPE, watermarks)
        b = feed(rng, CASES, SHAPE, beside(rng, watermarks), other=a)
        Bundle(new_workbench(), {"a": a, "b": b}, VIEWS).check()

    with_random_seeds(property)
