"""docs/tutorial.md is a data analyst's path, and this executes it: its files, its commands, its output."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from typer.testing import CliRunner

from infra.kafka.broker import free_port, is_free
from tests.alerts.webhook import webhook
from tests.conftest import ROOT
from tidegate.cli.main import app
from tidegate.dagster import load_definitions
from tidegate.errors import TidegateError
from tidegate.project import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*) -->\n)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


def blocks() -> Iterator[tuple[str, str, str]]:
    """(mark above it, kind, text) of every fenced block."""
    for match in BLOCK.finditer(PAGE):
        yield match["mark"] or "", match["kind"], match["text"]


def calls(text: str) -> Iterator[tuple[list[str], str]]:
    """The words of each command of a console block, and its output."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, output = part.partition("\n")
        yield shlex.split(line), output


def fits(shown: str, real: str) -> bool:
    """Equal, where a line `…` stands for any lines, and `…` in a line for any text of it."""
    lines = [
        r"(?:[^\n]*\n)*?" if line == "…" else r"[^\n]*".join(map(re.escape, line.split("…"))) + r" *\n"
        for line in shown.splitlines()
    ]
    return re.fullmatch("".join(lines), real) is not None


def tidegate(words: list[str]) -> str:
    assert words[0] == "tidegate"
    done = CliRunner().invoke(app, words[1:])
    # `plan` says by its exit code that there are changes.
    assert done.exit_code == (2 if words[1] == "plan" else 0), done.output
    return done.output


def change(file: Path, difference: str) -> None:
    """Make a file what the lines with `+` say where it has those with `-`."""
    lines = difference.splitlines(keepends=True)
    before, after = ("".join(line[1:] for line in lines if line[0] in kept) for kept in (" -", " +"))
    text = file.read_text(encoding="utf-8")
    assert text.count(before) == 1
    file.write_text(text.replace(before, after), encoding="utf-8")


def run_schedule(root: Path, instance: dg.DagsterInstance) -> None:
    """What Dagster does at a quarter past. The team's expectations have a job of their own (they have tests)."""
    repository = load_definitions(root).get_repository_def()
    schedule = repository.get_schedule_def("pages_hourly_schedule")
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    job = repository.get_job(schedule.job_name)
    keys = set(job.asset_layer.selected_asset_keys)
    assert {key.to_user_string() for key in keys} == {"visits", "pages_hourly"}
    quality = repository.get_job("tidegate_quality").asset_layer.asset_graph.asset_check_keys
    own = {k.asset_key.to_user_string() for k in quality if k.name == "expectations"}
    assert own == {"orders_hourly", "pages_hourly"}
    checks = {k for k in job.asset_layer.asset_graph.asset_check_keys if k.asset_key in keys}
    quick = {k for k in checks if k.name in ("raw_adds_up", "windowed_equals_raw")}
    done = job.get_subset(asset_selection=keys, asset_check_selection=quick).execute_in_process(
        instance=instance
    )
    assert {e.asset_key.to_user_string(): e.passed for e in done.get_asset_check_evaluations()} == {
        "visits": True,
        "pages_hourly": True,
    }


def test_an_analyst_s_path(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen = []
    with webhook() as hook, dg.DagsterInstance.ephemeral() as instance:
        monkeypatch.setenv("TIDEGATE_ALERT_URL", f"json://127.0.0.1:{hook.port}/")
        for mark, kind, text in blocks():
            if mark.startswith("file: "):
                target = Path.cwd() / mark.removeprefix("file: ")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
            if mark.startswith("change: "):
                change(Path.cwd() / mark.removeprefix("change: "), text)
            if mark == "the schedule runs":
                run_schedule(Path.cwd(), instance)
            for words, shown in calls(text) if kind == "console" else ():
                real = tidegate(words)
                assert fits(shown, real), f"{' '.join(words)}\n{real}"
                seen.append(words[1])
                if words[1] == "init":
                    monkeypatch.chdir(tmp_path / words[2])
        first = ["init", "check", "alerts", "run", "sql", "sql", "audit", "sql"]
        changes = ["plan", "run", "plan", "apply", "sql", "sql", "rollback"]
        assert seen == [*first, *changes, "docs"]
        assert len(hook.got) == 1


@pytest.mark.medium
def test_the_receiver_takes_what_is_sent_to_the_url_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project_of_the_page(tmp_path)
    (exported,) = [text for _, kind, text in blocks() if kind == "bash"]
    name, url = re.fullmatch(r"export (\w+)=(\S+) .*\n", exported).groups()  # type: ignore[union-attr]
    program, port = (root / "receiver.py").read_text(), free_port()
    assert f":{8099}/" in url
    (root / "receiver.py").write_text(program.replace("8099", str(port)))
    monkeypatch.chdir(root)
    refused = CliRunner().invoke(app, ["alerts", "test", "web_team"])
    assert refused.exit_code == 1
    assert f"{name} is not set" in refused.output
    monkeypatch.setenv(name, url.replace("8099", str(port)))
    with subprocess.Popen(
        [sys.executable, "-u", "receiver.py"], stdout=subprocess.PIPE, text=True
    ) as receiver:
        try:
            while is_free(port):
                time.sleep(0.05)
            assert CliRunner().invoke(app, ["alerts", "test", "web_team"]).exit_code == 0
        finally:
            receiver.kill()
        shown, _ = receiver.communicate()
    assert "tidegate" in shown


def project_of_the_page(root: Path) -> Path:
    """The files of the page's first six sections."""
    for mark, _, text in blocks():
        if mark.startswith("file: "):
            target = root / mark.removeprefix("file: ")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    return root


def test_the_mistake_is_refused_as_shown(tmp_path: Path) -> None:
    root = project_of_the_page(tmp_path)
    file = root / "assets" / "visits.sql"
    file.write_text(file.read_text().replace("freshness:", "freshnes:"))
    with pytest.raises(TidegateError) as caught:
        Project.load(root).catalog()
    (shown,) = [text for _, kind, text in blocks() if not kind]
    assert f"{caught.value}\n" == shown


def test_in_dagster_the_asset_has_what_stands_above_its_sql(tmp_path: Path) -> None:
    root = project_of_the_page(tmp_path)
    specs = {s.key.to_user_string(): s for s in load_definitions(root).resolve_all_asset_specs()}
    view = specs["pages_hourly"]
    assert (list(view.owners), view.tags["marketing"]) == (["team:web", "ada@example.org"], "")
    assert view.freshness_policy is not None
    columns: dict[str, Any] = {c.name: c.description for c in view.metadata["dagster/column_schema"].columns}
    assert columns["visitors"] == "By how many different people."


@pytest.mark.parametrize(
    ("shown", "real", "expected"),
    [
        ("a\n…\nd\n", "a\nb\nc\nd\n", True),
        ("a …\n", "a b\n", True),
        ("a\n", "a\nb\n", False),
        ("a\n…\nd\n", "a\nb\n", False),
    ],
)
def test_an_ellipsis_stands_for_any_lines(shown: str, real: str, expected: bool) -> None:
    assert fits(shown, real) is expected


def test_every_page_that_is_linked_is_there() -> None:
    for name in re.findall(r"\]\(([\w.]+\.md)", PAGE):
        assert (ROOT / "docs" / name).is_file(), name
