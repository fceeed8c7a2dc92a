"""One JSON object per line on stdout, for programs (`--json`)."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from typing import Any, TextIO

from tidegate.console.port import Shape, Table
from tidegate.console.values import json_line
from tidegate.errors import TidegateError
from tidegate.plan.events import Event


class JsonConsole:
    """Events and rows one object per line; answers one document; errors `{"error": {…}}`; no notes."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._lock = threading.Lock()

    @property
    def shape(self) -> Shape:
        return Shape(json=True)

    def event(self, event: Event) -> None:
        self._write(json.dumps(event.to_dict(), ensure_ascii=False))

    def table(self, table: Table) -> None:
        for line in json_lines(table):
            self._write(line)

    def written(self, text: str) -> None:
        self._write(text)

    def document(self, data: Any, text: str) -> None:
        self._write(json.dumps(data, ensure_ascii=False, default=str))

    def note(self, text: str) -> None:
        """Nothing: what a program needs is in the data."""

    def error(self, error: TidegateError | str) -> None:
        told = error.to_dict() if isinstance(error, TidegateError) else {"code": None, "message": error}
        self._write(json.dumps({"error": told}, ensure_ascii=False))

    def close(self) -> None:
        self._out.flush()

    def _write(self, text: str) -> None:
        with self._lock:
            self._out.write(text + "\n")
            self._out.flush()


def json_lines(table: Table) -> Iterator[str]:
    """A line for each row, as the rows come."""
    return (json_line(table.columns, row, table.types) for row in table.rows)
