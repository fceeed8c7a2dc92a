"""Connectors: how rows of a source get into batches.

A connector plans (what is read next, in which order) and reads (a plan as a DataFrame). A plan is durable before
its first row is judged, and holds every decision that depends on the clock or on a listing (W4), so that a retry
reads the same rows in the same order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.iceberg.progress import ConsumedFile, LogPosition
    from tidegate.plan.columns.undeclared import FoundColumn
    from tidegate.sql.catalog.objects import Relation
    from tidegate.tasks.reading import Reader
    from tidegate.tasks.smaller import Size
    from tidegate.tasks.transfer import Job


@dataclass(frozen=True)
class BatchPlan:
    """What one epoch reads. `arrival`: wall clock (UTC, ISO) of its rows; `units`: the connector's own.

    `decisions`: what it decides about partitions by the clock or the broker (W4), as `Decisions.to_json`. `log`:
    Iceberg's uuid of the log that it was planned for. `crashed`: rows that have ended their decoder's process, as the
    connector knows them; they are rejected without a look (but for `plan.crashes.SPARED`). `care`: how sparingly it is
    read (`smaller.py`)."""

    epoch: int
    arrival: str
    units: list[dict[str, Any]]
    decisions: dict[str, Any] | None = None
    log: str = ""
    crashed: list[list[Any]] = field(default_factory=list)
    care: int = 0

    @property
    def arrived(self) -> datetime:
        """`arrival` as an aware datetime."""
        return datetime.fromisoformat(self.arrival)

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> BatchPlan:
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Pending:
    """What waits to be read when a run starts: partitions to enumerate (W6), and sizes for the progress display."""

    partitions: list[str] = field(default_factory=list)
    rows: int | None = None
    files: int | None = None


@dataclass(frozen=True)
class Direct:
    """How a batch is read inside the gate's own tasks: `work`, what each task reads (the numbers of the tasks, or
    messages as they are), and the `reader` that makes rows of it, or raises `NeedsSpark`. `settings`: of
    Spark, meanwhile. `instead`: another such way, for a reader that raised `NeedsJava`, with what it said.

    It gives the rows of the frame that it stands for, to the letter: who reads changes nothing (W4).
    """

    work: DataFrame | Job
    reader: Reader
    settings: Mapping[str, str] = field(default_factory=dict)
    instead: Callable[[str], Direct] | None = None


@dataclass(frozen=True)
class BatchRows:
    """A batch before the gate: the source's stored columns plus `_source_partition`, `_offset`, `_raw`, and `_arrival`,
    if its rows came at different times. (A time in a query is compiled with it, so each batch would be compiled.)

    `frame`: as Spark reads it, planned when it is asked for; None for a batch without rows: its commit notes decisions
    about partitions only. `direct`: a shorter way to the same rows, where there is one.
    `order`: columns that give the order inside a partition. `numbering`: offsets are given by the gate, in that
    order. `aligned`: each partition's rows are already in one task and in order, no shuffle is needed; the driver
    verifies it from the tasks' reports. `position`: where in another log these rows end, for the commit to note;
    `absent_before`: of such rows those before this time may be missing, which were gone before they could be read (R5).
    `undeclared`: columns of the input that nobody reads, for the commit to note; `looks` finds more of them in what the
    tasks have reported.
    `care`: of the plan.
    """

    frame: Callable[[], DataFrame] | None
    order: tuple[str, ...]
    numbering: bool
    aligned: bool = False
    position: LogPosition | None = None
    absent_before: int | None = None
    direct: Direct | None = None
    undeclared: Mapping[str, FoundColumn] = field(default_factory=dict)
    looks: Callable[[Sequence[Mapping[str, Any]]], Mapping[str, FoundColumn]] = lambda reports: {}
    care: int = 0

    def seen(self, reports: Sequence[Mapping[str, Any]]) -> Mapping[str, FoundColumn]:
        """All columns of the input that nobody reads, once its tasks have reported."""
        return {**self.undeclared, **self.looks(reports)}


class Connector(Protocol):
    """One source's way of planning and reading. `size`: how much its batches take."""

    size: Size

    def pending(self) -> Pending:
        """Look at what waits now: when a run starts, before the first plan, and in live mode in each of its turns."""

    def plan(self, epoch: int, arrival: datetime) -> BatchPlan | None:
        """The next batch, or None if nothing waits."""

    def waits(self) -> bool:
        """Whether something is left for the next `plan`."""

    def adopt(self, plan: BatchPlan) -> bool:
        """Take note of a plan that an earlier run wrote and did not commit: it is read now, and not planned again.
        False if what it reads is gone for good."""

    def read(self, plan: BatchPlan) -> BatchRows:
        """The rows of a plan; the same rows in the same order whenever it is called."""

    def undeclared(self, plan: BatchPlan) -> Mapping[str, FoundColumn]:
        """By name, the columns that the input of a plan has and the source does not declare, where the input names
        them."""
        return {}

    def becomes(self, relation: Relation) -> None:
        """Read with other columns from here on: some of `undeclared` were taken in."""
        return

    def consumed(self, plan: BatchPlan) -> list[ConsumedFile]:
        """What the commit of this plan records as read."""

    def crashed(self, plan: BatchPlan) -> list[list[Any]]:
        """The rows of a plan that end the process that decodes them, and that it does not name yet (X2)."""
        return []

    def smaller(self, plan: BatchPlan) -> BatchPlan | None:
        """The first part of a plan that was too large; the rest waits again. None if it can't be made smaller."""
        return None

    def smallest(self, plan: BatchPlan) -> str:
        """What a plan reads that can't be made smaller, for people."""
        return "a row of each partition"

    def problems(self) -> list[TidegateError]:
        """What is wrong with single inputs (a file that has changed since it was read, TG505), as of the last look.
        They are left as they are, and keep nothing else waiting; whoever runs the source says so."""
        return []

    def close(self) -> None:
        """Let go of what it holds open; nothing, for most."""
        return

    def recount(self) -> int | None:
        """Rows in the part of the source that the log has read, counted in the source (A1); None if it is gone."""


def no_input(name: str, path: str) -> TidegateError:
    """The error for a path that does not exist."""
    return TidegateError(
        "TG503",
        f'source "{name}" reads {path}, which does not exist',
        hint="check the option path, or create it",
    )
