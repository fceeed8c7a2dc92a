"""A run that has nothing to do says so without Spark, and is not taken in by what only looks like nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import Workbench
from tidegate.errors import TidegateError
from tidegate.iceberg.progress import FilesRead
from tidegate.ingest.connector import BatchPlan
from tidegate.ingest.stream import PlanInbox
from tidegate.plan.events import Event
from tidegate.project import Project
from tidegate.session.up_to_date import up_to_date

pytestmark = pytest.mark.runner("inprocess")

SOURCE = """CREATE SOURCE s (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '10 seconds')
WITH (connector = 'filesystem', path = 'input') FORMAT PLAIN ENCODE PARQUET;
"""
VIEW = """CREATE MATERIALIZED VIEW v AS SELECT window_start, count(*) AS n
FROM TUMBLE(s, ts, INTERVAL '1 minute') GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
"""
SINK = "CREATE SINK out FROM v WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON;\n"


def write(root: Path, name: str, minute: int, rows: int = 2) -> None:
    (root / "input").mkdir(exist_ok=True)
    ts = pa.array([minute * 60_000_000 + i for i in range(rows)]).cast(pa.timestamp("us"))
    pq.write_table(pa.table({"id": pa.array(range(rows), pa.int32()), "ts": ts}), root / "input" / name)


def look(workbench: Workbench, events: list[Event] | None = None) -> bool:
    project = Project.load(workbench.root)
    return (
        up_to_date(project, project.catalog(), on_event=None if events is None else events.append) is not None
    )


@pytest.mark.spark
def test_nothing_to_do_is_seen_without_spark_and_something_is_not_missed(workbench: Workbench) -> None:
    workbench.assets(s=SOURCE, v=VIEW, out=SINK)
    write(workbench.root, "a.parquet", 1)
    assert not look(workbench)  # nothing has ever run
    session = workbench.session()
    session.run()
    assert look(workbench)

    write(workbench.root, "b.parquet", 3)
    assert not look(workbench)
    session.run(["s"])
    assert not look(workbench)  # a window can close
    session.run(["v"])
    assert not look(workbench)  # and has to be delivered
    first: list[Event] = []
    session.run(on_event=first.append)
    assert look(workbench)

    # The same events and report as those of a run that asks Spark.
    second: list[Event] = []
    report = session.run(on_event=second.append)
    project = Project.load(workbench.root)
    assert [type(e).__name__ for e in second] == [
        "RunStarted",
        "SourceStarted",
        "SourceFinished",
        "ViewFinished",
        "RunFinished",
    ]
    assert [str(e) for e in first if type(e).__name__ in ("SourceFinished", "ViewFinished")] == [
        str(e) for e in second if type(e).__name__ in ("SourceFinished", "ViewFinished")
    ]
    assert (report.sources[0].watermark, report.views[0].groups, report.sinks[0].rows) == (
        "1970-01-01 00:02:50.000001",
        0,
        0,
    )
    assert up_to_date(project, project.catalog(), ["v"], upstream=False) is not None

    workbench.assets(v=VIEW.replace("count(*) AS n", "count(id) AS n"))
    assert not look(workbench)  # another query (R4): the run says what to do
    workbench.assets(v=VIEW)
    (workbench.root / "input" / "a.parquet").unlink()
    write(workbench.root, "a.parquet", 1, rows=20)
    assert not look(workbench)  # a file that has changed after it was read (TG505)


@pytest.mark.runner("inprocess")
def test_a_plan_and_a_new_file_are_work_although_nothing_else_is(workbench: Workbench) -> None:
    """R2: a plan that a killed run has left is carried out."""
    workbench.assets(s=SOURCE.replace("PARQUET", "JSON"))
    row = {"id": 1, "ts": "2026-01-01 10:00:00"}
    workbench.json_lines("input/a.json", [row])
    session = workbench.session()
    session.run()
    assert look(workbench)
    inbox = PlanInbox(session.project.storage, f"{session.work_folder('s')}/plans")
    inbox.write(BatchPlan(2, "2026-01-01T10:00:00+00:00", []))
    assert not look(workbench)
    inbox.forget(2)
    assert look(workbench)
    workbench.json_lines("input/b.json", [row])
    assert not look(workbench)


def test_a_store_that_refuses_the_question_is_an_error_that_says_what_to_do(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    workbench.assets(s=SOURCE)
    refusal = "When listing objects: AWS Error UNKNOWN (HTTP status 400): Unable to parse ExceptionName: ExpiredToken"

    def refuses(*_: object) -> None:
        raise OSError(refusal)

    monkeypatch.setattr("tidegate.session.up_to_date.load_table", refuses)
    with pytest.raises(TidegateError, match="refuses temporary credentials") as caught:
        workbench.session().run()
    assert caught.value.code == "TG624"


@pytest.mark.spark
def test_the_first_run_of_a_table_makes_its_log(workbench: Workbench) -> None:
    workbench.assets(t="CREATE TABLE t (n INT) APPEND ONLY;")
    assert not look(workbench)
    workbench.session().run()
    assert look(workbench)


def test_a_sum_over_files_does_not_depend_on_their_order_and_tells_them_apart() -> None:
    files = [("a", 1, 7), ("b", 2, 7), ("a/b", 2, 8)]
    forward, backward = FilesRead().and_files(files), FilesRead().and_files(reversed(files))
    assert forward == backward == FilesRead.from_text(forward.to_text())
    for other in (("a/b", 3, 8), ("a/b", 2, 9), ("a/c", 2, 8)):
        assert forward != FilesRead().and_files([*files[:2], other])
    assert FilesRead.from_text(None) is None
    # What an earlier version wrote: without times.
    earlier = FilesRead.from_text("3/0123456789abcdef")
    assert earlier == FilesRead(3, 0x0123456789ABCDEF, timed=False)
    assert earlier.and_file("a", 1, 7) == earlier.and_file("a", 1, 8)
    assert FilesRead.from_text(earlier.to_text()) == earlier
