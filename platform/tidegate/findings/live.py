"""Causes that concern live mode itself: definitions not taken up (E7), what fails, what hangs, and too many groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidegate.findings.facts import ProjectFacts
from tidegate.findings.model import Candidate, Finding, iso
from tidegate.store.writers import FailingMember, LateGroup, LiveRecord, OverdueGroup, RefusedDefinitions
from tidegate.wording import counted

#: From so many tries on, what fails does not seem to pass by itself.
_MANY_TRIES = 3
#: So many groups that are late are named with their figures.
_NAMED = 3
#: From such a part of the machine's cores on, what others use is worth a word.
_MUCH = 0.1


def of_live(facts: ProjectFacts) -> Iterator[Candidate]:
    """Of each process, at the first object that it keeps up to date: the definitions that it does not take up; what
    fails; each group that is overdue; and the groups that are late, at the one that is it most."""
    known = [source.status.name for source in facts.sources]
    known += [view.status.name for view in facts.views] + [sink.status.name for sink in facts.sinks]
    for record in facts.live:
        members = {name.casefold() for name in record.members}
        assets = [name for name in known if name.casefold() in members]
        if record.refused is not None and assets:
            yield Candidate(_refused(assets[0], record, record.refused), record.refused.at)
        for one in record.failing:
            # (Of a group its name is that of one of its members.)
            for asset in (name for name in assets if name.casefold() == one.name.casefold()):
                yield Candidate(_failing(asset, record, one), one.at)
        for group in record.overdue:
            for asset in _place(group, assets):
                yield Candidate(_overdue(asset, record, group, facts.at), group.since)
        if record.late and assets:
            asset = next((name for name in assets if name == record.late[0].group), assets[0])
            yield Candidate(_too_small(asset, record))


def _failing(asset: str, record: LiveRecord, one: FailingMember) -> Finding:
    code = f"{one.code}: " if one.code else ""
    return Finding(
        kind="live_failing",
        severity="error" if one.attempt >= _MANY_TRIES else "warning",
        asset=asset,
        text=f"live mode, process {record.pid}: the {one.kind} {one.name} fails, try {one.attempt}: {code}"
        f"{' '.join(one.message.split())}",
        advice=f"docs/errors.md#{one.code.casefold()} explains it"
        if one.code
        else "the log of live mode has more",
        numbers={"process": record.pid, "tries": one.attempt},
    )


def _place(group: OverdueGroup, assets: Sequence[str]) -> list[str]:
    """The one that the group is called like, else the first member that is looked at: who asks about another member
    wants to know, too. None if the group is not looked at."""
    members = {name.casefold() for name in group.members}
    named = [name for name in assets if name.casefold() == group.group.casefold()]
    return (named or [name for name in assets if name.casefold() in members])[:1]


def _overdue(asset: str, record: LiveRecord, group: OverdueGroup, at: float) -> Finding:
    return Finding(
        kind="live_overdue",
        severity="error",
        asset=asset,
        text=f"live mode, process {record.pid}: {group.text(at)}",
        advice="see what the group did last in the log of live mode; if the tick does not end, stop live mode and "
        "start it again: no row is lost or counted twice (R2); --isolate gives the group its own process",
        numbers={
            "process": record.pid,
            "quiet_seconds": round(at - group.since, 3),
            "ticked": group.ticked,
        },
    )


def _too_small(asset: str, record: LiveRecord) -> Finding:
    late = "; ".join(_how_late(one) for one in record.late[:_NAMED])
    more = len(record.late) - _NAMED
    others = f"; {counted(more, 'other group')} as well" if more > 0 else ""
    text, advice = "groups begin their ticks late", ""
    numbers: dict[str, float] = {}
    if (cpu := record.cpu) is not None:
        own = round(min(sum(one.cores for one in record.loads), cpu.used), 2)
        by_others = round(cpu.used - own, 2)
        text = f"the CPU is fully used, {cpu.used:g} of {_cores(cpu.cores)}, {own:g} by this live mode"
        numbers = {"cores": cpu.cores, "cores_used": cpu.used, "cores_used_here": own}
        if by_others >= _MUCH * cpu.cores:
            advice = f"let other processes, which use {_cores(by_others)}, run elsewhere; or "
    return Finding(
        kind="machine_too_small",
        severity="warning",
        asset=asset,
        text=f"live mode, process {record.pid}: {text}: {late}{others}",
        advice=f"{advice}give the machine more cores, or some groups a longer --interval; --priority decides who waits "
        "less: docs/sizing.md",
        numbers=numbers | {one.group: round(one.seconds - one.interval, 1) for one in record.late},
    )


def _how_late(one: LateGroup) -> str:
    begin = f"begin {one.waited:g} s after they are due and " if one.waited else ""
    backlog = ", which has a backlog," if one.backlog else ""
    return f"ticks of {one.group}{backlog} {begin}take {one.took:g} s, at an interval of {one.interval:g} s"


def _cores(number: float) -> str:
    return "1 core" if number == 1 else f"{number:g} cores"


def _refused(asset: str, record: LiveRecord, refused: RefusedDefinitions) -> Finding:
    error = refused.error
    place = error.get("location")
    where = f", {place['file']}:{place['line']}:{place['column']}" if place else ""
    what = " ".join([f"{error['code']}:" if error["code"] else "", *str(error["message"]).split()]).strip()
    return Finding(
        kind="definitions_refused",
        severity="warning",
        asset=asset,
        text=f"live mode, process {record.pid}, continues with the definitions of {iso(record.read_at)}: {what}{where}",
        advice=f"{error.get('hint') or 'correct the definitions'}; then tidegate reload",
        numbers={"process": record.pid},
    )
