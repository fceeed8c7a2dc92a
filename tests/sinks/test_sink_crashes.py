"""Sinks deliver each row exactly once, whatever breaks off in between (R2)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import Workbench
from tests.sinks.made import FILES, delivered, insert, starts
from tidegate.errors import TidegateError
from tidegate.sinks.console import ConsoleSink
from tidegate.sinks.filesystem import FilesystemSink
from tidegate.sinks.iceberg import IcebergSink
from tidegate.sinks.statefile import StateFile
from tidegate.store import read_status

if TYPE_CHECKING:
    from tidegate.session.session import Session


class Killed(Exception):
    """Stands for a process that is gone."""


@pytest.mark.runner("inprocess")
def test_R2_another_session_goes_on_where_the_last_one_stopped(
    session: Session, workbench: Workbench
) -> None:
    session.execute(f"CREATE SINK s FROM v {FILES.format('JSON')}")
    insert(session, 1, 12)
    assert session.execute("FLUSH").message == "flushed 1 view: 1 row closed; s: 1 delivered"
    again = workbench.session()
    insert(again, 25)
    assert again.execute("FLUSH").message == "flushed 1 view: 1 row closed; s: 1 delivered"
    assert starts(delivered(workbench.root / "out")) == ["10:00", "10:10"]


#: Where nothing depends on who computes what is delivered.
IN_PROCESS = pytest.mark.runner("inprocess")


def _kill_before(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, calls: int) -> Callable[[], None]:
    """Let `calls` calls of a method go through and die before the next one; returns what undoes this."""
    real, count = getattr(owner, name), iter(range(1000))

    def dying(self: Any, *arguments: Any) -> Any:
        if next(count) >= calls:
            raise Killed
        return real(self, *arguments)

    monkeypatch.setattr(owner, name, dying)
    return lambda: monkeypatch.setattr(owner, name, real)


@pytest.mark.parametrize(
    ("owner", "method", "calls"),
    [
        pytest.param(StateFile, "write", 0, id="before the delivery is decided", marks=IN_PROCESS),
        pytest.param(FilesystemSink, "_finish", 0, id="before the first rename", marks=IN_PROCESS),
        pytest.param(StateFile, "write", 1, id="after the renames, before the position"),
        pytest.param(
            FilesystemSink,
            "_remove",
            1,
            id="before staging is cleaned",
            marks=IN_PROCESS,
        ),
    ],
)
def test_R2_files_are_delivered_once_wherever_it_breaks_off(
    session: Session,
    workbench: Workbench,
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    method: str,
    calls: int,
) -> None:
    insert(session, 1, 12)
    session.execute("FLUSH")
    session.execute(f"CREATE SINK s FROM v {FILES.format('JSON')}")
    insert(session, 25)
    revive = _kill_before(monkeypatch, owner, method, calls)
    with pytest.raises(Killed):
        session.run()
    revive()
    # More has closed by the time that somebody starts it again.
    again = workbench.session()
    insert(again, 37)
    again.run()
    out = workbench.root / "out"
    assert starts(delivered(out)) == ["10:00", "10:10", "10:20"]
    assert [path.name for path in (out / "_tidegate").iterdir()] == ["position.json"]


@pytest.mark.runner("inprocess")
def test_R2_a_delivery_that_broke_off_between_two_renames_is_finished(
    session: Session, workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.execute(f"CREATE SINK s FROM v {FILES.format('JSON')}")
    insert(session, 1, 12)
    revive = _kill_before(monkeypatch, FilesystemSink, "_finish", 0)
    with pytest.raises(Killed):
        session.run()
    revive()
    out = workbench.root / "out"
    state = json.loads((out / "_tidegate" / "position.json").read_text())
    (file,) = state["pending"]["files"]
    # As if the rename had been done, and nothing after it.
    (out / "_tidegate" / "staging" / file["from"]).rename(out / file["to"])
    assert workbench.session().run().sinks[0].rows == 0
    assert starts(delivered(out)) == ["10:00"]


def test_R2_an_iceberg_sink_has_its_position_in_the_commit_of_the_rows(
    session: Session, workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(session, 1, 12)
    session.execute("FLUSH")
    session.execute("CREATE SINK s FROM v WITH (connector = 'iceberg', table = 'exported.totals')")
    totals = "tidegate.exported.totals"
    insert(session, 25)
    revive = _kill_before(monkeypatch, IcebergSink, "_publish", 0)
    with pytest.raises(Killed):
        session.run()
    # What is not published is not there.
    assert session.tables.rows(totals).count() == 1
    revive()
    insert(session, 37)
    assert workbench.session().run().sinks[0].rows == 2
    rows = session.spark.sql(
        f"SELECT CAST(window_start AS STRING), k, total FROM {totals} ORDER BY 1"
    ).collect()
    assert [tuple(row) for row in rows] == [
        ("2026-01-01 10:00:00", "k1", 1),
        ("2026-01-01 10:10:00", "k0", 12),
        ("2026-01-01 10:20:00", "k1", 25),
    ]
    newest = session.spark.sql(f"SELECT summary FROM {totals}.snapshots ORDER BY committed_at DESC").first()[
        0
    ]
    assert newest["tidegate.delivered-tick"] == "3"
    (status,) = read_status(workbench.session().project, ["s"]).sinks
    assert (status.place, status.tick, status.delivered, status.current) == ("exported.totals", 3, 3, True)
    assert newest["added-records"] == "2"


@pytest.mark.long_run
def test_R2_an_iceberg_sink_does_not_publish_over_the_commit_of_another_run(
    session: Session, workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.execute("CREATE SINK s FROM v WITH (connector = 'iceberg')")
    insert(session, 1, 12)
    session.execute("FLUSH")
    insert(session, 25)
    publish = IcebergSink._publish

    def overtaken(self: IcebergSink, *arguments: Any) -> None:
        self._spark.sql(f"INSERT INTO {self.identifier} VALUES (NULL, 'somebody', 0)")
        publish(self, *arguments)

    monkeypatch.setattr(IcebergSink, "_publish", overtaken)
    with pytest.raises(TidegateError) as refused:
        session.run()
    assert refused.value.code == "TG502"
    monkeypatch.setattr(IcebergSink, "_publish", publish)
    session.run()
    rows = session.tables.rows("tidegate.main.s").select("k", "total").collect()
    assert sorted(tuple(row) for row in rows) == [("k0", 12), ("k1", 1), ("somebody", 0)]


@pytest.mark.runner("inprocess")
def test_R2_a_console_sink_that_is_killed_after_it_showed_rows_shows_them_again(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    session.execute("CREATE SINK s FROM t WITH (connector = 'console')")
    insert(session, 1)
    # It begins, and dies when it would say what it has shown.
    revive = _kill_before(monkeypatch, ConsoleSink, "begin", 1)
    with pytest.raises(Killed):
        session.run()
    revive()
    session.run()
    line = "s: k = k1, ts = 2026-01-01 10:01:00, n = 1\n"
    assert capsys.readouterr().out == line * 2
