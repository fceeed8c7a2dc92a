"""Random histories on the simulated outside, and what makes them (`make simulate` plays many more)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import get_args

import pytest

from tests.inprocess.session import without_a_jvm
from tests.simulate.campaign import Progress, Tally, play_all, play_seeds
from tests.simulate.page import PAGE, pairs, write
from tests.simulate.play import Played, play
from tests.simulate.scripts.pipelines import Pipeline
from tests.simulate.scripts.script import Act, Arrive, Script, script_of
from tests.simulate.scripts.shrinking import shrink, smaller
from tests.simulate.scripts.steps import STEPS
from tests.simulate.scripts.views import JOINS, OVER
from tests.simulate.world.outside import FAULTS, Chooser, Fault, Outside
from tests.simulate.world.store import Handler, Store

#: Scripts of seeds that once failed.
KEPT = sorted((Path(__file__).parent / "kept").rglob("*.txt"))
#: Seeds in CI. A class is one process's, and four of them share the seeds.
SEEDS = int(os.environ.get("TIDEGATE_SIMULATE_SEEDS", "60"))
PORTIONS = 4


@pytest.fixture(autouse=True)
def _no_jvm() -> Iterator[None]:
    with without_a_jvm():
        yield


class _Histories:
    """R1, R2, W1 to W6, C2, B1: nothing is lost, nothing is there twice, every decision stands."""

    portion: int

    def test_histories(self) -> None:
        tally = play_seeds(range(self.portion, SEEDS, PORTIONS))
        assert not tally.failures, "\n".join(f"seed {s}: {text}" for s, text in tally.failures.items())
        middle = tally.medians()
        assert middle["steps"] >= 40
        assert middle["batches"] >= 3
        assert middle["partitions"] >= 2
        assert middle["faults"] >= 2


@pytest.mark.slow
class TestFirstQuarter(_Histories):
    portion = 0


@pytest.mark.slow
class TestSecondQuarter(_Histories):
    portion = 1


@pytest.mark.slow
class TestThirdQuarter(_Histories):
    portion = 2


@pytest.mark.slow
class TestFourthQuarter(_Histories):
    portion = 3


@pytest.mark.medium
@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.stem)
def test_a_history_that_once_failed_is_right(file: Path) -> None:
    played = play(Script.of_text(file.read_text("utf-8")))
    assert played.wrong is None


@pytest.mark.medium
def test_a_seed_is_the_same_history_whenever_it_is_played() -> None:
    for seed in (8, 14, 44):
        one, other = play(script_of(seed)), play(script_of(seed))
        assert one == other
        assert one.met
        again = play(Script.of_text(one.script.text()))
        assert (again.met, again.steps) == (one.met, one.steps)


def test_a_failure_that_is_not_repeated_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = iter(["broken", "broken", "broken", None])
    monkeypatch.setattr("tests.simulate.play.play", lambda script: Played(script, 1, 1, 1, next(ends)))
    script = script_of(8).text()
    failures = play_seeds([8]).failures, play_seeds([8]).failures
    assert [found[8] for found in failures] == [
        f"broken\n{script}",
        f"broken\n(played again, at once: every promise was kept)\n{script}",
    ]


@pytest.mark.medium
def test_processes_that_play_leave_nothing_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    tally = play_all(Progress(None, 0, 2, "this tree"), 1, lambda tally: None)
    assert (tally.seeds, tally.failures) == (2, {})
    assert not list(tmp_path.iterdir())


@pytest.mark.medium
def test_a_failing_history_is_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a row that is late counts as a failure."""
    from tests.simulate.checks.check import Checks
    from tests.simulate.checks.wrong import Wrong

    def finish(self: Checks, session: object) -> None:
        if any(judged.outcome == "late" for judged in self.events.rows.values()):
            raise Wrong("a row was late")

    monkeypatch.setattr(Checks, "finish", finish)
    # (One of few acts, whose smaller ones are played quickly, and with all rows in files that arrive between them.)
    short = (
        script
        for script in map(script_of, range(400))
        if not script.pipeline.evolves and script.pipeline.topic is None and len(script.acts) < 8
        if not any(getattr(act, "files", ()) for act in script.acts)
    )
    played = next(one for one in map(play, short) if one.wrong is not None)
    least = shrink(played.script)
    assert least.wrong == "a row was late"
    assert not least.script.faults
    # One row that raises the watermark, and one that is late.
    assert sum(len(act.rows) for act in least.script.acts if isinstance(act, Arrive)) == 2


def test_what_is_smaller_has_less_of_something() -> None:
    for seed in range(100):
        script = replace(script_of(seed), faults=(Fault(0, "write plan", 0, "killed before"),))
        found = smaller(script)
        assert len(found) > len(script.acts)
        for one in found:
            assert one != script
            assert len(one.acts) <= len(script.acts)
            # ("false" is longer than "true", and "null" than a number.)
            assert len(one.text()) <= len(script.text()) + 10


def test_a_script_is_read_as_it_is_written() -> None:
    for seed in range(50):
        script = replace(
            script_of(seed),
            faults=(Fault(1, "write plan", 0, "killed before"), Fault(1, "read data", 9, "slow")),
        )
        read = Script.of_text(script.text())
        assert (read.acts, read.faults, read.pipeline) == (script.acts, script.faults, script.pipeline)


def test_seeds_play_every_kind_of_act_and_of_project() -> None:
    """Each often enough that the suite, which plays two seeds of five of these, meets it several times."""
    scripts = [script_of(seed) for seed in range(500)]
    kinds = Counter(kind for script in scripts for kind in {type(act) for act in script.acts})
    assert all(kinds[kind] >= 15 for kind in get_args(Act)), kinds
    kinds_of_project: list[tuple[Callable[[Pipeline], bool], int]] = [
        *((lambda p: p.ttl, 40), (lambda p: p.ahead, 40), (lambda p: p.sink, 40)),
        *((lambda p: len(p.views) > 1, 40), (lambda p: p.views[0] in OVER, 30)),
        *((lambda p: p.views[0] in JOINS, 30), (lambda p: p.upserts, 40), (lambda p: p.evolves, 40)),
    ]
    for of_interest, least in kinds_of_project:
        assert sum(of_interest(script.pipeline) for script in scripts) >= least


def test_every_wished_fault_can_meet_its_step() -> None:
    for step in STEPS:
        assert step.partition(" ")[0] in FAULTS


def test_the_page_has_a_place_for_the_figures_of_a_run(tmp_path: Path) -> None:
    page = tmp_path / "simulator.md"
    page.write_text(PAGE.read_text("utf-8"), "utf-8")
    tally = Tally(20_000, cpu_seconds=4000)
    tally.pairs.update({f"{step}: {fault}": 1234 for step, fault in pairs()})
    tally.pairs["write plan: torn"] = 99
    for _ in range(2):
        write(page, tally)
    text = page.read_text("utf-8")
    assert "met fewer than 100 times: write plan: torn (99)" in text
    # Of each pair that can be met, and of the one that is rare.
    assert text.count("1,234") == len(pairs()) - 1
    assert text.count("| 99 ") == 1


def test_every_fault_is_on_the_page() -> None:
    """With its count, once a run has written them."""
    text = PAGE.read_text("utf-8")
    for step in STEPS if "| step |" in text else ():
        assert f"\n| {step} |" in text


def test_what_a_failed_task_has_not_closed_is_never_written(tmp_path: Path) -> None:
    """However late it is collected as garbage: with the task its process has ended."""
    outside = Outside(1, Chooser(Random(1), ()))
    store = Store(outside, lambda path: "data")
    outside.driver.task = object()
    lost = Handler(store).open_output_stream(f"{tmp_path}/lost", None)
    outside.driver.task = None
    lost.write(b"rows")
    lost.close()
    kept = Handler(store).open_output_stream(f"{tmp_path}/kept", None)
    kept.close()
    assert list(store.files) == [f"{tmp_path}/kept"]
