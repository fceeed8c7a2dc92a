"""Names, constants and times that once stopped a view for ever, from statements to fetched rows."""

from __future__ import annotations

from datetime import date, datetime

import pytest

from tests.conftest import Workbench

pytestmark = pytest.mark.spark

HARD = """
CREATE TABLE t (ts TIMESTAMP, v BIGINT, v_sum VARCHAR, count_all VARCHAR, "_pane" INT, ".a" INT,
  WATERMARK FOR ts AS ts - INTERVAL '1 second') APPEND ONLY;
CREATE MATERIALIZED VIEW by_names AS
SELECT window_end, v_sum, count_all, "_pane", ".a", sum(v) AS "v`s.", min(".a") AS m
FROM TUMBLE(t, ts, INTERVAL '10 seconds') WHERE 3 IN (1, 2, 3) AND 5 % 2 = 1
GROUP BY window_end, v_sum, count_all, "_pane", ".a" EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW visits AS SELECT window_end, "_pane", count_all, sum(v) AS _last
FROM SESSION(t, ts, "_pane", count_all, INTERVAL '5 seconds')
GROUP BY window_end, "_pane", count_all EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW hours AS SELECT window_start, v_sum, count(*) AS n, max(v || '') AS m
FROM HOP(t, ts, INTERVAL '1 second', INTERVAL '1 hour') GROUP BY window_start, window_end, v_sum EMIT ON WINDOW CLOSE;
"""


def test_hard_names_constants_and_many_windows(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(HARD)
    session.execute(
        "INSERT INTO t VALUES (TIMESTAMP '2026-01-01 00:00:01', 2, 'a', 'x', 7, 5), "
        "(TIMESTAMP '2026-01-01 00:00:02', 3, 'a', 'x', 7, 5), (TIMESTAMP '2026-01-01 02:00:00', 1, 'b', 'y', 8, 6)"
    )
    session.run()
    at = datetime(2026, 1, 1)
    assert session.execute("SELECT * FROM by_names").rows() == [(at.replace(second=10), "a", "x", 7, 5, 5, 5)]
    assert session.execute("SELECT * FROM visits").rows() == [(at.replace(second=7), 7, "x", 5)]
    # A row is in 3,600 windows: by arithmetic.
    found = session.execute("SELECT count(*), sum(n), max(m) FROM hours WHERE v_sum = 'a'").rows()
    assert found == [(3601, 7200, "3")]


def test_times_far_apart_and_of_years_that_python_has_not(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(
        "CREATE TABLE t (id INT, ts TIMESTAMP, d DATE, WATERMARK FOR ts AS ts) APPEND ONLY;"
        "INSERT INTO t VALUES (1, TIMESTAMP '+294247-01-10 04:00:00', DATE '+10000-01-01'), "
        "(2, TIMESTAMP '-290308-12-22 00:00:00', DATE '0000-01-01'), (3, TIMESTAMP '9999-12-31 23:59:59', NULL)"
    )
    session.run()
    late = session.execute('SELECT id, late_by FROM "t$late" ORDER BY id').rows()
    assert [row[0] for row in late] == [2, 3]
    # Further apart than an interval can be.
    assert late[0][1] is None
    assert late[1][1].days > 10**8
    found = session.execute("SELECT id, ts, d FROM t").rows()
    assert found == [(1, "+294247-01-10 04:00:00", "+10000-01-01")]
    # Beside one of these in an array, a map or a struct, all times are text.
    nested = "array(d, DATE '2026-01-01') AS a, map(id, ts) AS m, named_struct('x', array(d), 'X', id) AS s"
    assert session.execute(f"SELECT {nested} FROM t").rows() == [
        (["+10000-01-01", "2026-01-01"], {1: "+294247-01-10 04:00:00"}, (["+10000-01-01"], 1))
    ]
    (known,) = session.execute(f'SELECT {nested} FROM "t$late" WHERE id = 3').rows()
    assert known == ([None, date(2026, 1, 1)], {3: datetime(9999, 12, 31, 23, 59, 59)}, ([None], 3))
    rows = session.execute('SELECT id, ts, d FROM "t$late" ORDER BY id')
    assert (
        rows.rows()
        == [*rows]
        == [
            (2, "-290308-12-22 00:00:00", "0000-01-01"),
            (3, datetime(9999, 12, 31, 23, 59, 59), None),
        ]
    )
