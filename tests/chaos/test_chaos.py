"""R1, R2: a short `make chaos`: a real broker, a real live process, and kill -9 of both."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.run import Options, run, summary


@pytest.mark.slow
def test_R2_chaos_changes_no_row_no_decision_and_no_window(tmp_path: Path) -> None:
    options = Options(rows=30_000, kills=2, broker_kills=1, seed=3, idle_seconds=4, keep=tmp_path / "chaos")
    report = run(options)
    text = summary(report)
    print(text)
    assert report.differences == 0, text
    assert sum(report.kills.values()) == options.kills + options.broker_kills
    assert report.verdict["rows"] == report.in_topic >= options.rows
