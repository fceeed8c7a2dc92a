"""How long what has failed waits for its next try.

A file of its own: workers of live mode (`live`), members of a group (`session`) and live runs of Dagster (`dagster`)
wait by the same rule.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pauses:
    """`first` seconds, then twice as long each time, up to `longest`; and each time up to half of that more by chance,
    so that many don't all come back at once."""

    first: float = 1.0
    longest: float = 60.0

    def pause(self, failures: int, chance: float) -> float:
        """Seconds until the next try after so many failures in a row; `chance` in [0, 1)."""
        return min(self.longest, self.first * 2.0 ** min(failures - 1, 30)) * (1 + chance / 2)
