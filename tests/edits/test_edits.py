"""E2, E5, E7: `make edits` in small, and whether its judge notices what is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.chaos.topic import read_topic
from tests.edits.judge import judge
from tests.edits.load import PARTITIONS, message, write_definitions, write_project
from tests.edits.play import EditedProject
from tests.edits.run import main
from tests.edits.script import script_of
from tests.simulate.scripts.changes import Change, Definition
from tidegate.project import Project
from tidegate.session.apply import apply
from tidegate.session.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.kafka import Broker

_QUERIES = {"tumbling": "tumbling", "measured": "measured"}


def test_a_script_follows_from_its_seed_and_its_edits_can_be_made_one_after_the_other() -> None:
    made = set()
    for seed in range(50):
        script = script_of(seed)
        assert script == script_of(seed)
        edits = [step.edit for step in script.steps if step.edit.what != "query"]
        assert len(script.definitions()) == len(edits) + 1
        made |= {step.edit.what for step in script.steps}
    assert made == {"add", "drop", "query", "rename", "replace", "widen"}


@pytest.mark.long_run
@pytest.mark.spark
def test_E2_what_an_edit_of_columns_leaves_is_right_and_the_judge_notices_what_is_not(
    kafka: Broker, tmp_path: Path, spark: SparkSession
) -> None:
    root, topic, rng = tmp_path / "project", kafka.topic("edits", PARTITIONS), Random(1)
    write_project(root)

    def send(first: int, count: int) -> None:
        sent = []
        for number in range(first, first + count):
            late = rng.choice([0, 0, 90]) if number > 20 else 0
            value = json.dumps(message(number, rng, 7 * number - late))
            sent.append((number % PARTITIONS, None, value, None))
        kafka.send(topic, sent)

    def run(definition: Definition) -> None:
        write_definitions(root, topic, kafka.bootstrap, definition, _QUERIES)
        session = Session.open(project=root, spark=spark)
        session.confirm = lambda what: True
        apply(session)
        session.run()
        session.close()

    before = Definition()
    send(1, 40)
    run(before)
    after = before.after(Change("replace", "amount", "tip"), 1)
    assert after is not None
    send(41, 40)
    run(after)
    project = Project.load(root)
    rows = read_topic(kafka.bootstrap, topic)
    found = judge(project, rows, [before, after], _QUERIES)
    assert found.wrong == []
    assert found.rows == 80
    assert min(found.shown.values()) > 5

    def wrong(topic: object = rows, definitions: object = (before, after), queries: object = _QUERIES) -> str:
        return "\n".join(judge(project, topic, definitions, queries).wrong)  # type: ignore[arg-type]

    # A row that was not read, one that the topic does not have, and one with another time.
    assert "unread" in wrong({**rows, "0": [*rows["0"], rows["0"][-1]._replace(offset=40)]})
    assert "surplus row" in wrong({**rows, "0": rows["0"][:-1]})
    other = json.dumps(message(1, rng, 50_000)).encode()
    assert "decision" in wrong({**rows, "1": [rows["1"][0]._replace(value=other), *rows["1"][1:]]})
    # Another query, other columns, and columns that were never there.
    assert "measured (as tumbling) lacks" in wrong(queries={"measured": "tumbling"})
    assert "E7" in wrong(definitions=(before, before.after(Change("drop", "extra"), 1)))
    dropped = replace(before, columns=before.columns[:1])
    assert "never had the columns" in wrong(definitions=(before, after, dropped))


@pytest.mark.slow
@pytest.mark.long_run
def test_E7_a_project_is_edited_while_it_is_live_and_killed(kafka: Broker, tmp_path: Path) -> None:
    played = EditedProject(script_of(2), tmp_path, kafka.bootstrap).run()
    assert played.wrong == []
    assert played.rows == played.sent
    assert sum(played.kills.values()) >= 4


def test_what_was_done_on_this_tree_is_not_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from contextlib import contextmanager

    from tests.edits import run

    played: list[int] = []

    def play(seed: int, bootstrap: str, keep: Path | None) -> dict[str, object]:
        played.append(seed)
        told = {"script": {"seed": seed}, "rows": 9, "versions": 1, "applies": 1, "rollbacks": 0, "kills": {}}
        return told | {"shown": {}, "seconds": 1.0, "wrong": ["a row is lost"] if seed == 1 else []}

    monkeypatch.setattr(run, "_play", play)
    monkeypatch.setattr(run, "_broker", contextmanager(lambda: iter(["nowhere"])))
    progress = ["--progress", str(tmp_path / "progress.json")]
    assert main(["--seeds", "1", *progress]) == 0
    assert main(["--seeds", "3", *progress]) == 1
    assert played == [0, 1, 2]
    assert "WRONG: a row is lost" in capsys.readouterr().out
    monkeypatch.setattr(run, "_version", lambda: "another tree")
    assert main(["--seeds", "1", *progress]) == 0
    assert played == [0, 1, 2, 0]
