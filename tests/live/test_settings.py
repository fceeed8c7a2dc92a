"""What live runs in jobs/*.yaml say of groups is the default of `tidegate live`, and an option wins."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from tests.live.test_logs import PROJECT
from tidegate.cli.commands.runs.live_definitions import LiveDefinitions, LiveRequest, read_definitions
from tidegate.cli.commands.runs.live_reload import Current
from tidegate.errors import TidegateError
from tidegate.project import Project

BOTH = """live:
- name: both
  enabled: true
  started_by: outside
  interval: 10 seconds
  intervals: {b_minutes: 1 minute}
  priorities: {a_out: 5}
  isolate: [b]
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    for folder, name, text in (("assets", "all.sql", PROJECT), ("jobs", "live.yaml", BOTH)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(text)
    return Project.load(tmp_path)


def say(project: Project, live: str) -> None:
    (project.root / "jobs" / "live.yaml").write_text(live)


def read(project: Project, names: list[str] | None = None, **options: tuple[str, ...]) -> LiveDefinitions:
    given = {"isolate": (), "interval": (), "priority": ()} | options
    return read_definitions(project, LiveRequest(names, None, None, **given))


def paces(found: LiveDefinitions) -> dict[str, tuple[float, int]]:
    """Interval and priority by group."""
    every = ((group.name, found.pace_of(group)) for group in found.groups)
    return {name: (pace.interval, pace.priority) for name, pace in every}


def test_without_options_all_holds_that_jobs_say(project: Project) -> None:
    found = read(project)
    assert paces(found) == {"a": (10.0, 5), "b": (60.0, 1)}
    assert found.alone == {"b"}


def test_without_jobs_groups_tick_every_two_seconds(project: Project) -> None:
    say(project, "")
    found = read(project)
    assert paces(found) == {"a": (2.0, 1), "b": (2.0, 1)}
    assert found.alone == frozenset()


def test_a_general_interval_wins_over_the_one_of_jobs_and_leaves_those_of_names(project: Project) -> None:
    assert paces(read(project, interval=("2s",))) == {"a": (2.0, 5), "b": (60.0, 1)}


def test_an_interval_of_a_name_wins_for_its_group_whichever_member_is_named(project: Project) -> None:
    assert paces(read(project, interval=("b=3s",))) == {"a": (10.0, 5), "b": (3.0, 1)}
    assert paces(read(project, interval=("a_minutes=3s", "4s"))) == {"a": (3.0, 5), "b": (60.0, 1)}


def test_a_priority_of_a_name_wins_for_its_group_and_others_keep_theirs(project: Project) -> None:
    assert paces(read(project, priority=("a=7",))) == {"a": (10.0, 7), "b": (60.0, 1)}
    assert paces(read(project, priority=("b=7",))) == {"a": (10.0, 5), "b": (60.0, 7)}


def test_groups_that_are_isolated_by_jobs_stay_so_beside_those_of_options(project: Project) -> None:
    assert read(project, isolate=("a",)).alone == {"a", "b"}
    assert read(project, isolate=("b_minutes",)).alone == {"b"}


def test_what_jobs_say_of_groups_that_do_not_run_has_no_effect(project: Project) -> None:
    found = read(project, ["a"])
    assert paces(found) == {"a": (10.0, 5)}
    assert found.alone == frozenset()
    # A name stands for its whole group, also where only a part of that runs.
    assert paces(read(project, ["b"])) == {"b": (60.0, 1)}


def test_each_group_has_the_interval_of_the_live_run_that_selects_it(project: Project) -> None:
    say(
        project,
        "live:\n- {name: x, enabled: true, select: [a_out], interval: 5 s}\n"
        "- {name: y, enabled: true, select: [b], interval: 7 s}",
    )
    assert paces(read(project)) == {"a": (5.0, 1), "b": (7.0, 1)}


def test_a_group_that_no_live_run_selects_has_the_defaults(project: Project) -> None:
    say(project, "live:\n- {name: x, enabled: true, select: [b], interval: 7 s}")
    assert paces(read(project)) == {"a": (2.0, 1), "b": (7.0, 1)}


def test_a_live_run_that_is_not_enabled_is_started_by_hand_and_says_the_same(project: Project) -> None:
    say(project, BOTH)
    enabled = read(project)
    say(project, BOTH.replace("enabled: true", "enabled: false"))
    found = read(project)
    assert (paces(found), found.alone) == (paces(enabled), enabled.alone)
    assert found.alone == {"b"}


def test_an_environment_that_reads_another_one_has_no_live_runs(tmp_path: Path, project: Project) -> None:
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources" / "local.yaml").write_text("warehouse: {namespace: shop}\n")
    (tmp_path / "resources" / "dev.yaml").write_text("reads: local\nwarehouse: {namespace: dev_ada}\n")
    assert paces(read(Project.load(tmp_path, "local")))["a"] == (10.0, 5)
    assert paces(read(Project.load(tmp_path, "dev")))["a"] == (2.0, 1)


@pytest.mark.parametrize(
    ("live", "line", "words"),
    [
        (BOTH.replace("[b]", "[b, nobody]"), 8, 'no asset "nobody"'),
        (BOTH.replace("{a_out: 5}", "{a: 5, a_out: 5}"), 7, 'the group "a" has two values'),
        (BOTH + "- {name: more, enabled: true, select: [a]}", 9, 'live runs "both" and "more" both write a'),
    ],
)
def test_mistakes_of_jobs_end_live_mode_before_it_starts_with_file_and_line(
    project: Project, live: str, line: int, words: str
) -> None:
    say(project, live)
    with pytest.raises(TidegateError) as caught:
        read(project)
    assert caught.value.location is not None
    assert (caught.value.code, caught.value.location.file) == ("TG609", "jobs/live.yaml")
    assert (caught.value.location.line, words in caught.value.message) == (line, True)


def test_mistakes_of_options_are_those_of_options(project: Project) -> None:
    with pytest.raises(typer.BadParameter, match="--isolate b: b is not among what is to run"):
        read(project, ["a"], isolate=("b",))


def test_alerts_whose_variables_are_not_set_here_do_not_keep_live_mode_from_starting(
    project: Project,
) -> None:
    (project.root / "jobs" / "alerts.yaml").write_text("alerts: {ui: '${NOT_SET_ANYWHERE}'}")
    with pytest.raises(TidegateError):
        project.jobs()
    assert paces(read(project))["a"] == (10.0, 5)


def test_E7_what_jobs_say_is_read_again_and_only_groups_of_which_it_is_different_begin_again(
    project: Project,
) -> None:
    before = read(project, interval=("a=1s",))
    assert read(project, interval=("a=1s",)).changed_since(before) == frozenset()
    # The option wins over what is new, too.
    say(project, BOTH.replace("10 seconds", "20 seconds").replace("1 minute", "2 minutes"))
    after = read(project, interval=("a=1s",))
    assert (paces(after), after.changed_since(before)) == ({"a": (1.0, 5), "b": (120.0, 1)}, {"b"})
    say(project, BOTH.replace("isolate: [b]", "isolate: [a]"))
    assert read(project, interval=("a=1s",)).changed_since(before) == {"a", "b"}


def test_a_standby_takes_up_what_jobs_say_when_it_takes_over(project: Project) -> None:
    current = Current(read(project), lambda: read(project))
    begun: list[object] = []
    supervisor: Any = SimpleNamespace(begin_with=lambda groups, alone: begun.append(alone))
    workers: Any = SimpleNamespace(define=lambda document: None)
    leases: Any = SimpleNamespace(add=lambda groups: None)
    current.begin(supervisor, workers, leases)
    assert begun == []
    say(project, BOTH.replace("10 seconds", "20 seconds").replace("[b]", "[a]"))
    current.begin(supervisor, workers, leases)
    assert (begun, current.interval_of("a")) == ([{"a"}], 20.0)
