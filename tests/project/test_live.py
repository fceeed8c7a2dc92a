"""Live runs of jobs/*.yaml: defaults, and mistakes with file, line and hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.errors import TidegateError
from tidegate.project import Project
from tidegate.project.jobs.live import live_families, live_members
from tidegate.project.jobs.live_selection import check_live

SQL = """\
CREATE TABLE a (at TIMESTAMP, WATERMARK FOR at AS at) APPEND ONLY;
CREATE MATERIALIZED VIEW a_rows AS SELECT at FROM a EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW a_more AS SELECT at FROM a_rows EMIT ON WINDOW CLOSE;
CREATE TABLE b (at TIMESTAMP, WATERMARK FOR at AS at) APPEND ONLY;
"""


def project(root: Path, live: str) -> Project:
    for folder, name, text in (("assets", "all.sql", SQL), ("jobs", "live.yaml", live)):
        (root / folder).mkdir(exist_ok=True)
        (root / folder / name).write_text(text)
    return Project.load(root)


def test_what_is_left_out_has_a_default(tmp_path: Path) -> None:
    found = project(tmp_path, "live: [{name: all}, {name: one, select: [a_rows], interval: 1 minute}]")
    everything, one = found.jobs().live
    assert (everything.interval, everything.retries, everything.upkeep, everything.enabled) == (
        2,
        3,
        True,
        False,
    )
    assert (everything.report_every, everything.run_for, everything.keep_runs) == (60, 86_400, 14 * 86_400)
    assert (everything.started_by, everything.port, one.interval) == ("dagster", None, 60)
    # Rows flow between all of a family: who keeps one member keeps them all.
    assert live_members(found.catalog(), one) == ("a", "a_rows", "a_more")
    assert live_families(found.catalog(), everything) == (("a", "a_rows", "a_more"), ("b",))


@pytest.mark.parametrize(
    ("text", "code", "line", "words"),
    [
        ("live:\n- {name: a b}", "TG605", 2, "letters, digits and _"),
        ("live:\n- {name: x, select: []}", "TG605", 2, "selects nothing"),
        ("live:\n- {name: x, intervall: 2 s}", "TG604", 2, "intervall"),
        ("live:\n- {name: x, interval: 2}", "TG605", 2, "needs a unit"),
        ("live:\n- {name: x, interval: 0 seconds}", "TG605", 2, "'0 seconds' is not a duration"),
        ("live:\n- {name: x, intervals: {a: 0s}}", "TG605", 2, "'0s' is not a duration"),
        ("live:\n- {name: x, port: 70000}", "TG605", 2, "port"),
        ("live:\n- {name: x, started_by: cron}", "TG605", 2, "started_by"),
        ("live:\n- {name: x, select: [a_row]}", "TG609", 2, 'no asset "a_row"'),
        ("live:\n- name: x\n  isolate: [b, a_row]", "TG609", 3, 'no asset "a_row"'),
        ("live:\n- name: x\n  intervals: {a_row: 1 s}", "TG609", 3, 'no asset "a_row"'),
        ("live:\n- name: x\n  priorities: {a_row: 1}", "TG609", 3, 'no asset "a_row"'),
        ("live:\n- name: x\n  select: [a]\n  isolate: [b]", "TG609", 4, '"b" is not among what the live run'),
        (
            "live:\n- name: x\n  intervals:\n    a: 1 s\n    a_more: 2 s",
            "TG609",
            5,
            'intervals: the group "a" has two values, by the names "a" and "a_more"',
        ),
        (
            "live:\n- name: x\n  priorities: {b: 1, a_rows: 2,\n    a: 2}",
            "TG609",
            4,
            'priorities: the group "a" has two values, by the names "a_rows" and "a"',
        ),
        (
            "live:\n- {name: x, select: [a]}\n- {name: x, select: [b]}",
            "TG609",
            3,
            'live run "x" is also defined in',
        ),
        (
            "live:\n- {name: x, select: [a]}\n- {name: y, select: [a_more]}",
            "TG609",
            3,
            'live runs "x" and "y" both write a, a_rows, a_more',
        ),
    ],
)
def test_mistakes_are_placed(tmp_path: Path, text: str, code: str, line: int, words: str) -> None:
    found = project(tmp_path, text)
    with pytest.raises(TidegateError) as caught:
        check_live(found.jobs(), found.catalog())
    error = caught.value
    assert words in error.message
    assert error.location is not None
    assert (error.code, error.location.file, error.location.line) == (code, "jobs/live.yaml", line)


def test_the_demo_has_one_that_is_not_enabled() -> None:
    demo = Project.load(Path(__file__).resolve().parents[2])
    check_live(demo.jobs(), demo.catalog())
    assert [(run.name, run.enabled) for run in demo.jobs().live] == [("flights", False)]
