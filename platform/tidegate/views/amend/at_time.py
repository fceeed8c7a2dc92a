"""New versions that take their places at a time that was named (E5, `tidegate apply --at`).

The current version of each view stops at this time, whoever computes it (`versions/held.py`), and the new one is built
up to there beside it. When both are final up to this time, one commit swaps them: what readers and append-only sinks
have seen ends at or before it and is of the earlier version, and all that comes is of the new one. Killed at any
instant, the same command continues: the time stands in the view's table, and the rows in that of the new version (R2).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.iceberg.layout import is_of_view
from tidegate.plan.closing import closes_anything, held_back, stops
from tidegate.plan.columns.changes import other_columns
from tidegate.plan.versions import tag_of
from tidegate.runtime.steps import Steps
from tidegate.views.amend.rebuild import UNCHANGED, Rebuilt, generation_of, why_other
from tidegate.views.definition import as_stored, stale_below
from tidegate.views.inputs import clock_of
from tidegate.views.resolve import changes_of, pin
from tidegate.views.versions.build import NEXT, VersionBuild
from tidegate.views.versions.held import hold, release
from tidegate.views.versions.in_force import over_current, require_newest, stand_on_current
from tidegate.views.view_table import ViewTable
from tidegate.watermark import TimeKind

if TYPE_CHECKING:
    from tidegate.iceberg.tables import StoredTable
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import View

#: So many seconds pass between two looks whether both versions have come to the time.
LOOKS_EVERY = 2.0


@dataclass
class _TimedSwap:
    """A view whose versions are swapped at `at` (ticks). `before`: the definition of the current version; `why` it is
    computed again; `started`: of a clock that nobody sets; `told`: what was said last of what it waits for;
    `seen`: up to where the inputs allowed the current version to be computed when that was `looked` at last (ticks)."""

    view: View
    before: View
    build: VersionBuild
    at: int
    why: str
    tag: str
    started: float
    told: str = ""
    looked: bool = False
    seen: int | None = None


def rebuild_at(
    context: Context,
    views: Iterable[View],
    at: str,
    done: Callable[[Rebuilt], None],
    notify: Callable[[str], None] = lambda text: None,
    steps: Steps | None = None,
) -> None:
    """Build new versions of `views`, none of which reads another one, and swap each of them at the time `at`. It waits
    until the watermarks of the inputs have come so far; who swaps them without a time lets the current ones continue.
    `done`: told what was done to each view, behind its swap.
    Raises TG534 for a view that can't change at this time, TG563 for what is no time, and else as `rebuild`."""
    context.declare()
    steps = steps or Steps(fail_fast=True)
    waiting: list[_TimedSwap] = []
    with ExitStack() as leases:
        # All are held and begun before the first one waits: else another one would be beyond the time by then.
        for view in views:

            def begin(view: View = view) -> None:
                leases.enter_context(context.lease(view.name, NEXT))
                why = why_other(context, view, set())
                if why is None:
                    done(Rebuilt(view.name, UNCHANGED, generation_of(context, view)))
                else:
                    waiting.append(_begun(context, view, at, why, notify))

            steps.do(view, begin, needed=True)
        while waiting:
            for change in tuple(waiting):
                found: list[Rebuilt] = []
                step = partial(_step, context, change, found, notify)
                if not steps.do(change.view, step, needed=True) or found:
                    waiting.remove(change)
                for one in found:
                    done(one)
            if waiting:
                context.runner.wait(LOOKS_EVERY)


def _begun(context: Context, view: View, text: str, why: str, notify: Callable[[str], None]) -> _TimedSwap:
    started = time.monotonic()
    view = over_current(context, view)
    require_newest(context, view)
    at, before = require_possible(context, view, text, partial(changes_of, context))
    tag = tag_of(generation_of(context, view))
    hold(context, view.name, at)
    notify(f"{view.name}: recomputing up to {view.kind.format(at)} because {why}")
    try:
        build = VersionBuild(context, view, at=at)
    except TidegateError as error:
        if error.code == "TG543":
            # It can't begin at all.
            release(context, view.name)
        raise
    change = _TimedSwap(view, before, build, at, why, tag, started)
    _advance(change, notify)
    return change


def _advance(change: _TimedSwap, notify: Callable[[str], None]) -> None:
    build = change.build
    while build.advance():
        notify(f"{build.name}: {100 * build.mark.done(build.frontier()):.0f} % of the rows are read")


def _step(context: Context, change: _TimedSwap, done: list[Rebuilt], notify: Callable[[str], None]) -> None:
    """Bring both versions as far as they can be, and swap them if that is up to the time; `done` says so."""
    view, build = change.view, change.build
    _advance(change, notify)
    _continue_current(context, change)
    stood = _opened(context, view).current().integer("tidegate.frontier")
    if stood is not None and stood > change.at:
        # By a tick that had begun before the view was held.
        release(context, view.name)
        raise _passed(view, change.at, stood)
    require_newest(context, view)
    if stood != change.at or not _swapped(build):
        text = _waits_for(context, change, stood)
        if text != change.told:
            change.told = text
            notify(text)
        return
    at = view.kind.format(change.at)
    notify(f"{view.name}: swapped at {at}; the earlier results are kept as {change.tag}")
    frontier, groups, _ = build.table.totals()
    seconds = round(time.monotonic() - change.started, 3)
    done.append(Rebuilt(view.name, change.why, build.mark.number, change.tag, frontier, groups, seconds, at))


def _swapped(build: VersionBuild) -> bool:
    """Whether the swap was made; not while somebody writes the view, in a catalog that is a folder."""
    try:
        return build.swapped()
    except TidegateError as error:
        if error.code != "TG508":
            raise
        return False


def _continue_current(context: Context, change: _TimedSwap) -> None:
    """A tick of the current version, by its stored definition, unless somebody else computes it: a run that has just
    read the inputs is about to do so. Raises TG534, and lets go of the view, if it can no longer come to the time."""
    before, stood = change.before, _opened(context, change.view).current().integer("tidegate.frontier")
    upto = held_back(clock_of(before, pin(context, before)), change.at)
    moved = change.looked and upto != change.seen
    change.looked, change.seen = True, upto
    if moved or not (closes_anything(before, stood, upto) or stops(stood, upto, change.at)):
        return
    try:
        with context.lease(before.name):
            ViewTable(context, before).tick()
    except TidegateError as error:
        if error.code == "TG506":
            release(context, before.name)
            why = f"its current version can't be continued until then: {error.message}"
            hint = f"tidegate apply {before.name} swaps the versions without a time"
            raise _refused(change.view, before.kind.format(change.at), why, hint) from error
        if error.code != "TG508":
            raise


def _waits_for(context: Context, change: _TimedSwap, stood: int | None) -> str:
    view, kind = change.view, change.view.kind
    allowed = clock_of(change.before, pin(context, change.before))
    return (
        f"{view.name}: it waits until both versions are final up to {kind.format(change.at)}: the current one is final "
        f"up to {kind.format(stood)}, the new one up to {kind.format(change.build.frontier())}, and the inputs have "
        f"reached {kind.format(allowed)}; if you stop it, the same command continues"
    )


def require_all_possible(
    context: Context, views: Iterable[View], text: str, changes: Callable[[str], str | None]
) -> None:
    """Before anything is changed: raise what `require_possible` has to say of each of these views. `changes`: how the
    columns of an input will have been changed by then, by its name."""
    for view in views:
        stand_on_current(context, view)
        require_possible(context, view, text, changes)
    context.declare()


def require_possible(
    context: Context, view: View, text: str, changes: Callable[[str], str | None]
) -> tuple[int, View]:
    """The time `text` in ticks of a view, and the definition of its current version, which can come to this time and
    stop there. Raises TG534 if it can't, and TG563 if the text is no time of the view."""
    table = _opened(context, view)
    now = table.current()
    properties = table.properties()
    before = as_stored(context, view, properties)
    kind = TimeKind[properties.get("tidegate.time-kind") or view.kind.name]
    why = None
    if not view.emit_on_window_close or view.clock is None:
        why = "its query has no EMIT ON WINDOW CLOSE, so it also shows results that are not final"
    elif before is None or (other := other_columns(before, properties, changes)):
        why = "its current version can't be continued until then, because "
        why += (
            "what it reads is not there any more" if before is None else f"its columns have changed: {other}"
        )
    elif not before.emit_on_window_close or before.clock is None:
        why = "its current version has no EMIT ON WINDOW CLOSE, so it also shows results that are not final"
    elif not kind.same_ticks(view.kind):
        why = "the windows of both versions end in different types"
    elif (same := is_of_view(view, properties) and not before.seen) or (
        below := stale_below(context, table, now)
    ) is not None:
        below = "other columns or results" if same else below
        why = f"its current version can't be continued until then, because it reads {below}"
    if why is not None:
        raise _refused(view, text, why, f"tidegate apply {view.name} swaps the versions without a time")
    assert before is not None
    at = time_of(view, text)
    stood = now.integer("tidegate.frontier")
    if stood is not None and stood > at:
        raise _passed(view, at, stood)
    return at, before


def _passed(view: View, at: int, stood: int) -> TidegateError:
    frontier = view.kind.format(stood)
    why = f"the results of its current version are final up to {frontier} already"
    hint = f"choose {frontier} or a later time, or apply without --at"
    return _refused(view, view.kind.format(at), why, hint)


def _refused(view: View, at: str, why: str, hint: str) -> TidegateError:
    return TidegateError(
        "TG534",
        f'"{view.name}" can\'t change at {at}, and its results stay as they are: {why}',
        hint=hint,
        location=view.location,
    )


def time_of(view: View, text: str) -> int:
    """In ticks of a view. A time with a zone is taken as it is, one without as UTC. TG563 for what is no time."""
    kind = TimeKind.TIMESTAMPTZ if view.kind is TimeKind.TIMESTAMP else view.kind
    try:
        return kind.parse(text)
    except ValueError as error:
        example = {"DATE": "2026-01-31", "EPOCH": "1767225600"}.get(view.kind.name, "2026-01-31T12:00:00Z")
        hint = f"its windows end at times such as {example}"
        raise TidegateError("TG563", f'"{view.name}": {error}', hint=hint) from None


def _opened(context: Context, view: View) -> StoredTable:
    found = context.opened(view.name)
    assert found is not None  # what is not stored has no version that another one replaces
    return found
