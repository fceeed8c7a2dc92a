"""A changed query (R4): its results are computed beside the old ones, from the beginning, and swapped at the end
(`versions/build.py`). Until the swap everybody reads the old results. Killed before it, a rebuild leaves them, and the
next one goes on where this one was. The old results stay readable under a tag of the table's, which upkeep does not
expire.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.iceberg.layout import is_of_view
from tidegate.plan.columns.changes import other_columns
from tidegate.plan.versions import current_version, tag_of
from tidegate.runtime.steps import Steps
from tidegate.sql.catalog.objects import View
from tidegate.views.definition import stale_below
from tidegate.views.resolve import changes_of
from tidegate.views.versions.build import NEXT, VersionBuild
from tidegate.views.versions.finish import finish
from tidegate.views.versions.held import release
from tidegate.views.versions.in_force import over_current, require_newest
from tidegate.views.versions.left import clear_left

if TYPE_CHECKING:
    from tidegate.runtime.context import Context

UNCHANGED = "its results are those of its definition"


@dataclass(frozen=True)
class Rebuilt:
    """What a rebuild did to one view. `generation`: which one its results are now, from 1. `tag`: what the old results
    are called, as `VERSION AS OF` of the table; None if nothing was done. `why` it was, or was not. `at`: the time at
    which it has taken its place, if one was named (`at_time.py`)."""

    view: str
    why: str
    generation: int
    tag: str | None = None
    frontier: str | None = None
    rows: int = 0
    seconds: float = 0.0
    at: str | None = None


def rebuild(
    context: Context,
    names: Iterable[str] | None = None,
    dry_run: bool = False,
    notify: Callable[[str], None] = lambda text: None,
    steps: Steps | None = None,
    with_readers: bool = True,
    because: Mapping[str, str] = MappingProxyType({}),
) -> list[Rebuilt]:
    """Rebuild the views whose definition has changed since their results were computed, and all that read them.

    `names`: of views; None is all. `with_readers`: without it, what reads a named view is left for another rebuild, and
    until then nothing is added to it. `because`: by the names of views that are rebuilt although their definition is
    the same, why. `steps`: takes down what fails; None: the first failure is raised. Sinks of a
    rebuilt view are asked for their decision at their next delivery (TG542).
    Late rows that amendments had taken in are not in the new results until the next amendment.
    A view that waits at a time for its new version (`at_time.py`) waits no longer.
    Raises TG508 if a run or a live stream writes one of them, TG509 for a name that is no view, TG515 for one that is
    only read here.
    """
    context.declare()
    catalog = context.catalog
    wanted = None if names is None else {_view(context, name).name for name in names}
    for name in wanted or ():
        context.require_unlent(name)
    done: list[Rebuilt] = []
    changed: set[str] = set()
    steps = steps or Steps(fail_fast=True)

    def one(view: View) -> None:
        named = wanted is not None and view.name in wanted
        why = why_other(context, view, changed) or because.get(view.name)
        if why is None and not dry_run:
            clear_left(context, view)
        if why is None:
            if named:
                done.append(Rebuilt(view.name, UNCHANGED, generation_of(context, view)))
        elif wanted is None or named or not changed.isdisjoint(view.reads):
            changed.add(view.name)
            if dry_run:
                done.append(Rebuilt(view.name, why, generation_of(context, view)))
            else:
                with context.lease(view.name, NEXT):
                    done.append(_rebuild(context, view, why, notify))

    asked: set[str] = set()
    for view in [o for o in catalog.order() if isinstance(o, View) and o.name not in context.foreign]:
        if wanted is None or view.name in wanted or not asked.isdisjoint(view.reads):
            if with_readers:
                asked.add(view.name)
            # What reads one that could not be rebuilt can't be either: its rows would be those of before.
            steps.do(view, partial(one, view), needed=True)
    return done


def _view(context: Context, name: str) -> View:
    found = context.catalog.get(name)
    if not isinstance(found, View):
        raise TidegateError(
            "TG509",
            f'"{name}" is not a view',
            hint="a source can't be rebuilt: DROP it, and let the next run read everything again",
        )
    return found


def why_other(context: Context, view: View, changed: set[str]) -> str | None:
    """Why what is stored of a view is of another definition; None if it is not, or nothing is stored. `changed`: views
    that were recomputed by the same command."""
    stored = context.stored(view.name)
    if stored is None:
        return None
    table = context.tables.open(stored)
    now, properties = table.current(), table.properties()
    if not is_of_view(view, properties):
        return "its definition has changed"
    if (other := other_columns(view, properties, partial(changes_of, context))) is not None:
        return f"it was computed before a change: {other}"
    below = sorted(changed & set(view.reads)) or list(filter(None, [stale_below(context, table, now)]))
    return f"it reads {', '.join(below)}" if below else None


def generation_of(context: Context, view: View) -> int:
    """The number of the version that is current."""
    stored = context.stored(view.name)
    return 1 if stored is None else current_version(context.tables.open(stored).properties())


def _rebuild(context: Context, view: View, why: str, notify: Callable[[str], None]) -> Rebuilt:
    """One view; the lease of its part `$next` is held."""
    started = time.monotonic()
    tag = tag_of(generation_of(context, view))
    notify(f"{view.name}: recomputing from the beginning because {why}")
    view = over_current(context, view)
    newest = partial(require_newest, context, view)
    # It may have waited for other views, and computes for hours.
    newest()
    release(context, view.name)
    build = VersionBuild(context, view)
    finish(build, lambda text: notify(f"{view.name}: {text}"), allowed=newest)
    notify(f"{view.name}: swapped; the earlier results are kept as {tag}")
    frontier, groups, _ = build.table.totals()
    number = build.mark.number
    return Rebuilt(view.name, why, number, tag, frontier, groups, round(time.monotonic() - started, 3))
