"""kill -9 at random points of a chain of three views: log and views are those of an undisturbed run (R1, R2)."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

from tests.conftest import Workbench
from tests.engine.test_kill import run_and_kill

if TYPE_CHECKING:
    from tidegate.session.session import Session

VIEWS = ("per_minute", "per_hour", "busy")
SQL = """
CREATE SOURCE readings (id INT, meter VARCHAR, v INT, ts TIMESTAMP,
    WATERMARK FOR ts AS ts - INTERVAL '2 minutes')
WITH (connector = 'filesystem', path = 'input', partition.columns = 'meter', max_files_per_batch = '1')
FORMAT PLAIN ENCODE JSON;

CREATE MATERIALIZED VIEW per_minute AS
SELECT window_start, window_end, meter, count(*) AS n, sum(v) AS s FROM TUMBLE(readings, ts, INTERVAL '1 minute')
GROUP BY window_start, window_end, meter EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW per_hour AS
SELECT window_start, window_end, meter, count(*) AS minutes, sum(n) AS n, sum(s) AS s
FROM TUMBLE(per_minute, window_start, INTERVAL '1 hour')
GROUP BY window_start, window_end, meter EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW busy AS
SELECT window_start, window_end, meter, count(*) AS hours, sum(n) AS n, sum(s) AS s
FROM SESSION(per_hour, window_start, meter, INTERVAL '2 hours')
GROUP BY window_start, window_end, meter EMIT ON WINDOW CLOSE;
"""
FILES, ROWS_PER_FILE = 8, 60


def project(workbench: Workbench) -> Workbench:
    """Two and a half days of readings with long breaks, a few rows late, a few without a time."""
    rng = random.Random(11)
    workbench.assets(readings=SQL)
    now = 0
    for file in range(FILES):
        rows = []
        for i in range(ROWS_PER_FILE):
            n = file * ROWS_PER_FILE + i
            now += rng.choice([30, 60, 60, 300, 600, 7200 if n % 15 == 0 else 60])
            second = max(now - rng.choice([0, 0, 60, 300]), 0)
            ts = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(1_767_225_600 + second))
            meter = rng.choice("ab" if (file // 3) % 2 else "abc")
            rows.append({"id": n, "meter": meter, "v": n % 7, "ts": ts if n % 97 else None})
        workbench.json_lines(f"input/{file:03d}.json", rows)
    return workbench


def facts(session: Session) -> dict[str, list]:
    """Everything that must not depend on what happened to the process."""
    raw = session.table("readings$raw").select("partition", "offset", "id", "outcome", "watermark", "reason")
    tables = {"raw": raw} | {view: session.table(view) for view in VIEWS}
    return {name: sorted(map(tuple, frame.collect()), key=str) for name, frame in tables.items()}


@pytest.mark.slow
def test_R2_kill_minus_nine_in_a_chain(new_workbench) -> None:
    undisturbed = project(new_workbench())
    session = undisturbed.session()
    session.run()
    expected = facts(session)
    assert len(expected["raw"]) == FILES * ROWS_PER_FILE
    assert {row[3] for row in expected["raw"]} == {"on_time", "late", "rejected"}
    assert all(expected[view] for view in VIEWS)

    rng = random.Random()
    seed = rng.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    disturbed = project(new_workbench())
    kills = 0
    # In the middle of the batches first, then between the views of the chain.
    for wait_for in ("BatchCommitted", "SourceFinished", "SliceCommitted", "ViewFinished"):
        if run_and_kill(disturbed.root, rng.uniform(0.0, 0.4), wait_for):
            break
        kills += 1
    assert kills >= 3, "the runs ended before they could be killed"
    session = disturbed.session()
    session.run()
    assert facts(session) == expected
