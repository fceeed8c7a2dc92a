"""What the demo shows: a table that moves on a terminal, lines in a pipe, and what has become known in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from infra.demo_kafka.flights import AIRPORTS


@dataclass(frozen=True)
class Row:
    """One airport: what its messages do, what was sent, and what live mode has made of it. W8's `state`."""

    airport: str
    doing: str
    sent: int
    on_time: int = 0
    late: int = 0
    rejected: int = 0
    state: str = "-"
    watermark: str = "-"
    holds_back: bool = False

    @property
    def judged(self) -> int:
        return self.on_time + self.late + self.rejected

    @property
    def waiting(self) -> int:
        """Sent and not judged: the lag, in messages."""
        return max(self.sent - self.judged, 0)


@dataclass(frozen=True)
class Picture:
    """Everything at one moment. `windows` are closed, `open` are not; `frontier`: up to when hours are final."""

    seconds: float
    rows: tuple[Row, ...]
    watermark: str = "-"
    frontier: str = "-"
    windows: int = 0
    open: int = 0

    @property
    def sent(self) -> int:
        return sum(row.sent for row in self.rows)

    @property
    def judged(self) -> int:
        return sum(row.judged for row in self.rows)

    @property
    def adds_up(self) -> bool:
        """rows produced = on time + late + rejected (W5), airport by airport."""
        return all(row.sent == row.judged for row in self.rows)

    def line(self) -> str:
        """The moment in one line."""
        airports = "  ".join(
            f"{row.airport} {row.state:<7} {row.watermark[:16]}{'◂' if row.holds_back else ' '}"
            for row in self.rows
        )
        return (
            f"{self.seconds:5.0f} s  sent {self.sent:>6,}  judged {self.judged:>6,}  {airports}"
            f"  windows closed {self.windows:>3,}, up to {self.frontier[:16]}"
        )

    def total(self) -> str:
        """The sum that has to hold."""
        on_time, late, rejected = (
            sum(getattr(row, name) for row in self.rows) for name in ("on_time", "late", "rejected")
        )
        verdict = "all counts agree" if self.adds_up else "THE COUNTS DO NOT AGREE"
        return f"{self.sent:,} rows produced = {on_time:,} on time + {late:,} late + {rejected:,} rejected: {verdict}"


def picture(
    seconds: float, sent: Mapping[str, int], doing: Callable[[str], str], status: Mapping[str, Any] | None
) -> Picture:
    """What the producer and /status say. Before the first commit there is nothing to be said of a partition."""
    relations = (status or {}).get("relations") or [{}]
    views = (status or {}).get("views") or [{}]
    relation, view = relations[0], views[0]
    found = {partition["partition"]: partition for partition in relation.get("partitions", ())}
    rows = []
    for number, airport in enumerate(AIRPORTS):
        one = found.get(str(number), {})
        counts = [one.get(name, 0) for name in ("on_time", "late", "rejected")]
        held = str(number) in relation.get("holds_back", ())
        rows.append(
            Row(
                airport,
                doing(airport),
                sent[airport],
                *counts,
                state=one.get("state") or "-",
                watermark=one.get("watermark_text") or "-",
                holds_back=held,
            )
        )
    return Picture(
        seconds,
        tuple(rows),
        relation.get("watermark_text") or "-",
        view.get("frontier_text") or "-",
        view.get("groups", 0),
        view.get("open", 0),
    )


@dataclass
class News:
    """Tells what has changed since the picture before, once each, in words."""

    _states: dict[str, str] = field(default_factory=dict)
    _doing: dict[str, str] = field(default_factory=dict)
    _late: dict[str, int] = field(default_factory=dict)
    _woken: set[str] = field(default_factory=set)

    def between(self, now: Picture) -> Iterator[str]:
        for row in now.rows:
            yield from self._sender(row)
            before = self._states.get(row.airport)
            if row.state != before:
                if row.state == "idle" and row.doing == "silent":
                    yield f"{row.airport} is idle: its watermark holds nothing back any more, windows close without it"
                if before == "idle" and row.state == "active":
                    self._woken.add(row.airport)
                self._states[row.airport] = row.state
            late = row.late - self._late.get(row.airport, 0)
            if row.airport in self._woken and row.state == "active" and not row.waiting:
                self._woken.discard(row.airport)
                yield f"{row.airport} woke up: {late:,} of its rows missed the others' watermark, and are kept as late"
            if row.state not in ("idle", "-") and row.airport not in self._woken:
                self._late[row.airport] = row.late

    def _sender(self, row: Row) -> Iterator[str]:
        before = self._doing.get(row.airport, "flowing")
        self._doing[row.airport] = row.doing
        if row.doing == before:
            return
        if row.doing == "silent":
            yield f"{row.airport} falls silent: until it is idle (10 seconds) windows wait for it"
        elif row.doing == "slow":
            yield f"{row.airport} sends at half speed: windows wait for it, and nothing is late for that"
        elif before == "silent":
            yield f"{row.airport} sends what has gathered"
        else:
            yield f"{row.airport} catches up"
