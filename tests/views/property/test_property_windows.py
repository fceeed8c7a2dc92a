"""Random cases: windows of every kind and what is grouped by them equal the oracle (C1, C2, C6, R5)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from random import Random

import pytest

from tests.conftest import Workbench
from tests.oracles.cases import Seen, Shape, feed, marks
from tests.oracles.oracle import Row, aggregate
from tests.oracles.sessions import closed, sessions
from tests.oracles.windows import Group, Windows, cumulate, final, grouped, hop, instant, months, top, tumble
from tests.views.property.bundle import BEGIN, CASES, Bundle, Checked, with_random_seeds

pytestmark = pytest.mark.runner("inprocess")

THOROUGH = os.environ.get("TIDEGATE_HYPOTHESIS") == "thorough"
SHAPE = Shape(deltas=(0, 1, 4, 5, 6, 9, 10, 11))
DAY = 86_400


def closed_groups(seen: Mapping[str, Seen], windows: Windows, keys: Sequence[str]) -> list[Group]:
    events = seen["events"]
    return final(grouped(events.rows, windows, keys), events.watermark)


def view(name: str, source: str, windows: Windows) -> Checked:
    """Count and sum of every window and key."""

    def expected(seen: Mapping[str, Seen]) -> list[tuple]:
        groups = closed_groups(seen, windows, ("c", "k"))
        return [(*g.keys, g.start, g.end, len(g.rows), aggregate("sum", "v", list(g.rows))) for g in groups]

    query = (
        f"SELECT c, k, window_start, window_end, count(*) AS n, sum(v) AS s FROM {source} "
        "GROUP BY c, k, window_start, window_end"
    )
    return Checked(name, query, expected)


def by_time(seen: Mapping[str, Seen]) -> list[tuple]:
    groups = closed_groups(seen, instant, ("c",))
    return [(*g.keys, g.start, len(g.rows), min(r.payload["id"] for r in g.rows)) for g in groups]


def by_truncated_time(seen: Mapping[str, Seen]) -> list[tuple]:
    return [(*g.keys, g.start, len(g.rows)) for g in closed_groups(seen, tumble(60), ("c",))]


def several_aggregates(seen: Mapping[str, Seen]) -> list[tuple]:
    out = []
    for g in closed_groups(seen, tumble(10), ("c",)):
        rows = list(g.rows)
        values = [r.payload["v"] for r in rows if r.payload["v"] is not None]
        if len(rows) > 1:
            large = sum(v > 1 for v in values)
            out.append((*g.keys, g.end, len(set(values)), large, aggregate("avg", "v", rows)))
    return out


def best_of_each_window(seen: Mapping[str, Seen]) -> list[tuple]:
    def largest_first(row: Row) -> tuple:
        return -row.payload["v"], row.payload["id"]

    out = []
    for g in closed_groups(seen, tumble(10), ("c",)):
        rows = [row for row in g.rows if row.payload["v"] is not None]
        out += [(*g.keys, g.start, row.payload["id"], n) for row, n in top(rows, 2, largest_first)]
    return out


VIEWS = [
    view("tumbling", "TUMBLE(events, ts, INTERVAL '10 seconds', INTERVAL '3 seconds')", tumble(10, 3)),
    view("hopping", "HOP(events, ts, INTERVAL '5 seconds', INTERVAL '15 seconds')", hop(5, 15)),
    view("cumulating", "CUMULATE(events, ts, INTERVAL '5 seconds', INTERVAL '15 seconds')", cumulate(5, 15)),
    Checked("by_time", "SELECT c, ts, count(*) AS n, min(id) AS i FROM events GROUP BY c, ts", by_time),
    Checked(
        "by_truncated_time",
        "SELECT c, date_trunc('minute', ts) AS t, count(*) AS n FROM events GROUP BY c, date_trunc('minute', ts)",
        by_truncated_time,
    ),
    Checked(
        "several_aggregates",
        "SELECT c, window_end, count(DISTINCT v) AS d, count(*) FILTER (WHERE v > 1) AS f, avg(v) AS a "
        "FROM TUMBLE(events, ts, INTERVAL '10 seconds') GROUP BY c, window_end HAVING count(*) > 1",
        several_aggregates,
    ),
    Checked(
        "best_of_each_window",
        "SELECT c, window_start, id, rn FROM (SELECT *, row_number() OVER ("
        "PARTITION BY window_start, window_end, c ORDER BY v DESC, id) AS rn "
        "FROM TUMBLE(events, ts, INTERVAL '10 seconds') WHERE v IS NOT NULL) AS numbered WHERE rn <= 2",
        best_of_each_window,
    ),
]


def session_spans(seen: Mapping[str, Seen]) -> list[tuple]:
    events = seen["events"]
    found = closed(sessions(events.rows, 5, ("c",)), events.watermark)
    return [(*s.keys, s.start, s.end, len(s.rows)) for s in found]


INTEGER_SESSIONS = Checked(
    "integer_sessions",
    "SELECT c, window_start, window_end, count(*) AS n FROM SESSION(events, ts, c, INTERVAL '5 seconds') "
    "GROUP BY c, window_start, window_end",
    session_spans,
)


def of_calendar(name: str, source: str, size: int, slide: int | None = None) -> Checked:
    """A month view over cases whose seconds are days."""
    windows = months(size, slide)

    def expected(seen: Mapping[str, Seen]) -> list[tuple]:
        events = seen["events"]
        if events.watermark is None:
            return []

        def at(seconds: int):
            return BEGIN + timedelta(seconds=seconds)

        groups = grouped(events.rows, windows, ("c", "k"), time=lambda row: at(row.event_time))
        return [(*g.keys, g.start, g.end, len(g.rows)) for g in final(groups, at(events.watermark))]

    query = (
        f"SELECT c, k, window_start, window_end, count(*) AS n FROM {source} "
        "GROUP BY c, k, window_start, window_end"
    )
    return Checked(name, query, expected)


CALENDAR = [
    of_calendar("monthly", "TUMBLE(events, ts, INTERVAL '1 month')", 1),
    of_calendar("quarters", "HOP(events, ts, INTERVAL '1 month', INTERVAL '3 months')", 3, slide=1),
    of_calendar("yearly", "TUMBLE(events, ts, INTERVAL '1 year')", 12),
]


def check(
    new_workbench: Callable[[], Workbench],
    views: Sequence[Checked],
    shape: Shape,
    unit: int = 1,
    stretch: int = 1,
    cases: int = CASES,
) -> None:
    """`unit`: what the cases' second stands for; `stretch`: how much further apart the watermarks are."""

    def property(rng: Random) -> None:
        watermarks = [mark * stretch for mark in marks(rng)]
        events = feed(rng, cases, shape, watermarks).scaled(unit)
        Bundle(new_workbench(), {"events": events}, views).check()

    with_random_seeds(property)


@pytest.mark.slow
def test_property_C2_windows_equal_the_oracle(new_workbench: Callable[[], Workbench]) -> None:
    check(new_workbench, VIEWS, SHAPE)


@pytest.mark.slow
def test_property_C1_months_and_years_equal_the_oracle(new_workbench: Callable[[], Workbench]) -> None:
    # About two years in days, whose distances are those between the same days of months and years.
    shape = Shape(deltas=(0, 1, 28, 30, 31, 59, 334, 365))
    check(new_workbench, CALENDAR, shape, unit=DAY, stretch=12, cases=CASES if THOROUGH else CASES // 3)


@pytest.mark.slow
def test_property_W10_windows_of_integer_times_equal_the_oracle(
    new_workbench: Callable[[], Workbench],
) -> None:
    def property(rng: Random) -> None:
        events = {"events": feed(rng, CASES, SHAPE, marks(rng))}
        Bundle(new_workbench(), events, [*VIEWS[:4], INTEGER_SESSIONS], integers=True).check()

    with_random_seeds(property)
