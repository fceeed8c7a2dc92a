"""Event time without an engine: strategies, the gate, publication of G, windows, closing and derivation."""

from __future__ import annotations

from tidegate.watermark.calendar_windows import CalendarHop, CalendarTumble
from tidegate.watermark.closing import window_is_closed
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
    least,
    shift,
    substitute,
)
from tidegate.watermark.gate import UNDEFINED, GateConfig, GateState, Judgement, is_late, judge
from tidegate.watermark.outoforder import SourceWatermark
from tidegate.watermark.pane_windows import Aggregate, Constant, Operand, PaneWindows, RowCondition, Value
from tidegate.watermark.preceding import PrecedingRows
from tidegate.watermark.publish import publish, start_watermark
from tidegate.watermark.strategy import PROC_TIME, Column, Delay, Expression, Strategy, preceding_column
from tidegate.watermark.timekind import TimeKind, micros_of
from tidegate.watermark.windows import Cumulate, Hop, Sessions, Tumble, Window

__all__ = [
    "PROC_TIME",
    "UNDEFINED",
    "Aggregate",
    "CalendarHop",
    "CalendarTumble",
    "Column",
    "Constant",
    "Cumulate",
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
    "Operand",
    "PaneWindows",
    "PrecedingRows",
    "RowCondition",
    "SessionMark",
    "Sessions",
    "Shift",
    "SourceWatermark",
    "Strategy",
    "TimeKind",
    "Truncated",
    "Tumble",
    "Value",
    "Window",
    "WindowEnd",
    "WindowStart",
    "is_late",
    "judge",
    "least",
    "micros_of",
    "preceding_column",
    "publish",
    "shift",
    "start_watermark",
    "substitute",
    "window_is_closed",
]
