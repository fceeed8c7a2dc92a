"""When a worker that died is started again."""

from __future__ import annotations

import random
from dataclasses import dataclass, field


@dataclass
class BackOff:
    """Exponential, with jitter: `first` seconds, then twice as long each time, up to `longest`, each time up to half of
    that more by chance. A worker that ticked for `healthy` seconds has wiped out what was before."""

    first: float = 1.0
    longest: float = 300.0
    healthy: float = 300.0
    chance: random.Random = field(default_factory=random.Random)
    failures: int = 0

    def next(self, ticked_for: float) -> float:
        """Seconds to wait, now that a worker has died which had been ticking for so many seconds."""
        if ticked_for >= self.healthy:
            self.failures = 0
        self.failures += 1
        pause = min(self.longest, self.first * 2.0 ** min(self.failures - 1, 30))
        return pause * (1 + self.chance.random() / 2)
