"""D1-D4 where they were once wrong or refused without need: one small graph each; random ones are in tests/graphs."""

from __future__ import annotations

import pytest

from tests.sql.support import load
from tidegate.errors import TidegateError
from tidegate.sql import Catalog, View
from tidegate.watermark import TimeKind

RELATIONS = """
CREATE TABLE a (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE TABLE b (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE TABLE z (id INT, ts TIMESTAMPTZ, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE TABLE names (id INT, name VARCHAR) APPEND ONLY;
"""
TEN = (
    "SELECT window_start, window_end, count(*) AS n FROM TUMBLE({0}, ts, INTERVAL '10 minutes') GROUP BY 1, 2"
)
MINUTE = 60_000_000


def views(**queries: str) -> dict[str, View]:
    """The views of these queries, with EMIT ON WINDOW CLOSE."""
    catalog = load(Catalog(), RELATIONS)
    for name, query in queries.items():
        load(catalog, f"CREATE MATERIALIZED VIEW {name} AS {query} EMIT ON WINDOW CLOSE")
    return {v.name: v for v in catalog.views}


def at(text: str) -> int:
    return TimeKind.TIMESTAMP.parse(f"2026-01-01 {text}")


def carried(view: View) -> dict[str, str]:
    return {c.column: c.derived.describe(TimeKind.TIMESTAMP) for c in view.watermarks}


@pytest.mark.parametrize("column", ["window_start", "window_end"])
def test_D2_a_join_of_window_views_waits_for_both_to_close_the_window(column: str) -> None:
    query = f"SELECT va.{column}, vb.n FROM va LEFT JOIN vb ON va.{column} = vb.{column}"
    joined = views(va=TEN.format("a"), vb=TEN.format("b"), v=query)["v"]
    assert joined.clock is not None
    # A row is in the one tick of its column, and final when the clock is beyond that.
    edge = at("10:10:00") if column == "window_start" else at("10:20:00")
    assert joined.clock.at(at("10:26:38"), at("10:15:03")) == edge
    assert joined.clock.at(at("10:15:03"), at("10:26:38")) == edge
    assert joined.clock.at(at("10:26:38"), at("10:20:00")) == edge + 10 * MINUTE


@pytest.mark.parametrize(
    "other",
    [
        "SELECT id, ts FROM b",
        "SELECT ts, count(*) OVER (PARTITION BY id ORDER BY ts) AS n FROM b",
        "SELECT ts, count(*) AS n FROM b GROUP BY ts",
    ],
)
@pytest.mark.parametrize("on", ["a.ts = x.ts", "a.ts BETWEEN x.ts AND x.ts + INTERVAL '5 minutes'"])
def test_D2_rows_at_the_very_watermark_of_the_other_side_may_still_come(other: str, on: str) -> None:
    joined = views(x=other, v=f"SELECT a.id, a.ts, x.ts AS t FROM a LEFT JOIN x ON {on}")["v"]
    assert joined.clock is not None
    assert joined.clock.at(at("11:00:00"), at("10:15:03")) == at("10:15:03")


def test_D2_a_session_view_joined_by_its_end_says_nothing_about_its_starts() -> None:
    visits = "SELECT window_start, window_end FROM SESSION(a, ts, INTERVAL '5 minutes') GROUP BY 1, 2"
    joined = views(
        visits=visits,
        v="SELECT visits.window_start, b.ts FROM visits JOIN b ON visits.window_end = b.ts",
    )["v"]
    assert [name for name, _ in joined.derived[-2].lost] == ["window_start"]
    assert list(carried(joined)) == ["ts"]


def test_D2_a_union_lies_as_far_apart_as_any_of_its_inputs() -> None:
    one = (
        "SELECT window_start, window_end, count(*) AS n FROM TUMBLE(b, ts, INTERVAL '1 minute') GROUP BY 1, 2"
    )
    both = "SELECT window_end, window_start FROM one UNION ALL SELECT window_end, window_start FROM ten"
    found = views(one=one, ten=TEN.format("a"), both=both)["both"]
    (start,) = [c for c in found.watermarks if c.column == "window_start"]
    assert (start.low, start.high) == (MINUTE + 1, 10 * MINUTE + 1)


def test_D2_a_side_of_a_union_on_another_scale_is_not_left_out() -> None:
    both = (
        "SELECT window_end AS e, extract(epoch FROM window_end) AS s FROM va "
        "UNION ALL SELECT ts, extract(epoch FROM ts - INTERVAL '1 hour') FROM b"
    )
    assert list(carried(views(va=TEN.format("a"), v=both)["v"])) == ["e"]


@pytest.mark.parametrize("items", ["date_trunc('minute', ts) AS m, ts", "ts, date_trunc('minute', ts) AS m"])
def test_D3_two_times_of_one_origin_both_carry_a_watermark(items: str) -> None:
    found = carried(views(v=f"SELECT {items} FROM a")["v"])
    assert found == (
        {"m": "watermark", "ts": "watermark"}
        if items.startswith("date")
        else {"ts": "watermark", "m": "watermark - 59999999 microseconds"}
    )


def test_D2_timestamps_with_and_without_zone_are_on_one_scale() -> None:
    found = views(
        united="SELECT ts FROM a UNION ALL SELECT ts FROM z",
        joined="SELECT a.ts, z.ts AS other FROM a JOIN z ON a.ts = z.ts",
    )
    assert str(found["united"].column("ts").type) == "timestamp"
    assert carried(found["united"]) == {"ts": "watermark"}
    assert carried(found["joined"]) == {"ts": "watermark", "other": "watermark"}


def test_C3_rows_of_a_session_are_final_when_their_session_is() -> None:
    found = views(v="SELECT id, ts, window_start, window_end FROM SESSION(a, ts, INTERVAL '5 minutes')")["v"]
    assert carried(found) == {
        "window_start": "least(watermark, earliest open session)",
        "window_end": "watermark",
    }
    with pytest.raises(TidegateError) as refused:
        views(v="SELECT ts, count(*) AS n FROM SESSION(a, ts, INTERVAL '5 minutes') GROUP BY ts")
    assert refused.value.code == "TG309"


def test_D1_rows_that_wait_for_a_frame_ahead_hold_back_what_follows_from_their_time() -> None:
    frame = "RANGE BETWEEN INTERVAL '1 minute' PRECEDING AND INTERVAL '5 seconds' FOLLOWING"
    found = views(
        v=f"SELECT ts, date_trunc('minute', ts) AS m, count(*) OVER (PARTITION BY id ORDER BY ts {frame}) AS n FROM a"
    )["v"]
    marks = dict(found.derived[-1].columns)
    # A row of 10:00:58 is not there yet, so that neither is one whose m is 10:00:00.
    assert marks["m"].at(at("10:01:03")) == at("10:00:00")
    assert marks["ts"].at(at("10:01:03")) == at("10:00:58")


NEXT = "SELECT id, ts, lead(id, 1) OVER (PARTITION BY id ORDER BY ts) AS next FROM b"
LOOKUPS = [
    "SELECT a.ts, x.next FROM a JOIN x ON a.ts = x.ts",
    "SELECT a.ts, x.next FROM x JOIN a ON a.ts = x.ts",
    "SELECT a.ts, s.n FROM a JOIN (SELECT id, count(*) AS n FROM b GROUP BY id) AS s ON a.id = s.id",
]


@pytest.mark.parametrize("query", LOOKUPS)
def test_D4_what_lost_its_watermark_is_not_looked_up_by_accident(query: str) -> None:
    with pytest.raises(TidegateError) as refused:
        views(x=NEXT, v=query)
    assert refused.value.code == "TG345"
    assert '"b" has one' in refused.value.message
    if "JOIN (" not in query:
        assert (
            "x lost the watermark of id" in refused.value.message
            or "x lost the watermark of ts" in refused.value.message
        )


def test_D4_what_has_no_time_is_looked_up_and_so_is_what_the_query_says_so_of() -> None:
    found = views(
        x=NEXT,
        v="SELECT a.ts, x.next FROM a JOIN x FOR SYSTEM_TIME AS OF PROCTIME() ON a.ts = x.ts",
        w="SELECT a.ts, names.name FROM a LEFT JOIN names ON a.id = names.id",
    )
    assert [i.lookup for i in found["v"].inputs] == [False, True]
    assert [i.lookup for i in found["w"].inputs] == [False, True]


def test_WITH_may_stand_in_a_subquery_and_hides_the_names_around_it() -> None:
    inner = "(WITH q AS (SELECT id, ts + INTERVAL '1 hour' AS ts FROM a) SELECT * FROM q)"
    found = views(
        v=f"WITH q AS (SELECT id, ts FROM b) SELECT x.id, x.ts, q.id AS other FROM {inner} AS x JOIN q ON x.ts = q.ts"
    )
    assert [i.name for i in found["v"].inputs] == ["a", "b"]
    assert carried(found["v"]) == {"ts": "watermark"}
