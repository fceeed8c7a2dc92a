"""What a transcript is, once read: rows and flushes, and what must be seen after each flush.

The same transcripts are played by several runners (the oracle, Spark). A runner feeds `Transcript.steps` in
order and after each `Flush` hands what it sees, as a `Snapshot`, to `check`. How a file is written:
`transcript_file.py`. Neither imports anything of tidegate.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

MICROS = {"second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000, "day": 86_400_000_000}

Group = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """Where a row ended: `outcome` is on_time, late or rejected. In an expectation None means not stated."""

    outcome: str
    missed: int | None = None
    late_by: int | None = None
    reason: str | None = None


@dataclass
class Snapshot:
    """What a runner sees after a flush, everything since the start. Times are ticks (µs, days or the
    integer).

    `outcomes`: by the row's name, the text of its first column. `watermarks`: Wp by partition, and G as
    "G"; None is undefined. `views`: all rows of each view. `watermark_after`: Wp right after each row, or
    None if not seen.
    """

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    watermarks: dict[str, int | None] = field(default_factory=dict)
    views: dict[str, list[Group]] = field(default_factory=dict)
    watermark_after: dict[str, int | None] | None = None


@dataclass(frozen=True)
class TranscriptRow:
    """One row: `name` (text of the first column), where it is in the log, its time in ticks (None if it is
    rejected for it), and `values` of all columns as they are written to JSON or SQL.
    """

    name: str
    partition: str
    offset: int
    event_time: int | None
    reject: str | None
    strategy: int | None
    values: dict[str, Any]

    def json_line(self) -> str:
        """For a JSON lines file, without the line end."""
        return json.dumps(self.values, default=float)

    def sql_tuple(self) -> str:
        """For `INSERT INTO t VALUES …`: all columns in their declared order."""
        return "(" + ", ".join(_sql(value) for value in self.values.values()) + ")"


@dataclass(frozen=True)
class Rows:
    """Rows that arrive, in this order."""

    rows: tuple[TranscriptRow, ...]


@dataclass(frozen=True)
class Flush:
    """A batch ends and is committed; `expected` must be seen then."""

    expected: Snapshot


@dataclass(frozen=True)
class ViewSpec:
    """A view: its SQL, and the same said in data. Lengths in ticks; `aggregates`: output → (function,
    column or None for count(*)); `where`: over a row's values.
    """

    name: str
    sql: str
    slide: int
    size: int
    offset: int
    keys: tuple[str, ...]
    aggregates: dict[str, tuple[str, str | None]]
    where: Callable[[Mapping[str, Any]], bool]
    emit_on_window_close: bool


@dataclass(frozen=True)
class Transcript:
    """One file. `via` is table (INSERT INTO) or files (JSON lines in the folder that `create` calls
    {path}).
    """

    name: str
    about: str
    rules: tuple[str, ...]
    source: str
    create: str
    via: str
    kind: str
    time: str
    columns: dict[str, str]
    views: tuple[ViewSpec, ...]
    steps: tuple[Rows | Flush, ...]
    must_fail: tuple[str, ...]

    @property
    def partitions(self) -> set[str]:
        """All partitions that rows come from."""
        return {row.partition for step in self.steps if isinstance(step, Rows) for row in step.rows}

    def show(self, ticks: int | None) -> str:
        """A time of this transcript as text."""
        return format_time(self.kind, ticks)


def _kind(reason: str | None) -> str | None:
    return reason.partition(":")[0] if reason is not None else None


def check(observed: Snapshot, expected: Snapshot, show: Callable[[int | None], str] = str) -> list[str]:
    """The differences, one sentence each, none if everything that is stated was seen. `show` prints a
    time.
    """
    differences = []
    for name in sorted(observed.outcomes.keys() - expected.outcomes.keys()):
        differences.append(f"row {name}: came from nowhere, {observed.outcomes[name].outcome}")
    for name, want in expected.outcomes.items():
        got = observed.outcomes.get(name)
        if got is None:
            differences.append(f"row {name}: lost, expected {want.outcome}")
        elif got.outcome != want.outcome:
            differences.append(f"row {name}: {got.outcome}, expected {want.outcome}")
        else:
            if want.missed is not None and got.missed != want.missed:
                differences.append(f"row {name}: missed {show(got.missed)}, expected {show(want.missed)}")
            if want.late_by is not None and got.late_by != want.late_by:
                differences.append(f"row {name}: late by {got.late_by}, expected {want.late_by}")
            # What stands behind a colon names the column, and is the engine's own to say.
            if want.reason is not None and want.reason not in (got.reason, _kind(got.reason)):
                differences.append(f"row {name}: rejected as {got.reason}, expected {want.reason}")
    for name, want in (expected.watermark_after or {}).items():
        if observed.watermark_after is not None and observed.watermark_after.get(name) != want:
            got = show(observed.watermark_after.get(name))
            differences.append(f"watermark after row {name}: {got}, expected {show(want)}")
    for partition, want in expected.watermarks.items():
        if partition not in observed.watermarks:
            differences.append(f"watermark {partition}: not there, expected {show(want)}")
        elif observed.watermarks[partition] != want:
            got = show(observed.watermarks[partition])
            differences.append(f"watermark {partition}: {got}, expected {show(want)}")
    for view, groups in expected.views.items():
        differences += _check_groups(view, observed.views.get(view, []), groups, show)
    return differences


def _check_groups(view: str, observed: list[Group], expected: list[Group], show: Callable) -> list[str]:
    left = list(observed)
    differences = []
    for want in expected:
        same = next((got for got in left if all(_same(got.get(k), v) for k, v in want.items())), None)
        if same is None:
            differences.append(f"view {view}: no {_group_text(want, show)}")
        else:
            left.remove(same)
    return differences + [f"view {view}: unexpected {_group_text(got, show)}" for got in left]


def _same(a: Any, b: Any) -> bool:
    numbers = (int, float, Decimal)
    if isinstance(a, numbers) and isinstance(b, numbers):
        return a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return a == b


def _group_text(group: Group, show: Callable[[int | None], str]) -> str:
    text = {k: show(v) if k in ("window_start", "window_end") else v for k, v in group.items()}
    return ", ".join(f"{key} {value}" for key, value in text.items())


def format_time(kind: str, ticks: int | None) -> str:
    """Ticks as ISO text (years 1 to 9999)."""
    if ticks is None:
        return "none"
    if kind == "BIGINT":
        return str(ticks)
    if kind == "DATE":
        return (date(1970, 1, 1) + timedelta(days=ticks)).isoformat()
    return str(datetime(1970, 1, 1) + timedelta(microseconds=ticks)) + "+00:00" * (kind == "TIMESTAMPTZ")


def parse_time(kind: str, text: str) -> int:
    """Ticks of ISO text; TIMESTAMPTZ without an offset is UTC. Raises ValueError."""
    if kind == "BIGINT":
        return int(text)
    if kind == "DATE":
        return (date.fromisoformat(text) - date(1970, 1, 1)).days
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is not None and kind == "TIMESTAMP":
        raise ValueError(f"a TIMESTAMP has no zone: {text}")
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def parse_length(kind: str, text: str) -> int:
    """Ticks of `10 seconds`, `1 hour`, `7 days`, or of the bare integer of a BIGINT column."""
    text = text.strip()
    if kind == "BIGINT":
        return int(text)
    match = re.fullmatch(r"(\d+) (second|minute|hour|day)s?", text)
    if match is None:
        raise ValueError(f"not a length of time: {text!r}")
    micros = int(match[1]) * MICROS[match[2]]
    return micros // MICROS["day"] if kind == "DATE" else micros


def _sql(value: Any) -> str:
    if value is None:
        return "NULL"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)
