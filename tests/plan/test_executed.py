"""What runs is what `explain` prints: every commit and every task belongs to a stage of the plan."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.inprocess.session import open_session, without_a_jvm
from tests.inprocess.tables import InProcessTable
from tidegate.amend.run import amend
from tidegate.plan.explain import explain
from tidegate.plan.stages import Command, Stage
from tidegate.runtime.stages import current_stage
from tidegate.session.session import Session
from tidegate.views.amend.rebuild import rebuild

SQL = """
CREATE SOURCE clicks (k VARCHAR, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds')
WITH (connector = 'filesystem', path = 'data') FORMAT PLAIN ENCODE JSON;
CREATE TABLE orders (k VARCHAR, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') APPEND ONLY;
CREATE TABLE prices (k VARCHAR PRIMARY KEY, p BIGINT);
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


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "all.sql").write_text(SQL)
    rows(tmp_path, "a", range(0, 40, 4))
    for name in ("append", "merge_rows", "delete_rows"):
        monkeypatch.setattr(InProcessTable, name, in_a_stage(getattr(InProcessTable, name)))
    with without_a_jvm():
        yield open_session(tmp_path)


def in_a_stage(change: Any) -> Any:
    def checked(*given: Any, **named: Any) -> Any:
        assert current_stage() is not None, "a commit of no stage"
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


def printed(session: Session, *names: str, command: Command = "run") -> set[Stage]:
    """What `explain` prints for these, of whatever their rows come from, too."""
    namespace = session.project.storage.namespace_of
    return {
        stage
        for name in names
        for stage in explain(session.catalog, name, namespace=namespace, command=command).stages
    }


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
def test_B1_an_amendment_is_a_list_of_stages_too(session: Session) -> None:
    insert(session, 1, 30)
    session.run()
    insert(session, 2)
    done = watched(session)
    [report, *_] = amend(session, ["query"])
    assert report.windows == 1
    assert set(done) == printed(session, "query", command="amend")


@pytest.mark.medium
def test_R4_a_rebuild_is_a_list_of_stages_too(session: Session) -> None:
    session.run()
    [text] = list((session.project.root / "assets").iterdir())
    text.write_text(SQL.replace("sum(v) AS s", "min(v) AS s"))
    again = open_session(session.project.root)
    done = watched(again)
    [done_for] = rebuild(again, ["panes"])
    assert done_for.generation == 2
    assert set(done) == printed(again, "panes", command="rebuild")


def test_a_stage_that_no_plan_has_can_not_be_carried_out(session: Session) -> None:
    from tidegate.plan.view_stages import SwapStage
    from tidegate.runtime.stages import Stages

    with pytest.raises(AssertionError, match="SwapStage"):
        Stages(printed(session, "panes")).carry_out(SwapStage, lambda _: None)  # type: ignore[arg-type]
