"""W9 in the summaries of commits: which steps back there were, and which of them a reader has followed."""

from __future__ import annotations

import json

from tidegate.plan.resets import (
    FOLLOWED_RESETS,
    RESETS,
    Beyond,
    followed,
    not_followed,
    position,
    step_back,
    steps,
    with_step,
)
from tidegate.quality.own import checked
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.objects import View
from tidegate.sql.statements.analysis import analyse
from tidegate.watermark import SessionMark

MINUTE = 60_000_000
SQL = """
CREATE TABLE a (k INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE TABLE b (k INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE MATERIALIZED VIEW w AS SELECT window_end, count(*) AS n FROM TUMBLE(a, ts, INTERVAL '10 minutes')
GROUP BY window_end EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW u AS SELECT ts, k FROM a UNION ALL SELECT ts, k FROM b EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW s AS SELECT k, window_start, window_end, count(*) AS n
FROM SESSION(a, ts, k, INTERVAL '1 minute') GROUP BY k, window_start, window_end EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW above AS SELECT window_start, n FROM s EMIT ON WINDOW CLOSE;
"""


def views() -> dict[str, View]:
    catalog = Catalog()
    for statement in analyse(SQL, catalog):
        catalog.add(getattr(statement, "relation", None) or statement.view)
    return {view.name: view for view in catalog.views}


def reset(mark: int, before: dict[str, str] | None = None) -> dict[str, str]:
    return {RESETS: with_step(before or {}, mark)}


def test_W9_steps_are_numbered_and_the_oldest_become_one_that_goes_as_far_back() -> None:
    summary: dict[str, str] = {}
    for mark in (500, 30, *range(100, 160)):
        summary = reset(mark, summary)
    known = steps(summary)
    assert len(known) == 20
    assert [s.number for s in known] == sorted({s.number for s in known})
    assert min(s.mark for s in known) == known[0].mark == 30
    # Who has followed all but the last two has these to follow.
    reader = {FOLLOWED_RESETS: json.dumps({"a": known[-3].number})}
    assert [s.mark for s in not_followed(reader, "a", summary)] == [158, 159]
    assert not_followed(followed({"a": summary}), "a", summary) == []
    assert followed({"a": {}}) == {}


def test_W9_a_view_steps_back_to_what_D_derives_from_the_reset() -> None:
    found = views()
    own = {"tidegate.frontier": str(1000 * MINUTE)}
    w, u = found["w"], found["u"]
    assert step_back(w, own, {"a": {}}, [25 * MINUTE]) is None
    assert step_back(w, own, {"a": reset(25 * MINUTE)}, [40 * MINUTE]) == 25 * MINUTE
    # The reset was overtaken before the view ran: its mark counts, not today's watermark.
    assert step_back(w, own, {"a": reset(25 * MINUTE)}, [2000 * MINUTE]) == 25 * MINUTE
    # Nothing below its frontier, followed already, or never run.
    assert step_back(w, own, {"a": reset(1000 * MINUTE)}, [2000 * MINUTE]) is None
    done = reset(25 * MINUTE)
    assert step_back(w, own | followed({"a": done}), {"a": done}, [40 * MINUTE]) is None
    assert step_back(w, {}, {"a": done}, [40 * MINUTE]) is None
    # Of several inputs the one that was reset holds the view back (D2).
    back = step_back(u, own, {"a": done, "b": {}}, [30 * MINUTE, 900 * MINUTE])
    assert back == 25 * MINUTE


def test_W9_a_view_over_sessions_goes_back_to_the_earliest_that_is_open_again() -> None:
    above = views()["above"]
    own = {"tidegate.frontier": str(1000 * MINUTE)}
    stepped = {RESETS: with_step({}, 25 * MINUTE, opened=7 * MINUTE)}
    assert step_back(above, own, {"s": stepped}, [SessionMark(25 * MINUTE, 9 * MINUTE)]) == 7 * MINUTE


def test_W9_who_has_come_to_a_place_goes_on_below_every_step_back_since() -> None:
    once = reset(500)
    first = steps(once)[0].number
    assert position({}, 900, 0) == (900, 0)
    assert position(once, 900, 0) == (500, first)
    assert position(once, 300, 0) == (300, first)
    assert position(once, 900, first) == (900, first)
    twice = reset(200, once)
    assert position(twice, 900, first) == (200, steps(twice)[-1].number)


def test_W9_a_suite_checks_again_what_closes_again() -> None:
    view, once = views()["w"], reset(500)
    first = steps(once)[0].number
    known = {"after": 400, "upto": 9000}
    # Written by an earlier version, before the reset: what ended up to 600 closed again since.
    assert checked(view, once, known, 600) == (500, first)
    # Nothing has closed again yet: the stretch before is checked again, as ever.
    assert checked(view, once, known, 500) == (400, first)
    assert checked(view, once, {"after": 400, "upto": 600, "reset": first}, 700) == (600, first)
    # It went back below that, too.
    assert checked(view, reset(300, once), known, 300)[0] is None
    assert checked(view, {}, {}, 700) == (None, 0)


def test_W9_what_is_emitted_beyond_the_frontier_is_in_the_summary() -> None:
    beyond = Beyond(1, 2, 3)
    assert Beyond.of({"tidegate.beyond": beyond.to_text()}) == beyond
    assert Beyond.of({}) is None
