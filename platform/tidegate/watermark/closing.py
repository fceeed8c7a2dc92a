"""When a group is final (C2, C6). The one boundary between open and closed."""

from __future__ import annotations

from typing import Any


def is_closed(value: Any, derived_watermark: int | None) -> Any:
    """C6: a group is final iff the derived watermark of its watermark column is strictly beyond its value.

    `value`: the group's value of that column (window_start, window_end, or the time itself), an integer or
    an int64 array. `derived_watermark`: that column's own watermark (`derive`), not the source's. Strictly,
    because a row whose time equals the watermark is still on time (W1). None (undefined) closes nothing.
    """
    if derived_watermark is None:
        # Compared with itself: False in the shape of `value`.
        return value < value
    return value < derived_watermark


def window_is_closed(window_end: Any, watermark: int | None) -> Any:
    """C2: a window is final iff watermark >= window_end. `watermark` is that of the window's time column."""
    # The window's last instant is one tick before its exclusive end; it is final when no row of that
    # instant can come any more.
    return is_closed(window_end - 1, watermark)
