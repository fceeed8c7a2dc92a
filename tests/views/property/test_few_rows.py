"""How many rows a tick is taken to see, by which Spark interprets its queries or compiles them."""

from __future__ import annotations

from math import inf

import pytest

from tests.conftest import Workbench
from tidegate.views import few_rows

pytestmark = [pytest.mark.runner("inprocess"), pytest.mark.medium]

MINUTE = "INTERVAL '1 minute'"
#: By the rows that a tick sees of three: of each one, of its windows, or of what it is joined with.
VIEWS = {
    "tumbling": f"SELECT k, window_start, max(x) AS m FROM TUMBLE(a, ts, {MINUTE}) GROUP BY k, window_start",
    "hopping": f"SELECT k, window_start, max(x) AS m FROM HOP(a, ts, INTERVAL '10 seconds', {MINUTE}) "
    "GROUP BY k, window_start",
    "cumulated": "SELECT k, window_start, window_end, max(x) AS m "
    f"FROM CUMULATE(a, ts, INTERVAL '10 seconds', {MINUTE}) GROUP BY k, window_start, window_end",
    "joined": f"SELECT a.k, a.ts, b.x FROM a JOIN a AS b ON a.k = b.k AND b.ts BETWEEN a.ts - {MINUTE} AND a.ts",
    "lagging": "SELECT k, ts, lag(x) OVER (PARTITION BY k ORDER BY ts) AS before FROM a",
    "looked_up": "SELECT a.k, a.ts, names.name FROM a JOIN names ON a.k = names.k",
}


def test_windows_partners_and_carried_rows_count(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, list[float]] = {name: [] for name in VIEWS}

    def noted(context: object, view: object, cut: object) -> float:
        found = most(context, view, cut)  # type: ignore[arg-type]
        seen[view.name].append(found)  # type: ignore[attr-defined]
        return found

    most = few_rows.most_rows
    monkeypatch.setattr(few_rows, "most_rows", noted)
    session = workbench.session()
    session.execute("CREATE TABLE a (k VARCHAR, x DOUBLE, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;")
    session.execute("CREATE TABLE names (k VARCHAR PRIMARY KEY, name VARCHAR);")
    session.execute("INSERT INTO names VALUES ('a', 'first'), ('b', 'second');")
    for name, query in VIEWS.items():
        session.execute(f"CREATE MATERIALIZED VIEW {name} AS {query} EMIT ON WINDOW CLOSE;")
    for minute in range(3):
        times = (f"2026-01-01 12:0{minute}:{second}" for second in (10, 20, 30))
        values = ", ".join(f"('{k}', 1.5, '{time}')" for k, time in zip("aba", times, strict=True))
        session.execute(f"INSERT INTO a VALUES {values};")
        session.execute("FLUSH;")
    # The files of the last two minutes are read, with three rows each. What OVER carries is not known at first.
    last = {name: rows[-1] for name, rows in seen.items()}
    assert last == {
        "tumbling": 6,
        "hopping": 6 * 6,
        "cumulated": inf,
        "joined": 6 * 9,
        "lagging": 6 + 2,
        "looked_up": 6 * 2,
    }
    assert seen["lagging"][0] == inf
    assert max(seen["hopping"]) <= 6 * 6
