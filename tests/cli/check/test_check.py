"""`tidegate check`: every mistake of every file at once, and what differs from what is stored."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.check.checking import SINK, Call, deploy, found, places, source, view


def test_every_error_of_every_file_is_shown_at_once(bare: Path, tidegate: Call) -> None:
    (bare / "assets" / "a.sql").write_text(
        "CREATE SOURCE a (id INT, ts TIMESTMP) WITH (connector = 'filesystem', path = 'data') "
        "FORMAT PLAIN ENCODE JSON;\n"
        "CREATE MATERIALIZED VIEW b AS SELECT id FROM a;\n"
        "CREATE TABLE c (id INT);\n"
        "CREATE MATERIALIZED VIEW d AS SELECT nope FROM c;\n"
        "CREATE MATERIALIZED VIEW e AS SELEC id FROM c;\n"
        "CREATE SINK k FROM d WITH (connector = 'console');\n"
    )
    (bare / "assets" / "b.sql").write_text(
        "CREATE TABLE t (id INT)\n\nCREATE TABLE u (id INT);\nCREATE TABLE c (id INT);\n"
    )
    (bare / "assets" / "c.sql").write_text("CREATE TABLE x (id INT); SELECT 'never ends")
    (bare / "assets" / "d.sql").write_bytes(b"CREATE TABLE \xff")
    (bare / "jobs" / "jobs.yaml").write_text(
        "schedules:\n  - {name: one, cron: '61 * * * *'}\n  - {name: two, crom: '@daily', cron: '@daily'}\n"
    )
    (bare / "jobs" / "more.yaml").write_text(
        "schedules:\n  - {name: three, cron: '@daily', select: [c, nobody, a, x]}\n"
        "thresholds:\n  - {source: nowhere, behind_clock: 1 day}\n"
    )
    (bare / "resources" / "local.yaml").write_text("spark: {mastr: x}\nwarehouse: {namespace: 1-2}\n")
    code, data = found(tidegate)
    assert code == 2
    assert places([e for e in data["errors"] if e["location"]]) == [
        ("TG207", "assets/a.sql", 1, 29),
        ("TG202", "assets/a.sql", 4, 38),
        ("TG102", "assets/a.sql", 5, 31),
        ("TG102", "assets/b.sql", 1, 23),
        ("TG204", "assets/b.sql", 4, 14),
        ("TG101", "assets/c.sql", 1, 33),
        ("TG605", "jobs/jobs.yaml", 2, 23),
        ("TG604", "jobs/jobs.yaml", 3, 17),
        ("TG609", "jobs/more.yaml", 2, 47),
        ("TG609", "jobs/more.yaml", 4, 14),
        ("TG604", "resources/local.yaml", 1, 9),
        ("TG605", "resources/local.yaml", 2, 24),
    ]
    assert [e["code"] for e in data["errors"] if not e["location"]] == ["TG610"]
    assert data["error"] == data["errors"][0]
    shown = tidegate("check")
    assert shown.exit_code == 2
    assert "13 errors, 0 warnings" in shown.stderr
    assert (
        'error TG102: a ";" is missing after this\n --> assets/b.sql:1:23\n1 | CREATE TABLE t (id INT)\n'
        in shown.stderr
    )
    assert "hint: end the statement before CREATE with ;" in shown.stderr


def test_what_follows_from_an_error_is_not_told_again(bare: Path, tidegate: Call) -> None:
    (bare / "assets" / "a.sql").write_text(
        source("s").replace("INT", "INTT")
        + view("v")
        + view("w", "v", "window_end")
        + SINK.format(name="k", of="w")
    )
    (bare / "jobs" / "jobs.yaml").write_text(
        "schedules: [{name: one, cron: '@daily', select: [v, k]}]\nthresholds: [{source: s, behind_clock: 1 day}]\n"
        "live: [{name: all, select: [s]}]\n"
    )
    (bare / "jobs" / "maintenance.yaml").write_text("tables: {w: {retention: 3 days}}\n")
    (bare / "jobs" / "amendments.yaml").write_text(
        "amendments: [{name: late, cron: '@daily', select: [w]}]\n"
    )
    _, data = found(tidegate)
    assert [e["code"] for e in data["errors"]] == ["TG207"]


@pytest.mark.medium
def test_R4_check_status_and_why_say_without_spark_what_differs_from_what_is_deployed(
    bare: Path, tidegate: Call
) -> None:
    (bare / "assets" / "a.sql").write_text(source() + view("v") + view("w"))
    deploy(bare)
    assert found(tidegate)[1]["warnings"] == []
    assert "TG907" not in tidegate("status").stdout + tidegate("why").stdout
    (bare / "assets" / "a.sql").write_text(
        source("s").replace("id INT", "id BIGINT") + view("v", what="max(id)") + view("w")
    )
    code, data = found(tidegate, "--strict")
    assert (code, places(data["warnings"])) == (
        1,
        [("TG907", "assets/a.sql", 1, 15), ("TG907", "assets/a.sql", 3, 26)],
    )
    status = tidegate("status").stdout
    assert (
        'TG907: "s" has changed since it was deployed: its log is changed in place by the next run' in status
    )
    assert (
        'TG907: "v" has changed since it was deployed: its results are those of the earlier query' in status
    )
    assert "tidegate apply v recomputes them" in status
    assert '"w"' not in status
    changed = json.loads(tidegate("status", "--json").stdout)["changed"]
    assert {one["name"]: one["code"] for one in changed} == {"s": "TG907", "v": "TG907"}
    why = tidegate("why", "v")
    assert why.exit_code == 1
    assert "WARNING definition_changed\n  what  " in why.stdout
    assert "  do    tidegate apply v recomputes them\n" in why.stdout
    findings = json.loads(tidegate("why", "--json").stdout)["findings"]
    assert [f["asset"] for f in findings if f["kind"] == "definition_changed"] == ["s", "v"]


@pytest.mark.medium
def test_check_is_quick_and_starts_no_jvm(bare: Path) -> None:
    (bare / "assets" / "a.sql").write_text(source() + "".join(view(f"v{n}") for n in range(20)))
    deploy(bare)
    code = (
        "import sys, time\nfrom tidegate.cli.main import app\nstarted = time.process_time()\n"
        "try:\n    app(['check'])\nexcept SystemExit as done:\n    assert not done.code\n"
        "print(time.process_time() - started, 'pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=bare, capture_output=True, text=True, check=True)
    seconds, spark = done.stdout.splitlines()[-1].split()
    # Half a second on a quiet machine, imports aside; the rest is for one that is not.
    assert (float(seconds) < 3.0, spark) == (True, "False")


def test_R4_a_branch_is_compared_with_what_is_stored_although_another_file_has_errors(
    bare: Path, tidegate: Call
) -> None:
    file = bare / "assets" / "a.sql"
    file.write_text(source() + view("v"))
    deploy(bare)
    file.write_text(source().replace("id INT", "id BIGINT") + view("v"))
    (bare / "assets" / "b.sql").write_text("CREATE TABLE t (id INTT);\n")
    (bare / "resources" / "branch.yaml").write_text("reads: local\nwarehouse: {namespace: mine}\n")
    done = tidegate("check", "--env", "branch")
    assert 'warning TG907: "s" has changed since it was deployed' in done.stderr
    assert "1 error, 1 warning" in done.stderr
    assert "not compared" not in done.stderr


def test_the_help_shows_each_example_in_a_line_of_its_own(tidegate: Call) -> None:
    for command in ("check", "explain", "run", "amend"):
        lines = [line.strip() for line in tidegate(command, "--help").stdout.splitlines()]
        examples = [line for line in lines if "Example: " in line]
        assert len(examples) >= 2, command
        assert all(line.startswith("Example: ") for line in examples)
        assert all(line.count("Example: ") == 1 for line in examples)
