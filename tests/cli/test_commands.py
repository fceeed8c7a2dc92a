"""The commands that need no Spark, and how all of them answer errors."""

from __future__ import annotations

import gc
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tidegate.cli import main as entry
from tidegate.cli.codes import CODES
from tidegate.cli.commands.project import ui
from tidegate.cli.commands.project.init import write_template
from tidegate.cli.diagnosis import PYSPARK, examine
from tidegate.errors import TidegateError
from tidegate.project import Project
from tidegate.store.writers import GroupLoad, LiveRecord, recorded

Call = Callable[..., Any]
# fmt: off
COMMANDS = ["init", "check", "explain", "plan", "run", "sql", "status", "late", "audit", "cleanup", "rebuild",
            "docs", "doctor", "ui"]
# fmt: on


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_the_shared_options(tidegate: Call, command: str) -> None:
    text = tidegate(command, "--help").stdout
    assert f"Example: tidegate {command}" in text
    for option in ("--project", "--env", "--json", "--debug"):
        assert option in text


def test_the_template_is_a_good_project(tidegate: Call) -> None:
    result = tidegate("check", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (
        0,
        {
            "project": "shop",
            "environment": "local",
            "warehouse": f"file://{Path.cwd()}/.tidegate/warehouse",
            "files": 1,
            "sources": ["orders"],
            "tables": [],
            "views": ["orders_hourly", "orders_daily"],
            "sinks": [],
            "schedules": ["every_quarter_hour"],
            "amendments": [],
            "cleanups": [],
            "live": [],
            "thresholds": ["orders"],
            "quality": ["orders_hourly"],
            "warnings": [],
        },
    )


@pytest.mark.medium
def test_selections_are_the_same_for_every_command(tidegate: Call) -> None:
    listed = json.loads(tidegate("check", "--json", "--select", "+orders_daily").stdout)
    assert listed["selected"] == ["orders", "orders_daily"]
    explained = json.loads(tidegate("explain", "--json", "--select", "kind:view").stdout)["explained"]
    assert [one["name"] for one in explained] == ["orders_hourly", "orders_daily"]
    shown = json.loads(tidegate("status", "--json", "--exclude", "orders_hourly").stdout)
    assert [v["name"] for v in shown["views"]] == ["orders_daily"]
    assert tidegate("explain").exit_code == 2
    for command in ("check", "explain", "run", "live", "status", "upkeep"):
        assert "--select" in tidegate(command, "--help").stdout


def test_docs_are_pages_and_data(tidegate: Call, tmp_path: Path) -> None:
    done = tidegate("docs")
    assert (done.exit_code, done.stdout.strip()) == (
        0,
        f"4 pages in {Path.cwd()}/.tidegate/docs: open {Path.cwd()}/.tidegate/docs/index.html",
    )
    said = json.loads(tidegate("docs", "--json", "--out", str(tmp_path / "site")).stdout)
    assert [asset["name"] for asset in said["assets"]] == ["orders", "orders_hourly", "orders_daily"]
    (tmp_path / "file").write_text("")
    refused = tidegate("docs", "--out", str(tmp_path / "file"))
    assert (refused.exit_code, "TG704" in refused.stderr) == (2, True)


def test_init_says_what_to_do_next_and_overwrites_nothing(tidegate: Call, tmp_path: Path) -> None:
    done = tidegate("init", str(tmp_path / "new"))
    assert done.exit_code == 0
    assert "tidegate run" in done.stdout
    assert (tmp_path / "new" / ".gitignore").is_file()
    (tmp_path / "new" / "assets" / "orders.sql").write_text("mine")
    again = tidegate("init", str(tmp_path / "new"))
    assert (again.exit_code, "TG704" in again.stderr) == (2, True)
    assert (tmp_path / "new" / "assets" / "orders.sql").read_text() == "mine"


def test_init_next_to_other_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("kept")
    assert "assets/orders.sql" in write_template(tmp_path)
    with pytest.raises(TidegateError, match="already"):
        write_template(tmp_path)


@pytest.mark.medium
def test_options_before_and_after_the_command(tidegate: Call, shop: Path, tmp_path: Path) -> None:
    os.chdir(tmp_path)
    for arguments in (["--project", str(shop), "check"], ["check", "--project", str(shop)]):
        assert tidegate(*arguments).exit_code == 0
    assert tidegate("--project", "nowhere", "check", "--project", str(shop)).exit_code == 0
    assert tidegate("--env", "nope", "check", "--project", str(shop)).exit_code == 2
    os.chdir(shop / "data" / "orders")
    assert tidegate("check").exit_code == 0


def test_an_error_of_sql_has_a_caret_on_stderr_and_exits_with_2(tidegate: Call, shop: Path) -> None:
    (shop / "assets" / "bad.sql").write_text("CREATE SUORCE x (a INT);")
    result = tidegate("check")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "assets/bad.sql:1:8" in result.stderr
    assert "^" in result.stderr
    as_json = tidegate("--json", "check")
    error = json.loads(as_json.stdout)["error"]
    assert (as_json.exit_code, error["location"]["line"], as_json.stderr) == (2, 1, "")


def test_an_error_of_a_schedule_is_found_by_check(tidegate: Call, shop: Path) -> None:
    (shop / "jobs" / "more.yaml").write_text("schedules:\n- {name: n, cron: '@daily', select: [ordres]}\n")
    result = tidegate("check")
    assert result.exit_code == 2
    assert "jobs/more.yaml:2:" in result.stderr
    assert 'did you mean "orders"?' in result.stderr


def test_not_a_project(tidegate: Call, tmp_path: Path) -> None:
    os.chdir(tmp_path)
    result = tidegate("status")
    assert (result.exit_code, "hint: tidegate init DIR creates one" in result.stderr) == (2, True)


def test_explain(tidegate: Call) -> None:
    text = tidegate("explain", "orders_hourly").stdout
    assert [line.split()[0] for line in text.splitlines() if line[:1] not in " "] == [
        "orders_hourly:",
        "source",
        "gate",
        "log",
        "slice",
        "step",
        "step",
        "sink",
    ]
    data = json.loads(tidegate("explain", "orders_hourly", "--json").stdout)
    assert [s["node"] for s in data["stages"]] == [
        *("source", "gate", "log", "slice"),
        *("step", "step", "sink"),
    ]
    assert tidegate("explain", "ordres").exit_code == 2


@pytest.mark.usefixtures("stored")
def test_status(tidegate: Call) -> None:
    found = json.loads(tidegate("status", "--json").stdout)
    orders, views = found["relations"][0], {v["name"]: v for v in found["views"]}
    assert (orders["raw"], orders["on_time"], orders["late"], orders["rejected"]) == (14, 12, 1, 1)
    assert (orders["watermark_text"], orders["holds_back"]) == ("2026-03-01 11:10:00", ["paris"])
    assert (orders["behind_newest"], [p["partition"] for p in orders["partitions"]]) == (
        900,
        ["berlin", "paris"],
    )
    assert (views["orders_hourly"]["behind"], views["orders_hourly"]["current"]) == (3900, False)
    assert (views["orders_daily"]["ran"], views["orders_daily"]["frontier_text"]) == (False, "none yet")
    text = tidegate("status", "orders", "--partitions").stdout
    assert "15 minutes" in text
    assert "partitions of orders" in text
    assert tidegate("status", "ordres").exit_code == 2


@pytest.mark.usefixtures("stored")
def test_status_of_sinks(tidegate: Call, shop: Path) -> None:
    (shop / "assets" / "sinks.sql").write_text(
        "CREATE SINK exported FROM orders_hourly WITH (connector = 'filesystem', path = 'out') "
        "FORMAT PLAIN ENCODE CSV; CREATE SINK shown FROM orders WITH (connector = 'console');"
    )
    state = {"sink": "exported", "table": "made-first", "tick": 1, "total": 2, "skipped": 1, "pending": None}
    (shop / "out" / "_tidegate").mkdir(parents=True)
    (shop / "out" / "_tidegate" / "position.json").write_text(json.dumps(state))
    found = json.loads(tidegate("status", "exported", "shown", "--json").stdout)
    assert (found["relations"], found["views"]) == ([], [])
    keys = ("name", "delivers", "tick", "newest", "behind", "delivered", "waiting", "current")
    assert [tuple(sink[key] for key in keys) for sink in found["sinks"]] == [
        ("exported", ["orders_hourly"], 1, 1, 0, 1, 0, True),
        ("shown", ["orders"], None, 1, 1, 0, 12, False),
    ]
    text = tidegate("status").stdout
    assert "filesystem out" in text
    assert "1 of 1" in text


@pytest.mark.usefixtures("stored")
def test_status_says_what_groups_of_live_mode_cost(tidegate: Call, shop: Path) -> None:
    loads = [GroupLoad(f"g{n}", n / 100, n / 50, 10.0 * n, 7) for n in range(12)]
    loads.append(GroupLoad("orders", 0.25, 0.4, 1234.5, 2000, 12_340_000))
    with recorded(shop / ".tidegate", "local", LiveRecord(1.0, 1.0, ("orders",), loads=tuple(loads))):
        text, found = tidegate("status").stdout, json.loads(tidegate("status", "--json").stdout)
        alone = tidegate("status", "--group", "orders").stdout
        others = [tidegate("status", *more).stdout for more in (["orders"], ["--failing"])]
    (row,) = (line for line in text.splitlines() if "1,234.5" in line)
    assert re.sub(r"[^\w.,%]+", " ", row).split() == ["orders", "0.25", "40%", "1,234.5", "2000", "12.3"]
    assert "3 more groups: tidegate status --json" in text
    assert "g11" in text
    assert not re.search(r"\bg2\b", text)
    assert found["live"][0]["loads"][12]["cores"] == 0.25
    assert "1,234.5" in alone
    assert "g11" not in alone
    assert not any("live group" in other for other in others)


@pytest.mark.usefixtures("stored")
def test_explain_shows_the_watermarks_of_now(tidegate: Call) -> None:
    text = tidegate("explain", "orders_hourly").stdout
    assert "now 2026-03-01 12:00:00" in text  # window_end of the earliest window that is open at 11:10


def test_status_before_the_first_run(tidegate: Call) -> None:
    assert "nothing has run yet: tidegate run" in tidegate("status").stdout


@pytest.mark.medium
def test_late_without_late_rows_or_watermark_needs_no_spark(tidegate: Call, shop: Path) -> None:
    assert tidegate("late", "orders").exit_code == 0
    assert "TG701" in tidegate("late", "orders_hourly").stderr
    (shop / "assets" / "t.sql").write_text("CREATE TABLE t (a INT) APPEND ONLY;")
    assert "TG701" in tidegate("late", "t").stderr
    # A selection leaves out what has no watermark; names as arguments are each asked for.
    (shop / "assets" / "u.sql").write_text(
        "CREATE TABLE u (a INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;"
    )
    both = json.loads(tidegate("late", "--select", "kind:table", "--select", "orders", "--json").stdout)
    assert [one["source"] for one in both["sources"]] == ["orders", "u"]
    assert json.loads(tidegate("late", "u", "--json").stdout)["source"] == "u"
    assert len(json.loads(tidegate("late", "orders", "u", "--json").stdout)["sources"]) == 2
    assert "TG701" in tidegate("late", "--select", "t").stderr
    for command in ("late", "audit"):
        assert "name one object, or use --select" in tidegate(command).stderr


LIGHT = """
import sys
from tidegate.cli.main import app
try:
    app(sys.argv[1:])
except SystemExit as done:
    assert not done.code, done.code
heavy = {"pyspark", "dagster", "pandas", "py4j", "pyiceberg", "matplotlib", "tidegate.live.supervisor"}
heavy &= set(sys.modules)
assert not heavy, heavy
"""


@pytest.mark.medium
@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    "arguments",
    [["check"], ["explain", "orders_hourly"], ["status", "--json"], ["doctor"], ["--help"]],
    ids=lambda a: a[0],
)
def test_light_commands_load_nothing_heavy_and_start_no_jvm(shop: Path, arguments: list[str]) -> None:
    # A java that fails when it is asked for more than its version.
    java = shop / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\n[ "$*" = "-version" ] || exit 9\necho \'openjdk version "17.0.1"\' >&2\n')
    java.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", LIGHT, *arguments],
        cwd=shop,
        env=os.environ | {"JAVA_HOME": str(shop)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.medium
def test_a_reader_that_stops_reading_is_not_an_error(shop: Path) -> None:
    command = [sys.executable, "-m", "tidegate.cli.main", "explain", "orders"]
    with subprocess.Popen(
        command, cwd=shop, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


def test_a_missing_java_says_so_in_one_line_before_spark(
    tidegate: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    for arguments in (["run"], ["sql", "-c", "SHOW SOURCES"], ["audit", "orders_hourly"]):
        result = tidegate(*arguments)
        assert result.exit_code == 2
        assert "TG608" in result.stderr
        assert "install Java 17" in result.stderr


@pytest.mark.medium
def test_doctor(tidegate: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    good = json.loads(tidegate("doctor", "--json").stdout)
    assert {c["check"] for c in good["checks"]} >= {"python", "java", "pyspark", "disk", "warehouse"}
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    bad = tidegate("doctor")
    assert bad.exit_code == 1
    assert [line for line in bad.stdout.splitlines() if line.startswith("BAD") and "install Java 17" in line]


def test_doctor_writes_nothing_but_its_probe(shop: Path) -> None:
    before = sorted(shop.rglob("*"))
    assert {f.check: f.state for f in examine(Project.load(shop), None)}["warehouse"] == "ok"
    assert sorted(shop.rglob("*")) == before


def test_doctor_outside_a_project_and_with_a_broken_one(tidegate: Call, shop: Path, tmp_path: Path) -> None:
    (shop / "assets" / "bad.sql").write_text("CREATE")
    assert " – tidegate check shows where" in tidegate("doctor").stdout
    os.chdir(tmp_path)
    assert "not a tidegate project" in tidegate("doctor").stdout


def test_doctor_wants_the_pyspark_that_the_package_pins() -> None:
    from importlib.metadata import requires

    assert f"pyspark=={PYSPARK}" in (requires("tidegate") or [])


def test_ui_prepares_dagster_once(shop: Path) -> None:
    project = Project.load(shop)
    home = ui.dagster_home(project)
    settings = yaml.safe_load((home / "dagster.yaml").read_text())
    assert settings["telemetry"] == {"enabled": False}
    assert settings["concurrency"]["pools"]["default_limit"] == 1
    (home / "dagster.yaml").write_text("# mine")
    assert (ui.dagster_home(project) / "dagster.yaml").read_text() == "# mine"
    variables = ui.environment(project, home)
    assert (variables["TIDEGATE_PROJECT"], variables["TIDEGATE_ENV"]) == (str(shop), "local")
    assert variables["DAGSTER_HOME"] == str(shop / ".tidegate" / "dagster")
    assert ui.command(3001)[-6:] == ["-m", "tidegate.dagster.definitions", "-h", "127.0.0.1", "-p", "3001"]


def test_ui_with_a_taken_port(tidegate: Call) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = tidegate("ui", "--port", str(port))
    assert (result.exit_code, f"--port {port + 1}" in result.stderr) == (2, True)


def test_every_code_of_the_command_line_is_used_and_explained() -> None:
    import re

    import tidegate.cli

    folder = Path(tidegate.cli.__file__).parent
    sources = [p for p in folder.rglob("*.py") if p.name != "codes.py"]
    used = {code for p in sources for code in re.findall(r"TG7\d\d", p.read_text())}
    assert used == set(CODES)


@pytest.mark.parametrize(("group", "command"), [("catalog", "migrate"), ("alerts", "preview")])
def test_a_group_of_commands_is_one_however_few_they_are(tidegate: Call, group: str, command: str) -> None:
    assert f"{group} {command} [OPTIONS]" in tidegate(group, command, "--help").stdout


@pytest.mark.parametrize(
    "line", ["status", "--json --env=x --project run status live", "run status", "--env status live"]
)
def test_only_commands_that_end_at_once_do_without_the_collector(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, on = list[bool](), line in ("run status", "--env status live")
    monkeypatch.setattr(sys, "argv", ["tidegate", *line.split()])
    monkeypatch.setattr(entry, "app", lambda: seen.append(gc.isenabled()))
    gc.unfreeze()
    try:
        entry.main()
        # What Python does at its end in any case has nothing to look through, either.
        assert (seen, gc.get_freeze_count() == 0) == ([on], on)
    finally:
        gc.unfreeze()
        gc.enable()
