"""`tidegate apply`: what `tidegate plan` shows is carried out, each object after what it reads (E1).

Each part is a commit that stands for itself: a log that changes in place, a view whose recomputed results are swapped,
a new object that is built. So an apply that was killed has done the first parts, and the next one does the others (R2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.evolve.planning import PlannedChange, planned
from tidegate.runtime.result import RunReport
from tidegate.runtime.steps import Steps
from tidegate.views.amend.rebuild import Rebuilt, rebuild
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
) -> AppliedPlan:
    """Carry out the plan of everything, or of `names`.

    A source that is changed or new is run; a new view or sink is built from what is stored. `on_event`: told of every
    commit; `notify`: of every view that is recomputed. `steps`: takes down what fails; None: the first failure is
    raised.
    Raises, before anything is changed: TG515 and TG531 for what is not to be written from here; TG534 if something of
    the plan is refused; TG535 if results are to be replaced and nobody agrees.
    """
    session.declare()
    changes = [one for one in planned(session.project, session.catalog, names) if one.effect != "unchanged"]
    for one in changes:
        session.require_own(one.name)
    _require_allowed(changes)
    _require_agreed(session, [one for one in changes if replaces(one)])
    steps = steps or Steps(fail_fast=True)
    applied = AppliedPlan()
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
    return applied


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
