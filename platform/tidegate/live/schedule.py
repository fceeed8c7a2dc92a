"""Which group starts, backs off, starts again and ends, and when: a pure function of what has happened.

No process, no clock and no thread here: events carry the time, and `Supervisor` does what `step` says.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from tidegate.live.groups import Group
from tidegate.live.happenings import (
    Action,
    Begun,
    Died,
    Exited,
    Happened,
    Kill,
    Lent,
    Redefined,
    Said,
    Spawn,
    Spawned,
    Stop,
    StopWanted,
    Tell,
    TimePassed,
)
from tidegate.plan.events import (
    BatchCommitted,
    Event,
    MemberFailed,
    TickFinished,
    WorkerExited,
    WorkerFailed,
    WorkerSpawned,
)
from tidegate.plan.pauses import Pauses
from tidegate.wording import counted

State = Literal["starting", "running", "backing_off", "failed", "stopped"]
DONE, UNCLEAN, GIVEN_UP = 0, 1, 2
#: After so many deaths of the common process in the work of one group, this group is moved to a process of its own.
_MOST_DEATHS = 3


@dataclass(frozen=True)
class BackOff(Pauses):
    """When a worker that died is started again. One that ticked for `healthy` seconds has wiped out what was before."""

    longest: float = 300.0
    healthy: float = 300.0

    def failures(self, before: int, ticked_for: float) -> int:
        """How many count, now that a worker has died which had been ticking for so many seconds."""
        if ticked_for >= self.healthy:
            return 1
        return before + 1


@dataclass(frozen=True)
class Watched:
    """What is known of one group. `alive`: whether it has a worker; `pid`: of it. `alone`: whether its worker is a
    process of its own; `deaths`: how often in a row the process of all groups has died while it was at work for this
    one. Times are of one clock, None: not yet. `leaves`: its worker was told to end because the definitions have
    changed; `following`: what begins then, None: the group is gone from the definitions. `waits`: it begins when no
    group that leaves has one of its members any more."""

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


@dataclass(frozen=True)
class GroupSchedule:
    """All groups. `grace`: seconds that a worker has to finish its commit. `until_idle`: a worker that ends by itself
    has done its work. `asked`: whether somebody has asked them to end; `stop_by`: when everything that is asked to end
    is ended; `unclean`: whether one was killed, or failed while it ended."""

    watched: tuple[Watched, ...]
    grace: float = 60.0
    until_idle: bool = False
    back_off: BackOff = BackOff()
    stopping: bool = False
    asked: bool = False
    stop_by: float | None = None
    unclean: bool = False

    def of(self, name: str) -> Watched:
        """The group of this name."""
        return next(one for one in self.watched if one.group.name == name)

    @property
    def busy(self) -> bool:
        """Whether a worker is there, or will be."""
        return any(one.alive or one.restart_at is not None for one in self.watched)

    @property
    def due(self) -> float | None:
        """When time has something to do next."""
        times = [t for one in self.watched for t in (one.restart_at, one.kill_at) if t is not None]
        return min(times, default=None)

    @property
    def exit_code(self) -> int:
        """What the supervisor ends with, as things stand."""
        if any(one.state == "failed" for one in self.watched):
            return GIVEN_UP
        return UNCLEAN if self.unclean else DONE

    def _with(self, one: Watched) -> GroupSchedule:
        watched = tuple(one if o.group.name == one.group.name else o for o in self.watched)
        return replace(self, watched=watched)


Step = tuple[GroupSchedule, tuple[Action, ...]]


def step(schedule: GroupSchedule, event: Happened) -> Step:
    """What follows from an event. A group never has two workers, and no group waits for another one."""
    match event:
        case Begun():
            return _each(schedule, _spawned)
        case Spawned(name, pid):
            one = replace(schedule.of(name), pid=pid)
            return schedule._with(one), (Tell(one.group, WorkerSpawned(name, pid, one.restarts)),)
        case Said(name, told, at):
            one = _heard(schedule.of(name), told, at)
            return schedule._with(one), (Tell(one.group, told),)
        case Lent(name, at):
            one = schedule.of(name)
            return schedule._with(replace(one, last_tick=at) if one.state == "running" else one), ()
        case Exited():
            return _exited(schedule, event, _group_ended(schedule, event), innocent=False)
        case Died():
            return _died(schedule, event)
        case Redefined():
            return (schedule, ()) if schedule.stopping else _redefined(schedule, event)
        case StopWanted(at, asked):
            again = schedule.asked and asked
            by = at if again else at + schedule.grace
            schedule = replace(schedule, stopping=True, asked=schedule.asked or asked, stop_by=by)
            return _each(schedule, lambda one: _stopped(one, by, again))
        case TimePassed(at):
            return _each(schedule, lambda one: _later(one, at))


def _each(schedule: GroupSchedule, change: Callable[[Watched], tuple[Watched, tuple[Action, ...]]]) -> Step:
    changed = [change(one) for one in schedule.watched]
    watched, actions = tuple(one for one, _ in changed), tuple(a for _, found in changed for a in found)
    return replace(schedule, watched=watched), actions


def _spawned(one: Watched) -> tuple[Watched, tuple[Action, ...]]:
    """With a worker, as one that has said nothing yet."""
    one = replace(one, state="starting", alive=True, restart_at=None, failed=None, waits=False)
    return replace(one, ticking_since=None, last_tick=None), (Spawn(one.group, one.alone),)


def _heard(one: Watched, event: Event, at: float) -> Watched:
    if isinstance(event, TickFinished):
        # What goes on beside its ticks may still be the death of the process.
        deaths = one.deaths if event.delivering else 0
        one = replace(one, tick=event, last_tick=at, deaths=deaths)
        return replace(one, state="running", ticking_since=at) if one.state == "starting" else one
    if isinstance(event, BatchCommitted) and one.state == "running":
        # A run that somebody else has asked for keeps the group from its ticks, and does their work.
        return replace(one, last_tick=at)
    if isinstance(event, WorkerFailed):
        return replace(one, failed=event, last_error=(event.code, event.message))
    if isinstance(event, MemberFailed):
        return replace(one, last_error=(event.code, event.message))
    return one


def _redefined(schedule: GroupSchedule, event: Redefined) -> Step:
    """Let groups end whose definitions are others, or gone, and begin with what is new. One that has failed begins
    again: its definition may have been the reason. All others go on."""
    wanted = {group.name: Watched(group, group.name in event.alone, waits=True) for group in event.groups}
    watched: list[Watched] = []
    actions: tuple[Action, ...] = ()
    for one in schedule.watched:
        new = wanted.pop(one.group.name, None)
        if new is not None and one.deaths >= _MOST_DEATHS:
            new = replace(new, alone=True, deaths=one.deaths)
        if new is not None and _goes_on(one, new.group, event.changed):
            watched.append(one)
        elif one.alive:
            actions += () if one.leaves else (Stop(one.group),)
            watched.append(replace(one, leaves=True, following=new))
        elif new is not None:
            watched.append(new)
    schedule, begun = _begun(replace(schedule, watched=(*watched, *wanted.values())))
    return schedule, (*actions, *begun)


def _goes_on(one: Watched, group: Group, changed: frozenset[str]) -> bool:
    same = one.group == group and group.name not in changed
    return same and one.state != "failed" and not one.leaves and not one.waits


def _begun(schedule: GroupSchedule) -> Step:
    """Begin with the groups that wait, and whose members no group has any more that leaves."""
    held = {name for one in schedule.watched if one.leaves and one.alive for name in one.group.members}
    return _each(
        schedule, lambda one: _spawned(one) if one.waits and held.isdisjoint(one.group.members) else (one, ())
    )


def _died(schedule: GroupSchedule, event: Died) -> Step:
    """Blame the groups for which the process was at work; if it was for none, nobody is known to be innocent."""
    actions: tuple[Action, ...] = ()
    for name in event.groups:
        one = schedule.of(name)
        innocent = bool(event.working) and name not in event.working and not one.alone
        schedule = schedule._with(replace(one, deaths=one.deaths + (name in event.working)))
        exited = Exited(name, event.code, event.at, event.chance)
        schedule, told = _exited(schedule, exited, _process_ended(one, event.code), innocent)
        actions += told
    blamed = [one for one in schedule.watched if one.group.name in event.working and not one.alive]
    worst = max(blamed, key=lambda one: one.deaths, default=None)
    if worst is not None and worst.deaths >= _MOST_DEATHS:
        # Only that one: the others were at work beside it. If it was another one, that is the worst the next time.
        schedule = schedule._with(replace(worst, alone=True))
    return schedule, actions


def _exited(schedule: GroupSchedule, event: Exited, why: str, innocent: bool) -> Step:
    was, code, pause = schedule.of(event.group), event.code, None
    if not was.alive:
        raise AssertionError(f"{event.group} has no worker that could end")
    one = replace(was, alive=False, pid=None, kill_at=None)
    if one.leaves and not schedule.stopping:
        return _left(schedule, one, Tell(one.group, WorkerExited(event.group, code, None, why)))
    # (Who has work to finish may hold a lease for long; and a run until nothing waits has an end.)
    gives_up = one.failed is not None and schedule.until_idle and one.failed.code == "TG508"
    if one.failed is not None and (gives_up or not one.failed.curable):
        why = f"given up because a restart would not help: {_told(one.failed)}"
        one = replace(one, state="failed")
    elif schedule.stopping or (schedule.until_idle and code == 0):
        one = replace(one, state="stopped")
        schedule = replace(schedule, unclean=schedule.unclean or code != 0)
    else:
        one, pause = _backed_off(one, event, schedule.back_off, innocent)
        if one.failed is None:
            one = replace(one, last_error=(None, why))
    told = WorkerExited(event.group, code, None if pause is None else round(pause, 3), why)
    return schedule._with(one), (Tell(one.group, told),)


def _left(schedule: GroupSchedule, one: Watched, told: Tell) -> Step:
    """What a group has held is free: what waited for it begins at once."""
    following = () if one.following is None else (one.following,)
    watched = tuple(
        new
        for other in schedule.watched
        for new in (following if other.group.name == one.group.name else (other,))
    )
    schedule, begun = _begun(replace(schedule, watched=watched))
    return schedule, (told, *begun)


def _backed_off(one: Watched, event: Exited, back_off: BackOff, innocent: bool) -> tuple[Watched, float]:
    """Waiting for its next start, and for how long. What another group has done to their common process is no failure
    of this one."""
    if innocent:
        failures = max(1, one.failures)
        pause = back_off.pause(1, event.chance)
    else:
        ticked = 0.0 if one.ticking_since is None else event.at - one.ticking_since
        failures = back_off.failures(one.failures, ticked)
        pause = back_off.pause(failures, event.chance)
    return replace(one, state="backing_off", failures=failures, restart_at=event.at + pause), pause


def _stopped(one: Watched, kill_at: float, again: bool) -> tuple[Watched, tuple[Action, ...]]:
    if not one.alive:
        waits = one.waits or one.restart_at is not None
        return (replace(one, restart_at=None, waits=False, state="stopped") if waits else one), ()
    if again:
        return _killed(one)
    return replace(one, kill_at=kill_at), (Stop(one.group),)


def _later(one: Watched, at: float) -> tuple[Watched, tuple[Action, ...]]:
    """Start what has waited long enough, end what has had its grace."""
    if one.restart_at is not None and one.restart_at <= at:
        return _spawned(replace(one, restarts=one.restarts + 1))
    if one.kill_at is not None and one.kill_at <= at:
        return _killed(one)
    return one, ()


def _killed(one: Watched) -> tuple[Watched, tuple[Action, ...]]:
    return replace(one, kill_at=None, killed=True), (Kill(one.group),)


def _group_ended(schedule: GroupSchedule, event: Exited) -> str:
    """How a group ended whose process is still there, in words."""
    one = schedule.of(event.group)
    if one.killed:
        return _killed_text(one)
    others = sum(
        other.alive and other.pid == one.pid
        for other in schedule.watched
        if other.group.name != one.group.name
    )
    left = counted(others, "other group") if others else "no other groups"
    how = "ended" + (f" with exit code {event.code}" if event.code else "")
    if one.failed is not None:
        how = f"failed: {_told(one.failed)}"
    return f"the group {how}; {_worker(one)} has {left}"


def _process_ended(one: Watched, code: int) -> str:
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
    return how if one.failed is None else f"the group failed: {_told(one.failed)}; {how}"


def _killed_text(one: Watched) -> str:
    return f"{_worker(one)} was killed because it did not stop in time"


def _worker(one: Watched) -> str:
    return f"worker {one.pid or '?'}"


def _told(failed: WorkerFailed) -> str:
    return f"{failed.code}: {failed.message}" if failed.code else failed.message
