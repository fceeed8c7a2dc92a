"""Front matter: what may stand between two `-- ---` lines above a CREATE, and what is refused, with its place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tidegate.errors import TidegateError
from tidegate.project import Project
from tidegate.project.front_matter import FrontMatter
from tidegate.project.jobs.jobs import own_schedules, schedules_of
from tidegate.sql import Catalog

TABLE = "CREATE TABLE notes (at TIMESTAMP, n INT, WATERMARK FOR at AS at) APPEND ONLY;\n"
VIEW = (
    "CREATE MATERIALIZED VIEW hourly AS SELECT window_start, sum(n) AS total\n"
    "FROM TUMBLE(notes, at, INTERVAL '1 hour') GROUP BY window_start EMIT ON WINDOW CLOSE;\n"
)
ALL = """\
-- ---
-- owners: [team:shops, ada@example.org]
-- tags: {finance: , domain: shops, level: 2}
-- description: |
--   Notes of each hour.
--   Final when it is over.
-- columns:
--   total: Sum of n.
-- group: reports
-- freshness: {within: 2 hours, warn: 90 minutes}
-- partitions: day
-- schedule: {cron: "*/15 * * * *", timezone: Europe/Berlin, enabled: false}
-- ---
-- A comment that the description replaces.
"""


def load(root: Path, *front: str) -> Catalog:
    """The table, and the view with `front` above it."""
    (root / "assets").mkdir(exist_ok=True)
    (root / "assets" / "a.sql").write_text(f"{TABLE}\n{''.join(front)}{VIEW}")
    return Project.load(root).catalog()


def refused(root: Path, *front: str) -> TidegateError:
    with pytest.raises(TidegateError) as caught:
        load(root, *front)
    return caught.value


def block(*lines: str) -> str:
    return "".join(f"-- {line}\n" for line in ("---", *lines, "---"))


def test_everything_that_can_be_declared(tmp_path: Path) -> None:
    catalog = load(tmp_path, ALL)
    view = catalog.get("hourly")
    assert view.description == "Notes of each hour.\nFinal when it is over.\n"
    assert [(c.name, c.comment) for c in view.columns] == [("window_start", None), ("total", "Sum of n.")]
    said = catalog.annotations_of("HOURLY")
    assert said.owners == ("team:shops", "ada@example.org")
    assert said.tags == (("finance", ""), ("domain", "shops"), ("level", "2"))
    assert said.tag_names == ("finance", "domain", "domain=shops", "level", "level=2")
    assert (said.group, said.fresh_within, said.warn_within) == ("reports", 7200, 5400)
    assert said.partitions == "day"
    (schedule,) = own_schedules(catalog)
    assert (schedule.name, schedule.cron, schedule.select) == ("hourly_schedule", "*/15 * * * *", ["+hourly"])
    assert (schedule.timezone, schedule.enabled) == ("Europe/Berlin", False)
    assert catalog.annotations_of("notes").owners == ()


def test_short_forms_and_the_comment_as_description(tmp_path: Path) -> None:
    short = block("tags: [finance, daily]", "freshness: 1 day", 'schedule: "@daily"')
    for text in (f"{short}-- Hours.\n", f"-- Hours.\n{short}"):
        catalog = load(tmp_path, text)
        assert catalog.get("hourly").description == "Hours."
        said = catalog.annotations_of("hourly")
        assert (said.tags, said.fresh_within) == ((("finance", ""), ("daily", "")), 86_400)
        assert (said.cron, said.timezone, said.enabled) == ("@daily", "UTC", True)


def test_R4_front_matter_is_no_part_of_the_definition(tmp_path: Path) -> None:
    assert load(tmp_path, ALL).get("hourly").definition == load(tmp_path).get("hourly").definition


def test_a_line_of_dashes_in_a_string_or_comment_is_none(tmp_path: Path) -> None:
    catalog = load(tmp_path, "-- ------\n-- Hours.\n")
    assert catalog.blocks == ()
    (tmp_path / "assets" / "b.sql").write_text(
        "CREATE TABLE b (at TIMESTAMP, t VARCHAR COMMENT 'one\n-- ---\ntwo', WATERMARK FOR at AS at) APPEND ONLY;"
    )
    assert Project.load(tmp_path).catalog().blocks == ()


@pytest.mark.parametrize(
    ("lines", "code", "place", "message", "hint"),
    [
        (["ownrs: [a]"], "TG604", "4:4", 'unknown key "ownrs"', 'did you mean "owners"?'),
        (["schedule: {crom: x}"], "TG604", "4:15", "schedule.crom", 'did you mean "cron"?'),
        (["columns:", "  totl: x"], "TG612", "5:6", 'hourly has no column "totl"', 'did you mean "total"?'),
        (['schedule: "99 * * * *"'], "TG605", "4:14", "minute: '99' is not in 0–59", "every hour"),
        (["freshness: {within: 1 hour, warn: 2 hours}"], "TG605", "4:15", "warns only when", "shorter"),
        (["freshness: 3"], "TG605", "4:15", "freshness", None),
        (["partitions: week"], "TG605", "4:16", "'day', 'hour' or 'none'", None),
        (["owners: [shops]"], "TG605", "4:12", '"shops" is not an owner', "team:NAME"),
        (["tags: [a b]"], "TG605", "4:10", '"a b" may only have letters', None),
        (["tags: {tidegate/kind: x}"], "TG605", "4:10", "reserved prefix", None),
        (["group: a-b"], "TG605", "4:11", '"a-b" may only have letters', None),
        (["owners: ["], "TG603", "4:13", "not valid YAML", None),
        (["owners: ['${NOBODY_SETS_THIS}']"], "TG606", "4:13", "NOBODY_SETS_THIS", None),
    ],
)
def test_what_is_refused_and_where(
    tmp_path: Path, lines: list[str], code: str, place: str, message: str, hint: str | None
) -> None:
    error = refused(tmp_path, block(*lines))
    assert error.location is not None
    at = f"{error.location.line}:{error.location.column}"
    assert (error.code, error.location.file, at) == (code, "assets/a.sql", place)
    assert message in error.message
    assert hint is None or hint in (error.hint or "")
    # The excerpt is a line of the file, dashes and all.
    assert error.location.text.startswith("-- ")


def test_partitions_and_columns_only_where_there_are_some(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    file = tmp_path / "assets" / "a.sql"
    file.write_text(block("partitions: day") + TABLE)
    with pytest.raises(TidegateError, match="a table can't have partitions") as caught:
        Project.load(tmp_path).catalog()
    assert caught.value.code == "TG612"
    sink = (
        "CREATE SINK out FROM hourly WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON;"
    )
    file.write_text(TABLE + VIEW + block("columns: {total: x}") + sink)
    with pytest.raises(TidegateError, match="the columns of the relation that it delivers") as caught:
        Project.load(tmp_path).catalog()
    assert caught.value.code == "TG612"
    file.write_text(TABLE + VIEW + block("owners: [team:bi]") + sink)
    assert Project.load(tmp_path).catalog().annotations_of("out").owners == ("team:bi",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"-- ---\n-- owners: [team:a]\n{VIEW}", "this front matter is not closed"),
        (f"-- ---\nSELECT 1;\n-- ---\n{VIEW}", "this front matter is not closed"),
        (f"{block('owners: []')}{block('tags: []')}{VIEW}", "has front matter already"),
        (f"{VIEW}{block('owners: []')}", "no CREATE below"),
        (VIEW.replace("FROM", f"{block('owners: []')}FROM"), "no CREATE below"),
        (f"{block('owners: []')}DROP TABLE notes;", "defines nothing"),
    ],
)
def test_front_matter_stands_right_above_a_create(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "a.sql").write_text(TABLE)
    (tmp_path / "assets" / "b.sql").write_text(text if "DROP" not in text else VIEW + text)
    with pytest.raises(TidegateError, match=message) as caught:
        Project.load(tmp_path).catalog()
    assert caught.value.code in ("TG109", "TG107")


def test_schedules_of_both_places_have_names_of_their_own(tmp_path: Path) -> None:
    catalog = load(tmp_path, block('schedule: "@hourly"'))
    (tmp_path / "jobs").mkdir()
    file = tmp_path / "jobs" / "a.yaml"
    file.write_text('schedules: [{name: nightly, cron: "@daily", select: ["+hourly", "kind:table"]}]')
    found = schedules_of(Project.load(tmp_path).jobs(), catalog)
    assert [s.name for s in found] == ["nightly", "hourly_schedule"]
    file.write_text('schedules: [{name: hourly_schedule, cron: "@daily"}]')
    with pytest.raises(TidegateError, match="but front matter has a schedule with the same name") as caught:
        schedules_of(Project.load(tmp_path).jobs(), catalog)
    assert caught.value.code == "TG609"
    file.write_text('schedules: [{name: a, cron: "@daily", select: ["tag:nothing"]}]')
    with pytest.raises(TidegateError) as caught:
        schedules_of(Project.load(tmp_path).jobs(), catalog)
    assert (caught.value.code, caught.value.location and caught.value.location.line) == ("TG613", 1)


def test_the_page_shows_every_key_and_its_example_holds(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
    section = page[page.index("## Front matter") : page.index("## Selections")]
    example = section[section.index("```sql\n") + 7 :].partition("CREATE")[0].replace("revenue:", "total:")
    said = load(tmp_path, example).annotations_of("hourly")
    assert (said.owners, said.partitions, said.cron) == (
        ("team:shops", "ada@example.org"),
        "day",
        "*/15 * * * *",
    )
    table = section[section.index("| key |") :]
    assert set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)))) == set(
        FrontMatter.model_fields
    )
