"""What one look leaves for the next: since when something is so, and how much waited. Bounded, JSON-ready."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

#: Causes whose beginning is kept, and looks at the backlog of one source.
MOST_CAUSES = 300
MOST_POINTS = 16


@dataclass(frozen=True)
class EarlierLooks:
    """`looks`: how many there were; 0: nothing is known of earlier ones. `first`: by key of a cause, when it was first
    seen, s since 1970. `points`: by source, (when, sum of end offsets, sum of next offsets), oldest first.
    """

    looks: int = 0
    first: Mapping[str, float] = field(default_factory=dict)
    points: Mapping[str, tuple[tuple[float, int, int], ...]] = field(default_factory=dict)

    def after(
        self, at: float, keys: Iterable[str], points: Mapping[str, tuple[int, int]], spacing: float
    ) -> EarlierLooks:
        """The memory after a look: `keys` of all causes that hold now, `points` (end, next) of sources with a broker.
        Points closer than `spacing` seconds to the one before are not kept.
        """
        kept = {key: self.first.get(key, at) for key in sorted(keys)}
        oldest = sorted(kept, key=lambda key: kept[key])[:MOST_CAUSES]
        series = {}
        for name, (end, following) in points.items():
            old = self.points.get(name, ())
            fresh = not old or at - old[-1][0] >= spacing
            series[name] = (*old, (at, end, following))[-MOST_POINTS:] if fresh else old
        return EarlierLooks(min(self.looks + 1, 1_000_000), {key: kept[key] for key in oldest}, series)

    def to_json(self) -> dict[str, Any]:
        """For a cursor."""
        points = {name: [list(point) for point in series] for name, series in self.points.items()}
        return {"looks": self.looks, "first": dict(self.first), "points": points}

    @classmethod
    def from_json(cls, values: Mapping[str, Any] | None) -> EarlierLooks:
        """The inverse; None gives an empty memory."""
        if not values:
            return cls()
        points = {
            name: tuple((float(at), int(end), int(following)) for at, end, following in series)
            for name, series in values["points"].items()
        }
        return cls(values["looks"], dict(values["first"]), points)
