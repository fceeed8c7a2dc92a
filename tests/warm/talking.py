"""Commands and workers that talk over a socket, for tests."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tidegate.console import CaptureConsole
from tidegate.errors import Location, TidegateError
from tidegate.plan.events import RunStarted
from tidegate.warm.asking import Conversation
from tidegate.warm.desk import Asked, Desk
from tidegate.warm.places import listening

ASK = {"ask": "run"}


class Project:
    """A folder, workers that listen in it, and a command that asks."""

    def __init__(self, root: Path) -> None:
        self.root, self.state = root, root / ".tidegate"
        self.open, self.console = ExitStack(), CaptureConsole()
        (root / "assets").mkdir()

    def worker(self, answer: Callable[[Asked], int], kind: str = "live") -> Desk:
        made = self.open.enter_context(listening(self.state, "local", kind))
        found = Desk(made, {"run": answer})
        self.open.callback(found.close)
        return found

    def raw(self, talk: Callable[[socket.socket], object]) -> None:
        """Somebody who listens, and does what `talk` does with the one who comes."""
        made = self.open.enter_context(listening(self.state, "local", "live"))

        def serve() -> None:
            connected, _ = made.accept()
            with connected:
                talk(connected)

        threading.Thread(target=serve, daemon=True).start()

    def ask(self, **request: Any) -> int | None:
        return Conversation(self.root, "local", self.console).ask(ASK | request)


def says(asked: Asked) -> int:
    asked.console.event(RunStarted(("a",)))
    asked.console.written("1 row")
    asked.console.document({"event": "report"}, "done")
    asked.console.note("late rows")
    where = Location("a.sql", 1, 2, 3, "SELECT")
    asked.console.error(TidegateError("TG202", "no column", hint="look", location=where))
    asked.console.error("unexpected")
    return 3
