"""When a tick of a view has something to do: what the engine asks before it starts a job, and status without one."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tidegate.sql.catalog.objects import View
from tidegate.watermark import Window, WindowEnd

#: In a commit's summary: its tick did not go as far as it could, and shows nothing that is open.
PARTIAL = "tidegate.partial"


def is_due(view: View, own: Mapping[str, str], inputs: str, frontier: int | None, clock: int | None) -> bool:
    """Whether a tick can change anything: with EMIT ON WINDOW CLOSE only if something can become final. `own`: what the
    last commit says; `inputs`: what that of the tick would say of its inputs."""
    if view.emit_on_window_close:
        return closes_anything(view, frontier, clock)
    if PARTIAL in own:
        return True
    now, before = commits(inputs), commits(own.get("tidegate.inputs"))
    return now != (before or dict.fromkeys(now))


def closes_anything(view: View, frontier: int | None, clock: int | None) -> bool:
    """Whether a row can end in (frontier, clock]: for windows over one relation, whether a boundary lies there."""
    if clock is None:
        return False
    if frontier is None or view.accounts is None:
        return frontier is None or clock > frontier
    window = view.accounts.window
    return window.watermark_end(clock) > window.watermark_end(frontier)


def final_upto(view: View, frontier: int) -> int:
    """Up to where the rows of a view that stands at a frontier reach (ticks): for windows over one relation to the end
    of the last one that is closed."""
    return frontier if view.accounts is None else view.accounts.window.closed_end(frontier)


def held_back(clock: int | None, held: int | None) -> int | None:
    """W (ticks) of a version of a view, where another one takes its place at `held`: it is computed no further (E5)."""
    return clock if clock is None or held is None else min(clock, held)


def stops(frontier: int | None, clock: int | None, held: int | None) -> bool:
    """Whether a version of a view can come to the very time (ticks) at which another one takes its place, and has not
    said so yet: a tick then says it, even if it closes nothing, since sinks continue from that boundary (E5, E6)."""
    return held is not None and clock == held and (frontier is None or frontier < held)


def window_of(view: View) -> Window | None:
    """The windows that its rows lie in, where their bounds follow from the time alone; None for sessions, and for rows
    and groups that are final tick by tick."""
    if view.accounts is not None:
        return view.accounts.window
    ends = [carried.derived for carried in view.watermarks if isinstance(carried.derived, WindowEnd)]
    return ends[0].window if ends else None


def commits(text: str | None) -> dict[str, int | None]:
    """What the last tick has taken in: by name of the input, tidegate's newest commit to it (`tidegate.inputs` of the
    view's summary); nothing before the first tick."""
    return {name: entry["commit"] for name, entry in json.loads(text or "{}").items()}
