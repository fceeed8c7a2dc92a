"""What the live runs of `jobs/*.yaml` say of groups: the defaults of `tidegate live`, whoever starts it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.project.jobs.live import live_families

if TYPE_CHECKING:
    from tidegate.project.jobs.jobs import Jobs
    from tidegate.sql.catalog.catalog import Catalog


@dataclass(frozen=True)
class LiveSettings:
    """By the name of a group, the first member of its family. `usual`: the interval of the live run that selects it;
    `intervals`, `priorities`: its own; `isolated`: groups that get worker processes of their own."""

    usual: Mapping[str, float]
    intervals: Mapping[str, float]
    priorities: Mapping[str, int]
    isolated: frozenset[str]


def live_settings(jobs: Jobs, catalog: Catalog, groups: Collection[str]) -> LiveSettings:
    """What live runs say of these groups. At most one live run selects a group (`check_live`)."""
    usual: dict[str, float] = {}
    intervals: dict[str, float] = {}
    priorities: dict[str, int] = {}
    isolated: set[str] = set()
    for run in jobs.live:
        families = [family for family in live_families(catalog, run) if family[0] in groups]
        group_of = {name: family[0] for family in families for name in family}
        usual |= dict.fromkeys(group_of.values(), run.interval)
        intervals |= {group_of[name]: value for name, value in run.intervals.items() if name in group_of}
        priorities |= {group_of[name]: value for name, value in run.priorities.items() if name in group_of}
        isolated |= {group_of[name] for name in run.isolate if name in group_of}
    return LiveSettings(usual, intervals, priorities, frozenset(isolated))
