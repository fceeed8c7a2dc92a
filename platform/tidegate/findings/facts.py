"""What a diagnosis knows, gathered by `look` or made up by a test: plain values, no files, no broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tidegate.findings.lag import Lag
from tidegate.plan.columns.undeclared import Undeclared
from tidegate.plan.crashes import Crashes
from tidegate.store.metadata import ProgressRow
from tidegate.store.sinks import SinkStatus
from tidegate.store.status_values import RelationStatus, ViewStatus
from tidegate.store.writers import LiveRecord, WriterState
from tidegate.watermark import TimeKind

StrategyKind = Literal["plain", "expression", "source_watermark"]


@dataclass(frozen=True)
class Past:
    """A source as of one commit: when (s since 1970), and each partition's progress."""

    at: float
    partitions: Mapping[str, ProgressRow]


@dataclass(frozen=True)
class SourceFacts:
    """One source, table or inline gate with a watermark. `history`: a few commits, oldest first, the newest last.

    `live`: rows arrive at a broker all the time. `max_future_skew` in the unit of the time column (W9). `expected`: the
    live run that is meant to keep it up to date. `newest`: by partition the largest timestamp of a message, s since
    1970. `culprits`: by partition the offset of the row whose event time is `max_event_time`.
    `crashes`: rows that have crashed their decoder. `undeclared`: columns of the input that nobody reads.
    `reset_as`: what ALTER SOURCE … RESET WATERMARK names; "": its own name.
    """

    status: RelationStatus
    kind: TimeKind | None
    live: bool = False
    strategy: str = ""
    strategy_kind: StrategyKind = "plain"
    max_future_skew: int | None = None
    history: tuple[Past, ...] = ()
    writer: WriterState = field(default_factory=WriterState)
    expected: str | None = None
    newest: Mapping[str, float] = field(default_factory=dict)
    culprits: Mapping[str, int] = field(default_factory=dict)
    lag: Lag | None = None
    crashes: Crashes | None = None
    undeclared: Undeclared | None = None
    reset_as: str = ""


@dataclass(frozen=True)
class ViewFacts:
    """One view. `upstream`: all that its rows come from. `next_end`: the next window_end that its inputs do not allow
    yet; `due_end`: the next one that they allow and that is not final, `due_since`: since when, s since 1970; None:
    there is none. `held_since`: when the input that holds the others back last committed. Where its rows do not lie in
    windows whose bounds follow from the time (`in_windows`), both are the time from which on rows wait. `one_tick`:
    a row is final when the watermark is beyond its time (C4, C6), so one at `next_end` itself is not."""

    status: ViewStatus
    upstream: tuple[str, ...] = ()
    next_end: str | None = None
    in_windows: bool = True
    one_tick: bool = False
    due_end: str | None = None
    due_since: float | None = None
    held_since: float | None = None
    writer: WriterState = field(default_factory=WriterState)
    expected: str | None = None


@dataclass(frozen=True)
class SinkFacts:
    """One sink. `upstream`: what it delivers, as people call it. `delivered_upto`, `final_upto`: the frontier (of a log
    its watermark) as of what is delivered, and of what there is; None: not known, or there is none. `due_since`: when
    the first of what waits was committed, s since 1970; not `since_is_exact`: as far as commits are still known."""

    status: SinkStatus
    upstream: str
    delivered_upto: str | None = None
    final_upto: str | None = None
    due_since: float | None = None
    since_is_exact: bool = True
    writer: WriterState = field(default_factory=WriterState)
    expected: str | None = None


@dataclass(frozen=True)
class ProjectFacts:
    """`at`: when it was looked, s since 1970. `live`: the processes of this machine that run live mode."""

    at: float
    sources: tuple[SourceFacts, ...] = ()
    views: tuple[ViewFacts, ...] = ()
    sinks: tuple[SinkFacts, ...] = ()
    live: tuple[LiveRecord, ...] = ()
