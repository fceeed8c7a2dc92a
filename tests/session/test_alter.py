"""ALTER … WATERMARK (W13) and RESET WATERMARK (W9) on a real session."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import pytest

from tests.conftest import Workbench
from tidegate import TidegateError
from tidegate.iceberg.progress import LogProgress
from tidegate.plan.resets import steps
from tidegate.watermark import GateState
from tidegate.watermark.memory import StrategyMemory

pytestmark = pytest.mark.runner("inprocess")

TABLE = """
CREATE TABLE events (
    name VARCHAR,
    ts TIMESTAMP,
    -- a minute is enough
    WATERMARK FOR ts AS ts - INTERVAL '1 minute'
) APPEND ONLY;
"""
SOURCE = """
CREATE SOURCE events (name VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1 minute')
WITH (connector = 'filesystem', path = 'data/events') FORMAT PLAIN ENCODE JSON;
"""
PER_HOUR = """
CREATE MATERIALIZED VIEW per_hour AS
SELECT window_end, count(*) AS n FROM TUMBLE(events, ts, INTERVAL '1 hour') GROUP BY window_end
EMIT ON WINDOW CLOSE;
"""


def rows(*times: str) -> str:
    """INSERT of rows named after their times on one day."""
    return "INSERT INTO events VALUES " + ", ".join(f"('{t}', '2026-01-01 {t}')" for t in times)


@pytest.mark.runner("inprocess", "spark")
def test_W13_a_new_strategy_counts_from_the_next_row_and_nothing_is_decided_again(
    workbench: Workbench,
) -> None:
    session = workbench.session()
    session.execute(TABLE + rows("10:05", "10:03", "10:06"))  # W = 10:05; 10:03 is late
    message = session.execute(
        "ALTER TABLE events ALTER WATERMARK FOR ts AS ts - INTERVAL '10 minutes'"
    ).message
    assert message is not None
    assert "from the next row on, its watermark is ts - INTERVAL '10 minutes'" in message
    # The new strategy offers 09:57 for 10:07; Wp never goes back (W2), so 10:04 is still late.
    session.execute(rows("10:07", "10:04", "10:05"))
    assert {r[0] for r in session.execute('SELECT name FROM "events$late"')} == {"10:03", "10:04"}
    assert {r[0] for r in session.execute("SELECT name FROM events")} == {"10:05", "10:06", "10:07"}
    history = session.execute(
        'SELECT epoch, watermark, note FROM "events$watermarks" WHERE partition IS NULL ORDER BY epoch'
    ).rows()
    assert history == [
        (1, datetime(2026, 1, 1, 10, 5), None),
        (
            2,
            datetime(2026, 1, 1, 10, 5),
            "ALTER WATERMARK: ts - INTERVAL '1 minute' became ts - INTERVAL '10 minutes'",
        ),
    ]


def test_W13_the_new_definition_is_kept_and_the_rest_of_the_text_as_written(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(TABLE + rows("10:05"))
    session.execute("ALTER TABLE events MODIFY WATERMARK FOR TS AS ts - INTERVAL '2' MINUTE")
    again = workbench.session()
    ((_, definition),) = again.execute("SHOW CREATE TABLE events").rows()
    assert definition == TABLE.strip().rstrip(";").replace("INTERVAL '1 minute'", "INTERVAL '2' MINUTE")
    # 10:06 offers 10:04 now: what is a minute and a half older than it is on time.
    message = again.execute(rows("10:06", "10:04:30")).message
    assert message is not None
    assert message.startswith("inserted 2: 2 on time")
    note = again.execute("ALTER TABLE events ALTER WATERMARK FOR ts AS ts - INTERVAL '2' MINUTE").message
    assert note == "the strategy of events is ts - INTERVAL '2' MINUTE already: nothing changes"


def test_W13_what_a_file_defines_is_altered_by_editing_the_file(workbench: Workbench) -> None:
    workbench.assets(events=SOURCE).json_lines("data/events/1.json", lines("10:05", "10:03"))
    session = workbench.session()
    session.run()
    with pytest.raises(TidegateError) as caught:
        session.execute("ALTER SOURCE events ALTER WATERMARK FOR ts AS ts")
    assert caught.value.code == "TG520"
    assert "assets/events.sql" in caught.value.message
    assert "WATERMARK FOR ts AS ts" in (caught.value.hint or "")
    # The same, in the file: the log goes on, and its history says since when.
    workbench.assets(events=SOURCE.replace(" - INTERVAL '1 minute'", ""))
    workbench.json_lines("data/events/2.json", lines("10:06", "10:05:59"))
    session = workbench.session()
    session.run()
    assert [r[0] for r in session.execute('SELECT name FROM "events$late" ORDER BY name')] == [
        "10:03",
        "10:05:59",
    ]
    notes = session.execute(
        'SELECT DISTINCT epoch, note FROM "events$watermarks" WHERE note IS NOT NULL'
    ).rows()
    assert notes == [(2, "ALTER WATERMARK: ts - INTERVAL '1 minute' became ts")]
    # Written in another way it is the same strategy.
    workbench.assets(events=SOURCE.replace("ts - INTERVAL '1 minute'", "( ts )"))
    workbench.json_lines("data/events/3.json", lines("10:07"))
    session = workbench.session()
    session.run()
    assert session.execute('SELECT count(note) FROM "events$watermarks"').rows() == [(1,)]
    # Another column is a new definition (R4).
    workbench.assets(
        events=SOURCE.replace("FOR ts AS ts -", "FOR ts2 AS ts2 -").replace("ts TIMESTAMP", "ts2 TIMESTAMP")
    )
    with pytest.raises(TidegateError) as caught:
        workbench.session().run()
    assert caught.value.code == "TG506"


def test_W9_a_reset_only_takes_back(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(TABLE + PER_HOUR + rows("10:10"))
    told = session.execute("ALTER TABLE events RESET WATERMARK TO '2026-01-01 11:00:00'; FLUSH").message
    assert told == "flushed 1 view: 0 rows closed"
    told = session.execute("ALTER TABLE events RESET WATERMARK TO '2026-01-01 11:00:00'").message
    assert (
        told
        == "the watermark of events is 2026-01-01 10:09:00: RESET can only set it back, so nothing changes"
    )
    told = session.execute(rows("10:59:59", "11:00:00")).message
    assert told == "inserted 2: 2 on time, 0 late, 0 rejected; watermark 2026-01-01 10:59:00"


def lines(*times: str) -> list[dict[str, str]]:
    """The rows of `rows` as JSON."""
    return [
        {"name": t, "ts": f"2026-01-01 {t}" if t.count(":") == 2 else f"2026-01-01 {t}:00"} for t in times
    ]


def test_W9_a_reset_takes_back_what_is_beyond_it_and_keeps_what_was_counted() -> None:
    memory = StrategyMemory(np.arange(3))
    poisoned = GateState(watermark=100, next_offset=7, on_time=5, late=2, max_event_time=999)
    other = GateState(watermark=30, next_offset=1, on_time=1, max_event_time=40)
    before = LogProgress(epoch=3, published=100, states={"a": poisoned, "b": other, "c": GateState()})
    after = before.reset(50, {"a": memory}, {"tidegate.resets-followed": "{}"})
    assert (after.epoch, after.published) == (4, 50)
    assert after.states["a"] == replace(poisoned, watermark=50, max_event_time=50, memory=memory)
    assert after.states["b"] == other
    assert after.states["c"].watermark is None
    assert [(step.mark, step.epoch) for step in steps(after.resets)] == [(50, 4)]
    assert before.states["a"] is poisoned


def test_R2_a_batch_that_broke_off_before_a_reset_is_read_after_it_once(
    workbench: Workbench, stored_table: type[Any]
) -> None:
    workbench.assets(events=SOURCE).json_lines("data/events/1.json", lines("10:05", "10:03"))
    session = workbench.session()
    session.run()
    workbench.json_lines("data/events/2.json", lines("10:10", "10:02"))

    def broken(*_: object, **__: object) -> int:
        raise RuntimeError("the disk is full")

    # The plan of the second batch is written, its commit is not.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_table, "append", broken)
        with pytest.raises(RuntimeError, match="the disk is full"):
            session.run()
    session.execute("ALTER SOURCE events RESET WATERMARK TO '2026-01-01 10:00'")
    again = workbench.session()
    again.run()
    outcomes = again.execute('SELECT name, outcome, epoch FROM "events$raw" ORDER BY name').rows()
    # 10:10 raised the watermark to 10:09 again, from 10:00.
    assert outcomes == [
        ("10:02", "late", 3),
        ("10:03", "late", 1),
        ("10:05", "on_time", 1),
        ("10:10", "on_time", 3),
    ]
