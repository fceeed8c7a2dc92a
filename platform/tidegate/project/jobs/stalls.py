"""`stalls:` of `jobs/*.yaml`: from when on a cause is worth a word, for all assets or one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from pydantic import Field, field_validator, model_validator

from tidegate.errors import did_you_mean
from tidegate.project.reading.strict import Seconds, StrictModel, refuse


@dataclass(frozen=True)
class StallLimits:
    """What holds for one asset: seconds, and rows. None: never (or, of `not_running`, as the asset is run)."""

    not_running: int | None = None
    backlog_for: int = 600
    backlog_rows: int = 10_000
    silent: int = 900
    all_late: int = 300
    strategy_null: int = 300
    at_least_rows: int = 20
    warming_up: int = 86_400
    clock_skew: int = 300
    view_behind: int = 600
    input_behind: int = 3_600
    sink_behind: int = 600
    idle: int | None = None
    ignore: tuple[str, ...] = ()


class Stall(StrictModel):
    """Limits of one asset, or of all. What is left out is as for `*`, and else the default."""

    asset: str
    """Name of a source, table, view or sink, or `*` for all of them."""

    not_running: Seconds | None = None
    """How long rows may wait while nothing is committed. Default: 5 minutes under an enabled live run, else 1 hour."""

    backlog_for: Seconds | None = None
    """How long the backlog may grow (10 minutes)."""

    backlog_rows: int | None = Field(default=None, ge=1)
    """From how many waiting rows on that counts (10000)."""

    silent: Seconds | None = None
    """How long a partition may be silent while others move (15 minutes)."""

    all_late: Seconds | None = None
    """How long all rows of a partition may be late, or rejected (5 minutes)."""

    strategy_null: Seconds | None = None
    """How long the strategy may give no value while rows arrive on time (5 minutes)."""

    at_least_rows: int | None = Field(default=None, ge=1)
    """From how many rows on all_late and strategy_null are told (20)."""

    warming_up: Seconds | None = None
    """How long SOURCE_WATERMARK() may take to get to know a partition (1 day)."""

    clock_skew: Seconds | None = None
    """How far event times may be ahead of the clock, or of one partition steadily behind the others (5 minutes)."""

    view_behind: Seconds | None = None
    """How long a window may stay open that could be closed (10 minutes)."""

    input_behind: Seconds | None = None
    """How long one input of a view may hold the others back (1 hour)."""

    sink_behind: Seconds | None = None
    """How long final rows or amendments may wait to be delivered by a sink (10 minutes)."""

    idle: Seconds | None = None
    """How long nothing at all may arrive from a broker (no limit)."""

    ignore: list[str] = Field(default_factory=list)
    """Causes that are not reported for it: names as in `tidegate why --json`."""

    @field_validator("ignore")
    @classmethod
    def _known(cls, kinds: list[str]) -> list[str]:
        return known_kinds(kinds)

    @model_validator(mode="after")
    def _something(self) -> Stall:
        if not self.model_fields_set - {"asset"}:
            raise refuse("sets no limit", hint="add silent: 1 hour, or ignore: [idle]")
        return self


#: Every cause, with what it means; `ignore:` and `kinds:` of jobs/*.yaml take these names.
CAUSES: dict[str, str] = {
    "not_running": "no process updates it, although rows wait or a live run should run",
    "stuck": "a process has its lease, and rows wait, but nothing is committed",
    "unreachable": "its broker does not answer",
    "backlog_growing": "more rows arrive than are read",
    "silent_partition": "a partition receives no rows while others do",
    "all_late": "rows arrive, and all of them are late",
    "all_rejected": "rows arrive, and all of them are rejected",
    "crashed_decoder": "rows have crashed the process that decodes them, and were rejected",
    "undeclared_columns": "files have columns that are not declared, and are not read",
    "definitions_refused": "live mode does not take up the definitions in the files",
    "live_failing": "a source, view or sink of live mode fails, and is tried again",
    "live_overdue": "a group of live mode should have finished a tick 5 minutes ago, and has not failed",
    "machine_too_small": "groups of live mode are late, because there are too few threads or cores for all of them",
    "strategy_null": "rows arrive on time, but the watermark strategy gives no value",
    "future_timestamp": (
        "a row from the future has raised the watermark, and other rows are late because of it"
    ),
    "producer_skew": (
        "the clock of a producer is ahead of the clock here, or behind the clocks of other producers"
    ),
    "warming_up": "SOURCE_WATERMARK() has seen too few rows, and stays far behind",
    "stalled": "rows arrive on time, but none is newer than the newest row so far",
    "lagging": "the watermark is further behind than thresholds: allow",
    "reset_pending": "a watermark was reset, and a view has not gone back yet",
    "frontier_ahead": "a view is ahead of its inputs, and closes no window",
    "waits_for_version": "a view stops at the time at which a new version of it takes its place",
    "closes_again": "results from before a reset are replaced as they close again",
    "rows_gone": "a view's next windows need rows that are beyond their retention",
    "skipped": "a view had to skip windows, because their rows were removed before it ran",
    "view_behind": "windows of a view could be closed, but are not",
    "input_behind": "one input of a view holds the others back",
    "sink_behind": "final rows, or amendments, wait to be delivered by a sink",
    "idle": "everything is up to date; windows wait for newer rows",
    "run_failed": "a run in Dagster has failed",
}


def known_kinds(kinds: list[str]) -> list[str]:
    """The same, or TG605 with a suggestion."""
    for kind in kinds:
        if kind not in CAUSES:
            hint = did_you_mean(kind, list(CAUSES)) or f"available causes: {', '.join(CAUSES)}"
            raise refuse(f'there is no cause "{kind}"', hint=hint)
    return kinds


def limits_of(stalls: Sequence[Stall], name: str) -> StallLimits:
    """What holds for an asset; an entry that names it wins over `*`, whatever their order."""
    limits, ignored = StallLimits(), set[str]()
    for stall in sorted(stalls, key=lambda s: s.asset != "*"):
        if stall.asset in ("*", name):
            given = {f.name: getattr(stall, f.name) for f in fields(StallLimits) if f.name != "ignore"}
            limits = replace(limits, **{k: v for k, v in given.items() if v is not None})
            ignored |= set(stall.ignore)
    return replace(limits, ignore=tuple(sorted(ignored)))
