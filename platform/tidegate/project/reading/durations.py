"""Spans of wall-clock time, as operators write them: `90 seconds`, `2 hours`, `1 day`."""

from __future__ import annotations

import re

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}
_SHORT = {
    "s": "second",
    "sec": "second",
    "m": "minute",
    "min": "minute",
    "h": "hour",
    "d": "day",
    "w": "week",
}
_PART = re.compile(r"\s*(\d+)\s*([A-Za-z]+)\s*,?")


def parse_duration(text: str) -> int:
    """Seconds of a text such as `2 hours`, `1 day 30 minutes`, `90s`. Raises ValueError for anything else."""
    total, position = 0, 0
    while position < len(text.rstrip()):
        match = _PART.match(text, position)
        if match is None:
            break
        word = match.group(2).lower()
        unit = _SHORT.get(word, word.removesuffix("s"))
        if unit not in _SECONDS:
            break
        total += int(match.group(1)) * _SECONDS[unit]
        position = match.end()
    else:
        if total > 0:
            return total
    raise ValueError(f"{text!r} is not a duration")


def format_duration(seconds: float) -> str:
    """The two largest units: `2 hours`, `1 day 3 hours`, `12 seconds`; `0 seconds` for less than one."""
    rest, parts = int(abs(seconds)), []
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}{'' if count == 1 else 's'}")
        if len(parts) == 2:
            break
    return ("-" if seconds <= -1 else "") + (" ".join(parts) or "0 seconds")
