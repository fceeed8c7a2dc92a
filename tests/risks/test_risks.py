"""The risks of one driver in small sizes, and the runner of their sizes at length (`tests/risks/run.py`)."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Workbench
from tests.risks import cases, run
from tests.risks.commits import SideBySide
from tests.risks.heap import MAINTENANCE, SERIES, team, ticked, trends
from tests.risks.run import BEGIN, END, PAGE, RISKS, Played, main, table


@pytest.mark.long_run
def test_one_heap_is_measured_between_rounds_and_every_view_is_right(workbench: Workbench) -> None:
    groups = team(workbench.root, 2, 2)
    workbench.assets(**{one.name: one.sql for one in groups})
    (workbench.root / "jobs").mkdir()
    (workbench.root / "jobs" / "maintenance.yaml").write_text(MAINTENANCE)
    watched = ticked(workbench.session(), groups, rounds=8, every=2)
    assert watched.failed == []
    assert [sample["ticks"] for sample in watched.samples] == [2, 4, 6, 8]
    assert all(set(SERIES) == set(sample) - {"ticks"} for sample in watched.samples)
    assert all(sample["classes"] > 5_000 for sample in watched.samples)
    assert all(sample["memory jvm"] > sample["heap after a collection"] > 10 for sample in watched.samples)
    session = workbench.session()
    assert [text for one in groups for text in one.differences(session)] == []
    assert all(one.oracle.emitted[view] for one in groups for view in one.views)
    # Another process goes on with what is there.
    again = team(workbench.root, 2, 2)
    for one in again:
        for _ in one.files():
            one.feed(written=False)
        one.committed = 8
    assert ticked(workbench.session(), again, rounds=9, every=1).ticks == 1
    session = workbench.session()
    assert [text for one in again for text in one.differences(session)] == []


def test_what_grows_with_the_ticks_is_told() -> None:
    samples = [
        {
            "ticks": float(n),
            "classes": 20_000 + 10 * n,
            "metaspace": 150 + n % 3,
            "heap after a collection": 200.0,
        }
        for n in range(10, 300, 10)
    ]
    found = {one.name: one for one in trends(samples, warm_up=50)}
    assert {name: one.growing for name, one in found.items()} == {
        "classes": True,
        "metaspace": False,
        "heap after a collection": False,
    }
    assert found["classes"].rise == pytest.approx(10 * 230)
    assert trends(samples, warm_up=290) == []


@pytest.mark.parametrize("threads", [2, pytest.param(8, marks=pytest.mark.long_run)])
def test_R2_commits_side_by_side_with_upkeep_and_readers_are_each_stored_once(
    workbench: Workbench, threads: int
) -> None:
    workbench.assets(t="CREATE TABLE t (ts TIMESTAMP) APPEND ONLY;")
    with closing(workbench.session()) as session:
        session.execute("INSERT INTO t VALUES ('2026-01-01')")
        seen = SideBySide(session.beside, threads, 15).run()
    assert seen.upkeep.total() >= 1
    assert seen.reads >= 2


def test_a_run_takes_down_what_it_has_played_and_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given: list[list[str]] = []
    left = iter([5, 0, 0])

    class Done:
        returncode = 0

        def __init__(self, words: list[str], **_: Any) -> None:
            given.append(words[3:])
            found = {"said": f"{words[3]} on {words[4]}", "failures": [], "left": next(left), "facts": {}}
            self.stdout = f"a line of Spark's\n{json.dumps(found)}\n"

    monkeypatch.setattr(run.subprocess, "run", Done)
    words = ["--folder", str(tmp_path), "--size", "small"]
    assert main(["heap", *words, "--minutes", "1"]) == 3
    assert main(["heap", *words]) == 0
    # It is over; and of commits a part is played by itself.
    assert main(["heap", *words]) == 0
    assert main(["commits", "--part", "sqlite", *words]) == 0
    assert [one[:2] for one in given] == [["heap", "all"], ["heap", "all"], ["commits", "sqlite"]]
    assert given[0][2] == str(tmp_path / "small" / "heap-all")
    capsys.readouterr()
    assert main([*words, "--list"]) == 0
    printed = capsys.readouterr().out
    assert "heap on all" in printed
    assert printed.count("was not played") == len(RISKS) - 2
    text = table(Played(tmp_path), "")
    assert "commits on sqlite (small)" in text
    assert text.count("only that of the tests") == len(RISKS) - 2
    assert table(Played(tmp_path), text) == text
    # What was played elsewhere stays on the page, until more is played here.
    kept = table(
        Played(tmp_path), text.replace("commits on sqlite (small)", "all of it").replace("heap on all", "x")
    )
    assert ("all of it |" in kept, "heap on all (small) |" in kept) == (True, True)
    Played(tmp_path).add("full", "commits", "sqlite", {"said": "as much", "failures": []})
    assert "as much |" in table(Played(tmp_path), kept)


def test_every_row_is_played_and_has_its_tests() -> None:
    assert [risk.name for risk in RISKS] == list(cases.PLAYED)
    for risk in RISKS:
        for path in risk.tests:
            assert (ROOT / path).is_file(), path
    text = PAGE.read_text(encoding="utf-8")
    section = text[text.index(BEGIN) : text.index(END)]
    for risk in RISKS:
        assert f"(`{risk.name}`)" in section
