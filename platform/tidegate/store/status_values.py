"""How far every source, table, view and sink of a project is, as values: what `status` prints and `--json` has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tidegate.store.sinks import SinkStatus
from tidegate.store.writers import LiveRecord


@dataclass(frozen=True)
class PartitionStatus:
    """One partition of a source. Times are in the unit of its time column; `*_text` is the same for
    people. `state`: as of the last commit (W8). `lag`: how far its watermark trails the clock, seconds (None: there is
    none yet, or it is an integer epoch). `end_offset`: a broker's next free offset, now, or if the broker does not
    answer as of the last batch; None for other inputs. `lag_rows`: end_offset − next_offset. `holds_back`: it keeps
    the source's watermark where it is. `quiet_since`: when something last arrived from a broker, ISO, UTC.
    """

    partition: str
    watermark: int | None
    watermark_text: str
    next_offset: int
    on_time: int
    late: int
    rejected: int
    state: str | None
    max_event_time: int | None
    max_event_time_text: str
    end_offset: int | None = None
    lag: float | None = None
    lag_rows: int | None = None
    holds_back: bool = False
    quiet_since: str | None = None


@dataclass(frozen=True)
class RelationStatus:
    """One source or table. `ran` is False before its first commit; then all counts are 0.

    `raw = on_time + late + rejected` (W5). `behind_newest`: how far the watermark trails the newest event
    time, `lag`: how far it trails the clock (a TIMESTAMP is compared as if it were UTC); seconds, None where
    there is no watermark yet or the column is an integer epoch. `holds_back`: the partitions that keep the
    watermark where it is; empty if all stand at the same point. `committed_at`: ISO, UTC. `lag_rows`: rows that
    wait at the broker; None for other inputs. `broker_error`: why the broker could not be asked, if so. `undeclared`:
    columns of the input that are not declared, each with the file or schema that had it last; `taken_in`: those that
    the log has taken in, each with its type. `gate`: of an inline gate (W14), its call as it is written; `read_by`: the
    views that have it.
    """

    name: str
    kind: str
    ran: bool
    raw: int
    on_time: int
    late: int
    rejected: int
    epoch: int | None
    time_column: str | None
    time_kind: str | None
    watermark: int | None
    watermark_text: str
    behind_newest: float | None
    lag: float | None
    holds_back: tuple[str, ...]
    partitions: tuple[PartitionStatus, ...]
    snapshot_id: int | None
    committed_at: str | None
    lag_rows: int | None = None
    broker_error: str | None = None
    undeclared: Mapping[str, str] = field(default_factory=dict)
    taken_in: Mapping[str, str] = field(default_factory=dict)
    gate: str | None = None
    read_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class BuildingStatus:
    """The next version of a view, while it is built (E5). `percent` of the rows are read; `seconds_left`: at the pace
    so far, None while that is not known; `frontier_text`: up to where its results are final."""

    version: int
    percent: float
    seconds_left: float | None
    frontier_text: str
    started: str


@dataclass(frozen=True)
class ViewStatus:
    """One view. `reads`: the names of its inputs. `frontier`: up to where its rows are final; `clock`: up to where its
    inputs allow it (D2, D3); None where no row ever is. `groups`: final result rows; `open`: open ones. `behind`:
    clock − frontier, seconds (None: undefined, or an integer epoch). `holds_back`: the inputs whose watermark keeps
    the clock where it is, if there are several. `current`: nothing that its inputs have committed is still to be
    taken in. `time_kind`: what frontier and clock count in. `skipped`: (after, up to) of the
    window ends that it had to skip because rows were gone (R5); `missing`: what is gone of the rows that its next tick
    needs; None: nothing. `goes_back_to`: where its next tick takes the frontier
    back, because a watermark was reset (W9); None: nowhere. `emitted_beyond`: since it went back, results up to
    there are from before the reset until they close again; None: there are none.
    `lost_totals`: final rows with a sum or average that is NULL because its total does not fit (C7), as they were first
    released. `version`: the number of the current version; `building`: the next one, None if none is built.
    `valid_from`: results that end before it are those of an earlier version, because the rows behind them were gone
    when this one was built (E5); None: there are none. `held_at`: where the current version stops, because another one
    takes its place there (E5), as text; None: nowhere.
    """

    name: str
    ran: bool
    reads: tuple[str, ...]
    emit_on_window_close: bool
    frontier: int | None
    frontier_text: str
    clock: int | None
    clock_text: str
    holds_back: tuple[str, ...]
    groups: int
    open: int
    current: bool
    behind: float | None
    snapshot_id: int | None
    committed_at: str | None
    time_kind: str | None = None
    skipped: tuple[tuple[str, str], ...] = ()
    missing: str | None = None
    goes_back_to: int | None = None
    goes_back_to_text: str | None = None
    emitted_beyond: str | None = None
    lost_totals: int = 0
    version: int = 1
    building: BuildingStatus | None = None
    valid_from: str | None = None
    held_at: str | None = None


@dataclass(frozen=True)
class ProjectStatus:
    """All of a project, in the order in which it is computed. `gates`: the inline ones that it brings along; `live`:
    the processes of this machine that run live mode."""

    project: str
    environment: str
    warehouse: str
    relations: tuple[RelationStatus, ...]
    views: tuple[ViewStatus, ...]
    sinks: tuple[SinkStatus, ...] = ()
    gates: tuple[RelationStatus, ...] = ()
    live: tuple[LiveRecord, ...] = ()

    @property
    def all(self) -> tuple[RelationStatus | ViewStatus | SinkStatus, ...]:
        """Relations, views and sinks."""
        return (*self.relations, *self.views, *self.sinks)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)
