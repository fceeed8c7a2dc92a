"""What a suite found, and the file that keeps it: docs/benchmarks/<suite>.json."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Point:
    """One engine at one place of a curve. `runs`: numbers of each repeat by name, and `check` of the result."""

    engine: str
    rows: int
    at: float | None = None
    runs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def median(self) -> dict[str, float]:
        """Of every number that each run has."""
        names = [name for name, value in (self.runs[0] if self.runs else {}).items() if _is_number(value)]
        shared = [name for name in names if all(_is_number(run.get(name)) for run in self.runs)]
        return {name: round(statistics.median(run[name] for run in self.runs), 4) for name in shared}


@dataclass
class Result:
    """`unavailable`: peers that are not in it, and why. `failures`: what was wrong; a suite with any has failed.
    `scale`: sizes by name, for people."""

    suite: str
    scale: dict[str, Any]
    points: list[Point] = field(default_factory=list)
    unavailable: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def point(self, engine: str, rows: int, at: float | None = None) -> Point:
        """The point of this engine and place, made if there is none."""
        for point in self.points:
            if (point.engine, point.at) == (engine, at):
                return point
        self.points.append(Point(engine, rows, at))
        return self.points[-1]

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        points = [asdict(point) | {"median": point.median} for point in self.points]
        path = folder / f"{self.suite}.json"
        document = self.facts | {
            "suite": self.suite,
            "scale": self.scale,
            "unavailable": self.unavailable,
            "failures": self.failures,
            "points": points,
        }
        path.write_text(json.dumps(document, indent=1) + "\n")
        return path


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
