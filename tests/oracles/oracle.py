"""semantics.md, row by row, in plain Python: slow, and obviously right. It imports nothing of tidegate.

Times are integers in whatever unit the caller counts in; None is undefined. The names are those of the rules:
`wp[p]` is the watermark of partition p, `g` the published one.

    oracle = Oracle(strategy=lambda row: row.event_time - 10, views=[View("v", size=60)])
    oracle.enumerate(["0"])          # W6: before the first row of this input is judged
    oracle.read(Row("0", 0, 30))     # decides the row (W1) and raises the watermark (W2)
    oracle.flush()                   # a batch is committed: G is published (W6), windows close (C2)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

Group = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """One row of a source's log. `reject`: why it can't be judged (then `event_time` may be None)."""

    partition: str
    offset: int
    event_time: int | None
    reject: str | None = None
    payload: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """Where a row ended (W5): `outcome` is on_time, late or rejected. A late row has `missed`, the
    watermark it missed, and `late_by` = missed - event time; a rejected one has `reason`. `watermark`: Wp
    after the row. `found`: the watermark as of the row (W14), what it was judged against."""

    row: Row
    outcome: str
    missed: int | None = None
    late_by: int | None = None
    reason: str | None = None
    watermark: int | None = None
    found: int | None = None


@dataclass(frozen=True)
class View:
    """A windowed view: a window of `size` every `slide` (default: size, a tumble), shifted by `offset`
    (C1), over the time event_time + `shift` (D1).

    `keys`: payload columns it groups by. `aggregates`: output name → (function, payload column), the function
    one of count, sum, avg, min, max; count takes None for count(*). `where`: rows it keeps.
    """

    name: str
    size: int
    slide: int | None = None
    offset: int = 0
    shift: int = 0
    keys: Sequence[str] = ()
    aggregates: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    where: Callable[[Row], bool] = lambda row: True
    emit_on_window_close: bool = True


@dataclass
class Account:
    """A1 for one window or partition; `raw` is counted on its own, so that `adds_up` can fail."""

    raw: int = 0
    counted: int = 0
    filtered: int = 0
    late: int = 0
    rejected: int = 0

    def adds_up(self) -> bool:
        """raw = counted + filtered + late + rejected."""
        return self.raw == self.counted + self.filtered + self.late + self.rejected


class Oracle:
    """One source with its views. `strategy(row)` is the strategy's value for a row, None for NULL or
    failed."""

    def __init__(self, strategy: Callable[[Row], int | None], views: Iterable[View] = ()) -> None:
        self.strategy = strategy
        self.views = {view.name: view for view in views}
        self.wp: dict[str, int | None] = {}
        self.g: int | None = None
        self.decisions: list[Decision] = []
        self.committed = 0
        self.frontier: dict[str, int | None] = dict.fromkeys(self.views)
        self.emitted: dict[str, list[Group]] = {name: [] for name in self.views}

    def enumerate(self, partitions: Iterable[str]) -> None:
        """W6, R3: the partitions whose log holds a row, known before the first row is judged. One that
        appears later starts at G, never below (undefined while G is)."""
        for partition in partitions:
            if partition not in self.wp:
                self.wp[partition] = self.g

    def read(self, row: Row) -> Decision:
        """W1, W2, W5: decide the row, once."""
        p = row.partition
        bar = larger(self.wp[p], self.g)
        if row.reject is not None:
            decision = Decision(row, "rejected", reason=row.reject, watermark=self.wp[p], found=bar)
            self.decisions.append(decision)
            return decision

        assert row.event_time is not None
        if bar is not None and row.event_time < bar:
            decision = Decision(row, "late", bar, bar - row.event_time, watermark=self.wp[p], found=bar)
        else:
            self.wp[p] = larger(self.wp[p], self.strategy(row))
            decision = Decision(row, "on_time", watermark=self.wp[p], found=bar)
        self.decisions.append(decision)
        return decision

    def flush(self) -> int | None:
        """A batch is committed (R1): G is published (W6), then each view closes what G made final (C2)."""
        self.committed = len(self.decisions)
        if self.wp and all(watermark is not None for watermark in self.wp.values()):
            self.g = larger(self.g, min(self.wp.values()))
        if self.g is not None:
            for view in self.views.values():
                self._close(view, self.g)
        return self.g

    def _close(self, view: View, g: int) -> None:
        """C2: emit the groups whose window_end the watermark reached, each once."""
        watermark, frontier = g + view.shift, self.frontier[view.name]
        for group in self._groups(view):
            end = group["window_end"]
            if end <= watermark and (frontier is None or end > frontier):
                self.emitted[view.name].append(group)
        self.frontier[view.name] = watermark

    def shows(self, name: str) -> list[Group]:
        """What a reader of the view sees after the last flush: EMIT ON WINDOW CLOSE shows what was emitted,
        otherwise open windows are there too.
        """
        view = self.views[name]
        return list(self.emitted[name]) if view.emit_on_window_close else self._groups(view)

    def _groups(self, view: View) -> list[Group]:
        """The result over all committed rows that are on time (W3: nothing else is left out)."""
        members: dict[tuple, list[Row]] = {}
        for decision in self.decisions[: self.committed]:
            row = decision.row
            if decision.outcome == "on_time" and view.where(row):
                for start in windows_of(view, row.event_time):
                    key = (start, *(row.payload[k] for k in view.keys))
                    members.setdefault(key, []).append(row)
        return [
            {
                "window_start": start,
                "window_end": start + view.size,
                **dict(zip(view.keys, keys, strict=True)),
                **{name: aggregate(*call, rows) for name, call in view.aggregates.items()},
            }
            for (start, *keys), rows in members.items()
        ]

    def partition_accounts(self) -> dict[str, Account]:
        """W5 per partition: raw = on_time + late + rejected, on-time rows under `counted`."""
        accounts: dict[str, Account] = {}
        for decision in self.decisions:
            account = accounts.setdefault(decision.row.partition, Account())
            _count(account, decision, counted=True)
        return accounts

    def window_accounts(self, name: str) -> dict[int, Account]:
        """A1 per window start of a view; rows without an event time are in no window."""
        view = self.views[name]
        accounts: dict[int, Account] = {}
        for decision in self.decisions[: self.committed]:
            if decision.row.event_time is not None:
                for start in windows_of(view, decision.row.event_time):
                    account = accounts.setdefault(start, Account())
                    _count(account, decision, counted=view.where(decision.row))
        return accounts


def windows_of(view: View, event_time: int) -> list[int]:
    """C1: the starts of the windows that contain the time, the last one first."""
    slide = view.slide or view.size
    time = event_time + view.shift
    start = time - (time - view.offset) % slide
    starts = []
    while time < start + view.size:
        starts.append(start)
        start -= slide
    return starts


def derived(view: View, watermark: int | None) -> tuple[int, int] | None:
    """D1: the watermarks of window_start and window_end, those of the earliest window still open."""
    if watermark is None:
        return None
    now = watermark + view.shift
    # Windows that hold the watermark's own instant are open; an earlier one would have to end after it too,
    # and then it holds that instant.
    start = min(windows_of(view, watermark))
    assert start + view.size > now
    return start, start + view.size


def aggregate(function: str, column: str | None, rows: list[Row]) -> Any:
    """SQL's aggregates: NULLs don't count, and nothing but NULLs is NULL."""
    if column is None:
        return len(rows)
    values = [row.payload[column] for row in rows if row.payload[column] is not None]
    if function == "count":
        return len(values)
    if not values:
        return None
    if function == "avg":
        return sum(values) / len(values)
    return {"sum": sum, "min": min, "max": max}[function](values)


def larger(a: int | None, b: int | None) -> int | None:
    """The larger of two watermarks, where None is undefined."""
    if a is None or b is None:
        return b if a is None else a
    return max(a, b)


def _count(account: Account, decision: Decision, *, counted: bool) -> None:
    account.raw += 1
    if decision.outcome == "on_time":
        account.counted += counted
        account.filtered += not counted
    account.late += decision.outcome == "late"
    account.rejected += decision.outcome == "rejected"
