"""Windows that nobody can know any more, because rows went before a view had come to them (R5): found by pure
functions over what commits and tables say.

In one environment upkeep keeps what its views still need. A branch (`reads:`) is none of its views: rows can be
retired between two of a branch's runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.plan.closing import closes_anything
from tidegate.watermark import TimeKind

if TYPE_CHECKING:
    from tidegate.sql.catalog.objects import View

#: Key of a view's commits: the stretches of its frontier that it has skipped, ticks: after the one, up to the other.
GAPS = "tidegate.gaps"
#: Key of the commits of a gate of WATERMARK(…) (W14): the time, in ticks, before which rows of the relation below may
#: have gone while it had not read them.
ABSENT_BEFORE = "tidegate.absent-before"
#: Property of a log, and of what is read of one: the time, in ticks, before which rows are beyond their retention.
RETAINED_FROM = "tidegate.retained-from"
#: What tells of a table with a PRIMARY KEY that its rows with an event time at or below it may be gone (T2).
CLEANED = "tidegate.cleaned"
#: Stretches that are kept; the oldest ones become one.
_KEPT = 20


@dataclass(frozen=True)
class Hole:
    """A view's next windows need rows of `input` that are gone: those before `edge`, ticks of `kind`. `upto`:
    windows that end up to there can't be known; None: nobody can tell which."""

    input: str
    edge: int
    kind: TimeKind | None
    upto: int | None

    def describe(self) -> str:
        """What is gone, in words."""
        before = "" if self.kind is None else f" before {self.kind.format(self.edge)}"
        return f'rows of "{self.input}"{before} are beyond their retention'


def gaps(summary: Mapping[str, str]) -> list[tuple[int, int]]:
    """What a view has skipped, oldest first."""
    return [(after, upto) for after, upto in json.loads(summary.get(GAPS) or "[]")]


def with_gap(summary: Mapping[str, str], after: int, upto: int) -> dict[str, str]:
    """What the commit says that skips the windows which end after the one, and up to the other."""
    known = [*gaps(summary), (after, upto)]
    while len(known) > _KEPT:
        known[:2] = [(known[0][0], known[1][1])]
    return {GAPS: json.dumps(known)}


def retained_from(summary: Mapping[str, str], written: str | None) -> int | None:
    """Rows of a log before it may be missing: those beyond its retention, of which its properties say `written`, and
    those that never came into it."""
    marks = [int(mark) for mark in (written, summary.get(ABSENT_BEFORE)) if mark is not None]
    return max(marks, default=None)


def edge_of(summary: Mapping[str, str], edge: int | None) -> int | None:
    """Rows of an input before it may be missing: those before the `edge` of its retention, and of a view what it has
    skipped itself."""
    marks = [upto + 1 for _, upto in gaps(summary)] + ([] if edge is None else [edge])
    return max(marks, default=None)


#: By name of an input: what its time counts in, and before which tick rows of it may be missing; None: none is.
Edges = Mapping[str, tuple[TimeKind | None, int | None]]


def with_cleaned(edge: int | None, summary: Mapping[str, str]) -> int | None:
    """The same edge, or a later one of a table whose rows expire; `summary`: of its state."""
    marks = [int(summary[CLEANED]) + 1] if CLEANED in summary else []
    return max([*marks, *([] if edge is None else [edge])], default=None)


def gaps_between(summary: Mapping[str, str], after: int | None, upto: int) -> list[tuple[int, int]]:
    """What a view has skipped after the one (None: ever), up to the other."""
    known = gaps(summary) if after is None else [(max(start, after), end) for start, end in gaps(summary)]
    return [(start, min(end, upto)) for start, end in known if start < min(end, upto)]


def beginning(view: View, edges: Edges) -> tuple[int | None, str | None]:
    """R5: the frontier that a view begins with: nothing that ends at or before it can be computed, because rows that it
    needs may be gone; None if all are there. And an input of which nobody can tell: a session may have begun before,
    and a frame may reach back over all rows; None if that can be told of all of them."""
    marks = []
    for entry in view.inputs:
        kind, edge = edges.get(entry.name, (None, None))
        if edge is None or entry.lookup:
            continue
        reaches_back = view.open_sql is not None or view.over is not None
        if reaches_back or entry.low is None or not same_scale(kind, view.kind):
            return None, entry.name
        marks.append(edge - entry.low)
    return max(marks, default=None), None


def hole(
    view: View,
    own: Mapping[str, str],
    edges: Edges,
) -> Hole | None:
    """What is missing for the next tick of a view at `own`, the summary of its last commit; None: nothing.

    `edges`: by name of an input, what its time counts in, and `edge_of`.
    """
    marks = [own.get(f"tidegate.{name}") for name in ("frontier", "earliest-open")]
    known = [int(mark) for mark in marks if mark is not None]
    if view.clock is None or marks[0] is None:
        return None
    found: list[Hole] = []
    for entry in view.inputs:
        kind, edge = edges.get(entry.name, (None, None))
        if edge is None or entry.lookup:
            continue
        if entry.low is None or not same_scale(kind, view.kind):
            found.append(Hole(entry.name, edge, kind, None))
        elif min(known) + entry.low < edge:
            reaches_back = view.open_sql is not None or view.over is not None
            upto = edge - entry.low
            if reaches_back:
                found.append(Hole(entry.name, edge, kind, None))
            elif closes_anything(view, int(marks[0]), upto):
                found.append(Hole(entry.name, edge, kind, upto))
    unknown = [h for h in found if h.upto is None]
    return unknown[0] if unknown else max(found, key=lambda h: h.upto or 0, default=None)


def continuing(view: View, own: Mapping[str, str], edges: Edges) -> tuple[int | None, str | None]:
    """As `beginning`, for rows whose last commit says `own`: what ends up to there, and was not final then."""
    if "tidegate.frontier" not in own:
        return beginning(view, edges)
    found = hole(view, own, edges)
    if found is None:
        return None, None
    return found.upto, found.input if found.upto is None else None


def same_scale(kind: TimeKind | None, other: TimeKind) -> bool:
    """Whether ticks of one say something about the other."""
    return kind is not None and kind.same_ticks(other)
