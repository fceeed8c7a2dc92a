"""Random cases: rows of EMIT ON WINDOW CLOSE queries are released once, below the watermark, in order (C4, D2, R5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

import pytest

from tests.conftest import Workbench
from tests.oracles.cases import Seen, Shape, beside, feed, marks
from tests.oracles.joins import union
from tests.oracles.oracle import Row
from tests.oracles.over import released
from tests.oracles.windows import final, grouped, tumble
from tests.views.property.bundle import CASES, Bundle, Checked, with_random_seeds

pytestmark = pytest.mark.runner("inprocess")

SHAPE = Shape(deltas=(0, 0, 1, 5, 9, 10), rows=8)


def of(row: Row) -> tuple:
    return row.payload["c"], row.payload["id"], row.event_time


def sorted_rows(seen: Mapping[str, Seen]) -> list[tuple]:
    return [of(row) for row in released(seen["a"].rows, seen["a"].watermark)]


def filtered(seen: Mapping[str, Seen]) -> list[tuple]:
    rows = released(seen["a"].rows, seen["a"].watermark)
    wanted = [row for row in rows if (row.payload["v"] or 0) > 1]
    return [(row.payload["c"], row.payload["id"], row.payload["v"] * 2, row.event_time) for row in wanted]


def shifted(seen: Mapping[str, Seen]) -> list[tuple]:
    """D1: the column's watermark is shifted with it, so the same rows are released."""
    return [(c, i, t - 7) for c, i, t in sorted_rows(seen)]


def united(seen: Mapping[str, Seen]) -> list[tuple]:
    rows, watermark = union([seen[name].rows for name in "ab"], [seen[name].watermark for name in "ab"])
    return [of(row) for row in released(rows, watermark)]


def united_windows(seen: Mapping[str, Seen]) -> list[tuple]:
    rows, watermark = union([seen[name].rows for name in "ab"], [seen[name].watermark for name in "ab"])
    return [(*g.keys, g.start, len(g.rows)) for g in final(grouped(rows, tumble(10), ("c",)), watermark)]


VIEWS = [
    Checked("sorted_rows", "SELECT c, id, ts FROM a", sorted_rows, ordered=True),
    Checked("filtered", "SELECT c, id, v * 2 AS w, ts FROM a WHERE v > 1", filtered, ordered=True),
    Checked("shifted", "SELECT c, id, ts - INTERVAL '7 seconds' AS earlier FROM a", shifted, ordered=True),
    Checked("united", "SELECT c, id, ts FROM a UNION ALL SELECT c, id, ts FROM b", united),
    Checked(
        "united_windows",
        "WITH u AS (SELECT c, ts FROM a UNION ALL SELECT c, ts FROM b) SELECT c, window_start, count(*) AS n "
        "FROM TUMBLE(u, ts, INTERVAL '10 seconds') GROUP BY c, window_start",
        united_windows,
    ),
]


@pytest.mark.slow
def test_property_C4_sorted_rows_equal_the_oracle(new_workbench: Callable[[], Workbench]) -> None:
    def property(rng: Random) -> None:
        watermarks = marks(rng)
        a = feed(rng, CASES, SHAPE, watermarks)
        b = feed(rng, CASES, SHAPE, beside(rng, watermarks))
        Bundle(new_workbench(), {"a": a, "b": b}, VIEWS).check()

    with_random_seeds(property)
