"""`connector = 'replay'`: a recording played in its order, any batch size, and what happens when it changes."""

from __future__ import annotations

from datetime import datetime

import pytest

from tests.conftest import Workbench
from tidegate import TidegateError
from tidegate.audit.source import audit_source

pytestmark = pytest.mark.runner("inprocess")

SQL = """
CREATE SOURCE s (id INT, gate VARCHAR, planned TIMESTAMP, actual TIMESTAMP,
    WATERMARK FOR planned AS planned - INTERVAL '10 minutes')
WITH (connector = 'replay', path = 'recording', partition.columns = 'gate', order.columns = 'actual',
    filter = 'id > 0', max_rows_per_batch = '3')
FORMAT PLAIN ENCODE JSON;
"""


def row(i: int, gate: str, planned: str, actual: str) -> dict:
    return {"id": i, "gate": gate, "planned": f"2026-01-01 {planned}:00", "actual": f"2026-01-01 {actual}:00"}


ROWS = [
    row(4, "A", "09:40", "10:30"),
    row(1, "A", "10:00", "10:00"),
    row(2, "B", "10:05", "10:06"),
    row(3, "A", "10:20", "10:21"),
    row(0, "A", "10:22", "10:22"),
    row(5, "B", "10:02", "10:31"),
]


def test_order_is_that_of_the_recording_and_the_filter_keeps_what_does_not_parse(
    workbench: Workbench,
) -> None:
    workbench.assets(s=SQL).json_lines("recording/b.json", ROWS[:3])
    workbench.json_lines("recording/a.json", [*ROWS[3:], "no json"])
    session = workbench.session()
    report = session.run()
    assert report.sources[0].epochs == 2
    raw = session.table("s$raw").orderBy("arrival", "id").collect()
    assert [(r["id"], r["partition"], r["offset"], r["outcome"]) for r in raw if r["id"]] == [
        (1, "A", 0, "on_time"),
        (2, "B", 0, "on_time"),
        (3, "A", 1, "on_time"),
        (4, "A", 2, "late"),
        (5, "B", 1, "on_time"),
    ]
    # Arrival is the recording's; a row that is filtered away is not in the source at all.
    assert [r["arrival"].minute for r in raw if r["id"]] == [0, 6, 21, 30, 31]
    (bad,) = session.table("s$rejected").collect()
    assert (bad["partition"], bad["reason"], bad["raw"]) == (
        "(unknown)",
        "unparseable: not one JSON object",
        "no json",
    )
    assert audit_source(session, "s").ok
    # The partition of unreadable rows has no say: G is the smaller of A's and B's watermarks.
    newest = session.table("s$watermarks").orderBy("epoch", ascending=False).first()
    assert newest["published"] == datetime(2026, 1, 1, 9, 55)
    assert session.run().sources[0].epochs == 0


def test_a_changed_recording_is_refused_until_the_source_is_dropped(workbench: Workbench) -> None:
    workbench.assets(s=SQL).json_lines("recording/a.json", ROWS)
    session = workbench.session()
    session.run()
    workbench.json_lines("recording/b.json", ROWS)
    with pytest.raises(TidegateError) as caught:
        session.run()
    assert caught.value.code == "TG505"
    session.execute("DROP SOURCE s", yes=True)
    assert session.run().sources[0].epochs == 4
    assert session.table("s$raw").count() == 10


@pytest.mark.runner("spark")
def test_an_empty_recording_plays_nothing(workbench: Workbench) -> None:
    workbench.assets(s=SQL).json_lines("recording/a.json", [])
    assert workbench.session().run().sources[0].epochs == 0
    other = SQL.replace("SOURCE s", "SOURCE t").replace("'recording'", "'nothing'")
    (workbench.root / "nothing").mkdir()
    with pytest.raises(TidegateError) as caught:
        workbench.assets(t=other).session().run(["t"])
    assert caught.value.code == "TG503"
