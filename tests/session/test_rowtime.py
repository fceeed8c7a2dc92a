"""`$rowtime` (W12) and CURRENT_WATERMARK (W14) in queries, and DESCRIBE EXTENDED."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.conftest import Workbench
from tidegate import TidegateError

pytestmark = pytest.mark.runner("inprocess")

TABLE = """
CREATE TABLE events (
    id BIGINT NOT NULL COMMENT 'who knows',
    ts TIMESTAMP,
    day DATE AS CAST(ts AS DATE),
    WATERMARK FOR ts AS ts - INTERVAL '1 minute'
) APPEND ONLY;
CREATE TABLE plain (id BIGINT);
INSERT INTO plain VALUES (1), (2);
"""
ROWS = "INSERT INTO events VALUES (1, '2026-01-01 10:00'), (2, '2026-01-01 10:05'), (3, '2026-01-01 10:02')"
MORE = "INSERT INTO events VALUES (4, '2026-01-01 10:06'), (5, NULL), (6, '2026-01-01 10:05')"


def clock(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-01-01T{text}:00")


@pytest.mark.runner("inprocess", "spark", long_run="spark")
def test_W14_current_watermark_is_the_one_that_the_row_was_compared_with(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(f"{TABLE}{ROWS};{MORE}")
    query = 'SELECT id, CURRENT_WATERMARK(ts) FROM "events{}" ORDER BY id'
    on_time = [(1, None), (2, clock("09:59")), (4, clock("10:04")), (6, clock("10:05"))]
    late, rejected = [(3, clock("10:04"))], [(5, clock("10:05"))]
    assert session.execute(query.format("")).rows() == on_time
    assert session.execute(query.format("$late")).rows() == late
    assert session.execute(query.format("$raw")).rows() == sorted(on_time + late + rejected)
    # Late is what the gate said, not what has a watermark.
    assert session.execute('SELECT count(*) FROM "events$late"').rows() == [(1,)]
    ahead = "SELECT id, CAST(ts - current_watermark(e.ts) AS STRING) AS ahead FROM events e WHERE id = 6"
    assert session.execute(ahead).rows() == [(6, "INTERVAL '0 00:00:00' DAY TO SECOND")]
    assert [c for c, _ in session.execute("SELECT id, CURRENT_WATERMARK(ts) FROM events").columns] == [
        "id",
        "current_watermark",
    ]


@pytest.mark.parametrize(
    ("type_", "values"), [("DATE", "'2026-01-01'"), ("INT", "7"), ("TIMESTAMPTZ", "'2026-01-01'")]
)
def test_W14_current_watermark_of_every_kind_is_null_before_there_is_one(
    workbench: Workbench, type_: str, values: str
) -> None:
    session = workbench.session()
    session.execute(
        f"CREATE TABLE t (c {type_}, WATERMARK FOR c AS c) APPEND ONLY; INSERT INTO t VALUES ({values})"
    )
    session.execute(f"INSERT INTO t VALUES ({values})")
    rows = session.execute("SELECT c, CURRENT_WATERMARK(c) AS w FROM t ORDER BY w").rows()
    assert [w for _, w in rows] == [None, rows[0][0]]


@pytest.mark.runner("spark")
def test_W12_rowtime_is_the_arrival_selectable_by_name_and_not_in_a_star(workbench: Workbench) -> None:
    session = workbench.session()
    before = datetime.now(UTC).replace(tzinfo=None) - timedelta(seconds=1)
    session.execute(f"{TABLE}{ROWS}")
    after = datetime.now(UTC).replace(tzinfo=None) + timedelta(seconds=1)
    for name in ("$rowtime", '"$rowtime"', "`$rowtime`", "e.$ROWTIME", 'e."$rowtime"'):
        result = session.execute(f"SELECT {name} FROM events e WHERE $rowtime IS NOT NULL")
        assert result.columns == [("$rowtime", "timestamp")]
        assert [before <= r[0] <= after for r in result.rows()] == [True, True]
    for name in ('"events$late"', '"events$raw"', "plain"):
        assert len(session.execute(f"SELECT $rowtime FROM {name}").rows()) > 0
    star = session.execute("SELECT * FROM events")
    assert [c for c, _ in star.columns] == ["id", "ts", "day"]
    both = session.execute("SELECT *, $rowtime FROM events")
    assert [c for c, _ in both.columns] == ["id", "ts", "day", "$rowtime"]
    joined = session.execute(
        "SELECT e.*, p.* FROM events e JOIN plain p ON p.id = e.id WHERE p.$rowtime <= e.$rowtime"
    )
    assert [c for c, _ in joined.columns] == ["id", "ts", "day", "id"]
    assert len(joined.rows()) == 2
    session.execute(
        "CREATE TABLE arrivals (at TIMESTAMPTZ); INSERT INTO arrivals SELECT $rowtime FROM events"
    )
    assert session.execute("SELECT count(at) FROM arrivals").rows() == [(2,)]


def test_W12_rowtime_is_nowhere_else(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(TABLE)
    for query, code in (
        ("SELECT $rowtime FROM (SELECT * FROM events) e", "TG202"),
        ("SELECT $rowtime FROM events, plain", "TG203"),
        ('SELECT $rowtime FROM "events$watermarks"', "TG202"),
        ('CREATE TABLE x ("$rowtime" TIMESTAMP)', "TG205"),
    ):
        with pytest.raises(TidegateError) as caught:
            session.execute(query)
        assert caught.value.code == code, query


def test_W12_describe_extended_shows_rowtime_and_the_strategy(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(TABLE)
    plain = session.execute("DESCRIBE events")
    assert [c for c, _ in plain.columns] == ["column", "type", "nullable", "notes"]
    assert [r[0] for r in plain] == ["id", "ts", "day"]
    rows = session.execute("DESCRIBE EXTENDED events").rows()
    assert rows[:4] == [
        ("id", "BIGINT", False, None, "who knows"),
        ("ts", "TIMESTAMP", True, "*ROWTIME*, watermark ts - INTERVAL '1 minute'", None),
        ("day", "DATE", True, "generated as TRY_CAST(`ts` AS date)", None),
        (
            "$rowtime",
            "TIMESTAMPTZ",
            False,
            "system column: not part of SELECT *, select it by name",
            "when the row arrived in events",
        ),
    ]
    assert [r[:3] for r in rows[4:6]] == [("$partition", "VARCHAR", False), ("$offset", "BIGINT", False)]
    assert {r[0] for r in rows[6:]} == {
        *("outcome", "watermark", "reason", "raw", "partition", "offset", "arrival", "epoch")
    }
    names = [r[0] for r in session.execute('DESCRIBE EXTENDED "events$late"')]
    assert names[-3:] == ["$rowtime", "$partition", "$offset"]
    (rowtime,) = [r for r in session.execute("DESCRIBE EXTENDED plain") if r[0] == "$rowtime"]
    assert rowtime[3].startswith("*ROWTIME*, watermark SOURCE_WATERMARK(), advisory")


def test_D3_describe_extended_shows_the_watermarks_of_a_view(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(
        TABLE + "CREATE MATERIALIZED VIEW v AS SELECT window_end, count(*) AS n "
        "FROM TUMBLE(events, ts, INTERVAL '1 minute') GROUP BY window_end EMIT ON WINDOW CLOSE"
    )
    rows = session.execute("DESCRIBE EXTENDED v").rows()
    assert [r[:1] + r[3:] for r in rows] == [
        ("window_end", "group key, *ROWTIME*, watermark tumble_end(watermark, 1 minute)", None),
        ("n", None, None),
    ]


@pytest.mark.runner("spark")
def test_W12_rowtime_of_a_table_with_a_key_is_that_of_the_last_change(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1), (2, 2)")
    ((first,), _) = session.execute("SELECT $rowtime FROM t").rows()
    session.execute("INSERT INTO t VALUES (1, 7)")
    rows = session.execute(
        "SELECT *, $rowtime > TIMESTAMPTZ '" + first.isoformat() + "+00:00' FROM t ORDER BY k"
    ).rows()
    assert rows == [(1, 7, True), (2, 2, False)]


SECONDS = """
CREATE SOURCE ticks (n INT, at TIMESTAMPTZ)
WITH (connector = 'replay', path = 'data/ticks.json', order.columns = 'at', max_rows_per_batch = 500)
FORMAT PLAIN ENCODE JSON;
CREATE MATERIALIZED VIEW per_minute AS
SELECT window_end, count(*) AS n, max($rowtime) AS newest
FROM TUMBLE(ticks, $rowtime, INTERVAL '1 minute') GROUP BY window_end EMIT ON WINDOW CLOSE;
"""


def test_W12_windows_over_rowtime_close_by_an_advisory_watermark_and_all_rows_stay(
    workbench: Workbench,
) -> None:
    start = datetime(2026, 1, 1, 10)
    rows = [{"n": i, "at": f"{start + timedelta(seconds=i):%Y-%m-%dT%H:%M:%S}Z"} for i in range(1200)]
    workbench.json_lines("data/ticks.json", rows).assets(ticks=SECONDS)
    session = workbench.session()
    session.run()
    assert session.execute("SELECT count(*), count($rowtime) FROM ticks").rows() == [(1200, 1200)]
    # S2: after 1,000 rows in order, 50 ms behind the newest: 19 of 20 minutes are final.
    found = session.execute("SELECT n, newest FROM per_minute ORDER BY window_end").rows()
    assert [n for n, _ in found] == [60] * 19
    assert found[0][1] == start + timedelta(seconds=59)
    assert [r.name for r in session.catalog.relations] == ["ticks"]


def test_W12_windows_over_rowtime_are_refused_where_another_column_has_the_watermark(
    workbench: Workbench,
) -> None:
    session = workbench.session()
    session.execute(TABLE)
    with pytest.raises(TidegateError) as caught:
        session.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT window_end, count(*) AS n "
            "FROM TUMBLE(events, $rowtime, INTERVAL '1 minute') GROUP BY window_end"
        )
    assert (caught.value.code, caught.value.hint) == ("TG307", "use ts")
    with pytest.raises(TidegateError) as caught:
        session.execute("ALTER TABLE plain MODIFY WATERMARK FOR $rowtime AS $rowtime - INTERVAL '10' SECONDS")
    assert caught.value.code == "TG321"
    assert "WATERMARK(plain, $rowtime, $rowtime - INTERVAL '10' SECONDS)" in (caught.value.hint or "")
