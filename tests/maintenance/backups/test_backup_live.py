"""A copy that is taken while rows arrive and live mode writes, by the commands of docs/backup.md; then everything is
lost, and restored from it: nothing is lost and nothing is there twice (R2)."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.chaos.pipeline import Pipeline
from tests.conftest import ROOT
from tests.maintenance.backups.restoring import (
    SOURCES,
    Arrivals,
    commits,
    delivered,
    expected,
    stored,
    wait,
    write_project,
)
from tests.support.commands import tidegate
from tests.support.kafka import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

WINDOW = ("window_end", "k", "n", "ids")


def commands(section: str) -> list[list[str]]:
    """Those of the first shell block of a section of the page."""
    text = (ROOT / "docs" / "backup.md").read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    found = re.search(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return [shlex.split(line) for line in found[1].splitlines()]


def called(words: list[str], root: Path, copy: Path) -> subprocess.CompletedProcess[str]:
    """A command of the page, in the project's folder; the page's backup is in `copy`. tidegate's are this process's,
    which has a Spark."""
    words = [word.replace("/backup/shop", str(copy)) for word in words]
    if words[0] == "tidegate":
        return subprocess.CompletedProcess(words, *tidegate(root, *words[1:]))
    return subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=400)


def succeeds(words: list[str], root: Path, copy: Path) -> str:
    done = called(words, root, copy)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long_run
def test_R2_what_is_restored_from_a_copy_under_load_has_every_row_once(
    tmp_path: Path, kafka: Broker, spark: SparkSession
) -> None:
    root, copy, topic = tmp_path / "project", tmp_path / "backups" / "shop", kafka.topic("orders", 1)
    write_project(root, kafka.bootstrap, topic)
    pipeline, arrivals = Pipeline(root, "0.5s"), Arrivals(root, kafka, topic)
    try:
        pipeline.start()
        wait(lambda: all(commits(root, name) >= 2 for name in SOURCES), pipeline.tail)
        wait(lambda: any((root / "out").glob("*/*.jsonl")), pipeline.tail)
        (backup,) = commands("A copy")
        succeeds(backup, root, copy)
        # Into the same folder once more, while rows arrive: what is there already is not copied again.
        before = {name: commits(root, name) for name in SOURCES}
        wait(lambda: all(commits(root, name) >= before[name] + 2 for name in SOURCES), pipeline.tail)
        done = json.loads(succeeds(["tidegate", "--json", *backup[1:]], root, copy))
        assert done["sinks"] == ["exported", "logged"]
        assert 0 < done["copied"] < done["files"]
        then = {name: commits(root, name) for name in SOURCES}
        wait(lambda: all(commits(root, name) >= then[name] + 2 for name in SOURCES), pipeline.tail)
    finally:
        pipeline.kill("all")
        pipeline.clean()
        arrivals.stop()
    lost = {name: commits(root, name) for name in SOURCES}
    (root / ".tidegate").rename(tmp_path / "lost")
    arrivals.last()
    _restored(root, copy, lost)
    _is_what_the_oracle_says(root, arrivals)


def _restored(root: Path, copy: Path, lost: dict[str, int]) -> None:
    """By the commands of the page. Before the folders of the sinks are restored, they are ahead, and that is found."""
    page = commands("Restore")
    sinks = [words for words in page if words[0] == "cp" and "out/exported" in words]
    ends = [words for words in page if words[0] == "tidegate"]
    assert ends == [["tidegate", "verify"], ["tidegate", "run"]]
    for words in page:
        if words not in [*sinks, *ends]:
            succeeds([word for word in words if word != "out/exported"], root, copy)
    assert all(0 < commits(root, name) < lost[name] for name in SOURCES)
    ahead = called(["tidegate", "verify", "--files"], root, copy)
    assert ahead.returncode == 1, ahead.stdout + ahead.stderr
    for name in ("exported", "logged"):
        assert f"sink {name}: DOES NOT FIT\n  it has delivered up to commit " in ahead.stdout
    assert "MISSING" not in ahead.stdout
    (restoring,) = sinks
    for name in ("exported", "logged"):
        succeeds(["rm", "-rf", f"out/{name}"], root, copy)
        succeeds([word.replace("exported", name) for word in restoring], root, copy)
    verified = succeeds(["tidegate", "verify"], root, copy)
    assert verified.count(": complete") == 7, verified
    assert verified.count("the audit found no differences") == 6, verified
    succeeds(["tidegate", "run"], root, copy)


def _is_what_the_oracle_says(root: Path, arrivals: Arrivals) -> None:
    for name in SOURCES:
        outcomes, windows, final = expected(arrivals.sent[name])
        assert stored(root, name, "id", "_outcome", where="_outcome != 'watermark'") == dict.fromkeys(
            outcomes.items(), 1
        )
        assert {"late", "on_time"} == set(outcomes.values())
        assert len(windows) > 10
        assert stored(root, f"{name}_minutes", *WINDOW) == windows
        assert stored(root, f"{name}_sorted", "ts", "id", "k") == final
        if name == "clicks":
            assert delivered(root / "out" / "exported", *WINDOW) == windows
        else:
            assert stored(root, "kept", *WINDOW) == windows
            on_time = [i for i, outcome in outcomes.items() if outcome == "on_time"]
            assert delivered(root / "out" / "logged", "id") == {(i,): 1 for i in on_time}
