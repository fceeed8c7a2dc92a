"""What a command says, said by another process: its console is the one of the command that has asked.

Events go over as they are, so that the command can count what was committed. Tables are written where the rows are, in
the shape of the command's console, since only there their values have types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.console.drawing import draw
from tidegate.console.jsonlines import json_lines
from tidegate.console.port import Console, Shape, Table
from tidegate.errors import TidegateError
from tidegate.plan.events import Event, event_of

#: So many characters of rows at most are sent together.
_TOGETHER = 1 << 16


class RelayConsole:
    """A console that sends. `send` raises what ends the work, if nobody listens any more."""

    def __init__(self, send: Callable[[dict[str, Any]], None], shape: Shape) -> None:
        self._send, self._shape = send, shape

    @property
    def shape(self) -> Shape:
        return self._shape

    def event(self, event: Event) -> None:
        self._send({"event": event.to_dict()})

    def table(self, table: Table) -> None:
        lines: list[str] = []
        size = 0
        drawn = json_lines(table) if self._shape.json else draw(table, self._shape.width).split("\n")
        try:
            for line in drawn:
                lines.append(line)
                size += len(line)
                if size > _TOGETHER:
                    self.written("\n".join(lines))
                    lines, size = [], 0
        finally:
            # Also those before a row that fails.
            if lines:
                self.written("\n".join(lines))

    def written(self, text: str) -> None:
        self._send({"written": text})

    def document(self, data: Any, text: str) -> None:
        self._send({"document": data, "text": text})

    def note(self, text: str) -> None:
        self._send({"note": text})

    def error(self, error: TidegateError | str) -> None:
        told = error.to_dict() if isinstance(error, TidegateError) else None
        self._send({"error": told, "text": str(error)})

    def close(self) -> None:
        """Nothing is being drawn here."""


class RelayedError(TidegateError):
    """An error that another process has told, as that has told it."""

    def __init__(self, told: dict[str, Any], text: str) -> None:
        super().__init__(str(told.get("code")), str(told.get("message")), hint=told.get("hint"))
        self._told, self._text = told, text

    def __str__(self) -> str:
        return self._text

    def to_dict(self) -> dict[str, Any]:
        """As it was told, with what this class of errors does not know."""
        return self._told


def replay(said: dict[str, Any], console: Console, on_event: Callable[[Event], None]) -> bool:
    """Say what another process has said; whether that was something to say."""
    if isinstance(told := said.get("event"), dict):
        event = event_of(told)
        if event is not None:
            on_event(event)
    elif isinstance(text := said.get("written"), str):
        console.written(text)
    elif "document" in said:
        console.document(said["document"], str(said.get("text")))
    elif isinstance(text := said.get("note"), str):
        console.note(text)
    elif "error" in said:
        told, text = said["error"], str(said.get("text"))
        console.error(RelayedError(told, text) if isinstance(told, dict) else text)
    else:
        return False
    return True
