"""Random cases: interval, equi and window joins on Spark equal the oracle, matched and unmatched (D2, C4, R5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

import pytest

from tests.conftest import Workbench
from tests.oracles.cases import Seen, Shape, beside, by_case, feed, marks
from tests.oracles.joins import Join, Pair
from tests.oracles.oracle import Row
from tests.oracles.windows import tumble
from tests.views.property.bundle import CASES, Bundle, Checked, with_random_seeds

pytestmark = pytest.mark.runner("inprocess")

SHAPE = Shape(deltas=(0, 1, 2, 3, 4, 5, 6), keys=("x", "x", "y", None), rows=7)
INTERVAL = "a.ts BETWEEN b.ts - INTERVAL '5 seconds' AND b.ts + INTERVAL '2 seconds'"


def released(join: Join, a: Seen, b: Seen, by: str = "a") -> list[Pair]:
    """The oracle's pairs, case by case: every join has the case among its keys, so none has rows of two of them."""
    left, right = by_case(a.rows), by_case(b.rows)
    return [
        pair
        for case in left.keys() | right.keys()
        for pair in join.released(left.get(case, []), right.get(case, []), a.watermark, b.watermark, by)
    ]


def of(row: Row | None, column: str):
    if row is None:
        return None
    return row.event_time if column == "ts" else row.payload[column]


def view(name: str, kind: str, on: str, join: Join, by: str = "a") -> Checked:
    """A join of a and b; the time that comes first in SELECT is that of `by`."""

    def expected(seen: Mapping[str, Seen]) -> list[tuple]:
        return [
            (of(x if x is not None else y, "c"), of(x, "id"), of(y, "id"), of(x if by == "a" else y, "ts"))
            for x, y in released(join, seen["a"], seen["b"], by)
        ]

    case = {"inner": "a.c", "left": "a.c", "right": "b.c", "full": "coalesce(a.c, b.c)"}[join.kind]
    query = (
        f"SELECT {case} AS c, a.id AS a_id, b.id AS b_id, {by}.ts AS t FROM a {kind} b "
        f"ON a.c = b.c AND a.k = b.k AND {on}"
    )
    return Checked(name, query, expected)


def join(kind: str = "inner", before: int = 5, after: int = 2, **more) -> Join:
    return Join(before, after, ("c", "k"), kind, **more)


def full(seen: Mapping[str, Seen]) -> list[tuple]:
    return [
        (of(x if x is not None else y, "c"), of(x, "id"), of(y, "id"), of(x, "ts"), of(y, "ts"))
        for x, y in released(join("full"), seen["a"], seen["b"])
    ]


def window_join(seen: Mapping[str, Seen]) -> list[tuple]:
    """Pairs of the same window are final when both watermarks are at its end (C2, D2)."""
    a, b = seen["a"], seen["b"]
    if a.watermark is None or b.watermark is None:
        return []
    out, others = [], by_case(b.rows)
    for x in a.rows:
        for y in others.get(x.payload["c"], []):
            (start, end), (other, _) = tumble(10)(x.event_time)[0], tumble(10)(y.event_time)[0]
            if start == other and end <= min(a.watermark, b.watermark):
                out.append((x.payload["c"], x.payload["id"], y.payload["id"], start))
    return out


def condition(x: Row, y: Row) -> bool:
    return None not in (x.payload["v"], y.payload["v"]) and x.payload["v"] < y.payload["v"]


VIEWS = [
    view("inner_join", "JOIN", INTERVAL, join()),
    view("left_join", "LEFT JOIN", INTERVAL, join("left")),
    view("condition_join", "LEFT JOIN", f"{INTERVAL} AND a.v < b.v", join("left", condition=condition)),
    view("same_time", "JOIN", "a.ts = b.ts", join(before=0, after=0)),
    view("right_join", "RIGHT JOIN", INTERVAL, join("right"), by="b"),
    view("by_b", "JOIN", INTERVAL, join(), by="b"),
    Checked(
        "full_join",
        "SELECT coalesce(a.c, b.c) AS c, a.id AS a_id, b.id AS b_id, a.ts AS a_ts, b.ts AS b_ts "
        f"FROM a FULL JOIN b ON a.c = b.c AND a.k = b.k AND {INTERVAL}",
        full,
    ),
    Checked(
        "window_join",
        "SELECT l.c, l.id AS a_id, r.id AS b_id, l.window_start FROM TUMBLE(a, ts, INTERVAL '10 seconds') AS l "
        "JOIN TUMBLE(b, ts, INTERVAL '10 seconds') AS r ON l.c = r.c AND l.window_start = r.window_start",
        window_join,
    ),
]


@pytest.mark.slow
def test_property_D2_joins_equal_the_oracle(new_workbench: Callable[[], Workbench]) -> None:
    def property(rng: Random) -> None:
        watermarks = marks(rng)
        a = feed(rng, CASES, SHAPE, watermarks)
        b = feed(rng, CASES, SHAPE, beside(rng, watermarks), other=a)
        Bundle(new_workbench(), {"a": a, "b": b}, VIEWS).check()

    with_random_seeds(property)
