"""Random cases: OVER windows in event time equal the oracle, and rows appear when it says (C4, C5, R5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

import pytest

from tests.conftest import Workbench
from tests.oracles.cases import Seen, Shape, feed, marks
from tests.oracles.over import Call, Range, Rows, SessionGap, over
from tests.views.property.bundle import CASES, Bundle, Checked, with_random_seeds

pytestmark = pytest.mark.runner("inprocess")

SHAPE = Shape(deltas=(0, 0, 0, 1, 4, 5, 5, 6), keys=("x", "x", "y", None))


def view(name: str, calls: list[tuple[str, str, Call]], keys: tuple[str, ...] = ("c", "k")) -> Checked:
    """`calls`: (function as written, frame as written, the oracle's)."""

    def expected(seen: Mapping[str, Seen]) -> list[tuple]:
        events = seen["events"]
        found = over(events.rows, events.watermark, [call for *_, call in calls], keys)
        return [(one.row.payload["c"], one.row.payload["id"], *one.values) for one in found]

    partition = ", ".join(keys)
    columns = ", ".join(
        f"{function} OVER (PARTITION BY {partition} ORDER BY ts{frame and ' ' + frame}) AS x{i}"
        for i, (function, frame, _) in enumerate(calls)
    )
    return Checked(name, f"SELECT c, id, {columns} FROM events", expected)


BEHIND = "ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING"
AROUND = "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING"
VIEWS = [
    view(
        "ranks",
        [
            ("row_number()", "", Call("row_number")),
            ("rank()", "", Call("rank")),
            ("dense_rank()", "", Call("dense_rank")),
            ("lag(v)", "", Call("lag", "v")),
            ("lag(v, 2, -1)", "", Call("lag", "v", n=2, default=-1)),
        ],
    ),
    view("leads", [("lead(v)", "", Call("lead", "v")), ("lead(id, 1)", "", Call("lead", "id"))]),
    view("lead_of_case", [("lead(v, 2)", "", Call("lead", "v", n=2))], ("c",)),
    view(
        "running",
        [
            ("sum(v)", "", Call("sum", "v")),
            ("count(*)", "", Call("count")),
            ("first_value(v)", "", Call("first_value", "v")),
            ("last_value(v)", "", Call("last_value", "v")),
            ("avg(v)", BEHIND, Call("avg", "v", Rows(-2, -1))),
            ("max(v)", "ROWS BETWEEN 3 PRECEDING AND CURRENT ROW", Call("max", "v", Rows(-3))),
            (
                "min(v)",
                "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW",
                Call("min", "v", exclude_current=True),
            ),
        ],
    ),
    view(
        "reaching_forward",
        [
            ("sum(v)", AROUND, Call("sum", "v", Rows(-1, 1))),
            ("first_value(v)", AROUND, Call("first_value", "v", Rows(-1, 1))),
            (
                "count(v)",
                "ROWS BETWEEN UNBOUNDED PRECEDING AND 2 FOLLOWING",
                Call("count", "v", Rows(None, 2)),
            ),
        ],
    ),
    view(
        "ranges",
        [
            (
                "sum(v)",
                "RANGE BETWEEN INTERVAL '5 seconds' PRECEDING AND CURRENT ROW",
                Call("sum", "v", Range(-5)),
            ),
            (
                "count(*)",
                "RANGE BETWEEN INTERVAL '5 seconds' PRECEDING AND INTERVAL '4 seconds' FOLLOWING",
                Call("count", None, Range(-5, 4)),
            ),
        ],
    ),
    view(
        "session_frames",
        [
            ("sum(v)", "SESSION WITH GAP INTERVAL '5 seconds'", Call("sum", "v", SessionGap(5))),
            (
                "first_value(id)",
                "SESSION WITH GAP INTERVAL '5 seconds'",
                Call("first_value", "id", SessionGap(5)),
            ),
        ],
    ),
]


@pytest.mark.slow
def test_property_C5_over_windows_equal_the_oracle(new_workbench: Callable[[], Workbench]) -> None:
    def property(rng: Random) -> None:
        Bundle(new_workbench(), {"events": feed(rng, CASES, SHAPE, marks(rng))}, VIEWS).check()

    with_random_seeds(property)
