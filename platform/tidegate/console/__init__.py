"""What a person sees, as a port: the same events and tables for a terminal, a log, a test or a program."""

from __future__ import annotations

import sys

from tidegate.console.capture import CaptureConsole
from tidegate.console.jsonlines import JsonConsole
from tidegate.console.lines import LinesConsole, describe_event
from tidegate.console.port import Console, Table


def choose_console(json: bool = False) -> Console:
    """JSON lines for programs, a drawing terminal for people, plain lines for pipes and logs."""
    if json:
        return JsonConsole()
    if sys.stdout.isatty() and sys.stderr.isatty():
        # rich is worth its import only where it can draw.
        from tidegate.console.terminal import TerminalConsole

        return TerminalConsole()
    return LinesConsole()


__all__ = [
    "CaptureConsole",
    "Console",
    "JsonConsole",
    "LinesConsole",
    "Table",
    "choose_console",
    "describe_event",
]
