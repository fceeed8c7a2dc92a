"""`tidegate live` as operators run it: the real command, a real worker with Spark, files dropped while it runs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ASSET = """CREATE SOURCE clicks (
    page VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds'
) WITH (connector = 'filesystem', path = 'in') FORMAT PLAIN ENCODE JSON;

CREATE MATERIALIZED VIEW per_minute AS
SELECT page, window_start, window_end, count(*) AS n
FROM TUMBLE(clicks, ts, INTERVAL '1 minute') GROUP BY page, window_start, window_end
EMIT ON WINDOW CLOSE;
"""
NOON = 1_767_268_800  # 2026-01-01 12:00:00 UTC
_PATIENCE = 300.0


class Live:
    """The command on a project, and what it has said."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "assets").mkdir(parents=True)
        (root / "assets" / "clicks.sql").write_text(ASSET)
        (root / "in").mkdir()
        (root / "resources").mkdir()
        # As the tests' own Spark: small jobs, quick start.
        conf = {
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        }
        (root / "resources" / "local.yaml").write_text(json.dumps({"spark": {"conf": conf}}))
        self.lines = root / "told.jsonl"
        with self.lines.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tidegate.cli.main", "live", "--port=0", "--interval=0.2s", "--json"],
                cwd=root,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        self.url = self.until("live_started")["url"]

    def told(self, kind: str) -> list[dict[str, Any]]:
        found = [
            json.loads(line) for line in self.lines.read_text().splitlines(keepends=True) if line[-1] == "\n"
        ]
        return [one for one in found if one["event"] == kind]

    def until(self, kind: str, count: int = 1) -> dict[str, Any]:
        """The `count`th event of a kind."""
        self.wait(lambda: len(self.told(kind)) >= count)
        return self.told(kind)[count - 1]

    def wait(self, what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not what():
            assert self.process.poll() is None, self.lines.read_text()
            assert time.monotonic() < deadline, self.lines.read_text()
            time.sleep(0.05)

    def drop(self, name: str, *times: str) -> None:
        """A file of rows, renamed into place."""
        hidden = self.root / "in" / f".{name}"
        hidden.write_text("".join(f'{{"page": "a", "ts": "2026-01-01 {time}"}}\n' for time in times))
        hidden.rename(self.root / "in" / f"{name}.json")

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return answer.read().decode()

    def metric(self, series: str) -> float | None:
        found = re.search(rf"^{re.escape(series)} (\S+)$", self.get("/metrics"), re.MULTILINE)
        return None if found is None else float(found.group(1))


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    found = Live(tmp_path / "project")
    yield found
    if found.process.poll() is None:
        found.process.send_signal(signal.SIGTERM)
        found.process.wait(60)


def test_R2_live_over_files_survives_a_kill_and_stops_in_order(live: Live) -> None:
    worker = live.until("worker_started")["pid"]
    assert os.getpgid(worker) == worker
    live.drop("1", "12:00:10", "12:00:50", "12:01:30")
    live.wait(lambda: live.metric('tidegate_view_frontier_seconds{view="per_minute"}') == NOON + 85)
    assert live.metric('tidegate_partition_watermark_seconds{partition=".",source="clicks"}') == NOON + 85
    assert live.metric('tidegate_rows_total{outcome="on_time",source="clicks"}') == 3
    assert live.metric('tidegate_worker_up{group="clicks"}') == 1
    assert live.metric('tidegate_worker_resident_memory_bytes{group="clicks",process="jvm"}') > 100 << 20
    health = json.loads(live.get("/healthz"))
    assert (health["status"], health["groups"]["clicks"]["pid"]) == ("ok", worker)
    assert json.loads(live.get("/status"))["views"][0]["groups"] == 1

    os.kill(worker, signal.SIGKILL)
    again = live.until("worker_started", 2)["pid"]
    assert again != worker
    live.drop("2", "12:02:30", "12:00:30")
    live.wait(lambda: live.metric('tidegate_view_rows_total{view="per_minute"}') == 2)
    assert live.metric('tidegate_rows_total{outcome="late",source="clicks"}') == 1
    assert live.metric('tidegate_worker_restarts_total{group="clicks"}') == 1

    live.process.send_signal(signal.SIGTERM)
    assert live.process.wait(60) == 0
    stopped = live.told("live_stopped")[0]
    assert (stopped["exit_code"], stopped["failed"]) == (0, [])
    assert live.told("worker_stopping")[-1]["why"] == "asked to"
    assert not Path(f"/proc/{again}").exists()
    # Each row once, whatever was killed in between.
    assert sum(e["on_time"] + e["late"] + e["rejected"] for e in live.told("batch_committed")) == 5
