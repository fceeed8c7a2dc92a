"""What the suite `many` reckons with: when which row was sent, and how long a window waited."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.load import Load, events
from tests.benchmarks.many import streams
from tests.benchmarks.many.streams import Commits, Sender, Stream, encoded_ticks
from tests.benchmarks.many.team import DELAY_S, SECOND, Case, make_team, team_streams
from tests.benchmarks.suites.change import changes_of, wide_definitions
from tests.benchmarks.suites.many import CASES, delays, rank
from tests.benchmarks.truth import judge
from tidegate.project import Project

LOAD = Load(600, 3, 5, 100, disorder_s=0.5, payload=10)


def test_all_rows_are_sent_once_and_a_quiet_stream_beforehand() -> None:
    stream = Stream("t", LOAD, 60)
    for part, ends in stream.bounds().items():
        assert np.all(np.diff(ends) >= 0)
        assert ends[-1] == LOAD.lengths()[part]
    sent = [encoded_ticks(stream, first, first + 20) for first in (0, 20, 40)]
    sizes = [{part: len(data) for part, data in tick.items()} for found in sent for tick in found]
    again = encoded_ticks(stream, 0, 60)
    assert sizes == [{part: len(data) for part, data in tick.items()} for tick in again], "however it is cut"
    quiet = encoded_ticks(Stream("t", LOAD, 60, quiet=True), 0, 60)
    assert set(quiet[0]) == {0, 1, 2}
    assert not any(quiet[1:])


def test_a_sender_stops_before_its_last_row(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mute:
        def __init__(self, _: str) -> None:
            pass

        def send(self, *_: object) -> float:
            return 1.0

        def close(self) -> None:
            pass

    monkeypatch.setattr(streams, "Wire", Mute)
    stream = Stream("t", LOAD, 60)
    sender = Sender("nowhere", [stream], 600.0)
    sender.start()
    assert sender.runs
    sender.stop()
    assert not sender.runs
    assert np.count_nonzero(stream.sent_at) <= 1
    sender.finish()


def test_a_window_that_is_missing_has_waited_for_ever() -> None:
    stream = Stream("t", LOAD, 60)
    stream.sent_at = 1_000.0 + 0.1 * np.arange(60)
    last = judge(events(LOAD), DELAY_S * SECOND).watermark // SECOND * SECOND
    ends = np.arange(last - 3 * SECOND, last + 1, SECOND)
    frontiers, moments = ends[:-1], 1_010.0 + np.arange(3)
    found = delays(stream, 0, frontiers, moments, 1_000.0)
    assert np.isinf(found[-1])
    assert np.all(np.isfinite(found[:-1]))
    # All windows up to the first frontier came with its commit.
    assert found[0] > 1_010.0 - 1_006.0
    assert len(delays(stream, 0, frontiers, moments, 2_000.0)) == 0, "the warm-up does not count"
    assert len(delays(stream, 0, frontiers, moments, 1_000.0, 1_000.0)) == 0, "nor what comes later"
    assert (rank(np.sort(found), 0.5) < 15, rank(np.sort(found), 1.0)) == (True, float("inf"))


def test_a_commit_is_there_when_its_metadata_are_written(tmp_path: Path) -> None:
    def write(number: int, at: int, *frontiers: int) -> None:
        snapshots = [{"summary": {"tidegate.frontier": str(f)}} for f in frontiers]
        path = tmp_path / f"{number:05}-x.metadata.json"
        path.write_text(json.dumps({"snapshots": snapshots}))
        os.utime(path, (at, at))

    commits = Commits({"v": tmp_path})
    write(1, 100, 10)
    write(2, 110, 10, 20)
    commits.look()
    (tmp_path / "00001-x.metadata.json").unlink()
    write(3, 120, 20, 30)
    commits.look()
    frontiers, moments = commits.of("v")
    assert (frontiers.tolist(), moments.tolist()) == ([10, 20, 30], [100.0, 110.0, 120.0])


def test_each_change_of_the_suite_change_is_what_its_name_says(tmp_path: Path) -> None:
    case = Case("change", 1, 2, 10, "1s", {}, 1)
    project = make_team(tmp_path, "127.0.0.1:1", case, team_streams(case, 1.0, 0.1))
    file, shapes = project.root / "assets" / "bench.sql", []
    file.write_text(f"{file.read_text()}\n{wide_definitions(tmp_path)}")
    for one in changes_of(case, 1_000):
        file.write_text(one.edit(file.read_text()))
        catalog = Project.load(project.root).catalog()
        source, *views = (catalog.get(name) for name in ("s0", *(case.view(0, n) for n in (0, 1)), "wide"))
        shapes.append((len(source.columns), *(len(v.columns) for v in views), len(list(catalog.sinks))))
    assert shapes == [(4, 5, 5, 5, 0), (5, 5, 5, 5, 0), (5, 5, 6, 5, 0), (5, 5, 6, 5, 1), (5, 5, 6, 6, 1)]


def test_every_case_of_the_table_is_there() -> None:
    assert len(CASES) == len({case.name for case in CASES}) == 12
    assert all(case.must for case in CASES)
