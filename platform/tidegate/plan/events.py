"""What happens while a plan runs: the facts that the engine emits and consoles, logs and Dagster show."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Event:
    """Base of all events. Watermarks and frontiers are text for people; `seconds` are wall clock."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, with the kind of event as `event` (`batch_committed`, …)."""
        kind = re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()
        return {"event": kind, **asdict(self)}


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
class BatchCommitted(Event):
    """A batch is in the log. Counts are of this batch; `total_rows` of the log since the source began."""

    source: str
    epoch: int
    on_time: int
    late: int
    rejected: int
    total_rows: int
    watermark: str
    seconds: float

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
    """A view took in a slice. `groups` and `open` are result rows so far: of final windows, of open ones."""

    view: str
    frontier: str
    groups: int
    open: int
    seconds: float


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
    """A sink has delivered `rows`, and its position says so."""

    sink: str
    connector: str
    rows: int
    seconds: float


@dataclass(frozen=True)
class RunFinished(Event):
    """The run ended well."""

    seconds: float
