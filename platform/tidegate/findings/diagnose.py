"""The diagnosis: from what is known of sources, partitions and views to causes. Pure: no clock, no files, no broker.

A source that nobody keeps up to date has only that cause: everything else known of it is old.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from tidegate.findings import partitions, sinks, sources, views
from tidegate.findings.facts import ProjectFacts, SourceFacts
from tidegate.findings.live import of_live
from tidegate.findings.memory import EarlierLooks
from tidegate.findings.model import Candidate, Finding, Waiting, iso, rank
from tidegate.project.jobs.stalls import StallLimits

#: Findings of one kind of one source that are told one by one; the rest is told as one.
MOST_PARTITIONS = 10

LimitsOf = Callable[[str], StallLimits]


def diagnose(
    facts: ProjectFacts, limits: LimitsOf, memory: EarlierLooks | None = None
) -> tuple[tuple[Finding, ...], EarlierLooks]:
    """All findings, the worst first, and the memory for the next look. `limits` of an asset by its name.

    What began at an unknown time is counted from the first look that saw it; without any look before, it is told at
    once: who asks once wants to know.
    """
    memory = memory or EarlierLooks()
    found: list[Finding] = []
    keys: list[str] = []
    points: dict[str, tuple[int, int]] = {}
    for source in facts.sources:
        own = limits(source.status.name)
        candidates = list(_of_source(source, facts, own, memory))
        told, seen = _told(candidates, own, facts.at, memory)
        found += _few(told)
        keys += seen
        if (totals := sources.totals(source)) is not None:
            points[source.status.name] = totals
    for view in facts.views:
        own = limits(view.status.name)
        told, seen = _told(views.of_view(view, own, facts.at, memory), own, facts.at, memory)
        found += told
        keys += seen
    for sink in facts.sinks:
        own = limits(sink.status.name)
        told, seen = _told(sinks.of_sink(sink, own), own, facts.at, memory)
        found += told
        keys += seen
    for candidate in of_live(facts):
        told, seen = _told([candidate], limits(candidate.finding.asset), facts.at, memory)
        found += told
        keys += seen
    found.sort(key=lambda f: (-rank(f.severity), f.asset, f.kind, f.partition or ""))
    # At most so many points as cover twice the time over which a backlog is judged.
    spacing = min((limits(s.status.name).backlog_for for s in facts.sources), default=600) / 6
    return tuple(found), memory.after(facts.at, keys, points, spacing)


def _of_source(
    source: SourceFacts, facts: ProjectFacts, limits: StallLimits, memory: EarlierLooks
) -> Iterator[Candidate]:
    waiting = tuple(
        Waiting(v.status.name, v.next_end or "the first partition")
        for v in facts.views
        if source.status.name in v.upstream and v.status.clock_text != "none"
    )
    at = facts.at
    yield from sources.unreachable(source, at)
    yield from sources.on_record(source, at)
    running = list(sources.running(source, limits, at, memory, waiting))
    yield from running
    if _told(running, limits, at, memory)[0]:
        return
    if not source.status.ran:
        return
    yield from sources.lagging(source, waiting)
    backlog = list(sources.backlog(source, limits, at, memory, waiting))
    yield from backlog
    of_partitions = list(partitions.of_partitions(source, limits, at, waiting, memory))
    yield from of_partitions
    if not backlog and not any(c.finding.severity != "info" for c in of_partitions):
        yield from sources.idle(source, limits, at, waiting)


def _told(
    candidates: Iterable[Candidate], limits: StallLimits, at: float, memory: EarlierLooks
) -> tuple[list[Finding], list[str]]:
    """The findings that have lasted long enough, and the keys of all that hold."""
    told, keys = [], []
    for candidate in candidates:
        finding = candidate.finding
        if finding.kind in limits.ignore:
            continue
        keys.append(finding.key)
        since = candidate.since
        if since is None:
            since = memory.first.get(finding.key, at if memory.looks else None)
        elif candidate.or_earlier:
            since = min(since, memory.first.get(finding.key, since))
        if since is not None and at - since < candidate.after:
            continue
        told.append(finding if since is None else replace(finding, since=iso(since)))
    return told, keys


def _few(findings: list[Finding]) -> Iterator[Finding]:
    """Thousands of partitions can have the same cause: the first ones, and one finding for all others."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.kind, []).append(finding)
    for same in groups.values():
        same.sort(key=lambda f: (-rank(f.severity), f.partition or ""))
        yield from same[:MOST_PARTITIONS]
        rest = same[MOST_PARTITIONS:]
        if rest:
            first = rest[0]
            yield replace(
                first,
                partition=None,
                text=f"{first.asset}: {len(rest):,} more partitions, such as {first.partition}, have the same cause",
                since=min((f.since for f in rest if f.since), default=None),
                numbers={"partitions": len(rest)},
            )
