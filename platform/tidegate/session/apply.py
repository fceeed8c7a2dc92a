"""`tidegate apply`: what `tidegate plan` shows is carried out, each object after what it reads (E1).

Each part is a commit that stands for itself: a log that changes in place, a view whose recomputed results are swapped,
a new object that is built. So an apply that was killed has done the first parts, and the next one does the others (R2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.evolve.beside_live import left_by_live, replacing
from tidegate.evolve.planning import PlannedChange, changes_to_come, planned
from tidegate.runtime.result import RunReport
from tidegate.runtime.steps import Steps
from tidegate.sql.catalog.lineage import sources_of
from tidegate.sql.catalog.objects import View
from tidegate.views.amend.at_time import rebuild_at, require_all_possible
from tidegate.views.amend.rebuild import Rebuilt, rebuild
from tidegate.views.definition import stale_below
from tidegate.views.versions.build import NEXT
from tidegate.views.versions.held import is_held, release
from tidegate.views.versions.left import clear_left
from tidegate.wording import counted

if TYPE_CHECKING:
    from tidegate.plan.events import Event
    from tidegate.session.session import Session


@dataclass
class AppliedPlan:
    """What was done: the reports of runs that changed logs or built what is new, and the views that were recomputed."""

    runs: list[RunReport] = field(default_factory=list)
    rebuilt: list[Rebuilt] = field(default_factory=list)


def apply(
    session: Session,
    names: Iterable[str] | None = None,
    on_event: Callable[[Event], None] | None = None,
    notify: Callable[[str], None] = lambda text: None,
    steps: Steps | None = None,
    at: str | None = None,
) -> AppliedPlan:
    """Carry out the plan of everything, or of `names`.

    A source that is changed or new is run; a new view or sink is built from what is stored. `on_event`: told of every
    commit; `notify`: of every view that is recomputed. `steps`: takes down what fails; None: the first failure is
    raised. `at`: the event time at which new versions of views take their places (E5), a time with a zone or in UTC,
    for which it waits; a view that reads such a view has its new version right behind that one. None: as soon as the
    new version has reached the current one.
    Raises, before anything is changed: TG515 and TG531 for what is not to be written from here; TG534 if something of
    the plan is refused, or a view can't change at this time; TG535 if results are to be replaced and nobody agrees;
    TG563 for what is no time.
    """
    session.declare()
    changes = [one for one in planned(session.project, session.catalog, names) if one.effect != "unchanged"]
    for one in changes:
        session.require_own(one.name)
    _require_allowed(changes)
    leaders, others = ([], changes) if at is None else _at_once(session, changes)
    if at is not None:
        views = [_view(session, one) for one in leaders]
        require_all_possible(session, views, at, changes_to_come(session.project, session.catalog))
    _require_agreed(session, [one for one in changes if replaces(one)])
    replaced = [one.name for one in changes if replaces(one)]
    applied = AppliedPlan()

    def run(logs: Sequence[PlannedChange]) -> None:
        _carry_out(session, logs, applied, on_event, notify, Steps(fail_fast=True))

    with replacing(session, replaced):
        mine = left_by_live(session, [one for one in others if not replaces(one)], run, notify)
        steps = steps or Steps(fail_fast=True)
        for view in [_view(session, one) for one in others if one.held_at is not None and not replaces(one)]:
            steps.do(view, partial(_continue, session, view))
        # (It is run as well, unless live mode does that.)
        others = [one for one in others if replaces(one) or one in mine]
        _apply(session, leaders, others, applied, on_event, notify, steps, at)
    return applied


def _apply(
    session: Session,
    leaders: Sequence[PlannedChange],
    others: Sequence[PlannedChange],
    applied: AppliedPlan,
    on_event: Callable[[Event], None] | None,
    notify: Callable[[str], None],
    steps: Steps,
    at: str | None,
) -> None:
    """`leaders`: what takes its place at the time `at`; `others`: what else there is to do."""
    behind = _downstream(session, leaders)
    _carry_out(session, [one for one in others if one.name not in behind], applied, on_event, notify, steps)
    if at is not None:
        views = [_view(session, one) for one in leaders]
        waiting = {one.name: one for one in leaders}
        rest = [one for one in others if one.name in behind]

        def swapped(one: Rebuilt) -> None:
            """What reads a view that waits for nothing any more follows at once, whatever others wait for."""
            applied.rebuilt.append(one)
            del waiting[one.view]
            later = _downstream(session, list(waiting.values()))
            _carry_out(
                session, [one for one in rest if one.name not in later], applied, on_event, notify, steps
            )
            rest[:] = [one for one in rest if one.name in later]

        rebuild_at(session, views, at, swapped, notify, steps)
        _carry_out(session, rest, applied, on_event, notify, steps)


def _carry_out(
    session: Session,
    changes: Sequence[PlannedChange],
    applied: AppliedPlan,
    on_event: Callable[[Event], None] | None,
    notify: Callable[[str], None],
    steps: Steps,
) -> None:
    # The plan has every object behind what it reads. So views are recomputed one by one, and not with their readers.
    for recomputed, group in groupby(changes, replaces):
        some = [one.name for one in group]
        if recomputed:
            applied.rebuilt += rebuild(session, some, notify=notify, steps=steps, with_readers=False)
        else:
            report = session.run(some, on_event=on_event, upstream=False, fail_fast=steps.fail_fast)
            steps.failures += report.failed
            steps.skipped += report.skipped
            applied.runs.append(report)


def _at_once(
    session: Session, changes: Sequence[PlannedChange]
) -> tuple[list[PlannedChange], list[PlannedChange]]:
    """The views whose new versions take their places at a time that was named: those that read no other view with a
    new version. And all other changes."""
    replaced = [one for one in changes if replaces(one)]
    behind = _downstream(session, replaced)
    leaders = [one for one in replaced if one.name not in behind and not _follows(session, one)]
    return leaders, [one for one in changes if one not in leaders]


def _follows(session: Session, change: PlannedChange) -> bool:
    """Whether what a view reads has changed at its time already, by a command that was ended behind that."""
    table = session.opened(change.name)
    return table is not None and stale_below(session, table, table.current()) is not None


def _downstream(session: Session, changes: Sequence[PlannedChange]) -> set[str]:
    """The names of all that reads one of these views, itself or through others."""
    catalog, found = session.catalog, {one.name for one in changes}
    readers = {
        item.name for item in catalog.order() if found & {below.name for below in sources_of(catalog, item)}
    }
    return readers | {sink.name for sink in catalog.sinks if sink.upstream in found | readers}


def _view(session: Session, change: PlannedChange) -> View:
    found = session.catalog.get(change.name)
    assert isinstance(found, View)
    return found


def _continue(session: Session, view: View) -> None:
    """The change that a view waits for was undone: it waits no longer. Raises TG508 if a process is in the way."""
    clear_left(session, view)
    if is_held(session, view.name):
        with session.lease(view.name, NEXT):
            release(session, view.name)


def replaces(change: PlannedChange) -> bool:
    """Whether stored results go for it, and others come."""
    return change.kind == "view" and change.effect == "new version"


def _require_allowed(changes: Sequence[PlannedChange]) -> None:
    refused = [one for one in changes if one.effect == "refused"]
    if refused:
        what = "nothing was applied, because a part of the plan is refused:"
        lines = [f"{one.name}: {'; '.join(one.what)}" for one in refused]
        hints = dict.fromkeys(f"for {one.name}: {one.command}" for one in refused)
        raise TidegateError(
            "TG534",
            "\n  ".join([what, *lines]),
            hint="\n".join([*hints, "or name what is to be applied: tidegate apply NAME …"]),
        )


def _require_agreed(session: Session, replaced: Sequence[PlannedChange]) -> None:
    if replaced:
        lines = [
            f"{one.name}: {'; '.join(one.what)}; reads {counted(one.rows or 0, 'stored row')}"
            for one in replaced
        ]
        what = "these results are replaced by recomputed ones, and the earlier ones are kept under a tag:"
        session.ask("TG535", "\n  ".join([what, *lines]), "tidegate apply --yes")
