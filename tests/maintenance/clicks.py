"""A source of clicks and a view of their hours, and what is stored of them."""

from __future__ import annotations

import time

from tests.conftest import Workbench
from tidegate.session.session import Session

CLICKS = """
CREATE SOURCE clicks (page VARCHAR, id INT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '5 minutes')
WITH (connector = 'filesystem', path = 'input', max_files_per_batch = 1) FORMAT PLAIN ENCODE JSON;
"""


HOURLY = """
CREATE MATERIALIZED VIEW hourly AS SELECT window_start, page, count(*) AS n
FROM TUMBLE(clicks, at, INTERVAL '1 hour') GROUP BY window_start, page EMIT ON WINDOW CLOSE;
"""


LATER = time.time() + 7200


def clicks(workbench: Workbench, hour: int, day: int = 1) -> None:
    """A file: four rows of one hour, one of which is late by a day after the first file, and one that has no time."""
    rows = [{"page": page, "id": hour * 10 + i, "at": f"2026-01-{day:02} {hour:02}:{20 * i:02}:00"}
            for i, page in enumerate(("home", "help", "home"))]  # fmt: skip
    rows += [
        {"page": "late", "id": hour, "at": "2026-01-01 00:00:00"},
        {"page": "none", "id": hour, "at": None},
    ]
    workbench.json_lines(f"input/{day:02}-{hour:02}.json", rows)


def rows(session: Session, sql: str) -> list[tuple]:
    return sorted(map(tuple, session.execute(sql).rows()), key=str)
