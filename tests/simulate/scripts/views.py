"""The views that simulated projects are made of, with what the oracles say of each. Times are whole seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.oracles.joins import Join
from tests.oracles.oracle import Row
from tests.oracles.over import Call, Range, Rows, SessionGap, is_below, over
from tests.oracles.sessions import closed, is_closed, sessions
from tests.oracles.windows import Windows, final, grouped, hop, tumble

Shown = tuple[Any, ...]
#: Emitted rows of what a view reads, and the watermark in force, to the view's own rows.
Truth = Callable[[Sequence[Row], int | None], list[Shown]]


@dataclass(frozen=True)
class View:
    """One view. `columns`: those that are compared, as the truth gives them; times as seconds."""

    name: str
    sql: str
    columns: tuple[str, ...]
    truth: Truth
    #: The same where every late row is absorbed (B1), of rows on time, late rows, and the watermark.
    amended: Callable[[Sequence[Row], Sequence[Row], int | None], list[Shown]] | None = None
    #: Sessions that are open. What a late row joins to one of them waits for it (B2).
    waiting: Truth = lambda rows, mark: []
    #: In which windows a time is, where the view aggregates windows.
    windows: Windows | None = None
    #: What tells its rows apart.
    key: tuple[str, ...] = ()
    #: Sources that it reads; and how far it is, by the watermarks that these have published.
    reads: tuple[str, ...] = ("events",)
    clock: Callable[[Mapping[str, int | None]], int | None] = lambda marks: marks["events"]

    @property
    def of_sessions(self) -> bool:
        """Whether its rows are sessions, whose windows an amendment may change."""
        return self.amended is not None and self.windows is None and "window_start" in self.columns

    def window(self, row: Shown) -> tuple[Any, Any]:
        """The window of a row as the truth gives it; None for rows that are in none."""
        names = ("window_start", "window_end")
        found = [row[self.columns.index(name)] if name in self.columns else None for name in names]
        return found[0], found[1]

    def windows_of(self, row: Row) -> list[tuple[int, int]]:
        """In which windows a row is, of a view that aggregates windows."""
        return [] if self.windows is None or row.event_time is None else self.windows(row.event_time)


def _counted(windows: Windows, keys: Sequence[str]) -> Truth:
    def truth(rows: Sequence[Row], mark: int | None) -> list[Shown]:
        groups = final(grouped(rows, windows, keys), mark)
        return [(*g.keys, g.start, g.end, len(g.rows), _sum(g.rows)) for g in groups]

    return truth


def _together(truth: Truth) -> Callable[[Sequence[Row], Sequence[Row], int | None], list[Shown]]:
    return lambda on_time, late, mark: truth([*on_time, *late], mark)


def _sum(rows: Sequence[Row]) -> int | None:
    values = [row.payload["v"] for row in rows if row.payload["v"] is not None]
    return sum(values) if values else None


def _sessions(rows: Sequence[Row], mark: int | None) -> list[Shown]:
    return [(*s.keys, s.start, s.end, len(s.rows)) for s in closed(sessions(rows, 15, ("k",)), mark)]


def _open_sessions(rows: Sequence[Row], mark: int | None) -> list[Shown]:
    return [
        (*s.keys, s.start, s.end, len(s.rows)) for s in sessions(rows, 15, ("k",)) if not is_closed(s, mark)
    ]


def _measured(rows: Sequence[Row], mark: int | None) -> list[Shown]:
    """Of a column that is added later: earlier rows have NULL (E2)."""
    found = []
    for g in final(grouped(rows, tumble(10), ("k",)), mark):
        values = [row.payload["amount"] for row in g.rows if row.payload["amount"] is not None]
        found.append((*g.keys, g.start, g.end, len(values), max(values, default=None)))
    return found


def _sorted(rows: Sequence[Row], mark: int | None) -> list[Shown]:
    """C4: rows below the watermark, each once."""
    return [(row.payload["id"], row.event_time) for row in rows if mark is not None and row.event_time < mark]


def _over(*calls: Call) -> Truth:
    """C5: each row whose frames are complete, with the values of the calls over the rows of its key."""

    def truth(rows: Sequence[Row], mark: int | None) -> list[Shown]:
        found = over([row for row in rows if row.event_time is not None], mark, calls, ("k",))
        return [
            (one.row.payload["k"], one.row.payload["id"], one.row.event_time, *one.values) for one in found
        ]

    return truth


#: e.ts BETWEEN o.ts - 5 seconds AND o.ts + 30 seconds
_PAIRED, _MATCHED = (Join(5, 30, ("k",), kind) for kind in ("inner", "left"))
_JOINED = (
    "SELECT e.id, e.ts, e.k, o.id AS other FROM events AS e {kind} others AS o ON e.k = o.k "
    "AND e.ts BETWEEN o.ts - INTERVAL '5 seconds' AND o.ts + INTERVAL '30 seconds'"
)


def _joined(name: str, kind: str, join: Join) -> View:
    """D2, C4: pairs of rows of two sources, each when its time is below the watermark of that time."""

    def truth(rows: Sequence[Row], mark: int | None) -> list[Shown]:
        sides = {of: [row for row in rows if row.payload["of"] == of] for of in ("events", "others")}
        pairs = join.pairs(sides["events"], sides["others"])
        return [
            (a.payload["id"], a.event_time, a.payload["k"], b and b.payload["id"])
            for a, b in pairs
            if a is not None and is_below(a, mark)
        ]

    def clock(marks: Mapping[str, int | None]) -> int | None:
        derived = join.watermarks(marks["events"], marks["others"])
        return None if derived is None else derived[0]

    sql = _JOINED.format(kind=kind)
    columns = ("id", "ts", "k", "other")
    return View(
        name,
        sql,
        columns,
        truth,
        _together(truth),
        key=("id", "other"),
        reads=("events", "others"),
        clock=clock,
    )


VIEWS = {
    view.name: view
    for view in (
        View(
            "tumbling",
            "SELECT k, window_start, window_end, count(*) AS n, sum(v) AS s "
            "FROM TUMBLE(events, ts, INTERVAL '10 seconds') GROUP BY k, window_start, window_end",
            ("k", "window_start", "window_end", "n", "s"),
            _counted(tumble(10), ("k",)),
            _together(_counted(tumble(10), ("k",))),
            windows=tumble(10),
            key=("k", "window_start"),
        ),
        View(
            "hopping",
            "SELECT k, window_start, window_end, count(*) AS n, sum(v) AS s "
            "FROM HOP(events, ts, INTERVAL '10 seconds', INTERVAL '30 seconds') "
            "GROUP BY k, window_start, window_end",
            ("k", "window_start", "window_end", "n", "s"),
            _counted(hop(10, 30), ("k",)),
            _together(_counted(hop(10, 30), ("k",))),
            windows=hop(10, 30),
            key=("k", "window_start"),
        ),
        View(
            "visits",
            "SELECT k, window_start, window_end, count(*) AS n "
            "FROM SESSION(events, ts, k, INTERVAL '15 seconds') GROUP BY k, window_start, window_end",
            ("k", "window_start", "window_end", "n"),
            _sessions,
            _together(_sessions),
            _open_sessions,
            key=("k", "window_start", "window_end"),
        ),
        View(
            "measured",
            "SELECT k, window_start, window_end, count(amount) AS n, max(amount) AS s "
            "FROM TUMBLE(events, ts, INTERVAL '10 seconds') GROUP BY k, window_start, window_end",
            ("k", "window_start", "window_end", "n", "s"),
            _measured,
            _together(_measured),
            windows=tumble(10),
            key=("k", "window_start"),
        ),
        View("sorted", "SELECT id, ts FROM events", ("id", "ts"), _sorted, _together(_sorted), key=("id",)),
        View(
            "ranked",
            "SELECT k, id, ts, row_number() OVER w AS n, rank() OVER w AS r, lag(id) OVER w AS before, "
            "sum(v) OVER w AS s, count(*) OVER (w ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) AS c "
            "FROM events WINDOW w AS (PARTITION BY k ORDER BY ts)",
            ("k", "id", "ts", "n", "r", "before", "s", "c"),
            _over(
                *(Call("row_number"), Call("rank"), Call("lag", "id"), Call("sum", "v")),
                Call("count", None, Rows(-2, -1)),
            ),
        ),
        View(
            "followed",
            "SELECT k, id, ts, lead(id) OVER w AS next, first_value(id) OVER (w ROWS BETWEEN 1 PRECEDING AND "
            "CURRENT ROW) AS before FROM events WINDOW w AS (PARTITION BY k ORDER BY ts)",
            ("k", "id", "ts", "next", "before"),
            _over(Call("lead", "id"), Call("first_value", "id", Rows(-1, 0))),
        ),
        View(
            "around",
            "SELECT k, id, ts, sum(v) OVER (w RANGE BETWEEN INTERVAL '15 seconds' PRECEDING AND "
            "INTERVAL '5 seconds' FOLLOWING) AS s, count(*) OVER (w SESSION WITH GAP INTERVAL '15 seconds') AS c "
            "FROM events WINDOW w AS (PARTITION BY k ORDER BY ts)",
            ("k", "id", "ts", "s", "c"),
            _over(Call("sum", "v", Range(-15, 5)), Call("count", None, SessionGap(15))),
        ),
        # (Here no session is open for longer than the frame.)
        View(
            "near",
            "SELECT k, id, ts, sum(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '15 seconds' "
            "PRECEDING AND INTERVAL '5 seconds' FOLLOWING) AS s FROM events",
            ("k", "id", "ts", "s"),
            _over(Call("sum", "v", Range(-15, 5))),
        ),
        _joined("paired", "JOIN", _PAIRED),
        _joined("matched", "LEFT JOIN", _MATCHED),
    )
}
#: Those of rows over the rows around them (C5).
OVER = ("around", "followed", "near", "ranked")
#: Those of two sources (D2).
JOINS = ("matched", "paired")
#: Those that read a column which only some sources have.
MEASURES = ("measured",)
