"""Random cases: SESSION on Spark equals the oracle after every step, and when made at the end (C1, C3, D3, R5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

import pytest

from tests.conftest import Workbench
from tests.oracles.cases import Seen, Shape, feed, marks
from tests.oracles.oracle import Row, aggregate
from tests.oracles.sessions import Session, closed, derived, sessions
from tests.oracles.windows import final, grouped, tumble
from tests.views.property.bundle import CASES, Bundle, Checked, with_random_seeds

pytestmark = pytest.mark.runner("inprocess")

GAP = 5
SHAPE = Shape(deltas=(0, 1, GAP - 1, GAP, GAP, GAP + 1), keys=("x", "x", "y", None))


def sum_of(rows: tuple[Row, ...] | list[Row]) -> int | None:
    return aggregate("sum", "v", list(rows))


def emitted(
    seen: Mapping[str, Seen], gap: int, keys: tuple[str, ...], keep=lambda row: True
) -> list[Session]:
    events = seen["events"]
    rows = [row for row in events.rows if keep(row)]
    return closed(sessions(rows, gap, keys), events.watermark)


def per_case_and_key(seen: Mapping[str, Seen]) -> list[tuple]:
    found = emitted(seen, GAP, ("c", "k"))
    return [(*s.keys, s.start, s.end, len(s.rows), sum_of(s.rows)) for s in found]


def per_case(seen: Mapping[str, Seen]) -> list[tuple]:
    found = emitted(seen, 2 * GAP, ("c",))
    return [(*s.keys, s.end, min(r.payload["id"] for r in s.rows), len(s.rows)) for s in found]


def grouped_further(seen: Mapping[str, Seen]) -> list[tuple]:
    """Sessions of the case, and inside each a group for every k."""
    out = []
    for session in emitted(seen, GAP, ("c",)):
        by_key: dict[str | None, list[Row]] = {}
        for row in session.rows:
            by_key.setdefault(row.payload["k"], []).append(row)
        out += [(*session.keys, k, session.start, session.end, len(rows)) for k, rows in by_key.items()]
    return out


def filtered_before(seen: Mapping[str, Seen]) -> list[tuple]:
    """Rows that a CTE leaves out do not hold a session together."""
    found = emitted(seen, GAP, ("c",), keep=lambda row: (row.payload["v"] or 0) > 1)
    return [(*s.keys, s.start, s.end, len(s.rows)) for s in found]


def filtered_after(seen: Mapping[str, Seen]) -> list[tuple]:
    """Rows that WHERE leaves out do: FROM comes before WHERE."""
    out = []
    for session in emitted(seen, GAP, ("c",)):
        kept = [row for row in session.rows if (row.payload["v"] or 0) > 1]
        if kept:
            out.append((*session.keys, session.start, session.end, len(kept)))
    return out


def by_start(seen: Mapping[str, Seen]) -> list[tuple]:
    """D3: window_start waits for the earliest session that is open, of whatever key."""
    return counted(seen, "start", 0)


def by_end(seen: Mapping[str, Seen]) -> list[tuple]:
    """D3: window_end has the watermark of the time."""
    return counted(seen, "end", 1)


def counted(seen: Mapping[str, Seen], time: str, mark: int) -> list[tuple]:
    """Sessions of `per_case_and_key` by the 10 seconds in which they start or end."""
    marks = derived(sessions(seen["events"].rows, GAP, ("c", "k")), seen["events"].watermark)
    found = emitted(seen, GAP, ("c", "k"))
    rows = [Row("0", i, getattr(s, time), payload={"c": s.keys[0]}) for i, s in enumerate(found)]
    groups = final(grouped(rows, tumble(10), ("c",)), marks and marks[mark])
    return [(*g.keys, g.start, len(g.rows)) for g in groups]


VIEWS = [
    Checked(
        "per_case_and_key",
        "SELECT c, k, window_start, window_end, count(*) AS n, sum(v) AS s "
        "FROM SESSION(events, ts, c, k, INTERVAL '5 seconds') GROUP BY c, k, window_start, window_end",
        per_case_and_key,
    ),
    Checked(
        "per_case",
        "SELECT c, window_end, min(id) AS first_id, count(*) AS n "
        "FROM SESSION(events, ts, c, INTERVAL '10 seconds') GROUP BY window_end, c",
        per_case,
    ),
    Checked(
        "grouped_further",
        "SELECT c, k, window_start, window_end, count(*) AS n "
        "FROM SESSION(events, ts, c, INTERVAL '5 seconds') GROUP BY c, k, window_start, window_end",
        grouped_further,
    ),
    Checked(
        "filtered_before",
        "WITH kept AS (SELECT c, ts FROM events WHERE v > 1) "
        "SELECT c, window_start, window_end, count(*) AS n "
        "FROM SESSION(kept, ts, c, INTERVAL '5 seconds') GROUP BY c, window_start, window_end",
        filtered_before,
    ),
    Checked(
        "filtered_after",
        "SELECT c, window_start, window_end, count(*) AS n "
        "FROM SESSION(events, ts, c, INTERVAL '5 seconds') WHERE v > 1 GROUP BY c, window_start, window_end",
        filtered_after,
    ),
    Checked(
        "then_by_start",
        "WITH found AS (SELECT c, window_start AS t FROM per_case_and_key) "
        "SELECT c, window_start, count(*) AS n FROM TUMBLE(found, t, INTERVAL '10 seconds') "
        "GROUP BY c, window_start",
        by_start,
    ),
    Checked(
        "then_by_end",
        "WITH found AS (SELECT c, window_end AS t FROM per_case_and_key) "
        "SELECT c, window_start, count(*) AS n FROM TUMBLE(found, t, INTERVAL '10 seconds') "
        "GROUP BY c, window_start",
        by_end,
    ),
]


@pytest.mark.slow
def test_property_C3_sessions_equal_the_oracle(new_workbench: Callable[[], Workbench]) -> None:
    def property(rng: Random) -> None:
        Bundle(new_workbench(), {"events": feed(rng, CASES, SHAPE, marks(rng))}, VIEWS).check()

    with_random_seeds(property)
