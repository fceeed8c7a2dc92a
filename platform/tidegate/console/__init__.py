"""What a person sees, as a port: the same events and tables for a terminal, a log, a test or a program."""

from __future__ import annotations

from tidegate.console.capture import CaptureConsole
from tidegate.console.jsonlines import JsonConsole
from tidegate.console.lines import LinesConsole, describe_event
from tidegate.console.port import Console, Table

__all__ = ["CaptureConsole", "Console", "JsonConsole", "LinesConsole", "Table", "describe_event"]
