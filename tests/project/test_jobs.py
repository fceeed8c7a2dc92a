"""Schedules and thresholds; Java; durations and cron."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.errors import TidegateError
from tidegate.project.java import require_java
from tidegate.project.jobs.jobs import Jobs, load_jobs
from tidegate.project.reading.cron import check_cron
from tidegate.project.reading.durations import format_duration, parse_duration

GOOD = """\
schedules:
  - name: hourly
    cron: "7 * * * *"
    timezone: America/New_York
    select: [flights, departures_hourly]
  - {name: nightly, cron: "@daily"}
thresholds:
  - {source: flights, behind_newest: 2 hours}
  - {source: "*", behind_clock: 1 day 30 minutes}
"""


def jobs(tmp_path: Path, text: str, name: str = "a.yaml") -> Jobs:
    (tmp_path / "jobs").mkdir(exist_ok=True)
    (tmp_path / "jobs" / name).write_text(text)
    return load_jobs(tmp_path)


def refused(tmp_path: Path, text: str) -> TidegateError:
    with pytest.raises(TidegateError) as caught:
        jobs(tmp_path, text).check(["flights", "departures_hourly"], ["flights"], ["plans"])
    return caught.value


def test_T2_cleanups_of_tables_with_a_key(tmp_path: Path) -> None:
    text = 'cleanups: [{name: nightly, cron: "0 3 * * *", select: [plans], enabled: true}]'
    found = jobs(tmp_path, text)
    found.check([], [], ["plans"])
    (cleanup,) = found.cleanups
    assert (cleanup.name, cleanup.select, cleanup.enabled) == ("nightly", ["plans"], True)
    error = refused(tmp_path, text.replace("plans", "flights"))
    assert error.code == "TG609"
    assert error.message == 'no table with a PRIMARY KEY "flights"'
    error = refused(tmp_path, text + '\nschedules: [{name: nightly, cron: "@daily"}]')
    assert (error.code, error.message) == ("TG609", 'schedule "nightly" is also defined in jobs/a.yaml')


def test_schedules_and_thresholds(tmp_path: Path) -> None:
    found = jobs(tmp_path, GOOD)
    found.check(["flights", "departures_hourly"], ["flights"], ["plans"])
    assert [(s.name, s.select, s.timezone) for s in found.schedules] == [
        ("hourly", ["flights", "departures_hourly"], "America/New_York"),
        ("nightly", "*", "UTC"),
    ]
    assert [(t.behind_newest, t.behind_clock) for t in found.thresholds] == [(7200, None), (None, 88200)]


def test_no_jobs_folder_is_no_jobs(tmp_path: Path) -> None:
    assert load_jobs(tmp_path) == Jobs()


@pytest.mark.parametrize(
    ("text", "code", "line", "words"),
    [
        ("schedules:\n- {name: a, cron: '* * * *'}", "TG605", 2, "not 4"),
        ("schedules:\n- {name: a, cron: '61 * * * *'}", "TG605", 2, "minute: '61' is not in 0–59"),
        ("schedules:\n- {name: a b, cron: '@daily'}", "TG605", 2, "letters, digits and _"),
        ("schedules:\n- {name: a}", "TG605", 2, '"schedules.0.cron" is missing'),
        ("schedules:\n- {name: a, cron: '@daily', timezone: Mars}", "TG605", 2, 'no time zone "Mars"'),
        ("schedules:\n- {name: a, cron: '@daily', select: []}", "TG605", 2, "selects nothing"),
        ("schedules:\n- {name: a, cron: '@daily', selct: x}", "TG604", 2, "selct"),
        ("schedules:\n- {name: a, cron: '@daily', select: [flihgts]}", "TG609", 2, 'no asset "flihgts"'),
        ("thresholds:\n- {source: flights}", "TG605", 2, "sets no limit"),
        ("thresholds:\n- {source: flights, behind_clock: 5}", "TG605", 2, "needs a unit"),
        ("thresholds:\n- {source: flights, behind_clock: 5 moons}", "TG605", 2, "is not a duration"),
        ("thresholds:\n- {source: departures_hourly, behind_clock: 5 s}", "TG609", 2, "with a watermark"),
        (
            "schedules:\n- {name: a, cron: '@daily'}\n- {name: a, cron: '@daily'}",
            "TG609",
            3,
            "also defined in",
        ),
    ],
)
def test_mistakes_in_jobs_are_placed(tmp_path: Path, text: str, code: str, line: int, words: str) -> None:
    error = refused(tmp_path, text)
    assert words in error.message
    assert error.location is not None
    assert (error.code, error.location.file, error.location.line) == (code, "jobs/a.yaml", line)


def test_did_you_mean_in_a_selection(tmp_path: Path) -> None:
    text = "schedules:\n- {name: a, cron: '@daily', select: [flihgts]}"
    assert refused(tmp_path, text).hint == 'did you mean "flights"?'


@pytest.mark.parametrize("good", ["*/5 0-6,12 * jan-mar mon", "0 0 1 1 0", "@hourly", "5/15 * * * 7"])
def test_cron_accepts(good: str) -> None:
    check_cron(good)


@pytest.mark.parametrize("bad", ["", "a * * * *", "5-1 * * * *", "*/0 * * * *", "*-3 * * * *", "@never"])
def test_cron_refuses(bad: str) -> None:
    with pytest.raises(ValueError):
        check_cron(bad)


@pytest.mark.parametrize(
    ("text", "seconds", "shown"),
    [("90s", 90, "1 minute 30 seconds"), ("2 hours", 7200, "2 hours"), ("1 day 1h", 90000, "1 day 1 hour")],
)
def test_durations(text: str, seconds: int, shown: str) -> None:
    assert parse_duration(text) == seconds
    assert format_duration(seconds) == shown


@pytest.mark.parametrize("bad", ["", "5", "0 s", "-5 s", "5 s oops", "1 parsec"])
def test_not_durations(bad: str) -> None:
    with pytest.raises(ValueError):
        parse_duration(bad)


def fake_java(folder: Path, answer: str) -> dict[str, str]:
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\necho '{answer}' >&2\n")
    binary.chmod(0o755)
    return {"JAVA_HOME": str(folder)}


def test_java_17_is_taken(tmp_path: Path) -> None:
    java = require_java(fake_java(tmp_path, 'openjdk version "17.0.15" 2025-04-15'))
    assert (java.major, java.version, java.warning) == (17, "17.0.15", None)


def test_newer_java_is_taken_with_a_warning(tmp_path: Path) -> None:
    java = require_java(fake_java(tmp_path, 'openjdk version "25" 2025-09-16'))
    assert java.warning == "Spark 4.1 is tested with Java 17 and 21, but this is 25"


@pytest.mark.parametrize(
    ("answer", "words"),
    [('java version "1.8.0_292"', "Java 1.8.0_292 at"), ("no such thing", "does not run: no such thing")],
)
def test_a_wrong_java_says_so_in_one_line_with_what_to_do(tmp_path: Path, answer: str, words: str) -> None:
    with pytest.raises(TidegateError) as caught:
        require_java(fake_java(tmp_path, answer))
    assert caught.value.code == "TG608"
    assert words in caught.value.message
    assert "\n" not in caught.value.message
    assert "install Java 17" in str(caught.value.hint)


def test_no_java_and_a_wrong_java_home(tmp_path: Path) -> None:
    for environ in ({"PATH": str(tmp_path)}, {"JAVA_HOME": str(tmp_path)}):
        with pytest.raises(TidegateError) as caught:
            require_java(environ)
        assert (caught.value.code, "install Java 17" in str(caught.value.hint)) == ("TG608", True)
