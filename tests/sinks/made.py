"""A table and a view whose results sinks deliver, and what was delivered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.session.session import Session

TABLE = "CREATE TABLE t (k VARCHAR, ts TIMESTAMP, n INT, WATERMARK FOR ts AS ts) APPEND ONLY;"

VIEW = (
    "CREATE MATERIALIZED VIEW v AS SELECT window_start, k, sum(n) AS total "
    "FROM TUMBLE(t, ts, INTERVAL '10 minutes') GROUP BY window_start, k"
)

FILES = "WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE {}"


def insert(session: Session, *minutes: int) -> None:
    rows = ", ".join(f"('k{m % 2}', '2026-01-01 {10 + m // 60}:{m % 60:02}:00', {m})" for m in minutes)
    session.execute(f"INSERT INTO t VALUES {rows}")


def delivered(folder: Path) -> list[dict[str, Any]]:
    """Every row in the folder, in the order of the files' names."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def starts(rows: list[dict[str, Any]]) -> list[str]:
    return [row["window_start"][11:16] for row in rows]
