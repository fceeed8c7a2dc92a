"""What is run together: families of sources, tables, views and sinks between which rows flow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.lineage import families, reads_of
from tidegate.sql.catalog.objects import Relation, Sink, SystemTable, View


@dataclass(frozen=True)
class Group:
    """`name`: of its first source or table; `members`: names in the order of computation."""

    name: str
    members: tuple[str, ...]


@dataclass(frozen=True)
class GroupPace:
    """How often a group ticks: `interval`, seconds from a tick to the next; and how much a second of its waiting counts
    beside one of other groups, where there are too few threads or cores: `priority`."""

    interval: float = 2.0
    priority: int = 1


def find_groups(catalog: Catalog, names: Iterable[str] | None = None) -> tuple[Group, ...]:
    """The groups of a project that have something to do; with `names` only these and what their rows come from.

    Raises TG201 for a name that is not there.
    """
    wanted = None if names is None else _with_upstream(catalog, names)
    found = []
    for family in families(catalog):
        members = [o for o in family if wanted is None or o.name in wanted]
        # A table alone gets its rows by INSERT, from others.
        if any(not isinstance(o, Relation) or o.connector is not None for o in members):
            found.append(Group(family[0].name, tuple(o.name for o in members)))
    return tuple(found)


def _with_upstream(catalog: Catalog, names: Iterable[str]) -> set[str]:
    found: set[str] = set()
    waiting: list[Relation | View | Sink] = []
    for name in names:
        asked = catalog.sinks.find(name) or catalog.get(name)
        waiting.append(asked.relation if isinstance(asked, SystemTable) else asked)
    while waiting:
        one = waiting.pop()
        if one.name not in found:
            found.add(one.name)
            waiting += reads_of(catalog, one)
    return found
