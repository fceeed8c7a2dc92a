"""What is said of several files of a source that are not in order: each by its name and its code."""

from __future__ import annotations

import io
import json
from pathlib import Path

from tests.ingest.files.test_files import Folder, later
from tidegate import TidegateError
from tidegate.cli.failures import summary
from tidegate.console.jsonlines import JsonConsole
from tidegate.errors import Location, text_of
from tidegate.plan.events import StepFailed
from tidegate.runtime.result import Failure
from tidegate.runtime.steps import Steps, together
from tidegate.sql.catalog.objects import Relation

PLACE = Location("a.sql", 1, 1, 6, "CREATE")


def problem(code: str, name: str) -> TidegateError:
    return TidegateError(code, f"{name} is not in order", hint=f"what to do about {code}", location=PLACE)


def test_one_error_is_told_as_it_is() -> None:
    one = problem("TG505", "1.json")
    assert together([one]) is one


def test_errors_of_each_code_are_named_with_what_to_do_about_it() -> None:
    found = together([problem("TG505", "1.json"), problem("TG517", "2.json"), problem("TG505", "3.json")])
    assert str(found).splitlines() == [
        "error TG505: 1.json is not in order",
        "also TG517: 2.json is not in order",
        "also TG505: 3.json is not in order",
        " --> a.sql:1:1",
        "1 | CREATE",
        "    ^^^^^^",
        "hint: what to do about TG505",
        "for TG517: what to do about TG517",
    ]
    assert text_of(found.to_dict()) == str(found)
    assert [(one["code"], one["message"], one["hint"]) for one in found.to_dict()["others"]] == [
        ("TG517", "2.json is not in order", "what to do about TG517"),
        ("TG505", "3.json is not in order", "what to do about TG505"),
    ]
    assert summary([Failure("s", "source", found.to_dict())]).splitlines()[1:-1] == [
        "  failed    s (source): TG505: 1.json is not in order (a.sql:1:1)",
        "            also TG517: 2.json is not in order",
        "            also TG505: 3.json is not in order",
        "            hint: what to do about TG505",
        "            for TG517: what to do about TG517",
    ]


def test_of_many_errors_the_first_are_named_and_the_others_are_counted_by_their_codes() -> None:
    many = [problem("TG505", f"{number}.json") for number in range(1020)]
    found = together([*many, problem("TG517", "z.json")])
    *named, last = found.message.splitlines()
    assert named[0] == "0.json is not in order"
    assert named[1:] == [f"also TG505: {number}.json is not in order" for number in range(1, 20)]
    assert last == "and 1,001 more: 1,000 of TG505, 1 of TG517"
    assert len(found.to_dict()["others"]) == 19
    assert str(found.hint).splitlines()[-1] == "for TG517: what to do about TG517"
    assert together(many[:20]).message.splitlines()[-1] == "also TG505: 19.json is not in order"


def test_a_run_and_its_json_name_each_file_that_a_source_leaves(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for number in range(3):
        folder.write(f"{number}.json", number)
    folder.read()
    later(folder.write("0.json", 7))
    later(folder.write("1.json", 8))
    (folder.path / "2.json").rename(folder.path / "moved.json")
    connector = folder.connector()
    connector.pending()
    heard: list[object] = []
    steps = Steps(notify=heard.append)
    relation = folder.project.catalog().get("s")
    assert isinstance(relation, Relation)

    def read() -> None:
        raise together(connector.problems())

    assert not steps.do(relation, read)
    (told,) = heard
    assert isinstance(told, StepFailed)
    out = io.StringIO()
    JsonConsole(out).event(told)
    error = json.loads(out.getvalue())["error"]
    assert [one["code"] for one in (error, *error["others"])] == ["TG505", "TG505", "TG517"]
    lines = error["message"].splitlines()
    names = ["0.json", "1.json", "moved.json"]
    assert [name in line for name, line in zip(names, lines, strict=True)] == [True] * 3
