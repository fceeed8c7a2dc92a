"""Keeps everything it is told, for tests and for callers that show it themselves."""

from __future__ import annotations

from typing import Any

from tidegate.console.port import Shape, Table
from tidegate.errors import TidegateError
from tidegate.plan.events import Event


class CaptureConsole:
    """`events`, `tables` (rows as tuples), `texts`, `documents`, `notes`, `errors`, in the order they came."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.tables: list[tuple[tuple[str, ...], list[tuple[Any, ...]]]] = []
        self.texts: list[str] = []
        self.documents: list[tuple[Any, str]] = []
        self.notes: list[str] = []
        self.errors: list[TidegateError | str] = []
        self.closed = False

    @property
    def shape(self) -> Shape:
        return Shape()

    def event(self, event: Event) -> None:
        self.events.append(event)

    def table(self, table: Table) -> None:
        self.tables.append((tuple(table.columns), [tuple(row) for row in table.rows]))

    def written(self, text: str) -> None:
        self.texts.append(text)

    def document(self, data: Any, text: str) -> None:
        self.documents.append((data, text))

    def note(self, text: str) -> None:
        self.notes.append(text)

    def error(self, error: TidegateError | str) -> None:
        self.errors.append(error)

    def close(self) -> None:
        self.closed = True
