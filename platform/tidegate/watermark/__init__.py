"""Event time without an engine: strategies, the gate, publication of G, windows, closing and derivation."""

from __future__ import annotations

from tidegate.watermark.closing import is_closed, window_is_closed
from tidegate.watermark.derive import (
    Derived,
    EarliestOpen,
    Extracted,
    Identity,
    Least,
    Mark,
    SessionMark,
    Shift,
    Truncated,
    WindowEnd,
    WindowStart,
)
from tidegate.watermark.gate import GateConfig, GateState, Judgement, is_late, judge
from tidegate.watermark.publish import publish, start_watermark
from tidegate.watermark.strategy import Column, Delay, Expression, Strategy
from tidegate.watermark.timekind import TimeKind
from tidegate.watermark.windows import Hop, Tumble, Window

__all__ = [
    "Column",
    "Delay",
    "Derived",
    "EarliestOpen",
    "Expression",
    "Extracted",
    "GateConfig",
    "GateState",
    "Hop",
    "Identity",
    "Judgement",
    "Least",
    "Mark",
    "SessionMark",
    "Shift",
    "Strategy",
    "TimeKind",
    "Truncated",
    "Tumble",
    "Window",
    "WindowEnd",
    "WindowStart",
    "is_closed",
    "is_late",
    "judge",
    "publish",
    "start_watermark",
    "window_is_closed",
]
