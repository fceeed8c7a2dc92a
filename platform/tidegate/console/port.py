"""The port: everything that tidegate ever says to whoever runs it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from tidegate.errors import TidegateError
from tidegate.plan.events import Event

Layout = Literal["auto", "grid", "blocks"]


@dataclass(frozen=True)
class Table:
    """Rows to be drawn. `types`: Spark types of the columns where known, so that times are shown right.

    `title`: a line above. `unit`: what the rows are called below (`3 rows`); None for no line below. `layout` of what
    is too wide: `auto` makes every row a block of its own, `grid` hides columns; `blocks` are blocks in any case.
    """

    columns: Sequence[str]
    rows: Iterable[Sequence[Any]]
    types: Sequence[str | None] | None = None
    title: str | None = None
    unit: str | None = "row"
    layout: Layout = "auto"


@dataclass(frozen=True)
class Shape:
    """How a console writes tables: a JSON object for each row, or drawn at a `width` (None: never cut)."""

    json: bool = False
    width: int | None = None


class Console(Protocol):
    """Implemented by `TerminalConsole`, `LinesConsole`, `JsonConsole`, `CaptureConsole`."""

    @property
    def shape(self) -> Shape:
        """How it writes tables."""

    def event(self, event: Event) -> None:
        """Something happened in a run. Safe to call from a thread."""

    def table(self, table: Table) -> None:
        """Rows that the user asked for."""

    def written(self, text: str) -> None:
        """Rows that the user asked for, or some of them, as another process has written them in this `shape`."""

    def document(self, data: Any, text: str) -> None:
        """An answer: `data` (JSON-ready) for programs, `text` for people."""

    def note(self, text: str) -> None:
        """A word beside the answer: what happens next, what to look at."""

    def error(self, error: TidegateError | str) -> None:
        """What went wrong."""

    def close(self) -> None:
        """Finish what is being drawn (a progress display), so that others can write."""
