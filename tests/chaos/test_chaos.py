"""R1, R2: a short `make chaos`: a real broker, a real live process, and kill -9 of both."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.chaos.export import export
from tests.chaos.report import Options, summary
from tests.chaos.run import run
from tidegate.session.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
@pytest.mark.long_run
def test_R2_chaos_changes_no_row_no_decision_and_no_window(tmp_path: Path, spark: SparkSession) -> None:
    options = Options(
        rows=12_000,
        kills=2,
        broker_kills=1,
        seed=3,
        idle_seconds=3,
        keep=tmp_path / "chaos",
        seconds_per_kill=7.0,
        small=True,
    )
    report = run(options, lambda root, folder: export(Session.open(project=root, spark=spark), folder))
    text = summary(report)
    print(text)
    assert report.differences == 0, text
    assert sum(report.kills.values()) == options.kills + options.broker_kills
    assert report.verdict["rows"] == report.in_topic >= options.rows
