"""`tidegate check` warns of what is allowed and hardly meant, says where it is and what to do, and of nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.check.checking import AVRO, MEANT, OVER, SINK, Call, found, places, source, view
from tests.conftest import ROOT
from tidegate.project import Project
from tidegate.project.lint import lint
from tidegate.sql.dialect.warnings import WARNINGS, warning

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
    "TG908": (
        {"assets/a.sql": source() + OVER.format(call=r"regexp_like(note, '^(a)\1$')")},
        ("TG908", "assets/a.sql", 4, 30),
        r"\1 in a text is only 1, as in Spark",
        "write r'…'",
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


def test_every_warning_has_a_case() -> None:
    assert {name.split()[0] for name in CASES} | {"TG907"} == set(WARNINGS)
    with pytest.raises(ValueError, match="registry"):
        warning("TG999", "no such code", None, "none")


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


@pytest.mark.parametrize("folder", [".", "infra/demo_kafka/project", "tests/sql/rules/partitions"])
def test_the_examples_have_no_warnings(folder: str) -> None:
    """Of what is stored (TG907), a working copy may say something else."""
    project = Project.load(ROOT / folder)
    assert [str(one) for one in lint(project, project.catalog())] == []
