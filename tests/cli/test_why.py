"""`tidegate why` and `tidegate alerts`, without a JVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.alerts.webhook import webhook
from tests.dagster.projects import write_project
from tests.dagster.test_sensor import commit, micros
from tests.store.tables import HadoopTable
from tidegate.cli.main import app

JOBS = """
thresholds: [{source: orders, behind_newest: 30 minutes}]
alerts:
  targets: [{name: team, url: "json://127.0.0.1:${WHY_PORT}/"}]
  routes: [{to: [team], repeat_after: 4 hours}]
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = write_project(tmp_path / "shop", JOBS)
    (root / "resources").mkdir()
    (root / "resources" / "local.yaml").write_text("allow: {alerts: [WHY_PORT]}\n")
    commit(root, 1, berlin="11:30", paris="10:40")
    return root


def call(root: Path, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["--project", str(root), *arguments])


def test_why_names_cause_windows_and_what_to_do(root: Path) -> None:
    done = call(root, "why", "orders_hourly")
    assert done.exit_code == 1, done.output
    text = done.stdout
    assert (
        "WARNING lagging\n  what  orders: watermark 2026-03-01 10:30:00, 1 hour behind the newest event"
        in text
    )
    assert "  waits orders_hourly: window_end 2026-03-01 11:00:00\n" in text
    assert "  do    check the partition that holds it back: paris\n" in text
    assert "WARNING view_behind\n  what  orders_hourly: never computed, but its inputs allow" in text
    assert "notes" not in text
    found = json.loads(call(root, "why", "orders", "--json").stdout)
    assert [f["kind"] for f in found["findings"]] == ["lagging", "idle"] or [
        f["kind"] for f in found["findings"]
    ] == ["lagging"]
    assert found["findings"][0]["waiting"] == [{"view": "orders_hourly", "window_end": "2026-03-01 11:00:00"}]
    assert found["findings"][0]["numbers"]["behind_newest"] == 3600.0


def test_why_says_that_all_is_well_and_knows_names(root: Path) -> None:
    done = call(root, "why", "notes")
    assert (done.exit_code, done.stdout) == (0, "ok      notes: has not run yet\n")
    wrong = call(root, "why", "oders")
    assert (wrong.exit_code, "TG201" in wrong.output) == (2, True)


@pytest.mark.medium
def test_alerts_test_preview_and_status(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with webhook() as hook:
        monkeypatch.setenv("WHY_PORT", str(hook.port))
        done = call(root, "alerts", "test")
        assert (done.exit_code, done.stdout) == (0, "team (json): delivered\n")
        assert hook.got[0]["title"] == "tidegate shop/local: test"
        shown = call(root, "alerts", "preview")
        assert (shown.exit_code, len(hook.got)) == (0, 1)
        assert shown.stdout.startswith("to team: tidegate shop/local: 2 problems: orders")
        hook.answer = 500
        failed = call(root, "alerts", "test", "--json")
    assert failed.exit_code == 1
    assert json.loads(failed.stdout)["targets"] == [
        {"target": "team", "service": "json", "problem": "not delivered: the service answered 500"}
    ]
    status = call(root, "alerts", "status")
    assert "route to team: warning and worse, again after 4 hours" in status.stdout
    assert "no sensor has run yet" in status.stdout
    assert call(root, "alerts", "test", "tema").exit_code == 2
    (root / "jobs" / "jobs.yaml").write_text("live: []")
    assert "TG609" in call(root, "alerts", "status").output


CHAINED = """
CREATE MATERIALIZED VIEW half_hours AS SELECT window_start, window_end, count(*) AS n
FROM TUMBLE(orders_hourly, window_end, INTERVAL '30 minutes') GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW of_ends AS SELECT window_end, count(*) AS n FROM orders_hourly GROUP BY window_end
EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW visits AS SELECT window_start, window_end, count(*) AS n
FROM SESSION(orders, ordered_at, INTERVAL '5 minutes') GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
"""


def test_C2_why_says_what_is_final_and_never_a_next_window_that_ends_there(root: Path) -> None:
    (root / "assets" / "chained.sql").write_text(CHAINED, encoding="utf-8")
    marks = {"orders_hourly": "10:30", "half_hours": "11:00", "of_ends": "11:00", "visits": "10:30"}
    for name, frontier in marks.items():
        table = HadoopTable(root / ".tidegate" / "warehouse" / "main" / name)
        table.commit({"tidegate.frontier": micros(frontier), "tidegate.groups": 1})
    said = call(root, "why", *marks).stdout
    day = "2026-03-01"
    assert f"ok      orders_hourly: final up to {day} 10:30:00; next window_end {day} 11:00:00\n" in said
    # Its input's next window ends at 11:00, which is in the half hour that ends at 11:30.
    assert f"ok      half_hours: final up to {day} 11:00:00; next window_end {day} 11:30:00\n" in said
    # A group is final when the watermark is beyond its time (C6): the one at 11:00 is not.
    assert f"ok      of_ends: rows before {day} 11:00:00 are final\n" in said
    assert f"ok      visits: final up to {day} 10:30:00\n" in said
