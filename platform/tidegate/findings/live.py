"""Causes that concern live mode itself: the definitions that it does not take up (E7)."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.findings.facts import ProjectFacts
from tidegate.findings.model import Candidate, Finding, iso
from tidegate.store.writers import LiveRecord, RefusedDefinitions


def of_live(facts: ProjectFacts) -> Iterator[Candidate]:
    """One of each process that goes on with earlier definitions, at the first object that it keeps up to date."""
    known = [source.status.name for source in facts.sources]
    known += [view.status.name for view in facts.views] + [sink.status.name for sink in facts.sinks]
    for record in facts.live:
        members = {name.casefold() for name in record.members}
        asset = next((name for name in known if name.casefold() in members), None)
        if record.refused is not None and asset is not None:
            yield Candidate(_refused(asset, record, record.refused), record.refused.at)


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
        numbers={"process": record.pid, "looks": record.looks},
    )
