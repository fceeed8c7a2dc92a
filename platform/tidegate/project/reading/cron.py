"""Checks that a cron expression is one, before a scheduler has to find out."""

from __future__ import annotations

import re

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS: tuple[tuple[str, int, int, list[str]], ...] = (
    ("minute", 0, 59, []),
    ("hour", 0, 23, []),
    ("day of month", 1, 31, []),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _DAYS),
)
_ALIASES = {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
#: Days of each month, in a leap year.
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
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
                raise ValueError(f"{name}: {term!r} is not a valid cron term")
            first, last, step = match.groups()
            if first == "*" and last is not None:
                raise ValueError(f"{name}: {term!r} is not a valid cron term")
            bounds = [_number(x, name, low, high, words) for x in (first, last) if x not in (None, "*")]
            if bounds != sorted(bounds):
                raise ValueError(f"{name}: {term!r} ends before it begins")
            if step is not None and int(step) == 0:
                raise ValueError(f"{name}: the step is 0")


def never_fires(text: str) -> bool:
    """Whether no day of any year fits five cron fields that `check_cron` accepts: the 30th of February."""
    fields = text.split()
    if len(fields) != len(_FIELDS) or fields[4] != "*":
        return False  # with a weekday, either of the two is enough
    days, months = (_values(fields[i], *_FIELDS[i][1:]) for i in (2, 3))
    return all(day > _LONGEST[month - 1] for day in days for month in months)


def _values(field: str, low: int, high: int, words: list[str]) -> set[int]:
    """All that one field means."""
    found: set[int] = set()
    for term in field.split(","):
        first, last, step = _TERM.match(term).groups()  # type: ignore[union-attr]  # `check_cron` has accepted it
        start = low if first == "*" else _number(first, "", low, high, words)
        end = high if first == "*" or (last is None and step) else start
        end = end if last is None else _number(last, "", low, high, words)
        found |= set(range(start, end + 1, int(step or 1)))
    return found


def _number(text: str, name: str, low: int, high: int, words: list[str]) -> int:
    if text.lower() in words:
        return words.index(text.lower()) + low
    if not text.isdecimal() or not low <= int(text) <= high:
        raise ValueError(f"{name}: {text!r} is not in {low}–{high}")
    return int(text)
