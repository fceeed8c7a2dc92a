"""R1, R2: ended at any point at which a run leaves something behind, and started again: nothing lost, nothing twice."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.inprocess.failpoints import Failpoints, Killed
from tests.inprocess.session import open_session, without_a_jvm
from tests.runtime.undisturbed import Undisturbed, recorded
from tidegate.session.session import Session

SQL = """
CREATE SOURCE readings (id INT, meter VARCHAR, v INT, ts TIMESTAMP,
    WATERMARK FOR ts AS ts - INTERVAL '20 seconds')
WITH (connector = 'filesystem', path = 'input', partition.columns = 'meter', max_files_per_batch = '1')
FORMAT PLAIN ENCODE JSON;

CREATE TABLE newest (meter VARCHAR, v INT, ts TIMESTAMP, PRIMARY KEY (meter),
    WATERMARK FOR ts AS ts - INTERVAL '20 seconds' WITH TTL)
WITH (connector = 'filesystem', path = 'input', partition.columns = 'meter', max_files_per_batch = '2')
FORMAT PLAIN ENCODE JSON;

CREATE MATERIALIZED VIEW per_minute AS
SELECT window_start, window_end, meter, count(*) AS n, sum(v) AS s FROM TUMBLE(readings, ts, INTERVAL '1 minute')
GROUP BY window_start, window_end, meter EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW rolling AS
SELECT window_end, count(*) AS n FROM HOP(readings, ts, INTERVAL '1 minute', INTERVAL '5 minutes')
GROUP BY window_start, window_end;

CREATE MATERIALIZED VIEW busy AS
SELECT window_start, window_end, meter, sum(n) AS n, sum(s) AS s
FROM SESSION(per_minute, window_start, meter, INTERVAL '2 minutes')
GROUP BY window_start, window_end, meter EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW gated AS
SELECT window_end, max(v) AS m
FROM TUMBLE(WATERMARK(readings, ts, ts - INTERVAL '40 seconds'), ts, INTERVAL '1 minute')
GROUP BY window_end EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW steps AS
SELECT ts, meter, id, lag(id) OVER w AS before, lead(id) OVER w AS later
FROM readings WINDOW w AS (PARTITION BY meter ORDER BY ts) EMIT ON WINDOW CLOSE;

CREATE SINK to_files FROM per_minute WITH (connector = 'filesystem', path = 'out')
FORMAT PLAIN ENCODE CSV (without_header = true);
"""
VIEWS = ("per_minute", "rolling", "busy", "gated", "steps")
FILES, ROWS = 3, 25


@pytest.fixture(autouse=True)
def _no_jvm() -> Iterator[None]:
    with without_a_jvm():
        yield


def project(root: Path) -> Path:
    rng, now = random.Random(7), 0
    (root / "assets").mkdir(parents=True)
    (root / "assets" / "all.sql").write_text(SQL)
    (root / "input").mkdir()
    for file in range(FILES):
        lines = []
        for row in range(ROWS):
            now += rng.choice([2, 5, 9, 30])
            second = max(now - rng.choice([0, 0, 0, 15, 45]), 0)
            ts = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(1_767_225_600 + second))
            number = file * ROWS + row
            meter = rng.choice("ab")
            lines.append({"id": number, "meter": meter, "v": number % 7, "ts": ts if number % 19 else None})
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        (root / "input" / f"{file:03d}.json").write_text(text)
    return root


def facts(session: Session) -> dict[str, Any]:
    """Everything that must not depend on what happened to the process."""
    raw = session.table("readings$raw").select("partition", "offset", "id", "outcome", "watermark", "reason")
    tables = {"raw": raw, "newest": session.table("newest")}
    tables |= {view: session.table(view) for view in VIEWS}
    found: dict[str, Any] = {
        name: sorted(map(tuple, frame.collect()), key=str) for name, frame in tables.items()
    }
    files = sorted((session.project.root / "out").rglob("*.csv"))
    found["files"] = sorted(line for file in files for line in file.read_text().splitlines())
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    root = tmp_path_factory.mktemp("undisturbed") / "project"
    with without_a_jvm():
        session = open_session(project(root))
        with recorded(root) as run:
            session.run()
        run.facts.update(facts(session))
    return run


@pytest.mark.medium
def test_the_run_does_all_there_is_to_be_broken(undisturbed: Undisturbed) -> None:
    assert len(undisturbed.facts["raw"]) == FILES * ROWS
    assert {row[3] for row in undisturbed.facts["raw"]} == {"on_time", "late", "rejected"}
    assert all(undisturbed.facts.values())
    kinds = {name.split(" ")[1] for name in undisturbed.passed}
    for kind in ("append", "merge_rows", "create_table"):
        assert any(name.endswith(kind) for name in kinds), kind
    assert {"PlanInbox.write", "PlanInbox.forget", "StateFile.write", "FilesystemSink._finish"} <= kinds


#: In CI a quarter of the points (the simulator kills at all kinds of them); in `make property` all.
THOROUGH = os.environ.get("TIDEGATE_HYPOTHESIS") == "thorough"
SHARES = (0, 1, 2, 3) if THOROUGH else (0,)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.medium
def test_R1_R2_killed_at_every_point_and_started_again(share: int, undisturbed: Undisturbed) -> None:
    """Every point of the run, in four shares: the first is before every second thing that it does."""
    for number in undisturbed.numbers(SHARES):
        if number % 4 == share:
            session = undisturbed.back_to(number)
            session.run()
            assert facts(session) == undisturbed.facts, undisturbed.passed[number]


@pytest.mark.long_run
@pytest.mark.parametrize("seed", range(40 if THOROUGH else 1))
@pytest.mark.medium
def test_R1_R2_ended_again_and_again_at_random_points(
    seed: int, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    """An error that nobody handles ends it here, at points of runs that have themselves begun after one."""
    rng, root, kills = random.Random(seed), project(tmp_path / "project"), 0
    while True:
        with Failpoints(rng.randrange(len(undisturbed.passed) // 2)).armed() as points:
            try:
                open_session(root).run()
                if len(points.passed) == 0 or kills > 20:
                    break
            except Killed:
                kills += 1
    session = open_session(root)
    session.run()
    assert facts(session) == undisturbed.facts
    assert kills >= 2
