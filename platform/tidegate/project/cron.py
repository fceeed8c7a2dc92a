"""Checks that a cron expression is one, before a scheduler has to find out."""

from __future__ import annotations

import re

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS = (
    ("minute", 0, 59, []),
    ("hour", 0, 23, []),
    ("day of month", 1, 31, []),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _DAYS),
)
_ALIASES = {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
_TERM = re.compile(r"^(\*|\w+)(?:-(\w+))?(?:/(\d+))?$")


def check_cron(text: str) -> None:
    """Raise ValueError, naming the field, unless `text` is five cron fields or an alias such as `@hourly`."""
    if text.strip().lower() in _ALIASES:
        return
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ValueError(f"cron has five fields (minute hour day month weekday), not {len(fields)}")
    for value, (name, low, high, words) in zip(fields, _FIELDS, strict=True):
        for term in value.split(","):
            match = _TERM.match(term)
            if match is None:
                raise ValueError(f"{name}: {term!r} is not a cron term")
            first, last, step = match.groups()
            if first == "*" and last is not None:
                raise ValueError(f"{name}: {term!r} is not a cron term")
            bounds = [_number(x, name, low, high, words) for x in (first, last) if x not in (None, "*")]
            if bounds != sorted(bounds):
                raise ValueError(f"{name}: {term!r} runs backwards")
            if step is not None and int(step) == 0:
                raise ValueError(f"{name}: a step of 0")


def _number(text: str, name: str, low: int, high: int, words: list[str]) -> int:
    if text.lower() in words:
        return words.index(text.lower()) + low
    if not text.isdecimal() or not low <= int(text) <= high:
        raise ValueError(f"{name}: {text!r} is not in {low}–{high}")
    return int(text)
