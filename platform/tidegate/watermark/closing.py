"""When a result is final (C2-C6). The one boundary between open and closed.

A file of its own: it decides what the whole package is about, and is to be found by its name.
"""

from __future__ import annotations

from typing import Any


def window_is_closed(window_end: Any, watermark: Any) -> Any:
    """C2: a window is final iff watermark >= window_end. `watermark` is that of the window's time.

    Sessions end at their last event + gap (C3). A sorted row, or a group by another watermark column, is in the one
    tick of its value and ends a tick later, so it is final iff the watermark is strictly beyond it (C4, C6).

    Integers, int64 arrays or Spark columns, and an answer of the same shape. None (undefined) closes nothing.
    """
    if watermark is None:
        # Compared with itself: False in the shape of `window_end`.
        return window_end < window_end
    return window_end <= watermark
