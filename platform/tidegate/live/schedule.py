"""Which group starts, backs off, starts again and ends, and when: a pure function of what has happened.

No process, no clock and no thread here: events carry the time, and `Supervisor` does what `step` says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

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
    Renew,
    Said,
    Spawn,
    Spawned,
    Stop,
    StopWanted,
    Tell,
    TimePassed,
)
from tidegate.live.watched import Watched, group_ended, process_ended, told_of
from tidegate.plan.events import (
    BatchCommitted,
    Event,
    MemberFailed,
    MemberRecovered,
    TickFinished,
    WorkerExited,
    WorkerFailed,
    WorkerSpawned,
    WorkHangs,
)
from tidegate.plan.pauses import Pauses

DONE, UNCLEAN, GIVEN_UP = 0, 1, 2
#: So many groups get processes of their own because they hang. Where more do, what they wait for is common to them, and
#: each process takes half a gigabyte.
_MOST_MOVED = 4
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
    schedule, actions = _followed(schedule, event)
    schedule, kills = _each(schedule, partial(_needless, schedule))
    return schedule, (*actions, *kills)


def _followed(schedule: GroupSchedule, event: Happened) -> Step:
    match event:
        case Begun():
            return _each(schedule, _spawned)
        case Spawned(name, pid):
            one = replace(schedule.of(name), pid=pid)
            return schedule._with(one), (Tell(one.group, WorkerSpawned(name, pid, one.restarts)),)
        case Said(name, WorkHangs() as told, at) if schedule.of(name).alive and not schedule.stopping:
            return _hangs(schedule, schedule.of(name), told, at)
        case Said(name, told, at):
            one = _heard(schedule.of(name), told, at)
            return schedule._with(one), (Tell(one.group, told),)
        case Lent(name, at):
            one = schedule.of(name)
            return schedule._with(replace(one, last_tick=at) if one.state == "running" else one), ()
        case Exited():
            one = schedule.of(event.group)
            others = sum(_shares_process(o, one) for o in schedule.watched if o.group != one.group)
            return _exited(schedule, event, group_ended(one, event.code, others), innocent=False)
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
    return replace(one, ticking_since=None, last_tick=None), (Spawn(one.group, one.alone, one.hung),)


def _heard(one: Watched, event: Event, at: float) -> Watched:
    if isinstance(event, TickFinished):
        # What goes on beside its ticks may still be the death of the process.
        deaths = one.deaths if event.delivering else 0
        one = _well(replace(one, tick=event, last_tick=at, deaths=deaths), "")
        return replace(one, state="running", ticking_since=at) if one.state == "starting" else one
    if isinstance(event, BatchCommitted) and one.state == "running":
        # A run that somebody else has asked for keeps the group from its ticks, and does their work.
        return replace(one, last_tick=at)
    if isinstance(event, MemberRecovered):
        return _well(one, event.name)
    if isinstance(event, WorkerFailed):
        return replace(one, failed=event, last_error=(event.code, event.message))
    if isinstance(event, MemberFailed | WorkHangs):
        return replace(one, last_error=(event.code, event.message))
    return one


def _well(one: Watched, member: str) -> Watched:
    """The work for a member has not hung this time."""
    return replace(one, hung=tuple(known for known in one.hung if known[0] != member))


def _hangs(schedule: GroupSchedule, one: Watched, told: WorkHangs, at: float) -> Step:
    """Let the other groups of its process begin again in another one, and this group in one of its own. What hangs can
    only be ended with its process."""
    times = dict(one.hung).get(told.member, 0) + 1
    hung = (*_well(one, told.member).hung, (told.member, times))
    kill_at = at + schedule.grace if one.kill_at is None else one.kill_at
    moves = one.moved_out or (not one.alone and sum(o.moved_out for o in schedule.watched) < _MOST_MOVED)
    hanging = replace(_heard(one, told, at), hangs=True, hung=hung, kill_at=kill_at, moved_out=moves)
    if one.makes_room and one.following is not None:
        # (Told to leave because of another one that hangs, and cannot.)
        following = replace(one.following, alone=one.alone or moves, hung=hung, moved_out=moves)
        hanging = replace(hanging, following=following)
    elif not one.leaves:
        hanging = replace(hanging, alone=one.alone or moves)
    schedule, stops = _each(schedule, lambda other: _makes_room(other, one))
    return schedule._with(hanging), (Tell(one.group, told), Renew(one.group), *stops)


def _makes_room(other: Watched, hanging: Watched) -> tuple[Watched, tuple[Action, ...]]:
    """Begin again in another process, if it is in that of a group that hangs."""
    if not _shares_process(other, hanging) or other.group == hanging.group or other.leaves or other.hangs:
        return other, ()
    following = Watched(
        other.group,
        other.alone,
        other.deaths,
        restarts=other.restarts,
        failures=other.failures,
        hung=other.hung,
        waits=True,
        moved_out=other.moved_out,
    )
    return replace(other, leaves=True, makes_room=True, following=following), (Stop(other.group),)


def _shares_process(one: Watched, other: Watched) -> bool:
    return one.alive and one.pid == other.pid


def _needless(schedule: GroupSchedule, one: Watched) -> tuple[Watched, tuple[Action, ...]]:
    """Kill its process if all groups hang that are in it."""
    if not one.hangs or one.killed or not all(o.hangs for o in schedule.watched if _shares_process(o, one)):
        return one, ()
    return _killed(one)


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
        elif (
            new is not None
            and one.makes_room
            and (new.group, new.group.name in event.changed) == (one.group, False)
        ):
            # (It begins again with the same, and with what is known of it.)
            watched.append(one)
        elif one.alive:
            actions += () if one.leaves else (Stop(one.group),)
            watched.append(replace(one, leaves=True, makes_room=False, following=new))
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
        schedule, told = _exited(schedule, exited, process_ended(one, event.code), innocent)
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
    one = replace(was, alive=False, pid=None, kill_at=None, killed=False, hangs=False)
    if one.leaves and not schedule.stopping:
        return _left(schedule, one, Tell(one.group, WorkerExited(event.group, code, None, why)))
    # (Who has work to finish may hold a lease for long; and a run until nothing waits has an end.)
    # (Nor may it be tried again for ever what hangs.)
    gives_up = one.failed is not None and schedule.until_idle and one.failed.code in ("TG508", "TG519")
    if one.failed is not None and (gives_up or not one.failed.curable):
        why = f"given up because a restart would not help: {told_of(one.failed)}"
        one = replace(one, state="failed")
    elif schedule.stopping or (schedule.until_idle and code == 0 and not was.hangs):
        one = replace(one, state="stopped")
        schedule = replace(schedule, unclean=schedule.unclean or code != 0)
    else:
        one, pause = _backed_off(one, event, schedule.back_off, innocent)
        if one.failed is None and not was.hangs:
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
