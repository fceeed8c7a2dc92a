"""The four kinds of event time (W10), each an integer inside: how to read, print and measure them."""

from __future__ import annotations

import enum
import re
from datetime import UTC, date, datetime, timedelta

import numpy as np

DAY_MICROS = 86_400_000_000

_INSTANT = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)(?P<time>[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)?"
    r"\s*(?P<zone>Z|[+-]\d\d(?::?\d\d)?)?"
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_INTEGER = re.compile(r"[+-]?\d+")
_EPOCH_DAY = date(1970, 1, 1)
_EPOCH_INSTANT = datetime(1970, 1, 1, tzinfo=UTC)
_INT64 = np.iinfo(np.int64)

_DURATIONS = (
    (DAY_MICROS, "day"),
    (3_600_000_000, "hour"),
    (60_000_000, "minute"),
    (1_000_000, "second"),
    (1_000, "millisecond"),
    (1, "microsecond"),
)


def micros_of(at: datetime) -> int:
    """An instant (with a time zone) in microseconds since 1970 in UTC, exactly. (`timestamp()` is a double.)"""
    return (at - _EPOCH_INSTANT) // timedelta(microseconds=1)


class TimeKind(enum.Enum):
    """What the integers of a watermark column mean.

    TIMESTAMP: microseconds since 1970-01-01 00:00:00, no zone. TIMESTAMPTZ: the same in UTC. DATE: days since
    1970-01-01. EPOCH: the integer as stored, in whatever unit the user chose.
    """

    TIMESTAMP = "TIMESTAMP"
    TIMESTAMPTZ = "TIMESTAMPTZ"
    DATE = "DATE"
    EPOCH = "EPOCH"

    @classmethod
    def from_spark_type(cls, ddl: str) -> TimeKind | None:
        """The kind of a column of this Spark type (`timestamp_ntz`, `timestamp`, `date`, `bigint`, …), or
        None if a column of that type can't carry a watermark.
        """
        return _FROM_SPARK.get(ddl.strip().lower())

    def same_ticks(self, other: TimeKind) -> bool:
        """Whether an integer of one is the same time in the other: TIMESTAMP and TIMESTAMPTZ, since sessions are in
        UTC."""
        return self is other or {self, other} == {TimeKind.TIMESTAMP, TimeKind.TIMESTAMPTZ}

    def format(self, value: int | None) -> str:
        """ISO text: `2013-01-01 05:00:00`, TIMESTAMPTZ with `+00:00`, DATE `2013-01-01`, EPOCH the integer;
        fractions of a second only where there are any; None (undefined) is `none yet`.
        """
        if value is None:
            return "none yet"
        value = int(value)
        if self is TimeKind.EPOCH:
            return str(value)
        if self is TimeKind.DATE:
            return _date_text(value)
        days, micros = divmod(value, DAY_MICROS)
        seconds, fraction = divmod(micros, 1_000_000)
        text = f"{_date_text(days)} {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        if fraction:
            text += f".{fraction:06}".rstrip("0")
        return f"{text}+00:00" if self is TimeKind.TIMESTAMPTZ else text

    def parse(self, text: str) -> int:
        """The inverse of `format`, for years 1 to 9999. TIMESTAMPTZ takes any offset and reads a time
        without one as UTC, the session's time zone. Raises ValueError for anything else, a zone in a
        TIMESTAMP included.
        """
        text = text.strip()
        if self is TimeKind.EPOCH:
            if not _INTEGER.fullmatch(text) or not _INT64.min <= int(text) <= _INT64.max:
                raise ValueError(f"not a 64-bit integer: {text!r}")
            return int(text)
        if self is TimeKind.DATE:
            if not _DATE.fullmatch(text):
                raise ValueError(f"not a date (YYYY-MM-DD): {text!r}")
            return (date.fromisoformat(text) - _EPOCH_DAY).days
        match = _INSTANT.fullmatch(text)
        if match is None:
            raise ValueError(f"not a timestamp (YYYY-MM-DD HH:MM:SS): {text!r}")
        if match["zone"] and self is TimeKind.TIMESTAMP:
            raise ValueError(f"a TIMESTAMP has no time zone: {text!r}")
        time = match["time"] or " 00:00"
        instant = datetime.fromisoformat(match["date"] + time + (match["zone"] or "+00:00"))
        return micros_of(instant)

    def spark_literal(self, value: int) -> str:
        """The value as a Spark SQL literal of the column's type, whatever the session's settings are."""
        if self is TimeKind.EPOCH:
            return str(int(value))
        return f"{_LITERAL_TYPE[self]} '{self.format(value)}'"

    def ticks(self, months: int = 0, days: int = 0, micros: int = 0) -> int:
        """An interval in this kind's unit. Raises ValueError if it has no fixed length in it: months (28 to
        31 days), less than a day for a DATE, any interval for an EPOCH (its unit is the user's).
        """
        if self is TimeKind.EPOCH:
            raise ValueError("an integer column takes an integer, not an INTERVAL")
        if months:
            raise ValueError("months and years have no fixed length")
        total = days * DAY_MICROS + micros
        if self is not TimeKind.DATE:
            return total
        if total % DAY_MICROS:
            raise ValueError("an interval on a DATE must be whole days")
        return total // DAY_MICROS

    def clock(self, at: datetime) -> int | None:
        """An instant (with a time zone) in this kind's unit: a TIMESTAMP is compared as if it were UTC, a DATE is the
        day in UTC; None for an EPOCH, whose unit is the user's.
        """
        if self is TimeKind.EPOCH:
            return None
        micros = micros_of(at)
        return micros // DAY_MICROS if self is TimeKind.DATE else micros

    def format_duration(self, ticks: int) -> str:
        """A length of time in the largest unit that divides it: `90 minutes`, `1 hour`, DATE `2 days`,
        EPOCH the integer.
        """
        if self is TimeKind.EPOCH:
            return str(ticks)
        micros = ticks * DAY_MICROS if self is TimeKind.DATE else ticks
        size, unit = next((size, unit) for size, unit in _DURATIONS if micros % size == 0)
        # Zero is divided by everything, and "0 days" would be an odd way to say it for an instant.
        if micros == 0 and self is not TimeKind.DATE:
            size, unit = 1_000_000, "second"
        count = micros // size
        return f"{count} {unit}" if abs(count) == 1 else f"{count} {unit}s"


def _date_text(days: int) -> str:
    """ISO date for any year: Python's dates end at 9999, Spark's do not. Those carry a sign (ISO)."""
    text = str(np.datetime64(days, "D"))
    return f"+{text}" if text[0] != "-" and len(text) > 10 else text


_FROM_SPARK = {
    "timestamp_ntz": TimeKind.TIMESTAMP,
    "timestamp": TimeKind.TIMESTAMPTZ,
    "date": TimeKind.DATE,
    "bigint": TimeKind.EPOCH,
    "int": TimeKind.EPOCH,
    "smallint": TimeKind.EPOCH,
}
_LITERAL_TYPE = {
    TimeKind.TIMESTAMP: "TIMESTAMP_NTZ",
    TimeKind.TIMESTAMPTZ: "TIMESTAMP_LTZ",
    TimeKind.DATE: "DATE",
}
