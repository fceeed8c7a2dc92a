"""`tidegate check`: every mistake of every file at once, warnings, and what differs from what is stored."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.store.tables import HadoopTable
from tidegate.iceberg.layout import relation_identity, view_identity
from tidegate.project import Project
from tidegate.project.lint import lint
from tidegate.sql.dialect.warnings import WARNINGS, warning

Call = Callable[..., Any]

SOURCE = """CREATE SOURCE {name} (id INT, note VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts)
WITH (connector = 'filesystem', path = '{path}') FORMAT PLAIN ENCODE JSON;
"""
VIEW = """CREATE MATERIALIZED VIEW {name} AS SELECT window_start, window_end, {what} AS n
FROM TUMBLE({of}, {time}, INTERVAL '1 hour') GROUP BY window_start, window_end{emit};
"""
EMIT = " EMIT ON WINDOW CLOSE"
SINK = "CREATE SINK {name} FROM {of} WITH (connector = 'console');\n"

MEANT = "-- Without EMIT ON WINDOW CLOSE: the day so far.\n"
AVRO = """CREATE SOURCE s (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts)
WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'localhost:9092')
FORMAT PLAIN ENCODE AVRO (schema.location = 'nope.avsc');
"""
OVER = """CREATE MATERIALIZED VIEW v AS
SELECT id, {call} AS n FROM s;
"""


def source(name: str = "s", path: str = "data") -> str:
    return SOURCE.format(name=name, path=path)


def view(name: str, of: str = "s", time: str = "ts", what: str = "count(*)", emit: str = EMIT) -> str:
    return VIEW.format(name=name, of=of, time=time, what=what, emit=emit)


@pytest.fixture
def bare(tmp_path: Path, tidegate: Call, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with nothing but a folder of data."""
    root = tmp_path / "bare"
    for folder in ("assets", "jobs", "resources", "data"):
        (root / folder).mkdir(parents=True)
    monkeypatch.chdir(root)
    return root


def found(tidegate: Call, *options: str) -> tuple[int, dict[str, Any]]:
    done = tidegate("check", "--json", *options)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, json.loads(done.stdout)


def places(ones: list[dict[str, Any]]) -> list[tuple[str, str, int, int]]:
    return [(o["code"], o["location"]["file"], o["location"]["line"], o["location"]["column"]) for o in ones]


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


CASES: dict[str, tuple[dict[str, str], tuple[str, str, int, int], str, str]] = {
    "TG901 comment": (
        {"assets/a.sql": source() + view("v", emit=" -- EMIT ON WINDOW CLOSE")},
        ("TG901", "assets/a.sql", 3, 26),
        "a comment contains it",
        "write EMIT ON WINDOW CLOSE at the end",
    ),
    "TG901 reader": (
        {"assets/a.sql": source() + view("v", emit="") + view("w", "v", "window_end")},
        ("TG901", "assets/a.sql", 3, 26),
        '"w", which reads the view, has it',
        "write EMIT ON WINDOW CLOSE",
    ),
    "TG901 others": (
        {"assets/a.sql": source() + view("u") + view("v", emit="") + view("w")},
        ("TG901", "assets/a.sql", 5, 26),
        "all 2 other views of windows have it",
        "write EMIT ON WINDOW CLOSE",
    ),
    "TG901 others, of which one is meant": (
        {"assets/a.sql": source() + view("u") + MEANT + view("v", emit="") + view("w", emit="")},
        ("TG901", "assets/a.sql", 8, 26),
        '"w" has no EMIT ON WINDOW CLOSE, although every other view of windows has it, or a comment that names it',
        "say so in a comment above it that names EMIT ON WINDOW CLOSE",
    ),
    "TG902": (
        {"assets/a.sql": source(path="dta/*.json") + view("v")},
        ("TG902", "assets/a.sql", 2, 40),
        "dta/*.json does not exist",
        "change the option path",
    ),
    "TG902 dataset": (
        {
            "assets/a.sql": source(path="dataset:flights/x") + view("v"),
            "resources/local.yaml": "allow: {python: true}",
        },
        ("TG902", "assets/a.sql", 2, 40),
        "assets/flights.py does not exist",
        "fetch(target: Path)",
    ),
    "TG902 schema": (
        {"assets/a.sql": AVRO + view("v")},
        ("TG902", "assets/a.sql", 3, 45),
        'source "s" reads messages by the schema nope.avsc, which does not exist',
        "or change the option schema.location; otherwise, a run fails (TG611)",
    ),
    "TG903": (
        {"assets/a.sql": source() + view("v", what="sum(note)")},
        ("TG903", "assets/a.sql", 3, 64),
        "sum of text: each value is converted to DOUBLE",
        "CAST the text",
    ),
    "TG903 over": (
        {"assets/a.sql": source() + OVER.format(call="sum(note) OVER (PARTITION BY id ORDER BY ts)")},
        ("TG903", "assets/a.sql", 4, 12),
        "sum of text: each value is converted to DOUBLE",
        "CAST the text",
    ),
    "TG903 over a named window": (
        {
            "assets/a.sql": source()
            + OVER.format(call="avg(note) OVER w").replace(";", " WINDOW w AS (ORDER BY ts);")
        },
        ("TG903", "assets/a.sql", 4, 12),
        "avg of text: each value is converted to DOUBLE",
        "CAST the text",
    ),
    "TG904": (
        {"assets/a.sql": source() + view("v", emit="") + SINK.format(name="k", of="v")},
        ("TG904", "assets/a.sql", 5, 13),
        'sink "k" only adds rows, but "v" also shows open windows',
        "write EMIT ON WINDOW CLOSE",
    ),
    "TG905": (
        {
            "assets/a.sql": source() + view("v"),
            "jobs/a.yaml": "schedules:\n  - {name: x, cron: '0 7 30-31 2 *'}\n",
        },
        ("TG905", "jobs/a.yaml", 2, 21),
        '"0 7 30-31 2 *" never fires',
        "the third field is the day of the month",
    ),
    "TG905 front matter": (
        {"assets/a.sql": source() + '-- ---\n-- schedule: "0 0 31 4,6 *"\n-- ---\n' + view("v")},
        ("TG905", "assets/a.sql", 6, 26),
        '"0 0 31 4,6 *" never fires',
        "the third field",
    ),
    "TG906": (
        {"assets/a.sql": source() + view("v") + source("lonely")},
        ("TG906", "assets/a.sql", 5, 15),
        'no view and no sink reads source "lonely"',
        "remove the source",
    ),
}


@pytest.mark.medium
@pytest.mark.parametrize("case", CASES)
def test_a_warning_says_where_and_what_to_do(bare: Path, tidegate: Call, case: str) -> None:
    files, place, message, hint = CASES[case]
    for name, text in files.items():
        (bare / name).parent.mkdir(exist_ok=True)
        (bare / name).write_text(text)
    code, data = found(tidegate)
    assert code == 0
    assert places(data["warnings"]) == [place]
    [one] = data["warnings"]
    assert message in one["message"]
    assert hint in one["hint"]
    assert place[0] != "TG903" or one["location"]["length"] == len("sum")
    assert found(tidegate, "--strict")[0] == 1
    shown = tidegate("check")
    assert shown.exit_code == 0
    assert f"warning {place[0]}: " in shown.stderr
    assert "^" in shown.stderr
    assert ", 1 warning\n" in shown.stdout


def test_what_is_meant_gets_no_warning(bare: Path, tidegate: Call) -> None:
    (bare / "assets" / "a.sql").write_text(
        source()
        + view("v", emit="")  # open windows are what it is for
        + view("w", what="sum(id)")
        + view("x")
        + view("y", emit="")
        + SINK.format(name="k", of="w")
        + "CREATE SINK l FROM s WITH (connector = 'console');\n"
    )
    (bare / "jobs" / "a.yaml").write_text(
        "schedules:\n  - {name: x, cron: '0 7 29 2 *'}\n  - {name: y, cron: '0 7 31 2 1'}\n"
        "  - {name: z, cron: '0 0 31 */2 *'}\n"
    )
    code, data = found(tidegate, "--strict")
    assert (code, data["warnings"]) == (0, [])
    assert "no problems found" in tidegate("check").stdout


def deploy(bare: Path) -> None:
    """The tables that a run would have made."""
    catalog = Project.load(bare).catalog()
    for item in catalog.order():
        identity = relation_identity(item) if hasattr(item, "connector") else view_identity(item)  # type: ignore[arg-type]
        properties = {"tidegate.identity": identity, "tidegate.definition": item.definition}
        table = HadoopTable(bare / ".tidegate" / "warehouse" / "main" / item.name, properties)
        table.commit({"tidegate.epoch": 1, "tidegate.watermark": 0, "tidegate.frontier": 0})


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
    assert 'TG907: "s" has changed since it was deployed: its log has the earlier definition' in status
    assert (
        'TG907: "v" has changed since it was deployed: its results are those of the earlier query' in status
    )
    assert "tidegate rebuild v recomputes them" in status
    assert '"w"' not in status
    changed = json.loads(tidegate("status", "--json").stdout)["changed"]
    assert {one["name"]: one["code"] for one in changed} == {"s": "TG907", "v": "TG907"}
    why = tidegate("why", "v")
    assert why.exit_code == 1
    assert "WARNING definition_changed\n  what  " in why.stdout
    assert "  do    tidegate rebuild v recomputes them\n" in why.stdout
    findings = json.loads(tidegate("why", "--json").stdout)["findings"]
    assert [f["asset"] for f in findings if f["kind"] == "definition_changed"] == ["s", "v"]


def test_every_warning_has_a_case() -> None:
    assert {name.split()[0] for name in CASES} | {"TG907"} == set(WARNINGS)
    with pytest.raises(ValueError, match="registry"):
        warning("TG999", "no such code", None, "none")


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


@pytest.mark.parametrize("comment", [MEANT, "-- The day so far, so no emit.\n"])
def test_TG901_a_view_whose_comment_speaks_of_it_is_meant_so(
    bare: Path, tidegate: Call, comment: str
) -> None:
    (bare / "assets" / "a.sql").write_text(
        source() + view("u") + comment + view("v", emit="").lstrip() + view("w")
    )
    assert not found(tidegate)[1]["warnings"]


def test_TG901_one_other_view_of_windows_is_too_few_to_tell(bare: Path, tidegate: Call) -> None:
    (bare / "assets" / "a.sql").write_text(source() + view("u") + view("v", emit=""))
    assert not found(tidegate)[1]["warnings"]


def test_TG901_EMIT_forgotten_in_the_project_of_the_tutorial(shop: Path, tidegate: Call) -> None:
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    visits = page.partition("<!-- file: assets/visits.sql -->\n```sql\n")[2].partition("```")[0]
    (shop / "data" / "visits").mkdir()
    file = shop / "assets" / "visits.sql"
    file.write_text(visits)
    assert found(tidegate)[1]["warnings"] == []
    file.write_text(visits.replace("\nEMIT ON WINDOW CLOSE", ""))
    [one] = found(tidegate)[1]["warnings"]
    assert one["code"] == "TG901"
    assert '"pages_hourly" has no EMIT ON WINDOW CLOSE' in one["message"]


def test_warnings_are_shown_beside_errors(bare: Path, tidegate: Call) -> None:
    (bare / "assets" / "a.sql").write_text(
        source(path="nowhere")
        + view("v", what="sum(nope)")
        + view("w", what="sum(note)")
        + view("u", emit="\n-- EMIT ON WINDOW CLOSE\n")
        + SINK.format(name="k", of="u")
        + source("x")  # the view that can't be read may have been meant to read it: no TG906
    )
    (bare / "assets" / "b.sql").write_bytes(b"CREATE TABLE \xff")
    (bare / "jobs" / "a.yaml").write_text("schedules:\n  - {name: x, cron: '0 7 30 2 *'}\n")
    (bare / "jobs" / "b.yaml").write_text("schedules:\n  - {name: y, cron: '61 * * * *'}\n")
    code, data = found(tidegate)
    assert code == 2
    assert [e["code"] for e in data["errors"]] == ["TG610", "TG202", "TG605"]
    assert places(data["warnings"]) == [
        ("TG902", "assets/a.sql", 2, 40),
        ("TG903", "assets/a.sql", 5, 64),
        ("TG901", "assets/a.sql", 7, 26),
        ("TG904", "assets/a.sql", 11, 13),
        ("TG905", "jobs/a.yaml", 2, 21),
    ]
    assert "3 errors, 5 warnings" in tidegate("check").stderr


def test_what_the_stored_tables_say_and_what_is_not_read_is_shown_beside_errors_elsewhere(
    bare: Path, tidegate: Call
) -> None:
    file, jobs = bare / "assets" / "a.sql", bare / "jobs" / "a.yaml"
    file.write_text(source() + view("v"))
    deploy(bare)
    file.write_text(source() + view("v", what="max(id)") + source("lonely"))
    jobs.write_text("schedules: [{name: x, cron: '61 * * * *'}]\n")
    code, data = found(tidegate)
    assert (code, [w["code"] for w in data["warnings"]]) == (2, ["TG907", "TG906"])
    # Without its environment, nobody knows where the tables of the project are.
    (bare / "resources" / "local.yaml").write_text("warehouse: {pth: x}\n")
    code, data = found(tidegate)
    assert (code, [w["code"] for w in data["warnings"]]) == (2, ["TG906"])


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


def errors(tidegate: Call) -> list[tuple[str, str, int, int]]:
    return places(found(tidegate)[1]["errors"])


def test_a_semicolon_that_is_missing_before_front_matter_is_named(shop: Path, tidegate: Call) -> None:
    file = shop / "assets" / "orders.sql"
    text = file.read_text()
    file.write_text(text.replace("FORMAT PLAIN ENCODE JSON;", "FORMAT PLAIN ENCODE JSON"))
    [one] = found(tidegate)[1]["errors"]
    assert (one["code"], one["message"]) == ("TG102", 'a ";" is missing after this')
    assert one["location"]["text"] == ") FORMAT PLAIN ENCODE JSON"
    assert one["hint"] == "end the statement before CREATE with ;"


def test_an_error_in_front_matter_hides_no_error_of_its_file(bare: Path, tidegate: Call) -> None:
    front = "-- ---\n-- owners: [team:a]\n-- ---\n"
    (bare / "assets" / "a.sql").write_text(
        front
        + "DROP TABLE x;\n"
        + source("s")
        + front
        + "CREATE TABLE t (id INTT);\n"
        + front.replace("team:", "")
        + view("v")
    )
    assert errors(tidegate) == [
        ("TG109", "assets/a.sql", 1, 1),
        ("TG107", "assets/a.sql", 4, 1),
        ("TG207", "assets/a.sql", 10, 20),
        ("TG605", "assets/a.sql", 12, 12),
    ]


@pytest.mark.parametrize(
    ("broken", "place", "line"),
    [
        ("CREATE SINK k FROM v WITH (connector = 'console);\n", (6, 40), None),
        ("CREATE SINK k FROM v WITH (connector = 'console,\n  a = 'b');\n", (7, 9), 6),
        ("/* never ends\n", (6, 1), None),
    ],
)
def test_an_open_quote_hides_no_error_of_the_statements_before_it(
    bare: Path, tidegate: Call, broken: str, place: tuple[int, int], line: int | None
) -> None:
    front = "-- ---\n-- owners: [a]\n-- ---\n"
    last = front + "CREATE TABLE z (id INT);\n"
    (bare / "assets" / "a.sql").write_text(
        source("s") + view("v", what="sum(nope)") + "CREATE TABLE t (id INTT);\n" + broken + last
    )
    (bare / "assets" / "b.sql").write_text(SINK.format(name="y", of="z"))
    assert errors(tidegate) == [
        ("TG202", "assets/a.sql", 3, 68),
        ("TG207", "assets/a.sql", 5, 20),
        ("TG101", "assets/a.sql", *place),
    ]
    hint = found(tidegate)[1]["errors"][-1]["hint"]
    assert ("the quote that begins in line" in hint) is (line is not None)
    assert line is None or f"begins in line {line} ends in a later line" in hint


def test_a_string_that_is_meant_to_have_several_lines_is_not_taken_for_an_open_quote(
    bare: Path, tidegate: Call
) -> None:
    (bare / "assets" / "a.sql").write_text(
        "CREATE TABLE t (id INT, note VARCHAR COMMENT 'two\nlines; one') -- ; none here\n;\n"
        "CREATE TABLE u (id INTT);\nCREATE TABLE x (note VARCHAR COMMENT 'open);\nCREATE TABLE y (id INT);\n"
    )
    assert errors(tidegate) == [
        ("TG207", "assets/a.sql", 4, 20),
        ("TG101", "assets/a.sql", 5, 38),
    ]
    assert "begins in line" not in found(tidegate)[1]["errors"][-1]["hint"]


@pytest.mark.parametrize("bad", ["CREATE TABLE a1 (id INTT);\n", "CREATE TABLE a1 (id INT;\n"])
def test_a_name_is_taken_by_a_definition_with_an_error_too(bare: Path, tidegate: Call, bad: str) -> None:
    (bare / "assets" / "a.sql").write_text(
        bad + "CREATE TABLE a1 (x INT);\nCREATE MATERIALIZED VIEW v AS SELECT id FROM a1;\n"
    )
    found_errors = errors(tidegate)
    assert [e[2] for e in found_errors] == [1, 2]
    assert found_errors[1] == ("TG204", "assets/a.sql", 2, 14)
    assert found(tidegate)[1]["errors"][1]["hint"] == "it is defined at assets/a.sql:1"


def test_a_name_that_is_there_twice_means_the_first_whatever_is_wrong_with_the_second(
    bare: Path, tidegate: Call
) -> None:
    (bare / "assets" / "a.sql").write_text(
        source()
        + view("v", "u", "window_end")
        + view("u")
        + view("u", what="max(nope)")
        + "CREATE TABLE v (id INT);\n"
        + SINK.format(name="k", of="v")
        + SINK.format(name="K", of="nobody")
    )
    assert errors(tidegate) == [
        ("TG204", "assets/a.sql", 7, 26),
        ("TG202", "assets/a.sql", 7, 68),
        ("TG204", "assets/a.sql", 9, 14),
        ("TG204", "assets/a.sql", 11, 13),
        ("TG201", "assets/a.sql", 11, 20),
    ]


@pytest.mark.parametrize("folder", [".", "infra/demo_kafka/project", "tests/sql/rules/partitions"])
def test_the_examples_have_no_warnings(folder: str) -> None:
    """Of what is stored (TG907), a working copy may say something else."""
    project = Project.load(ROOT / folder)
    assert [str(one) for one in lint(project, project.catalog())] == []
