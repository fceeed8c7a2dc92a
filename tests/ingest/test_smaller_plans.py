"""X2: how connectors plan less, without Spark: nothing is lost or read twice, whatever is planned again."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from tidegate.errors import TidegateError
from tidegate.ingest.connector import BatchPlan, BatchRows
from tidegate.ingest.sources import file_rows
from tidegate.ingest.sources.file_rows import surviving
from tidegate.ingest.sources.files import InputFile
from tidegate.ingest.sources.filesystem import FilesystemConnector
from tidegate.ingest.sources.replay import ReplayConnector
from tidegate.ingest.stream import SourceFeed
from tidegate.plan.stages import SourceStage
from tidegate.project import Project
from tidegate.runtime.stages import Stages
from tidegate.tasks.smaller import FEW_ROWS, PATIENCE, Size

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SQL = (
    "CREATE SOURCE s (id INT) WITH (connector = 'filesystem', path = 'in', max_files_per_batch = 6) "
    "FORMAT PLAIN ENCODE JSON;"
)
DIED = PySparkException("Job aborted …: Python worker exited unexpectedly (crashed)")


@pytest.fixture
def connector(tmp_path: Path) -> FilesystemConnector:
    """Over ten files of which nothing was read."""
    for folder in ("assets", "in"):
        (tmp_path / folder).mkdir()
    for number in range(10):
        (tmp_path / "in" / f"{number}.json").write_text(json.dumps({"id": number}))
    (tmp_path / "assets" / "s.sql").write_text(SQL)
    project = Project.load(tmp_path)
    relation: Any = project.catalog().get("s")
    return FilesystemConnector(None, project, relation, relation.connector, list)  # type: ignore[arg-type]


#: Of the stages of a batch those that these logs have.
READING = Stages([SourceStage("s", "source", None, (), None, ())])


def paths(plan: BatchPlan | None) -> list[str]:
    return [] if plan is None else [unit["path"].removesuffix(".json") for unit in plan.units]


@pytest.mark.parametrize("look_between", [False, True])
def test_R2_files_that_a_smaller_plan_leaves_are_read_by_the_next(
    connector: FilesystemConnector, look_between: bool
) -> None:
    connector.pending()
    first = connector.plan(1, NOW)
    assert first is not None
    assert paths(first) == list("012345")
    first.crashed.append([first.units[5]["uri"], 0, 7])
    half = connector.smaller(first)
    assert half is not None
    quarter = connector.smaller(half)
    assert (paths(half), paths(quarter)) == (list("012"), list("01"))
    assert half.crashed == []
    assert connector.waits()
    if look_between:
        connector.pending()  # as live mode does before every tick
    rest = [connector.plan(epoch, NOW) for epoch in range(2, 6)]
    assert [paths(plan) for plan in rest] == [list("23"), list("45"), list("67"), list("89")]
    # What was known of a row goes with its file.
    assert rest[1] is not None
    assert rest[1].crashed == [[first.units[5]["uri"], 0, 7]]
    assert not connector.waits()


def test_R2_a_smaller_plan_is_adopted_by_the_next_run(connector: FilesystemConnector) -> None:
    connector.pending()
    first = connector.plan(1, NOW)
    assert first is not None
    half = connector.smaller(first)
    assert half is not None
    again = BatchPlan.from_json(half.to_json())
    connector._known.clear()  # another process
    connector.pending()
    assert connector.adopt(again)
    smallest = connector.smaller(again)
    assert smallest is not None
    assert paths(smallest) == list("01")
    one = connector.smaller(smallest)
    assert one is not None
    assert connector.smaller(one) is None
    assert connector.smallest(one) == "0.json (9 bytes)"
    assert "".join("".join(paths(connector.plan(n, NOW))) for n in range(2, 12)) == "123456789"


def test_R2_rows_of_a_recording_that_a_smaller_plan_leaves_are_played_by_the_next() -> None:
    options = SimpleNamespace(max_rows_per_batch=100)
    relation = SimpleNamespace(columns=())
    replay = ReplayConnector(None, None, relation, options, list, 0)  # type: ignore[arg-type]
    replay._total = 150
    plan = replay.plan(1, NOW)
    assert plan is not None
    less = replay.smaller(plan)
    assert less is not None
    ranges = [(unit["from"], unit["until"]) for unit in less.units]
    for epoch in range(2, 5):
        following = replay.plan(epoch, NOW)
        ranges += [(unit["from"], unit["until"]) for unit in following.units] if following else []
    assert ranges == [(0, 50), (50, 100), (100, 150)]
    assert replay.smaller(BatchPlan(9, NOW.isoformat(), [{"stage": "", "from": 3, "until": 4}])) is None


def test_X2_a_look_that_dies_looks_at_fewer_files_then_sparingly_and_says_so_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The model: a process has memory for three files, or for one of these that is large if it is read sparingly."""
    files = [InputFile(str(n), f"file:///{n}", 1, 0) for n in range(8)]
    relation: Any = SimpleNamespace(name="s", location=None)
    bad = [["file:///5", 0, 2]]
    monkeypatch.setattr(
        file_rows,
        "crashed_in",
        lambda *given: [row for row in bad if row[0] in given[3] and row not in given[4]],
    )
    crashed: list[list[Any]] = []
    tried: list[tuple[int, int]] = []

    def look(some: list[InputFile], care: int) -> list[str]:
        tried.append((len(some), care))
        names = [file.path for file in some]
        if len(some) > 3 or ("5" in names and not crashed) or ("6" in names and care < FEW_ROWS):
            raise DIED
        return names

    def both(one: list[str], other: list[str]) -> list[str]:
        return one + other

    given: Any = (None, None, relation)
    assert surviving(*given, files, crashed, look, both) == [str(n) for n in range(8)]
    assert crashed == bad
    assert {care for count, care in tried if count > 1} == {0}
    with pytest.raises(TidegateError) as raised:
        surviving(*given, files, crashed, lambda some, care: die(), None)
    assert raised.value.code == "TG513"
    assert "0 and 7 more files" in raised.value.message
    with pytest.raises(ValueError, match="else"):
        surviving(*given, files, crashed, lambda some, care: other(), both)


def die() -> Any:
    raise DIED


def other() -> Any:
    raise ValueError("something else")


def test_X2_a_size_shrinks_at_once_and_grows_when_some_went_well() -> None:
    size = Size(100, 10)
    assert [size.next() for _ in range(3)] == [100] * 3
    size.shrink(40)
    size.shrink(20)
    assert size.most == 20
    grown = [20] * (PATIENCE - 1) + [40] * PATIENCE + [80] * PATIENCE + [100]
    assert [size.next() for _ in range(3 * PATIENCE)] == grown
    size.shrink(0)
    assert size.most == 1


def test_R1_what_is_durable_is_replaced_before_it_is_used_and_never_once_it_is_committed(
    connector: FilesystemConnector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model: workers have memory for two files, or for one that has 4 in it if it is read sparingly."""
    project = connector._project
    monkeypatch.setattr(connector, "crashed", lambda plan: [])
    used: list[tuple[int, list[str], int]] = []
    progress = SimpleNamespace(epoch=0)

    def add(epoch: int, rows: BatchRows, *_: Any) -> str:
        assert feed._inbox.read(epoch) == plans[-1]
        assert epoch == progress.epoch + 1
        used.append((epoch, paths(plans[-1]), rows.care))
        if len(plans[-1].units) > 2 or ("4" in paths(plans[-1]) and rows.care < FEW_ROWS):
            raise DIED
        progress.epoch = epoch
        if "9" in paths(plans[-1]):
            raise DIED  # behind the commit
        return "committed"

    def read(plan: BatchPlan) -> BatchRows:
        plans.append(plan)
        return BatchRows(None, (), numbering=True)

    plans: list[BatchPlan] = []
    monkeypatch.setattr(connector, "read", read)
    relation = SimpleNamespace(name="s", location=None, connector=None)
    log: Any = SimpleNamespace(
        relation=relation, progress=progress, table=SimpleNamespace(uuid="u"), add=add, stages=READING
    )
    feed = SourceFeed(project.storage, log, connector, project.storage.uri("work"), lambda: NOW)
    connector.pending()
    done: list[Any] = []

    def catch_up() -> None:
        while feed.advance(done.append):
            pass

    with pytest.raises(TidegateError) as raised:
        catch_up()
    assert raised.value.code == "TG513"
    assert used[:3] == [(1, list("012345"), 0), (1, list("012"), 0), (1, list("01"), 0)]
    assert [(epoch, names, care) for epoch, names, care in used if "4" in names] == [
        (1, list("012345"), 0),
        (3, list("45"), 0),
        (3, ["4"], 0),
        (3, ["4"], 1),
        (3, ["4"], 2),
    ]
    assert progress.epoch == used[-1][0]
    committed = {epoch: names for epoch, names, _ in used}
    assert "".join("".join(names) for names in committed.values()) == "0123456789"


class Killed(Exception):
    """Stands for a process that is gone."""


def feed_of(connector: FilesystemConnector, life: str, epoch: int, read: list[tuple[str, str]]) -> SourceFeed:
    """A run on the log of this life and epoch; `read`: the arrival and the files of each batch. It is killed before its
    first commit."""

    def note(plan: BatchPlan) -> BatchRows:
        read.append((plan.arrival, " ".join(paths(plan))))
        raise Killed

    connector.read = note  # type: ignore[method-assign]
    log: Any = SimpleNamespace(
        relation=SimpleNamespace(name="s", location=None, connector=None),
        progress=SimpleNamespace(epoch=epoch),
        table=SimpleNamespace(uuid=life),
        stages=READING,
    )
    storage = connector._project.storage
    connector._known.clear()
    connector.pending()
    clock = NOW + timedelta(hours=len(read))
    return SourceFeed(storage, log, connector, storage.uri("work"), lambda: clock)


def test_W4_the_plan_of_a_run_that_was_killed_is_carried_out_as_it_stands(
    connector: FilesystemConnector,
) -> None:
    """Its clock and its files were seen already; what came meanwhile waits for the next batch."""
    read: list[tuple[str, str]] = []
    with pytest.raises(Killed):
        feed_of(connector, "life", 0, read).advance(print)
    (connector._project.root / "in" / "00.json").write_text("{}")
    with pytest.raises(Killed):
        feed_of(connector, "life", 0, read).advance(print)
    assert read == [(NOW.isoformat(), "0 1 2 3 4 5")] * 2


def test_R2_the_plan_for_a_log_that_was_dropped_is_not_carried_out(connector: FilesystemConnector) -> None:
    read: list[tuple[str, str]] = []
    for life in ("dropped", "recreated"):
        with pytest.raises(Killed):
            feed_of(connector, life, 0, read).advance(print)
        (connector._project.root / "in" / "00.json").write_text("{}")
    assert [files for _, files in read] == ["0 1 2 3 4 5", "0 00 1 2 3 4"]


def test_a_batch_that_takes_too_long_is_followed_by_a_smaller_one_and_quick_ones_grow() -> None:
    size = Size(1_000_000, 50_000)
    size.planned(size.next())
    size.took(20.0, 5.0)
    assert size.most == 250_000
    # Whatever a batch costs at least, the next ones do not become tiny.
    for _ in range(9):
        size.planned(size.next())
        size.took(60.0, 5.0)
    assert size.most == 50_000
    for _ in range(3):
        size.planned(size.next())
        size.took(1.0, 5.0)
    assert size.most == 400_000
    # One that was not full says nothing of a full one, and neither does one of an earlier run.
    size.planned(100)
    size.took(1.0, 5.0)
    size.took(60.0, 5.0)
    assert size.most == 400_000
    few = Size(4, 8)
    few.planned(few.next())
    few.took(60.0, 5.0)
    assert few.most == 4


def test_X2_a_size_that_memory_allows_does_not_grow_because_batches_are_quick() -> None:
    size = Size(1_000_000, 50_000)
    size.planned(size.next())
    size.shrink(500_000)
    for _ in range(PATIENCE - 1):
        size.planned(size.next())
        size.took(1.0, 5.0)
        assert size.most == 500_000
    size.next()
    assert size.most == 1_000_000
