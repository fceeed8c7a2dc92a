"""Which definitions `tidegate live` goes by: read and checked as a whole, at its start and while it runs (E7)."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from tidegate.cli.selection import chosen
from tidegate.errors import TidegateError
from tidegate.evolve.beside_live import require_in_place
from tidegate.live.groups import Group, GroupPace, find_groups
from tidegate.project.jobs.jobs import Jobs, load_live
from tidegate.project.jobs.live import MOST_PRIORITY
from tidegate.project.jobs.live_selection import check_live
from tidegate.project.jobs.live_settings import live_settings
from tidegate.sql.catalog.objects import Relation, View
from tidegate.warm.likeness import likeness_of

if TYPE_CHECKING:
    from tidegate.project import Project
    from tidegate.sql.catalog.catalog import Catalog
    from tidegate.sql.catalog.objects import Object, Sink, SystemTable

_Value = TypeVar("_Value", float, int)
#: How often files are read that somebody is changing.
_TRIES, _PAUSE = 10, 0.3


def seconds(text: str) -> float:
    """Seconds of a text such as `2s`, `0.5s` or `1 hour`."""
    from tidegate.project.reading.durations import parse_duration

    if plain := re.fullmatch(r"(\d+(?:\.\d+)?)s?", text.strip()):
        return float(plain.group(1))
    try:
        return float(parse_duration(text))
    except ValueError as error:
        raise typer.BadParameter(f"{error}: write for example 2s, 0.5s or 5 minutes") from None


def _interval(text: str) -> float:
    if (found := seconds(text)) <= 0.0:
        raise typer.BadParameter(
            f"--interval: {text!r} leaves no time from one tick to the next: write for example 2s, 0.5s or 5 minutes"
        )
    return found


@dataclass(frozen=True)
class LiveRequest:
    """What was asked for on the command line, in the names of objects."""

    names: list[str] | None
    select: list[str] | None
    exclude: list[str] | None
    isolate: Sequence[str]
    interval: Sequence[str]
    priority: Sequence[str] = ()


@dataclass(frozen=True)
class LiveDefinitions:
    """What live mode runs. `project`: with the texts as they were read; `alone`: groups that get processes of their
    own; `usual`, `paces`: the interval of all groups, and those of single ones; `priorities`: those of single ones.
    `likeness`: a digest of all files that the definitions depend on."""

    project: Project
    catalog: Catalog
    groups: tuple[Group, ...]
    alone: frozenset[str]
    usual: float
    paces: Mapping[str, float]
    priorities: Mapping[str, int]
    likeness: bytes

    @property
    def members(self) -> list[str]:
        """The names of all that is kept up to date."""
        return [name for group in self.groups for name in group.members]

    def pace_of(self, group: Group) -> GroupPace:
        """How often a group ticks, and before which others."""
        return GroupPace(self.paces.get(group.name, self.usual), self.priorities.get(group.name, 1))

    def document(self, changed: Sequence[str] = ()) -> dict[str, Any]:
        """For a worker process (`live_worker.py`). `changed`: groups that begin again, because they were of others."""
        return {
            "definitions": self.project.texts,
            "likeness": self.likeness.hex(),
            "changed": list(changed),
        }

    def changed_since(self, before: LiveDefinitions) -> frozenset[str]:
        """Names of groups that are there as before, and whose definitions, intervals or priorities are others, or which
        get a process of their own, or no longer."""
        found = set()
        for group in self.groups:
            same = self.pace_of(group) == before.pace_of(group)
            same &= (group.name in self.alone) == (group.name in before.alone)
            if not same or any(self._object(name) != before._object(name) for name in group.members):
                found.add(group.name)
        return frozenset(found)

    def _object(self, name: str) -> Object | Sink | SystemTable | None:
        found = self.catalog.sinks.find(name) or self.catalog.find(name)
        # What stands above a definition is for people (E1).
        return replace(found, description=None) if isinstance(found, Relation | View) else found


def read_definitions(project: Project, asked: LiveRequest) -> LiveDefinitions:
    """The definitions as the files say them now, all of one moment, and how they are to be run: as `jobs/` says, unless
    something else is asked for. Raises the errors of the project's SQL and of `live_runs`, TG201 for a name that is not
    there, TG706, and TG709 for files that change all the time."""
    environ = dict(os.environ)
    for _ in range(_TRIES):
        before = likeness_of(project.root, project.env_name, environ).definitions
        read = replace(project, texts=tuple(replace(project, texts=None).assets()))
        if likeness_of(project.root, project.env_name, environ).definitions == before:
            break
        time.sleep(_PAUSE)
    else:
        raise TidegateError(
            "TG709",
            "the files in assets/ change all the time, so no state of them can be read as a whole",
            hint="try again when nothing writes there",
        )
    catalog = read.catalog()
    groups = find_groups(catalog, chosen(catalog, asked.names, asked.select, asked.exclude))
    alone = {_group_of(catalog, groups, name, f"--isolate {name}") for name in asked.isolate}
    group_of = partial(_group_of, catalog, groups)
    paces = _values("--interval", asked.interval, _interval, group_of)
    usual = paces.pop(None, None)
    priorities = _values("--priority", asked.priority, _priority, group_of)
    if None in priorities:
        raise typer.BadParameter("--priority: write NAME=NUMBER, for example orders=10")
    said = live_settings(live_runs(read, catalog), catalog, {group.name for group in groups})
    return LiveDefinitions(
        read,
        catalog,
        groups,
        said.isolated | alone,
        2.0 if usual is None else usual,
        {**(said.usual if usual is None else {}), **said.intervals, **_named(paces)},
        {**said.priorities, **_named(priorities)},
        before,
    )


def live_runs(project: Project, catalog: Catalog) -> Jobs:
    """The live runs of `jobs/` that are of this environment: none of one that reads the sources of another (`reads:`),
    as in Dagster. Raises TG603–TG606 and TG609, with file and line."""
    if project.lender is not None:
        return Jobs()
    found = load_live(project.root, project.variables)
    check_live(found, catalog)
    return found


def require_no_replacement(new: LiveDefinitions) -> None:
    """Live mode changes in place what can be, and never replaces results (E1). Raises TG709 for what it would refuse,
    or recompute."""
    if not new.groups:
        raise TidegateError(
            "TG709",
            "the new definitions have nothing that live mode could run",
            hint="stop live mode, if that is what you want",
        )
    require_in_place(new.project, new.catalog, new.members)


def _values(
    option: str, given: Sequence[str], read: Callable[[str], _Value], group_of: Callable[[str, str], str]
) -> dict[str | None, _Value]:
    """By group what `NAME=VALUE` says, and (None) what `VALUE` says of all. Raises TG706 for a group, or all, that has
    two."""
    found: dict[str | None, tuple[str, _Value]] = {}
    for text in given:
        name, equals, value = text.rpartition("=")
        made = read(value)
        group = group_of(name, f"{option} {name}=…") if equals else None
        if group in found:
            whose = "all groups" if group is None else f'the group "{group}"'
            raise TidegateError(
                "TG706",
                f"{option} is given twice for {whose}: {found[group][0]} and {text}",
                hint=f"give one {option} for each group, by the name of one of its members",
            )
        found[group] = text, made
    return {group: made for group, (_, made) in found.items()}


def _named(values: Mapping[str | None, _Value]) -> dict[str, _Value]:
    return {name: value for name, value in values.items() if name is not None}


def _priority(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_PRIORITY):
        raise typer.BadParameter(f"--priority: {text!r} is not a number from 1 to {MOST_PRIORITY}")
    return int(text)


def _group_of(catalog: Catalog, groups: Sequence[Group], name: str, option: str) -> str:
    """The group that `name` belongs to. Raises TG201 for a name that is not there."""
    (found,) = find_groups(catalog, [name]) or (None,)
    if found is None or all(found.name != group.name for group in groups):
        raise typer.BadParameter(f"{option}: {name} is not among what is to run")
    return found.name
