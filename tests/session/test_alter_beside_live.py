"""ALTER while another process has the lease, with a stand-in for live mode: what is stored, and what is taken back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import Workbench
from tests.session.test_apply_beside_live import Live
from tests.session.test_apply_beside_live import live as live  # the fixture
from tidegate import TidegateError
from tidegate.project import Project
from tidegate.sql.catalog.objects import Relation
from tidegate.store.writers import is_below, running

pytestmark = pytest.mark.runner("inprocess")

SQL = """
CREATE TABLE events (name VARCHAR, amount INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1 minute') APPEND ONLY;
CREATE MATERIALIZED VIEW sums AS SELECT window_end, sum(amount) AS total FROM TUMBLE(events, ts, INTERVAL '1 hour')
GROUP BY window_end EMIT ON WINDOW CLOSE;
INSERT INTO events VALUES ('a', 1, '2026-01-01 10:05:00'), ('b', 2, '2026-01-01 12:05:00');
FLUSH;
"""
#: `does`: "holds" the lease only, "says" that it is live mode and has no lease, or has both and "refuses" definitions,
#: "ends" when it is asked, or has "another" definition stored when it refuses.
STAND_IN = """
import os, signal, sys, time
from contextlib import nullcontext
from pathlib import Path
from tidegate.runtime.lease import lease
from tidegate.store.writers import LiveRecord, LiveRecordFile, RefusedDefinitions
state, does = Path(sys.argv[1]), sys.argv[2]
def look(*_):
    if does == "ends":
        os._exit(0)
    if does == "another" and not file.looked:
        (state / "definitions" / "local" / "events.sql").write_text("another")
    file.looked = True
    error = {"code": "TG709", "message": "no", "hint": None, "location": None}
    file.change(looked_at=time.time(), refused=RefusedDefinitions(time.time(), error))
with nullcontext() if does == "says" else lease(state / "locks" / "main", "events"):
    if does != "holds":
        signal.signal(signal.SIGUSR1, look)
        file = LiveRecordFile(state, "local", LiveRecord(time.time(), time.time(), ("events", "sums")))
        file.looked = False
    print("ready", flush=True)
    while True:
        signal.pause()
"""


class Events:
    def __init__(self, workbench: Workbench) -> None:
        self.state = workbench.root / ".tidegate"
        self.session = workbench.session()
        self.session.execute(SQL)
        self.file = self.state / "definitions" / "local" / "events.sql"
        self.stood = self.file.read_text()

    def refused(self, change: str = "ADD COLUMN note VARCHAR") -> TidegateError:
        with pytest.raises(TidegateError) as caught:
            self.session.execute(f"ALTER TABLE events {change}")
        return caught.value

    @property
    def columns(self) -> list[str]:
        """As the session knows them."""
        found = self.session.catalog.get("events")
        assert isinstance(found, Relation)
        return [column.name for column in found.columns]


@pytest.fixture
def events(workbench: Workbench) -> Events:
    return Events(workbench)


@pytest.fixture
def beside(events: Events) -> Iterator[Callable[[str], int]]:
    started: list[subprocess.Popen[str]] = []

    def start(does: str) -> int:
        words = [sys.executable, "-c", STAND_IN, str(events.state), does]
        started.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
        out = started[-1].stdout
        assert out is not None
        assert out.readline() == "ready\n"
        return started[-1].pid

    yield start
    for process in started:
        process.kill()
        process.wait(30)


def test_E7_what_live_mode_would_refuse_is_not_stored_at_all(
    events: Events, beside: Callable[[str], int], workbench: Workbench
) -> None:
    beside("ends")
    for change in ("ALTER COLUMN amount TYPE BIGINT", "DROP COLUMN amount"):
        error = events.refused(change)
        assert (events.file.read_text(), error.code in ("TG709", "TG511")) == (events.stood, True)
    assert "sums (view)" in events.refused("ALTER COLUMN amount TYPE BIGINT").message
    # It was not asked: it would have ended.
    (record,) = running(events.state, "local")
    assert record.looked_at == 0
    assert Project.load(workbench.root).catalog().get("events")


def test_E7_what_live_mode_refuses_is_taken_back(events: Events, beside: Callable[[str], int]) -> None:
    beside("refuses")
    assert (events.refused().code, events.file.read_text()) == ("TG709", events.stood)
    assert events.columns == ["name", "amount", "ts"]


def test_E7_another_definition_that_is_there_by_then_stays(
    events: Events, beside: Callable[[str], int]
) -> None:
    beside("another")
    assert (events.refused().code, events.file.read_text()) == ("TG709", "another")


def test_E7_without_an_answer_the_definition_stays_and_the_session_goes_by_it(
    events: Events, beside: Callable[[str], int]
) -> None:
    beside("ends")
    assert (events.refused().code, "note" in events.file.read_text()) == ("TG710", True)
    assert events.columns == ["name", "amount", "ts", "note"]


def test_E7_who_has_the_lease_and_is_not_live_mode_is_not_changed_beside(
    events: Events, beside: Callable[[str], int]
) -> None:
    says, holds = beside("says"), beside("holds")
    assert (events.refused().code, events.file.read_text()) == ("TG508", events.stood)
    assert not is_below(holds, says)
    assert is_below(says, says)


def test_E7_two_statements_do_not_change_a_definition_at_the_same_time(
    events: Events, beside: Callable[[str], int], workbench: Workbench
) -> None:
    """Also where nobody else has the lease of the relation itself."""
    with events.session.lease("events", "$definition"), pytest.raises(TidegateError) as caught:
        workbench.session().execute("ALTER TABLE events ADD COLUMN note VARCHAR")
    assert (caught.value.code, events.file.read_text()) == ("TG508", events.stood)


@pytest.mark.parametrize(
    "change", ["RENAME COLUMN seen TO looked", "DROP COLUMN seen", "ALTER COLUMN seen TYPE BIGINT"]
)
def test_E7_live_mode_is_told_of_a_change_of_a_table_that_it_only_reads(
    workbench: Workbench, events: Events, live: list[Live], change: str
) -> None:
    """Its views, which read no column that is changed, continue."""
    events.session.execute("ALTER TABLE events ADD COLUMN seen INT")
    live.append(Live(workbench))
    message = events.session.execute(f"ALTER TABLE events {change}").message
    assert message is not None
    assert (live[0].asked, "live mode continues with the change" in message) == (1, True)
    live[0].tick()
    assert live[0].failed == []


def test_E7_what_live_mode_refuses_of_a_table_that_it_only_reads_is_not_changed(
    events: Events, beside: Callable[[str], int]
) -> None:
    beside("says")
    assert (events.refused().code, events.file.read_text()) == ("TG709", events.stood)
    assert "sums (view)" in events.refused("ALTER COLUMN amount TYPE BIGINT").message
