"""The list of planted faults is true: each is in the code once, and of every kind there is one. `make mutants` plants
them."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.mutants.guard import Planted, problems
from tests.mutants.hunt import MOST, Hunt, hunt
from tests.mutants.page import PAGE, planted_table, seeds_on
from tests.mutants.run import ALL, KILLED, NOT_FOUND, PLANTED, Memory, Result, look_for, main
from tests.mutants.tree import Tree

#: The mistakes that a simulator is for.
KINDS = {
    "commit without fence",
    "fence on the wrong base",
    "epoch check gone",
    "zombie's commit accepted",
    "lease not taken",
    "state not committed with rows",
    "< for <=",
    "frontier off by one",
    "next offset off by one",
    "G goes back",
    "lost idle decision",
    "new partition below G",
    "late row raises the watermark",
    "NULL event time judged on time",
    "retry that reuses a file",
    "torn file taken as whole",
    "stale read believed",
    "lost answer taken for stored",
    "lost answer taken for not stored",
    "plan forgotten too early",
    "plan not adopted",
    "amendment that misses a session",
    "amendment that misses a window",
    "revision numbering wrong",
    "upkeep that deletes a live file",
    "upkeep that expires what is referenced",
    "sink position committed before the delivery",
    "sink position not committed",
}


def test_every_planted_fault_is_in_the_code_once() -> None:
    assert not [problem for fault in PLANTED for problem in problems(fault)]


def test_there_are_forty_of_every_kind() -> None:
    assert len(PLANTED) >= 40
    assert {fault.kind for fault in PLANTED} >= KINDS
    names = [one.name for one in ALL]
    assert len(set(names)) == len(names)


def _printed(*seeds: int, wrong: str | None = None) -> str:
    """What a process of `tests.simulate.until` prints."""
    return "\n".join([*(f"seed {n}" for n in seeds), f"wrong {json.dumps(wrong)}"])


class _Played(Tree):
    """A tree in which nothing runs. `answers`: of each process that is started."""

    def __init__(self, root: Path, *answers: tuple[int | None, str]) -> None:
        super().__init__(root)
        self.answers, self.asked = list(answers), list[tuple[str, ...]]()

    def call(self, arguments: object, limit: float) -> tuple[int | None, str]:
        self.asked.append(tuple(arguments)[-2:])  # type: ignore[call-overload]
        return self.answers.pop(0)


def test_seeds_are_played_portion_by_portion_until_one_fails(tmp_path: Path) -> None:
    tree = _Played(tmp_path, (0, _printed(*range(100))), (0, _printed(100, 101, wrong="R2: twice\nmore")))
    assert hunt(tree, 0) == Hunt(101, 102, "R2: twice")
    assert tree.asked == [("0", "100"), ("100", "100")]


def test_nothing_more_is_started_in_a_tree_that_is_stopped(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    assert tree.call(["-c", "print(1)"], 60) == (0, "1\n")
    tree.stop()
    with pytest.raises(InterruptedError):
        hunt(tree, 0)


def test_a_fault_that_no_seed_finds_is_said(tmp_path: Path) -> None:
    tree = _Played(tmp_path, *[(0, _printed(7))] * (MOST // 100))
    assert hunt(tree, 7) == Hunt(None, MOST)


def test_a_history_without_an_end_is_found_and_a_broken_simulator_finds_nothing(tmp_path: Path) -> None:
    assert hunt(_Played(tmp_path, (1, "seed 5\nseed 6\nTimeout (0:05:00)!\n")), 5).seed == 6
    assert hunt(_Played(tmp_path, (-signal.SIGXCPU, "seed 5\nseed 6\n")), 5).seed == 6
    assert hunt(_Played(tmp_path, (1, "seed 5\nImportError: no")), 5) == Hunt(
        None, 1, problem="seed 5\nImportError: no"
    )


@pytest.mark.parametrize(
    ("whole", "outcome"), [(None, KILLED), ("R2: twice", "its seed fails by itself: R2: twice")]
)
def test_a_seed_that_fails_by_itself_finds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: str | None, outcome: str
) -> None:
    monkeypatch.setattr("tests.mutants.run.MEMORY", tmp_path / "mutants.json")
    (tmp_path / "platform" / "tidegate").mkdir(parents=True)
    (tmp_path / "platform" / "tidegate" / "limits.py").write_text("n < 3\n")
    fault = Planted("bound", "X2", "", "limits.py", "n < 3", "n <= 3", "< for <=", 4)
    tree = _Played(tmp_path, (0, _printed(4, wrong="R2: twice")), (0, _printed(4, wrong=whole)))
    assert look_for(tree, fault, Memory("this tree")).outcome == outcome
    assert (tmp_path / fault.path).read_text() == "n < 3\n"


def test_the_seed_that_found_a_fault_before_is_played_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.mutants.run.MEMORY", tmp_path / "mutants.json")
    monkeypatch.setattr("tests.mutants.run.PAGE", tmp_path / "page.md")
    (tmp_path / "platform" / "tidegate").mkdir(parents=True)
    (tmp_path / "platform" / "tidegate" / "limits.py").write_text("n < 3\n")
    fault = Planted("bound", "X2", "", "limits.py", "n < 3", "n <= 3", "< for <=")
    found = Result("bound", "X2", KILLED, "R2: | twice", 4.0, 70, 71)
    (tmp_path / "page.md").write_text(planted_table([(fault, found)]))
    memory = Memory("state")
    memory.note_green([70, 1])
    # Found again; and one that it does not find any more is looked for from the first seed on.
    again = look_for(_Played(tmp_path, (0, _printed(70, wrong="R2: twice"))), fault, memory)
    assert (again.seed, again.seeds) == (70, 1)
    tree = _Played(tmp_path, (0, _printed(70)), (0, _printed(0, 1, wrong="R2: twice")))
    assert look_for(tree, fault, memory).seed == 1
    assert tree.asked == [("70", "1"), ("0", "100")]
    # What the real page has is read, too.
    assert len(seeds_on(PAGE)) > len(PLANTED) / 2


def test_faults_are_listed_by_name_and_by_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["planted-fence", "--list"]) == 0
    assert capsys.readouterr().out.split()[1:3] == ["planted-fence", "R2"]
    assert main(["--planted", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(PLANTED)


def test_the_table_says_which_promise_was_broken() -> None:
    result = Result("late", "W1", KILLED, "W1: row ('a', 1) is late", 4.0, 12, 13)
    fault = Planted("late", "W1", "Equal is on time.", "", "", "", "< for <=")
    assert planted_table([(fault, None)]).splitlines()[-1].endswith("| no run has found it yet |")
    assert planted_table([(fault, result)]).splitlines()[-1] == (
        "| late | W1 | Equal is on time. | 12 | 13 | 4 | `W1: row ('a', 1) is late` |"
    )
    assert NOT_FOUND != KILLED


def test_the_page_has_every_planted_fault() -> None:
    """Once a run has written them."""
    text = PAGE.read_text("utf-8")
    if "| fault |" in text:
        assert [line.split(" | ")[0][2:] for line in text.splitlines() if line.startswith("| planted-")] == [
            fault.name for fault in PLANTED
        ]
