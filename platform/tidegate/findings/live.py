"""Causes that concern live mode itself: definitions that it does not take up (E7), and too many groups."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.findings.facts import ProjectFacts
from tidegate.findings.model import Candidate, Finding, iso
from tidegate.store.writers import LiveRecord, RefusedDefinitions
from tidegate.wording import counted


def of_live(facts: ProjectFacts) -> Iterator[Candidate]:
    """Of each process, at the first object that it keeps up to date: the definitions that it does not take up; and the
    groups that wait, at the one that waits longest."""
    known = [source.status.name for source in facts.sources]
    known += [view.status.name for view in facts.views] + [sink.status.name for sink in facts.sinks]
    for record in facts.live:
        members = {name.casefold() for name in record.members}
        assets = [name for name in known if name.casefold() in members]
        if record.refused is not None and assets:
            yield Candidate(_refused(assets[0], record, record.refused), record.refused.at)
        if record.waits and assets:
            asset = next((name for name in assets if name == record.waits[0].group), assets[0])
            yield Candidate(_waiting(asset, record))


def _waiting(asset: str, record: LiveRecord) -> Finding:
    worst, more = record.waits[0], len(record.waits) - 1
    others = f", and {counted(more, 'other group')} as well" if more else ""
    return Finding(
        kind="machine_too_small",
        severity="warning",
        asset=asset,
        text=f"live mode, process {record.pid}: the group {worst.group} waits {worst.seconds:g} s for a free thread, "
        f"at an interval of {worst.interval:g} s{others}",
        advice="give the machine more cores, or some groups a longer --interval; --priority decides who waits less: "
        "docs/sizing.md",
        numbers={one.group: one.seconds for one in record.waits},
    )


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
