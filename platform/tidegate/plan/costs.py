"""What the ticks of a view took, as their commits say it, and what it would take to read more rows (E1).

It is the time of the machine that made the ticks: their CPU time is not known one by one, since ticks of several views
share processes. Pure functions: no table here, and no Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from tidegate.plan.closing import PARTIAL

#: In the summary of a tick's commit, as JSON. `inputs`: rows that its inputs have had; `rows`, `seconds`: how many of
#: them were new, and what it took, with the parts of the same slice before it.
COST = "tidegate.cost"


def rows_so_far(summary: Mapping[str, str]) -> int:
    """On-time rows that a log has judged, or final rows that a view has emitted."""
    return int(summary.get("tidegate.on_time") or summary.get("tidegate.groups") or 0)


def with_cost(base: Mapping[str, str], inputs: Iterable[Mapping[str, str]], seconds: float) -> dict[str, str]:
    """What the commit of a tick on `base` says, by the summaries of its inputs."""
    there = sum(map(rows_so_far, inputs))
    # Of a view from before commits said it nobody knows which rows are new.
    unknown = {"inputs": there if base else 0, "rows": 0, "seconds": 0.0}
    before = json.loads(base[COST]) if COST in base else unknown
    new = max(there - before["inputs"], 0)
    if PARTIAL in base:
        new, seconds = new + before["rows"], seconds + before["seconds"]
    return {COST: json.dumps({"inputs": there, "rows": new, "seconds": round(seconds, 3)})}


def expected_seconds(ticks: Iterable[Mapping[str, str]], rows: int) -> float | None:
    """What it takes to read so many rows, at the pace of the largest of these ticks: smaller ones are slower by the
    row. None if nothing is known."""
    costs = (json.loads(one[COST]) for one in ticks if COST in one)
    most = max(costs, key=lambda one: one["rows"], default=None)
    return round(rows * most["seconds"] / most["rows"], 3) if most and most["rows"] and rows else None
