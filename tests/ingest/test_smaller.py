"""X2: a batch whose workers die, with no row to blame, is made smaller. Processes really end here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from tests.conftest import Workbench
from tests.runtime.killing import FewRows, KillingGate, killing, killing_files
from tidegate.errors import TidegateError
from tidegate.ingest import ingest
from tidegate.ingest.ingest import Log
from tidegate.ingest.sources import file_rows, filesystem
from tidegate.ingest.sources.log import LogConnector
from tidegate.ingest.stream import PlanInbox, SourceFeed
from tidegate.session.session import Session
from tidegate.tasks import smaller
from tidegate.tasks.decode.text import files as text_files

pytestmark = pytest.mark.spark

SOURCE = (
    "CREATE SOURCE {name} (p VARCHAR, id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) "
    "WITH (connector = '{connector}', path = 'in'{more}) FORMAT PLAIN ENCODE {encode};"
)
PLACED = ", partition.columns = 'p', order.column = 'id'"


def line(number: int) -> str:
    return json.dumps({"p": "a", "id": number, "ts": f"2026-01-01 00:00:{number:02}"})


def source(workbench: Workbench, rows_of: list[list[int]], name: str = "s", more: str = "") -> Session:
    """A source of files with these rows each."""
    for number, rows in enumerate(rows_of):
        workbench.json_lines(f"in/{number}.json", [line(row) for row in rows])
    connector = "replay" if name == "r" else "filesystem"
    workbench.assets(s=SOURCE.format(name=name, connector=connector, more=more, encode="JSON"))
    return workbench.session()


def on_time(session: Session, name: str = "s") -> list[tuple[str, int]]:
    """The rows that are, by partition and offset."""
    found = session.table(f"{name}$raw").collect()
    assert {r["outcome"] for r in found} == {"on_time"}
    assert len({(r["partition"], r["offset"]) for r in found}) == len(found)
    return sorted(r["id"] for r in session.table(name).collect())


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every plan that is durable, in its order; each is so before it is used."""
    written: list[Any] = []
    write, tried = PlanInbox.write, SourceFeed._carried_out
    monkeypatch.setattr(PlanInbox, "write", lambda self, plan: (written.append(plan), write(self, plan))[1])

    def carried_out(self: SourceFeed, plan: Any) -> Any:
        assert self._inbox.read(plan.epoch) == plan
        return tried(self, plan)

    monkeypatch.setattr(SourceFeed, "_carried_out", carried_out)
    return written


def die(monkeypatch: pytest.MonkeyPatch, **when: Any) -> None:
    """Readers of text files that are made from here on end their process."""
    made = file_rows._text_files
    monkeypatch.setattr(file_rows, "_text_files", lambda *given: killing_files(made(*given), **when))


def die_over(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Decoders of text files that are made from here on end their process over so many rows at once."""
    made = file_rows.text_decoder
    monkeypatch.setattr(file_rows, "text_decoder", lambda *given: killing(made(*given), most))


@pytest.mark.parametrize(
    "more",
    [pytest.param("", id="folder"), pytest.param(PLACED, id="columns", marks=pytest.mark.long_run)],
)
def test_X2_a_batch_of_too_many_files_is_made_smaller(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, plans: list[Any], more: str
) -> None:
    """Where rows say their order, files that overlap stay together, and a first look at the rows dies, too."""
    rows = [[0, 1], [2, 4], [3], [5], [6], [7, 8]] if more else [[0, 1], [2], [3, 4], [5], [6], [7, 8]]
    session = source(workbench, rows, more=more)
    die(monkeypatch, most_files=2)
    session.run()
    assert on_time(session) == list(range(9))
    assert len(plans[0].units) == 6
    used = {plan.epoch: [unit["path"] for unit in plan.units] for plan in plans}
    assert sorted(path for paths in used.values() for path in paths) == [f"{i}.json" for i in range(6)]
    assert max(map(len, used.values())) == 2
    # What was too large is not tried again at once: only the first plan was replaced.
    assert [plan.epoch for plan in plans].count(1) == len(plans) - len(used) + 1


@pytest.mark.long_run
def test_X2_of_a_single_file_tasks_run_one_by_one_then_in_little_pieces(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, plans: list[Any], tmp_path: Path
) -> None:
    monkeypatch.setattr(text_files, "_PART", 150)
    monkeypatch.setattr(smaller, "ROWS", 2)
    session = source(workbench, [list(range(10))])
    die(monkeypatch, alone=tmp_path / "lock")
    session.run()
    assert on_time(session) == list(range(10))
    assert [plan.care for plan in plans] == [0, 1]
    die_over(monkeypatch, most=2)
    workbench.json_lines("in/new.json", [line(row) for row in range(10, 20)])
    workbench.session().run()
    assert on_time(session) == list(range(20))
    assert [plan.care for plan in plans] == [0, 1, 0, 1, 2]


def test_X2_a_row_group_of_parquet_is_read_in_little_pieces(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, plans: list[Any]
) -> None:
    folder = workbench.root / "in"
    folder.mkdir()
    times = pa.array([0] * 10, pa.timestamp("us"))
    rows = pa.table({"p": ["a"] * 10, "id": pa.array(range(10), pa.int32()), "ts": times})
    pq.write_table(rows, folder / "a.parquet")
    workbench.assets(s=SOURCE.format(name="s", connector="filesystem", more="", encode="PARQUET"))
    session = workbench.session()
    monkeypatch.setattr(smaller, "ROWS", 3)
    monkeypatch.setattr(filesystem, "ParquetReader", FewRows)
    session.run()
    assert on_time(session) == list(range(10))
    assert [plan.care for plan in plans] == [0, 1, 2]


@pytest.mark.long_run
def test_X2_of_a_recording_fewer_rows_are_played_at_once(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, plans: list[Any], tmp_path: Path
) -> None:
    """It is the gate that has too many rows. The copy is made by one task at a time, where two are too many."""
    monkeypatch.setattr(text_files, "_PART", 150)
    session = source(workbench, [list(range(20))], name="r")
    die(monkeypatch, alone=tmp_path / "lock")
    monkeypatch.setattr(ingest, "GateTask", KillingGate)
    session.run()
    assert on_time(session, "r") == list(range(20))
    parts = [(plan.epoch, plan.units[0]["from"], plan.units[0]["until"]) for plan in plans]
    assert parts[:4] == [(1, 0, 20), (1, 0, 10), (1, 0, 5), (1, 0, 3)]
    assert parts[4:7] == [(2, 3, 6), (3, 6, 9), (4, 9, 12)]


def test_X2_a_batch_of_an_inline_gate_takes_fewer_commits(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    workbench.assets(
        a="CREATE TABLE t (id INT, ts TIMESTAMP) APPEND ONLY;\n"
        "CREATE MATERIALIZED VIEW v AS SELECT id, ts FROM WATERMARK(t, ts, INTERVAL '1 minute') EMIT ON WINDOW CLOSE;"
    )
    session = workbench.session()
    for first in range(0, 16, 2):
        session.execute(
            f"INSERT INTO t VALUES ({first}, '2026-01-01 00:00:00'), ({first + 1}, '2026-01-01 00:00:01')"
        )
    ranges: list[tuple[int, int]] = []
    read = LogConnector.read

    def told(self: LogConnector, plan: Any) -> Any:
        ranges.append((plan.units[0]["after"], plan.units[0]["until"]))
        return read(self, plan)

    monkeypatch.setattr(LogConnector, "read", told)
    with monkeypatch.context() as dying:
        dying.setattr(ingest, "GateTask", KillingGate)
        session.run()
    (gate,) = session.catalog.get("v").gates
    rows = session.table(f"{gate.name}$raw").select("partition", "offset", "outcome").collect()
    assert sorted(r["offset"] for r in rows) == list(range(16))
    assert {r["outcome"] for r in rows} == {"on_time"}
    # Eight commits of two rows: too many at once until there are two.
    assert ranges[:3] == [(0, 8), (0, 4), (0, 2)]
    assert ranges[3:] == [(2, 4), (4, 6), (6, 8)]


@pytest.mark.long_run
def test_X2_the_smallest_batch_says_what_to_do_and_stays_planned(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, plans: list[Any]
) -> None:
    session = source(workbench, [[0, 1], [2], [3]])
    with monkeypatch.context() as dying:
        die(dying, most_files=0)
        with pytest.raises(TidegateError) as raised:
            session.run()
    error = raised.value
    assert error.code == "TG513"
    assert "one task at a time reads 0.json" in error.message
    assert "memory" in str(error.hint)
    assert session.table("s$raw").count() == 0
    assert [(len(plan.units), plan.care) for plan in plans] == [(3, 0), (2, 0), (1, 0), (1, 1), (1, 2)]
    # R2: the next run begins with what is durable, and goes on with all others.
    workbench.session().run()
    assert on_time(session) == [0, 1, 2, 3]
    assert [(plan.epoch, len(plan.units), plan.care) for plan in plans[5:]] == [(2, 2, 0)]


def test_R1_what_is_committed_is_not_planned_anew(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, plans: list[Any]
) -> None:
    """A worker that dies behind the commit of its batch."""
    session = source(workbench, [[0], [1]])
    add = Log.add

    def dies_later(self: Log, *given: Any) -> Any:
        add(self, *given)
        raise PySparkException("Job aborted …: Python worker exited unexpectedly (crashed)")

    with monkeypatch.context() as dying:
        dying.setattr(Log, "add", dies_later)
        with pytest.raises(TidegateError, match=r'a batch of "s" is stored, but .* Python worker') as raised:
            session.run()
    assert "continues after this batch" in str(raised.value.hint)
    assert len(plans) == 1
    workbench.session().run()
    assert on_time(session) == [0, 1]
