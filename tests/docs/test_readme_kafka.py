"""The README's Kafka section, typed as it stands there; only the broker is the tests' own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.test_readme import block_after
from tests.support.kafka import Broker


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long_run
def test_the_kafka_section_works_as_it_is_written(kafka: Broker, tmp_path: Path) -> None:
    block = block_after("<!-- executed by tests/docs/test_readme_kafka.py", "bash")
    first, rest = block.split("\n", 1)
    assert first.startswith("make kafka ")
    script = rest.replace("127.0.0.1:9092", kafka.bootstrap).replace(
        ".venv/bin/", f"{Path(sys.executable).parent}/"
    )
    # The one command that means a broker's folder: the tests' broker has another.
    script = script.replace("infra.kafka topic", f"infra.kafka topic --dir {kafka.local.folder}")
    script = script.replace("infra.kafka send", f"infra.kafka send --dir {kafka.local.folder}")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "clicks: 6 messages sent" in done.stdout
    assert any(line.split() == ["2026-01-01", "10:00:00", "/", "2"] for line in done.stdout.splitlines())
    status = subprocess.run(
        [sys.executable, "-m", "tidegate.cli.main", "status", "--project", "web", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    (clicks,) = json.loads(status.stdout)["relations"]
    assert (clicks["on_time"], clicks["late"], clicks["rejected"], clicks["lag_rows"]) == (4, 1, 1, 0)
    assert clicks["watermark_text"] == "2026-01-01 10:01:25"
