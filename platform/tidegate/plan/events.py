"""What happens while a plan runs: the facts that the engine emits and consoles, logs and Dagster show."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class Event:
    """Base of all events. Watermarks and frontiers are text for people; `seconds` are wall clock."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, with the kind of event as `event` (`batch_committed`, …)."""
        return {"event": _kind(type(self)), **asdict(self)}


@dataclass(frozen=True)
class RunStarted(Event):
    """A run begins. `names`: what will be brought up to date, in order."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class SourceStarted(Event):
    """A source is about to be read. What waits, in rows and files; None where that is not known."""

    source: str
    pending_rows: int | None = None
    pending_files: int | None = None


@dataclass(frozen=True)
class DefinitionChanged(Event):
    """The log of a source or table was changed in place, because its definition was (E1). `epoch`: the commit;
    `change`: for people."""

    source: str
    epoch: int
    change: str


@dataclass(frozen=True)
class BatchCommitted(Event):
    """A batch is in the log. Counts are of this batch; `total_rows` of the log since the source began; `commit_seconds`
    is the part of `seconds` that Iceberg's commit took. `undeclared`: columns of its input that the input did not have
    before and that are not declared, each with a file or schema that has it. `bytes`: that its rows took in the memory
    of all tasks."""

    source: str
    epoch: int
    on_time: int
    late: int
    rejected: int
    total_rows: int
    watermark: str
    seconds: float
    commit_seconds: float = 0.0
    undeclared: Mapping[str, str] = field(default_factory=dict)
    bytes: int = 0

    @property
    def rows(self) -> int:
        """Rows of the batch, whatever became of them."""
        return self.on_time + self.late + self.rejected


@dataclass(frozen=True)
class SourceFinished(Event):
    """A source is up to date. Counts are totals since the source began; `epochs` those of this run."""

    source: str
    on_time: int
    late: int
    rejected: int
    watermark: str
    epochs: int


@dataclass(frozen=True)
class SliceCommitted(Event):
    """A view took in a slice. `groups` and `open` are result rows so far: of final windows, of open ones.
    `commit_seconds` is the part of `seconds` that Iceberg's commit took. `lost_totals`: as in `ViewStatus`."""

    view: str
    frontier: str
    groups: int
    open: int
    seconds: float
    commit_seconds: float = 0.0
    lost_totals: int = 0


@dataclass(frozen=True)
class ViewFinished(Event):
    """A view is up to date; numbers as in `SliceCommitted`."""

    view: str
    frontier: str
    groups: int
    open: int


@dataclass(frozen=True)
class RowsDelivered(Event):
    """The first rows of a delivery to the console, as text (None: NULL), and how many `more` there are."""

    sink: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]
    more: int

    def text(self) -> str:
        """Plain lines, for those who have nothing to draw with."""
        lines = [", ".join(f"{c} = {v}" for c, v in zip(self.columns, row, strict=True)) for row in self.rows]
        lines += [f"… and {self.more:,} more"] if self.more else []
        return "\n".join(f"{self.sink}: {line}" for line in lines)


@dataclass(frozen=True)
class SinkDelivered(Event):
    """A sink has delivered `rows`, and its position says so. `amended`: windows that it has delivered again (B2)."""

    sink: str
    connector: str
    rows: int
    seconds: float
    amended: int = 0


@dataclass(frozen=True)
class StepFailed(Event):
    """One source, table, view or sink (`kind`) could not be brought up to date; the others go on. What it committed
    before stays. `error`: code, message, hint and location, and `others` (errors) of a source with several inputs that
    are not in order; of what is no tidegate error the code is None, and there is a traceback."""

    name: str
    kind: str
    error: Mapping[str, Any]


@dataclass(frozen=True)
class StepSkipped(Event):
    """One that nothing was done about, because of another that failed; `why` in words."""

    name: str
    kind: str
    why: str


@dataclass(frozen=True)
class RunFinished(Event):
    """The run has ended. `failed`, `skipped`: what could not be brought up to date, and what was left out for it."""

    seconds: float
    failed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


# -- live mode: of workers, one for each group (several can be one process), and of the supervisor that starts them ---


@dataclass(frozen=True)
class WorkerStarted(Event):
    """A worker has Spark and the leases of its group, and begins with its first tick. `names`: what it keeps up to
    date, in the order of computation."""

    group: str
    names: tuple[str, ...]
    pid: int


@dataclass(frozen=True)
class TickFinished(Event):
    """A group has advanced by at most one batch for each source, closed what that allows, and delivered it.

    `tick` counts from 1 in each worker; `rows` were judged in it; `backlog`: more waits, the next tick starts at once.
    `commit_seconds` is the part of `seconds` that Iceberg's commits took. `failing`: the sources, views and sinks that
    wait for another try. `waited`: seconds from when the tick was due to when a thread was free for it. `bytes`: that
    the rows of its batches took in the memory of all tasks. `delivering`: sinks whose delivery, beside the
    ticks, has been under way since an earlier tick, or is the first one since they were opened.
    """

    group: str
    tick: int
    rows: int
    backlog: bool
    seconds: float
    commit_seconds: float
    failing: tuple[str, ...] = ()
    waited: float = 0.0
    bytes: int = 0
    delivering: tuple[str, ...] = ()


@dataclass(frozen=True)
class MemberFailed(Event):
    """One source, view or sink of a group failed; the others go on. `attempt`: failures in a row; the next try is in
    `retry_seconds`. `code` is None for what is no tidegate error. `retry_seconds` 0: a source goes on, and leaves
    single inputs as they are (a file that changed, TG505)."""

    group: str
    name: str
    kind: str
    code: str | None
    message: str
    attempt: int
    retry_seconds: float


@dataclass(frozen=True)
class MemberRecovered(Event):
    """What failed works again, after `attempts` failures in a row."""

    group: str
    name: str
    kind: str
    attempts: int


@dataclass(frozen=True)
class WorkHangs(Event):
    """The work in ticks for `name`, a source, view or sink of a group, or (of the kind `group`) for the whole group of
    this name, has taken so many seconds, and does not advance: it is broken off with its process, and the group gets
    one of its own. The other groups of the process get a new one together."""

    group: str
    name: str
    kind: str
    seconds: float
    code: str
    message: str

    @property
    def member(self) -> str:
        """The source, view or sink; empty: the whole group."""
        return "" if self.kind == "group" else self.name


@dataclass(frozen=True)
class UpkeepFinished(Event):
    """Between two ticks the tables of `name` were made smaller; `why` it was due. The next tick waited so long."""

    group: str
    name: str
    why: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class WorkerStopping(Event):
    """A worker was told to stop, or has nothing more to do; what was under way is committed. `ticks` it has done."""

    group: str
    why: str
    ticks: int


@dataclass(frozen=True)
class WorkerFailed(Event):
    """A worker ends because of an error. `curable`: whether a new worker may fare better. `code` is None for what is no
    tidegate error."""

    group: str
    code: str | None
    message: str
    hint: str | None
    curable: bool


@dataclass(frozen=True)
class LiveStandsBy(Event):
    """Another process runs live mode for some of these groups, `why` says which one; this process waits for its end.
    `url`: as in `LiveStarted`."""

    groups: tuple[str, ...]
    why: str
    url: str | None


@dataclass(frozen=True)
class LiveStarted(Event):
    """The supervisor is up. `url`: where health and metrics are served; None: nowhere."""

    groups: tuple[str, ...]
    url: str | None


@dataclass(frozen=True)
class WorkerSpawned(Event):
    """A worker process was started; `restarts` of the group so far."""

    group: str
    pid: int
    restarts: int


@dataclass(frozen=True)
class WorkerExited(Event):
    """A worker process is gone. `exit_code` is negative for a signal. `restart_seconds`: when the next one starts;
    None: there will be none. `why` in words."""

    group: str
    exit_code: int
    restart_seconds: float | None
    why: str


@dataclass(frozen=True)
class DefinitionsLoaded(Event):
    """Live mode goes on with other definitions. Groups: those that begin, or begin again; those that are gone; how many
    go on as they were."""

    began: tuple[str, ...]
    ended: tuple[str, ...]
    unchanged: int


@dataclass(frozen=True)
class DefinitionsRefused(Event):
    """Live mode has read definitions that it can't take up: all groups go on with those of before. `error`: code,
    message, hint, location."""

    error: Mapping[str, Any]


@dataclass(frozen=True)
class LiveStopped(Event):
    """The supervisor ends, all workers are gone. `failed`: the groups that had given up."""

    exit_code: int
    seconds: float
    failed: tuple[str, ...] = ()


def event_of(document: Mapping[str, Any]) -> Event | None:
    """The inverse of `Event.to_dict`, JSON's lists as tuples; None for what is no event (of this version)."""
    kind = _KINDS.get(str(document.get("event")))
    if kind is None:
        return None
    names = {field.name for field in fields(kind)}
    values = {key: _tupled(value) for key, value in document.items() if key in names}
    try:
        return kind(**values)
    except TypeError:
        return None


def _tupled(value: Any) -> Any:
    return tuple(_tupled(one) for one in value) if isinstance(value, list) else value


def _kind(event: type[Event]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event.__name__).lower()


_KINDS = {_kind(event): event for event in Event.__subclasses__()}
