"""Changed definitions of sources that are read from files (E1, E2, E4), by runs and in live mode."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Workbench
from tests.evolve.test_apply import shown
from tidegate.errors import TidegateError
from tidegate.plan.events import BatchCommitted, DefinitionChanged
from tidegate.session.live import LiveGroup
from tidegate.session.session import Session
from tidegate.session.up_to_date import up_to_date

pytestmark = pytest.mark.runner("inprocess")

VIEW = """
CREATE MATERIALIZED VIEW per_minute AS SELECT window_end, page, count(*) AS n
FROM TUMBLE(clicks, ts, INTERVAL '1 minute') GROUP BY window_end, page EMIT ON WINDOW CLOSE;
"""


def opened(workbench: Workbench, columns: str, options: str = "", encode: str = "JSON") -> Session:
    text = (
        f"CREATE SOURCE clicks ({columns}, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') "
        f"WITH (connector = 'filesystem', path = 'in'{options}) FORMAT PLAIN ENCODE {encode};"
    )
    workbench.assets(clicks=text, view=VIEW)
    return workbench.session()


def row(page: str, time: str, **more: Any) -> dict[str, Any]:
    return {"page": page, "ts": f"2026-01-01 {time}", **more}


def test_E1_E4_a_field_that_files_have_is_taken_in_from_the_next_file_on(workbench: Workbench) -> None:
    csv = ["page,ts,ref", "a,2026-01-01 12:00:01,x", "b,2026-01-01 12:00:02,y"]
    workbench.json_lines("in/1.csv", csv)
    session = opened(workbench, "page VARCHAR", encode="CSV")
    events: list[Any] = []
    session.run(on_event=events.append)
    assert [dict(e.undeclared) for e in events if isinstance(e, BatchCommitted)] == [{"ref": "1.csv"}]
    session = opened(workbench, "page VARCHAR, ref VARCHAR", encode="CSV")
    # No file waits; still a run has something to do, once.
    assert up_to_date(session.project, session.catalog) is None
    events.clear()
    session.run(on_event=events.append)
    assert [type(e) for e in events if isinstance(e, DefinitionChanged | BatchCommitted)] == [
        DefinitionChanged
    ]
    assert up_to_date(session.project, session.catalog) is not None
    workbench.json_lines("in/2.csv", [csv[0], "a,2026-01-01 12:02:00,z"])
    session.run(on_event=events.append)
    # The first file is not read again (E4), and what it had is not known.
    assert shown(session, "SELECT page, ref FROM clicks ORDER BY ts") == [
        ("a", None),
        ("b", None),
        ("a", "z"),
    ]
    assert shown(session, "SELECT page, n FROM per_minute ORDER BY page") == [("a", 1), ("b", 1)]
    stands = session.tables.open(session.identifier("clicks")).current().summary
    assert "ref" not in json.dumps(stands.get("tidegate.undeclared"))


def test_E7_live_mode_changes_the_log_before_its_first_batch(workbench: Workbench) -> None:
    workbench.json_lines("in/1.json", [row("a", "12:00:01")])
    opened(workbench, "page VARCHAR").run()
    workbench.json_lines("in/2.json", [row("b", "12:02:00", ref="z")])
    told: list[Any] = []
    group = LiveGroup(
        opened(workbench, "url VARCHAR AS page || '!', page VARCHAR, ref VARCHAR"), name="clicks"
    )
    with group:
        group.prepare(told.append)
        group.tick(told.append)
    kinds = [type(e) for e in told if isinstance(e, DefinitionChanged | BatchCommitted)]
    assert kinds == [DefinitionChanged, BatchCommitted]
    session = workbench.session()
    assert shown(session, "SELECT url, page, ref FROM clicks ORDER BY ts") == [
        (None, "a", None),
        ("b!", "b", "z"),
    ]
    assert shown(session, "SELECT page, n FROM per_minute") == [("a", 1)]


def test_R3_E1_partitions_are_added_in_place_and_not_taken_away(workbench: Workbench) -> None:
    by_page = ", partition.columns = 'page', partitions = '{}'"
    workbench.json_lines("in/1.json", [row("a", "12:00:01"), row("a", "12:09:00")])
    session = opened(workbench, "page VARCHAR", by_page.format("a"))
    session.run()
    session = opened(workbench, "page VARCHAR", by_page.format("a, b"))
    events: list[Any] = []
    session.run(on_event=events.append)
    (changed,) = [e for e in events if isinstance(e, DefinitionChanged)]
    assert changed.change == "partitions are added: b"
    # The new one starts at G, and never below.
    times = ("12:08:54", "12:08:55", "12:00:30")
    workbench.json_lines("in/2.json", [row("b", time) for time in times])
    session.run()
    assert shown(session, 'SELECT page, CAST(ts AS VARCHAR) FROM "clicks$late" ORDER BY ts') == [
        ("b", "2026-01-01 12:00:30"),
        ("b", "2026-01-01 12:08:54"),
    ]
    assert shown(session, "SELECT count(*) FROM clicks") == [(3,)]
    events.clear()
    opened(workbench, "page VARCHAR", by_page.format("b, a")).run(on_event=events.append)
    (changed,) = [e for e in events if isinstance(e, DefinitionChanged)]
    assert changed.change == "partitions are named in another way"
    with pytest.raises(TidegateError, match=r"(?s)TG506.*partitions is another one"):
        opened(workbench, "page VARCHAR", by_page.format("b")).run(fail_fast=True)
