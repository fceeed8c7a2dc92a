"""R1, R2: killed at any instant, again and again, and started again: nothing lost, nothing twice, same results."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import ROOT, Workbench
from tests.support.quick import quick

if TYPE_CHECKING:
    from tidegate.session.session import Session

SQL = """
CREATE SOURCE readings (id INT, meter VARCHAR, kwh DOUBLE, ts TIMESTAMP,
    WATERMARK FOR ts AS ts - INTERVAL '20 seconds')
WITH (connector = 'filesystem', path = 'input', partition.columns = 'meter', max_files_per_batch = '1')
FORMAT PLAIN ENCODE JSON;

CREATE MATERIALIZED VIEW per_minute AS
SELECT window_start, meter, count(*) AS n, sum(kwh) AS total FROM TUMBLE(readings, ts, INTERVAL '1 minute')
GROUP BY window_start, window_end, meter EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW in_order AS SELECT ts, meter, id FROM readings EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW steps AS
SELECT ts, meter, id, lag(id) OVER w AS before, count(*) OVER w AS nth, lead(id, 2) OVER w AS later
FROM readings WINDOW w AS (PARTITION BY meter ORDER BY ts) EMIT ON WINDOW CLOSE;

CREATE SINK to_files FROM in_order
WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE CSV (without_header = true);

CREATE SINK to_lake FROM per_minute WITH (connector = 'iceberg');
"""
FILES, ROWS_PER_FILE = 4, 120
THOROUGH = os.environ.get("TIDEGATE_HYPOTHESIS") == "thorough"


def project(workbench: Workbench) -> Workbench:
    rng = random.Random(7)
    quick(workbench.assets(readings=SQL).root)
    for file in range(FILES):
        rows = []
        for i in range(ROWS_PER_FILE):
            n = file * ROWS_PER_FILE + i
            second = n * 3 - rng.choice([0, 0, 5, 30, 90])
            ts = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(1_767_225_600 + max(second, 0)))
            rows.append({"id": n, "meter": rng.choice("abc"), "kwh": n / 8, "ts": ts if n % 97 else None})
        workbench.json_lines(f"input/{file:03d}.json", rows)
    return workbench


def facts(session: Session) -> dict[str, list]:
    """Everything that must not depend on what happened to the process."""
    raw = session.table("readings$raw").select("partition", "offset", "id", "outcome", "watermark", "reason")
    out = {"raw": sorted(map(tuple, raw.collect()), key=str)}
    for view in ("per_minute", "steps"):
        out[view] = sorted(map(tuple, session.table(view).collect()), key=str)
    out["in_order"] = list(map(tuple, session.table("in_order").collect()))
    files = sorted(path for path in (session.project.root / "out").iterdir() if path.is_file())
    out["to_files"] = [line for path in files for line in path.read_text().splitlines()]
    out["to_lake"] = sorted(map(tuple, session.tables.rows("tidegate.main.to_lake").collect()), key=str)
    return out


def run_and_kill(root: Path, after: float, wait_for: str) -> bool:
    """Start a run, kill it `after` seconds past the line `wait_for`. True if it finished before that."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.runtime.killable", str(root)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    seen: list[str] = []
    assert process.stdout is not None
    reader = threading.Thread(target=lambda: seen.extend(iter(process.stdout.readline, "")), daemon=True)
    reader.start()
    deadline = time.monotonic() + 120
    while process.poll() is None and f"{wait_for}\n" not in seen and time.monotonic() < deadline:
        time.sleep(0.02)
    until = time.monotonic() + after
    while process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    if process.poll() is None:
        # The whole tree, the JVM included: as pulling the plug does.
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    reader.join(timeout=10)
    return "done\n" in seen


@pytest.mark.long_run
@pytest.mark.slow
def test_R2_property_kill_minus_nine_again_and_again(new_workbench) -> None:
    undisturbed = project(new_workbench())
    session = undisturbed.session()
    session.run()
    expected = facts(session)
    assert len(expected["raw"]) == FILES * ROWS_PER_FILE
    assert expected["to_lake"] == expected["per_minute"]
    assert len(expected["to_files"]) == len(expected["in_order"])
    assert {row[3] for row in expected["raw"]} == {"on_time", "late", "rejected"}

    rng = random.Random()
    seed = rng.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    disturbed = project(new_workbench())
    # What is left at every point that a run passes is where `test_failpoints.py` goes on; here the process and its JVM
    # are gone, once while it reads, and once while it delivers, where the rest takes a second. (In CI, live workers are
    # killed: tests/live/test_end_to_end.py.)
    reads = [(1.5, ["SourceStarted", "BatchCommitted"])]
    delivers = [(0.2, ["SliceCommitted", "ViewFinished", "SinkDelivered"])]
    for most, moments in reads + delivers if THOROUGH else rng.choice([reads, delivers]):
        moment = rng.choice(moments)
        ended = run_and_kill(disturbed.root, rng.uniform(0.0, most), moment)
        assert not ended, f"the run ended before it could be killed at {moment}"
    session = disturbed.session()
    session.run()
    assert facts(session) == expected
