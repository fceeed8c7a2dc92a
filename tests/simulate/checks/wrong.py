"""What the checks raise, and a row as it was judged."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

Place = tuple[str, int]


class Wrong(AssertionError):
    """A promise that was broken."""


@dataclass(frozen=True)
class Judged:
    """A row of a log, as it was decided. `reason`: of a rejected one."""

    id: int | None
    outcome: str
    epoch: int
    at: int | None
    reason: str | None = None


def few(found: Counter[Any]) -> str:
    """Some of them."""
    return f"{list(found.items())[:3]}"
