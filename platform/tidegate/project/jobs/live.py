"""Live runs of `jobs/*.yaml`: what is kept up to date all the time, and who starts the process that does it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from tidegate.project.reading.strict import PlainName, Seconds, Selected, StrictModel

if TYPE_CHECKING:
    from tidegate.sql.catalog.catalog import Catalog


MOST_PRIORITY = 100
Priority = Annotated[int, Field(ge=1, le=MOST_PRIORITY)]


class LiveRun(StrictModel):
    """One `tidegate live` process: small batches every few seconds, windows closed in the same tick."""

    name: PlainName
    """Name of the live run, unique in the project: letters, digits and _."""

    select: Selected = "*"
    """Names of sources, views and sinks, or `*` for all of the project. Each brings along everything between which
    rows flow: that has one writer."""

    started_by: Literal["dagster", "outside"] = "dagster"
    """`dagster`: a run of a Dagster job. `outside`: systemd, Kubernetes or a person; Dagster observes it."""

    enabled: bool = False
    """Whether Dagster keeps it running (or, started outside, observes it) as soon as it is deployed; otherwise it is
    started by hand. `interval`, `intervals`, `priorities` and `isolate` of a live run are also the defaults of
    `tidegate live` (`live_settings.py`)."""

    interval: Seconds = 2
    """From the start of a tick to the start of the next, which starts at once while more rows wait."""

    intervals: dict[str, Seconds] = Field(default_factory=dict)
    """Intervals of single sources, views or sinks, each for its whole group: `{orders: 10 seconds}`."""

    priorities: dict[str, Priority] = Field(default_factory=dict)
    """How much a second of waiting counts for the groups of single sources, views or sinks, where the machine is too
    small for all groups: from 1 (default) to 100."""

    isolate: list[str] = Field(default_factory=list)
    """Names of sources, views or sinks whose groups get worker processes of their own."""

    max_rows_per_batch: int | None = Field(default=None, ge=1)
    """Overrides the option of sources whose batches are measured in rows."""

    retries: int = Field(default=3, ge=0)
    """How often a run restarts a process that failed, before the run fails. The process itself restarts workers
    that failed."""

    upkeep: bool = True
    """Whether it also does the upkeep of its tables between ticks."""

    port: int | None = Field(default=None, ge=1, le=65535)
    """Port of health, status and metrics on 127.0.0.1; without it, none of them is served."""

    report_every: Seconds = 60
    """Least time between two events of one asset in Dagster: what happens in between is added up."""

    run_for: Seconds = 86_400
    """After which time a run that Dagster keeps running stops in order and the next one begins: it bounds what one
    run's page has to show, and takes up new definitions."""

    keep_runs: Seconds = 14 * 86_400
    """How long runs that ended in order are kept with their events; those that failed are never deleted."""


def live_members(catalog: Catalog, run: LiveRun) -> tuple[str, ...]:
    """Everything that a live run keeps up to date, in the order of computation: whole families, since rows flow
    between their members."""
    return tuple(name for family in live_families(catalog, run) for name in family)


def live_families(catalog: Catalog, run: LiveRun) -> tuple[tuple[str, ...], ...]:
    """The families of `live_members`; the first of each is the source or table that the others come from."""
    from tidegate.sql.catalog.lineage import families

    found = [tuple(o.name for o in family) for family in families(catalog)]
    if run.select == "*":
        return tuple(found)
    return tuple(family for family in found if set(family) & set(run.select))
