"""What the supervisor knows of one group, and how a group and its process ended, in words."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Literal

from tidegate.live.groups import Group
from tidegate.plan.events import TickFinished, WorkerFailed
from tidegate.wording import counted

State = Literal["starting", "running", "backing_off", "failed", "stopped"]


@dataclass(frozen=True)
class Watched:
    """What is known of one group. `alive`: whether it has a worker; `pid`: of it. `alone`: whether its worker is a
    process of its own; `deaths`: how often in a row the process of all groups has died while it was at work for this
    one. Times are of one clock, None: not yet. `leaves`: its worker was told to end because the definitions have
    changed, or because another group of its process hangs; `following`: what begins then, None: the group is gone from
    the definitions. `waits`: it begins when no group that leaves has one of its members any more. `hangs`: its work
    does, and its process is killed as soon as no other group needs it; `hung`: how often in a row the work for members
    of it has, by name (empty: for all of it). `makes_room`: it leaves only because another group hangs; `moved_out`: it
    is alone because it has hung."""

    group: Group
    alone: bool = False
    deaths: int = 0
    state: State = "starting"
    alive: bool = False
    pid: int | None = None
    restarts: int = 0
    failures: int = 0
    ticking_since: float | None = None
    last_tick: float | None = None
    tick: TickFinished | None = None
    failed: WorkerFailed | None = None
    last_error: tuple[str | None, str] | None = None
    restart_at: float | None = None
    kill_at: float | None = None
    killed: bool = False
    leaves: bool = False
    following: Watched | None = None
    waits: bool = False
    hangs: bool = False
    hung: tuple[tuple[str, int], ...] = ()
    makes_room: bool = False
    moved_out: bool = False


def group_ended(one: Watched, code: int, others: int) -> str:
    """How a group ended whose process is still there, in words; `others`: how many groups that has."""
    if one.killed:
        return _killed_text(one)
    left = counted(others, "other group") if others else "no other groups"
    how = "ended" + (f" with exit code {code}" if code else "")
    if one.failed is not None:
        how = f"failed: {told_of(one.failed)}"
    return f"the group {how}; {_worker(one)} has {left}"


def process_ended(one: Watched, code: int) -> str:
    """How the process of a group ended, and the group with it, in words."""
    if one.killed:
        return _killed_text(one)
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"{_worker(one)} was killed by {name}"
    how = f"{_worker(one)} ended" + (f" with exit code {code}" if code else "")
    return how if one.failed is None else f"the group failed: {told_of(one.failed)}; {how}"


def _killed_text(one: Watched) -> str:
    why = "the work of the group hung" if one.hangs else "it did not stop in time"
    return f"{_worker(one)} was killed because {why}"


def _worker(one: Watched) -> str:
    return f"worker {one.pid or '?'}"


def told_of(failed: WorkerFailed) -> str:
    return f"{failed.code}: {failed.message}" if failed.code else failed.message
