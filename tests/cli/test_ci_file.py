"""The CI file that `tidegate init` writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import yaml


def test_the_ci_file_of_the_template_calls_what_there_is(shop: Path) -> None:
    import typer

    from tidegate.cli.main import app

    workflow = yaml.safe_load((shop / ".github" / "workflows" / "tidegate.yaml").read_text())
    lines = [step["run"] for step in workflow["jobs"]["test"]["steps"] if "run" in step]
    calls = [line.split() for line in lines if line.startswith("tidegate ")]
    assert [words[1] for words in calls] == ["check", "test", "docs"]
    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for words in calls:
        options = {option for p in known[words[1]].params for option in p.opts}
        assert {word for word in words if word.startswith("--")} <= options
    assert (shop / "requirements.txt").read_text().startswith("tidegate")


def test_E1_the_ci_file_shows_the_plan_and_fails_if_a_part_is_refused(shop: Path, tmp_path: Path) -> None:
    workflow = yaml.safe_load((shop / ".github" / "workflows" / "tidegate.yaml").read_text())
    (script,) = (step["run"] for step in workflow["jobs"]["plan"]["steps"] if step.get("name") == "plan")
    tool, summary = tmp_path / "bin" / "tidegate", tmp_path / "summary.md"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tidegate.cli.main "$@"\n')
    tool.chmod(0o755)
    environ = {**os.environ, "PATH": f"{tool.parent}:{os.environ['PATH']}", "TIDEGATE_ENV": "local"}
    environ["GITHUB_STEP_SUMMARY"] = str(summary)

    def step() -> int:
        # As GitHub runs it.
        return subprocess.run(["bash", "-e", "-c", script], cwd=shop, env=environ, check=False).returncode

    assert step() == 0
    assert "| orders_hourly | view | new |" in summary.read_text()
    (shop / "assets" / "orders.sql").write_text("CREATE SOURCE orders (")
    assert step() == 1
