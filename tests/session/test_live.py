"""Live mode in one process: ticks over files in the shared Spark, on an injected clock."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from tests.conftest import Workbench
from tidegate.errors import TidegateError
from tidegate.ingest.stream import PlanInbox, SourceFeed
from tidegate.plan import events
from tidegate.plan.events import BatchCommitted, Event
from tidegate.runtime.codes import is_curable
from tidegate.runtime.context import Context
from tidegate.runtime.lease import lease
from tidegate.session.live import LiveGroup, Retries
from tidegate.session.members import sink_member
from tidegate.session.members.sink_member import SinkMember
from tidegate.session.session import Session
from tidegate.sql import load_catalog
from tidegate.sql.catalog.objects import Sink
from tidegate.views.view_table import ViewTable

SOURCE = """CREATE SOURCE clicks (
    page VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds'
) WITH (connector = 'filesystem', path = 'in', max_files_per_batch = 1) FORMAT PLAIN ENCODE JSON;
"""
VIEWS = """CREATE MATERIALIZED VIEW per_minute AS
SELECT page, window_start, window_end, count(*) AS n
FROM TUMBLE(clicks, ts, INTERVAL '1 minute') GROUP BY page, window_start, window_end
EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW per_hour AS
SELECT window_start, sum(n) AS n
FROM TUMBLE(per_minute, window_start, INTERVAL '1 hour') GROUP BY window_start
EMIT ON WINDOW CLOSE;
"""
SINK = """CREATE SINK out FROM per_minute
WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON;
"""


def rows(*times: str) -> list[dict[str, Any]]:
    return [{"page": "a", "ts": f"2026-01-01 {time}"} for time in times]


class Bench:
    """A group over a workbench, told nothing but what the test says; `told` since the last look."""

    def __init__(self, workbench: Workbench, session: Session, interval: float = 0.0) -> None:
        self.workbench, self.session = workbench, session
        self.now = 0.0
        self.told: list[Event] = []
        retries = Retries(first=10.0, longest=40.0, source_tries=3)
        paced: dict[str, Any] = {"clock": lambda: self.now, "interval": interval}
        self.group = LiveGroup(session, name="clicks", retries=retries, **paced)

    def drop(self, name: str, *times: str) -> None:
        self.workbench.json_lines(f"in/{name}.json", rows(*times))

    def tick(self) -> bool:
        self.told.clear()
        return self.group.tick(self.told.append)

    def kinds(self) -> list[str]:
        return [event.to_dict()["event"] for event in self.told]

    def minutes(self) -> list[tuple[str, int]]:
        found = self.session.table("per_minute").orderBy("window_start").collect()
        return [(f"{row['window_start']:%H:%M}", row["n"]) for row in found]

    def delivered(self) -> int:
        return sum(len(p.read_text().splitlines()) for p in (self.workbench.root / "out").glob("*.jsonl"))


@contextmanager
def live(workbench: Workbench, interval: float = 0.0) -> Iterator[Bench]:
    bench = Bench(workbench, workbench.session(), interval)
    with bench.group:
        bench.group.prepare(bench.told.append)
        yield bench


def test_R2_ticks_read_what_comes_and_close_and_deliver_it_at_once(workbench: Workbench) -> None:
    workbench.assets(a=SOURCE, b=VIEWS, c=SINK)
    workbench.json_lines("in/1.json", rows("12:00:10", "12:00:50"))
    workbench.json_lines("in/2.json", rows("12:01:30", "12:00:59"))
    with live(workbench) as bench:
        assert bench.told == [
            events.WorkerStarted("clicks", ("clicks", "per_minute", "per_hour", "out"), os.getpid())
        ]
        # A backlog: one batch for each tick.
        assert bench.tick()
        assert bench.minutes() == []
        assert not bench.tick()
        # 12:01:30 - 5 s is beyond the first minute: batch, window and delivery are of one tick.
        slices = ["slice_committed", "slice_committed"]
        assert bench.kinds() == ["batch_committed", *slices, "sink_delivered", "tick_finished"]
        assert (bench.minutes(), bench.delivered()) == ([("12:00", 2)], 1)
        finished = bench.told[-1]
        assert isinstance(finished, events.TickFinished)
        assert (finished.tick, finished.rows, finished.backlog) == (2, 2, False)
        assert not bench.tick()
        assert bench.kinds() == ["tick_finished"]

        # Upkeep by somebody else: a snapshot that replaces files, and no trace of those before.
        for table in ("clicks", "per_minute"):
            identifier = bench.session.identifier(table)
            options = f"table => '{identifier}', options => map('rewrite-all', 'true')"
            bench.session.spark.sql(f"CALL tidegate.system.rewrite_data_files({options})")

        bench.drop("3", "13:00:10")
        assert not bench.tick()
        assert bench.kinds() == ["batch_committed", *slices, "sink_delivered", "tick_finished"]
        assert (bench.minutes(), bench.delivered()) == ([("12:00", 2), ("12:01", 1)], 2)
        late = bench.session.table("clicks$late").collect()
        assert [f"{row['ts']:%H:%M:%S}" for row in late] == ["12:00:59"]
        hours = bench.session.table("per_hour").collect()
        ran = sorted(map(str, bench.session.table("per_minute").collect()))
    assert [row["n"] for row in hours] == [3]

    # The same files by `run`, in a project of its own: the same rows.
    other = Workbench(workbench.root.parent / "other", bench.session.spark)
    other.assets(a=SOURCE, b=VIEWS)
    shutil.copytree(workbench.root / "in", other.root / "in")
    session = other.session()
    session.run()
    assert sorted(map(str, session.table("per_minute").collect())) == ran


def test_B2_a_sink_that_upserts_looks_for_amendments_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """They come from another process, and a quiet view closes nothing that would make the sink look."""
    catalog = load_catalog(
        [
            (
                "assets/a.sql",
                "CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;\n"
                "CREATE MATERIALIZED VIEW v AS SELECT ts FROM t EMIT ON WINDOW CLOSE;\n"
                "CREATE SINK follows FROM v WITH (connector = 'iceberg', amendments = 'upsert');\n"
                "CREATE SINK appends FROM v WITH (connector = 'iceberg');",
            )
        ]
    )
    delivered: list[str] = []
    monkeypatch.setattr(
        "tidegate.session.members.sink_member.deliver",
        lambda session, sink, notify: delivered.append(sink.name),
    )
    now = [100.0]
    members = [SinkMember(cast("Any", None), sink, lambda: now[0]) for sink in catalog.sinks]

    def look() -> None:
        for member in members:
            if member.watches:
                member.step(lambda event: None)

    for now[0] in (110.0, 130.0, 131.0, 159.0, 161.0):
        look()
    assert delivered == ["follows", "follows"]


@pytest.mark.runner("inprocess")
def test_a_view_that_fails_does_not_stop_its_source_and_catches_up(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    workbench.assets(a=SOURCE, b=VIEWS)
    workbench.json_lines("in/1.json", rows("12:00:10", "12:01:30"))
    tick = ViewTable.tick

    def broken(table: ViewTable, gives_way: bool) -> events.SliceCommitted | None:
        if table.view.name == "per_minute":
            raise TidegateError("TG507", "Spark refuses it")
        return tick(table, gives_way=gives_way)

    monkeypatch.setattr(ViewTable, "tick", broken)
    with live(workbench) as bench:
        bench.tick()
        assert bench.kinds() == ["batch_committed", "member_failed", "tick_finished"]
        failed = bench.told[1]
        assert isinstance(failed, events.MemberFailed)
        assert (failed.name, failed.kind, failed.code, failed.attempt) == ("per_minute", "view", "TG507", 1)
        assert 10 <= failed.retry_seconds < 15
        assert bench.group.failing == ("per_minute",)

        # The source goes on; the view is left in peace until its time has come, then twice as long.
        bench.drop("2", "12:02:30")
        bench.tick()
        assert bench.kinds() == ["batch_committed", "tick_finished"]
        bench.now += 15
        bench.tick()
        failed = bench.told[0]
        assert isinstance(failed, events.MemberFailed)
        assert failed.attempt == 2
        assert 20 <= failed.retry_seconds < 30

        monkeypatch.setattr(ViewTable, "tick", tick)
        bench.now += 30
        bench.tick()
        # What reads it goes on with it.
        assert bench.kinds() == ["slice_committed", "member_recovered", "slice_committed", "tick_finished"]
        assert (bench.minutes(), bench.group.failing) == ([("12:00", 1), ("12:01", 1)], ())


@pytest.mark.runner("inprocess")
def test_C2_what_was_committed_before_a_failure_is_closed_and_delivered(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source has committed, and fails behind that; then nothing comes any more."""
    workbench.assets(a=SOURCE, b=VIEWS, c=SINK)
    workbench.json_lines("in/1.json", rows("12:00:10", "12:01:30"))
    forget = PlanInbox.forget

    def fails(inbox: PlanInbox, epoch: int) -> None:
        monkeypatch.setattr(PlanInbox, "forget", forget)
        raise OSError("the store does not answer")

    with live(workbench) as bench:
        bench.tick()
        bench.drop("2", "12:02:30")
        monkeypatch.setattr(PlanInbox, "forget", fails)
        bench.tick()
        assert bench.kinds() == ["member_failed", "tick_finished"]
        bench.now += 60
        bench.tick()
        kinds = ["member_recovered", "slice_committed", "slice_committed", "sink_delivered", "tick_finished"]
        assert bench.kinds() == kinds
        assert (bench.minutes(), bench.delivered()) == ([("12:00", 1), ("12:01", 1)], 2)
        bench.tick()
        assert bench.kinds() == ["tick_finished"]


@pytest.mark.runner("inprocess")
def test_a_source_is_tried_again_and_then_left_to_a_fresh_process(workbench: Workbench) -> None:
    workbench.assets(a=SOURCE)
    with live(workbench) as bench:
        # The folder is not there yet: it may be mounted later.
        for _ in range(2):
            bench.tick()
            assert bench.kinds() == ["member_failed", "tick_finished"]
            bench.now += 60
        bench.drop("1", "12:00:10")
        bench.tick()
        assert bench.kinds() == ["batch_committed", "member_recovered", "tick_finished"]
        shutil.rmtree(workbench.root / "in")
        for _ in range(2):
            bench.tick()
            bench.now += 60
        with pytest.raises(TidegateError) as caught:
            bench.tick()
        assert caught.value.code == "TG503"
        assert is_curable(caught.value)


@pytest.mark.runner("inprocess")
def test_an_error_that_stays_ends_the_group_at_once(workbench: Workbench) -> None:
    workbench.assets(a=SOURCE).json_lines("in/1.json", rows("12:00:10"))
    workbench.session().run()
    workbench.assets(a=SOURCE.replace("page VARCHAR", "page BIGINT"))
    with live(workbench) as bench:
        with pytest.raises(TidegateError) as caught:
            bench.tick()
        assert caught.value.code == "TG506"
        assert not is_curable(caught.value)


@pytest.mark.runner("inprocess")
def test_a_group_holds_the_leases_of_what_it_writes(workbench: Workbench) -> None:
    """TG508 in both directions; a table that gets its rows by INSERT is not the group's to keep."""
    joined = """CREATE TABLE pages (page VARCHAR, title VARCHAR);
    CREATE MATERIALIZED VIEW titled AS
    SELECT c.page, p.title, c.ts FROM clicks c LEFT JOIN pages p ON c.page = p.page;
    """
    workbench.assets(a=SOURCE, b=joined)
    workbench.json_lines("in/1.json", rows("12:00:10"))
    folder = workbench.root / ".tidegate" / "locks" / "main"
    with live(workbench) as bench:
        for name in ("clicks", "titled"):
            with pytest.raises(TidegateError) as caught, lease(folder, name):
                pass
            assert caught.value.code == "TG508"
        with pytest.raises(TidegateError) as caught:
            workbench.session().run(["clicks"])
        assert caught.value.code == "TG508"
        bench.tick()
        workbench.session().execute("INSERT INTO pages VALUES ('a', 'Start')")
        bench.tick()
        assert [row["title"] for row in bench.session.table("titled").collect()] == ["Start"]
    with lease(folder, "clicks"), pytest.raises(TidegateError) as caught, live(workbench):
        pass
    assert caught.value.code == "TG508"
    # What was taken before the refusal is given back.
    with lease(folder, "titled"):
        pass


def test_leases_are_given_back_and_every_member_is_closed_where_closing_one_fails(
    workbench: Workbench,
) -> None:
    workbench.assets(a=SOURCE, b=VIEWS)
    session, closed = workbench.session(), []
    group = LiveGroup(session)

    def fails() -> None:
        raise OSError("the connection is gone")

    for member in group.members:
        member.close = lambda name=member.name: closed.append(name)  # type: ignore[method-assign, misc]
    group.members[0].close = fails  # type: ignore[method-assign]
    with pytest.raises(OSError, match="the connection is gone"), group:
        pass
    assert closed == [member.name for member in group.members[1:]]
    with live(workbench):
        pass


def test_a_tick_ends_between_two_commits_when_it_is_told_to(workbench: Workbench) -> None:
    workbench.assets(a=SOURCE, b=VIEWS)
    workbench.json_lines("in/1.json", rows("12:00:10", "12:01:30"))
    session, told = workbench.session(), []
    stopping: list[bool] = []
    group = LiveGroup(session, stopping=lambda: bool(stopping))

    def notify(event: Event) -> None:
        told.append(event)
        if isinstance(event, events.BatchCommitted):
            stopping.append(True)

    with group:
        assert not group.tick(notify)
    assert [type(event) for event in told] == [events.BatchCommitted, events.TickFinished]
    # What was left is done by whoever comes next.
    session.run()
    assert json.loads(session.table("per_minute").toJSON().first())["n"] == 1


@pytest.mark.runner("inprocess")
def test_a_sink_of_what_is_new_whose_begin_fails_begins_before_it_delivers(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    workbench.assets(clicks=SOURCE + VIEWS)
    workbench.json_lines("in/0.json", rows("10:00:10", "10:02:00"))
    workbench.session().run()
    workbench.assets(clicks=SOURCE + VIEWS + SINK.replace("path = 'out'", "path = 'out', snapshot = 'false'"))
    real, tries = sink_member.begin, list[str]()

    def fails_once(context: Context, sink: Sink) -> None:
        tries.append(sink.name)
        if len(tries) == 1:
            raise TidegateError("TG621", "the target does not answer")
        real(context, sink)

    monkeypatch.setattr(sink_member, "begin", fails_once)
    with live(workbench) as bench:
        bench.now = 50.0
        bench.tick()
        assert (tries, bench.delivered()) == (["out"] * 2, 0)
        bench.drop("1", "10:04:00", "10:06:00")
        bench.now = 60.0
        while bench.tick():
            pass
        bench.tick()
    assert bench.minutes()[:2] == [("10:00", 1), ("10:02", 1)]
    assert (tries, bench.delivered()) == (["out"] * 2, 2)


@pytest.mark.runner("inprocess")
def test_batches_of_a_backlog_are_made_smaller_where_they_take_too_long(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    workbench.assets(clicks=SOURCE.replace("max_files_per_batch = 1", "max_files_per_batch = 40") + VIEWS)
    with live(workbench) as bench:
        real, read = SourceFeed.advance, list[int]()

        def slow(feed: SourceFeed, on_batch: Any) -> bool:
            def heard(event: BatchCommitted) -> None:
                read.append(event.rows)
                # Half a second for each file.
                bench.now += event.rows / 2
                on_batch(event)

            return real(feed, heard)

        monkeypatch.setattr(SourceFeed, "advance", slow)
        for number in range(50):
            bench.drop(f"{number:02}", "10:00:10")
        while bench.tick():
            bench.now += 1
    assert read[:2] == [40, 10]
    assert sum(read) == 50
