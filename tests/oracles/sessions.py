"""Sessions of semantics.md in plain Python (C1, C3, D3): slow, and obviously right. It imports nothing of tidegate.

Times and the gap are integers in one unit; a watermark of None is undefined, and closes nothing.

    found = sessions(rows, gap=5, keys=("k",))       # every session of the rows, open ones too
    closed(found, watermark=20)                      # those that are final, and were therefore emitted
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.oracles.oracle import Row


@dataclass(frozen=True)
class Session:
    """Rows of one key in order of time. `start` is that of its first row, `end` its last row's plus the gap (C1)."""

    keys: tuple
    start: int
    end: int
    rows: tuple[Row, ...]


def sessions(rows: Iterable[Row], gap: int, keys: Sequence[str] = ()) -> list[Session]:
    """C1, C3: a row joins the session before it iff it is less than `gap` after that session's last row. `rows`
    are on time (W3); NULL keys are a key."""
    by_key: dict[tuple, list[Row]] = {}
    for row in rows:
        by_key.setdefault(tuple(row.payload[key] for key in keys), []).append(row)

    found = []
    for key, members in by_key.items():
        current: list[Row] = []
        for row in sorted(members, key=lambda row: row.event_time):
            if current and row.event_time >= current[-1].event_time + gap:
                found.append(_session(key, current, gap))
                current = []
            current.append(row)
        found.append(_session(key, current, gap))
    return found


def is_closed(session: Session, watermark: int | None) -> bool:
    """C3: watermark ≥ last event + gap."""
    return watermark is not None and watermark >= session.end


def closed(found: Iterable[Session], watermark: int | None) -> list[Session]:
    """What a view that EMITs ON WINDOW CLOSE has emitted by the time of this watermark."""
    return [session for session in found if is_closed(session, watermark)]


def derived(found: Iterable[Session], watermark: int | None) -> tuple[int, int] | None:
    """D3: the watermarks of window_start (the smaller of W and the earliest open start) and of window_end (W)."""
    if watermark is None:
        return None
    starts = [session.start for session in found if not is_closed(session, watermark)]
    return min([watermark, *starts]), watermark


def _session(key: tuple, rows: list[Row], gap: int) -> Session:
    return Session(key, rows[0].event_time, rows[-1].event_time + gap, tuple(rows))
