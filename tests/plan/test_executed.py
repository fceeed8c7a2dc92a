"""What runs is what `explain` prints: every commit, every task and all upkeep belong to a stage of the plan."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.inprocess.session import open_session, without_a_jvm
from tests.inprocess.stored.tables import InProcessTable
from tests.inprocess.stored.upkeep import InProcessUpkeep
from tidegate.amend.run import amend
from tidegate.maintenance.live_upkeep import LiveUpkeep
from tidegate.maintenance.upkeep import maintain
from tidegate.plan.explain import explain
from tidegate.plan.stages import Command, Stage
from tidegate.project.jobs.maintenance import Policy
from tidegate.runtime.stages import Stages, current_stage
from tidegate.session.live import LiveGroup
from tidegate.session.session import Session
from tidegate.tasks.writer import run_task
from tidegate.views.amend.rebuild import rebuild

SQL = """
CREATE SOURCE clicks (k VARCHAR, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds')
WITH (connector = 'filesystem', path = 'data') FORMAT PLAIN ENCODE JSON;
CREATE TABLE orders (k VARCHAR, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') APPEND ONLY;
CREATE TABLE prices (k VARCHAR PRIMARY KEY, p BIGINT);
CREATE TABLE quotes (
    k VARCHAR PRIMARY KEY, p BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds' WITH TTL
);
CREATE MATERIALIZED VIEW panes AS
SELECT k, window_start, window_end, sum(v) AS s FROM TUMBLE(clicks, ts, INTERVAL '10 seconds')
GROUP BY k, window_start, window_end EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW query AS
SELECT window_end, count(DISTINCT k) AS n FROM TUMBLE(orders, ts, INTERVAL '10 seconds')
GROUP BY window_end EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW frames AS
SELECT ts, k, lag(v) OVER (PARTITION BY k ORDER BY ts) AS before FROM orders EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW gated AS
SELECT window_end, max(v) AS m FROM TUMBLE(WATERMARK(clicks, ts, ts - INTERVAL '1 second'), ts, INTERVAL '10 seconds')
GROUP BY window_end EMIT ON WINDOW CLOSE;
CREATE SINK files FROM panes WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON;
"""


#: All that changes what is stored, but for tables that are made and taken away.
CHANGES: dict[type, tuple[str, ...]] = {
    InProcessTable: ("append", "merge_rows", "delete_rows", "tag", "swap", "forget_tags"),
    InProcessUpkeep: ("compact", "expire", "merge_manifests", "remove_files", "remove_orphans"),
}


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "all.sql").write_text(SQL)
    rows(tmp_path, "a", range(0, 40, 4))
    for of, names in CHANGES.items():
        for name in names:
            monkeypatch.setattr(of, name, in_a_stage(getattr(of, name)))
    for module in [m for name, m in sys.modules.items() if name.startswith("tidegate.")]:
        if getattr(module, "run_task", None) is run_task:
            monkeypatch.setattr(module, "run_task", in_a_stage(run_task))
    with without_a_jvm():
        yield open_session(tmp_path)


def in_a_stage(change: Any) -> Any:
    def checked(*given: Any, **named: Any) -> Any:
        assert current_stage() is not None, "work of no stage"
        return change(*given, **named)

    return checked


def rows(root: Path, partition: str, seconds: range | list[int]) -> None:
    folder = root / "data" / partition
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"k": "xy"[s % 3 == 0], "v": s, "ts": f"2026-01-01 00:00:{s:02d}"}) for s in seconds]
    (folder / f"{len(list(folder.iterdir()))}.json").write_text("".join(f"{line}\n" for line in lines))


def insert(session: Session, *seconds: int) -> None:
    values = ", ".join(f"('x', {s}, '2026-01-01 00:00:{s:02d}')" for s in seconds)
    session.execute(f"INSERT INTO orders VALUES {values}")


def watched(session: Session) -> list[Stage]:
    found: list[Stage] = []
    session.watcher = found.append
    return found


def quote(session: Session, *days: int) -> None:
    """One row for each day, which expires the rows before."""
    for day in days:
        session.execute(f"INSERT INTO quotes VALUES ('k{day % 2}', {day}, '2026-01-{day:02d} 12:00:00')")


def printed(session: Session, *names: str, command: Command = "run") -> set[Stage]:
    """What `explain` prints for these, of whatever their rows come from, too."""
    return {stage for name in names for stage in explained(session, name, command)}


def explained(session: Session, name: str, command: Command) -> tuple[Stage, ...]:
    namespace = session.project.storage.namespace_of
    return explain(session.catalog, name, namespace=namespace, command=command).stages


@pytest.mark.medium
def test_a_run_carries_out_what_explain_prints_and_nothing_else(session: Session) -> None:
    done = watched(session)
    session.execute("INSERT INTO prices VALUES ('x', 1), ('x', 2)")
    insert(session, 1, 3, 12, 30)
    session.run()
    assert set(done) == printed(session, "prices", "panes", "query", "frames", "gated", "files")
    assert {stage.way for stage in done if stage.node == "slice"} == {"panes", "query", "frames"}  # type: ignore[union-attr]


def test_each_batch_tick_and_delivery_is_in_the_order_of_the_plan(session: Session) -> None:
    done = watched(session)
    session.run(["files"])
    assert [(stage.node, stage.name) for stage in done if stage.node != "step"] == [
        *(("source", "clicks"), ("gate", "clicks"), ("log", "clicks")),
        *(("slice", "panes"), ("sink", "panes"), ("deliver", "files")),
    ]


@pytest.mark.medium
def test_a_live_run_carries_out_what_explain_prints_and_nothing_else(session: Session) -> None:
    insert(session, 1, 3, 12, 30)
    quote(session, 1, 2, 3)
    done = watched(session)
    now = 0.0
    with LiveGroup(session, clock=lambda: now) as group:
        group.prepare(lambda event: None)
        while group.tick(lambda event: None):
            pass
        items = [*group.written, session.relation("quotes")]
        upkeep = LiveUpkeep(session, group.name, items, every=1.0, clock=lambda: now)
        upkeep._policy = lambda name: Policy(compact_when_files=1, settle=0)
        for _ in range(len(items) + 1):
            now += 2.0
            upkeep.between_ticks(lambda event: None)
    names = "clicks", "quotes", "panes", "query", "frames", "gated", "files"
    assert set(done) <= printed(session, *names, command="live") | printed(session, "files")
    ran = {stage.node for stage in done}
    assert ran >= {"source", "gate", "log", "slice", "sink", "deliver", "cleanup", "compact", "expire"}
    assert set(done) >= printed(session, "panes", "frames", "gated") - printed(session, "orders")


@pytest.mark.medium
def test_W9_a_step_back_behind_a_reset_is_a_tick_of_the_same_stages(session: Session) -> None:
    insert(session, 1, 3, 12, 30)
    session.run()
    session.execute("ALTER TABLE orders RESET WATERMARK TO '2026-01-01 00:00:10'")
    done = watched(session)
    session.run(["query", "frames"])
    assert {stage.node for stage in done} >= {"slice", "sink"}
    assert set(done) <= printed(session, "query", "frames")


@pytest.mark.medium
def test_T2_rows_that_expire_go_by_stages_of_the_run(session: Session) -> None:
    quote(session, 1, 2, 3)
    done = watched(session)
    session.run(["quotes"])
    assert [(stage.node, stage.name) for stage in done] == [
        ("cleanup", "quotes$state"),
        ("expire", "quotes$state"),
    ]
    assert set(done) < printed(session, "quotes")


@pytest.mark.medium
def test_T2_a_cleanup_is_a_list_of_stages_too(session: Session) -> None:
    session.execute("INSERT INTO prices VALUES ('x', 1)")
    quote(session, 1, 2)
    done = watched(session)
    assert [cleaned.upto is not None for cleaned in session.cleanup()] == [False, True]
    assert set(done) == printed(session, "prices", "quotes", command="cleanup")


@pytest.mark.medium
def test_R5_upkeep_is_a_list_of_stages_too(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    quote(session, 1, 2, 3)
    session.run()
    monkeypatch.setattr("tidegate.maintenance.upkeep.MANY_MANIFESTS", 1)
    policy = Policy(retention=86_400, settle=0, keep_snapshots=0, most_snapshots=1)
    for name in ("quotes", "panes"):
        done = watched(session)
        maintain(session, name, policy, orphans=True, guard=0)
        assert [*done] == list(explained(session, name, "upkeep"))


@pytest.mark.medium
def test_B1_an_amendment_is_a_list_of_stages_too(session: Session) -> None:
    insert(session, 1, 30)
    session.run()
    insert(session, 2)
    done = watched(session)
    [report, *_] = amend(session, ["query"])
    assert report.windows == 1
    assert set(done) == printed(session, "query", command="amend")


@pytest.mark.medium
def test_B1_a_backfill_is_an_amendment_without_late_rows(session: Session) -> None:
    insert(session, 1, 30)
    session.run()
    done = watched(session)
    [report, *_] = amend(session, ["query"], from_late=False)
    assert report.windows == 0
    *compared, revise = explained(session, "query", "backfill")
    assert (done, revise.node) == (compared, "revise")
    assert set(done).isdisjoint(
        stage for stage in printed(session, "query", command="amend") if stage.node == "compare"
    )


@pytest.mark.medium
def test_R4_a_rebuild_is_a_list_of_stages_too(session: Session) -> None:
    session.run()
    [text] = list((session.project.root / "assets").iterdir())
    text.write_text(SQL.replace("sum(v) AS s", "min(v) AS s"))
    again = open_session(session.project.root)
    done = watched(again)
    [done_for] = rebuild(again, ["panes"])
    assert done_for.generation == 2
    # (No row is gone, so nothing has to be kept: tests/views/test_valid_from.py.)
    kept = {stage for stage in printed(again, "panes", command="rebuild") if stage.node == "keep"}
    assert len(kept) == 1
    assert set(done) == printed(again, "panes", command="rebuild") - kept


def test_a_stage_that_no_plan_has_can_not_be_carried_out(session: Session) -> None:
    from tidegate.plan.view_stages import SwapStage

    with pytest.raises(AssertionError, match="SwapStage"):
        Stages(printed(session, "panes")).carry_out(SwapStage, lambda _: None)  # type: ignore[arg-type]
