"""The list of guards is true: each is in the code once, and its tests are there. `make mutants` breaks them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutants.guard import Guard, problems
from tests.mutants.run import GUARDS, KILLED, main, verdict
from tests.mutants.tree import Run, Tree


def test_every_guard_is_in_the_code_once_and_its_tests_are_there() -> None:
    assert not [problem for guard in GUARDS for problem in problems(guard)]


def test_there_are_thirty_guards_and_more_of_every_kind_of_rule() -> None:
    names = [guard.name for guard in GUARDS]
    assert len(set(names)) == len(names) >= 30
    assert {guard.rule[0] for guard in GUARDS} >= set("WSCDTRABEX")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"text": "no such text"}, "has the text of the guard 0 times"),
        ({"text": "return"}, "times, not once"),
        ({"broken": "return ("}, "was never closed"),
        ({"tests": ("tests/watermark/test_gate.py::test_W1_no_such_test",)}, "there is no test"),
        ({"tests": ("tests/no_such_file.py",)}, "there is no file"),
    ],
)
def test_a_guard_that_is_not_where_it_says_is_named(changed: dict[str, object], said: str) -> None:
    (problem,) = problems(replace(GUARDS[0], **changed))  # type: ignore[arg-type]
    assert problem.startswith(GUARDS[0].name)
    assert said in problem


def test_only_a_failed_test_kills() -> None:
    assert verdict(Run(1, ("a.py::test_a",))) == KILLED
    assert verdict(Run(0)) == "survived"
    assert verdict(Run(None, ("a.py::test_a",))) == "its tests took too long"
    assert verdict(Run(2, (), (), "ImportError")) == "its tests did not run:\nImportError"


@pytest.mark.medium
def test_a_broken_file_is_whole_again_and_a_test_sees_it_broken(tmp_path: Path) -> None:
    (tmp_path / "platform").mkdir()
    (tmp_path / "platform" / "limits.py").write_text("def allowed(n):\n    return n < 3\n")
    (tmp_path / "test_limits.py").write_text(
        "from limits import allowed\n\ndef test_two():\n    assert allowed(2)\n\n"
        "def test_three():\n    assert not allowed(3)\n"
    )
    tree, path = Tree(tmp_path), Path("platform/limits.py")
    guard = Guard("bound", "X2", "", "", "n < 3", "n <= 3", ())
    whole = (tmp_path / path).read_text()
    assert tree.run(["test_limits.py"], 60).code == 0
    with tree.broken(path, whole.replace(guard.text, guard.broken)):
        run = tree.run(["test_limits.py"], 60)
    assert (run.is_red, run.failed) == (True, ("test_limits.py::test_three",))
    assert (tmp_path / path).read_text() == whole


def test_the_list_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["late", "owner", "--list"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.split()[:3] == ["1", "late", "W1"]
    assert second.split()[1:3] == ["owner", "X3"]
