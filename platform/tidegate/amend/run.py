"""Which views an amendment takes, and in which order: each after the views that it reads (B2: those downstream
follow)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from tidegate.errors import TidegateError
from tidegate.runtime.steps import Steps
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.lineage import readers_of
from tidegate.sql.catalog.objects import View
from tidegate.views.amend.amend import amend_view, refusal
from tidegate.views.revisions.amend_report import AmendmentScope, ViewAmendment

if TYPE_CHECKING:
    from tidegate.session.session import Session


def amend(
    session: Session,
    names: Iterable[str] | None = None,
    from_late: bool = True,
    after: str | None = None,
    upto: str | None = None,
    dry_run: bool = False,
    at: datetime | None = None,
    notify: Callable[[str], None] = lambda text: None,
    every: int | None = None,
    steps: Steps | None = None,
) -> list[ViewAmendment]:
    """Amend views, and let those downstream follow (B2).

    `names`: None is every view; what can't be amended is then left as it is, and said so in its notes. `from_late`:
    take in the late rows of the logs (an amendment); else recompute what is stored, which changes nothing unless
    somebody has tampered with it (a backfill, B1). `after`, `upto`: only windows that end after the one, and at the
    other or before: text in the views' time. `at`: the clock of the amendment. `every`: see `AmendmentScope`.
    `steps`: takes down what fails, and the other views are amended; None: the first failure is raised.

    Raises TG561 for a named view that can't be amended, or downstream of which is one that can't follow; TG562 for a
    range below what is kept; TG509 for a name that is no view; TG515 for one that is only read here."""
    catalog = session.catalog
    views = [o for o in catalog.order() if isinstance(o, View) and o.name not in session.foreign]
    wanted = {view.name for view in views} if names is None else {_view(catalog, name).name for name in names}
    for name in wanted:
        session.require_unlent(name)
    chosen = wanted | {v.name for name in wanted for v in downstream(catalog, name)}
    scope = AmendmentScope(from_late, after, upto, everything=not from_late, every=every)
    refused = _refused(session, [v for v in views if v.name in chosen], dict.fromkeys(wanted, scope))
    if names is not None and refused and steps is None:
        raise next(iter(refused.values()))
    found: list[ViewAmendment] = []

    def one(view: View) -> None:
        if view.name in refused:
            if names is not None and view.name in wanted:
                raise refused[view.name]
            found.append(ViewAmendment(view.name, dry_run=dry_run, notes=[str(refused[view.name])]))
            return
        own = scope if view.name in wanted else AmendmentScope(absorb=False)
        report = amend_view(session, view, own, dry_run, at, notify)
        if dry_run and (above := [r.view for r in found if r.windows and r.view in view.reads]):
            report.notes.append(f"its windows over those of {' and '.join(above)} would be amended, too")
        elif own.whole is False and any(r.windows for r in found if r.view in view.reads):
            # What it reads was amended, and its windows over that may end beyond the range.
            follows = amend_view(session, view, AmendmentScope(absorb=False), dry_run, at, notify)
            found.extend([follows] if follows.windows else [])
        found.append(report)

    steps = steps or Steps(fail_fast=True)
    for view in views:
        if view.name in chosen:
            steps.do(view, partial(one, view))
    return found


def downstream(catalog: Catalog, name: str) -> list[View]:
    """Every view that reads another, over any number of views."""
    found: dict[str, View] = {}
    waiting = [name]
    while waiting:
        for view in readers_of(catalog, waiting.pop()):
            if view.name not in found:
                found[view.name] = view
                waiting.append(view.name)
    return list(found.values())


def _refused(
    session: Session, views: Iterable[View], scopes: Mapping[str, AmendmentScope]
) -> dict[str, TidegateError]:
    """By name, why views can't be amended: by themselves, or because one that reads them could not follow."""
    found = {}
    for view in views:
        own = refusal(session, view, scopes.get(view.name))
        if own is not None:
            found[view.name] = own
            continue
        for reader in downstream(session.catalog, view.name):
            below = refusal(session, reader)
            if below is not None and reader.clock is not None:
                found[view.name] = TidegateError(
                    "TG561",
                    (
                        f'"{view.name}" can\'t be amended: "{reader.name}" reads it, and can\'t be amended: '
                        f"{below.message}"
                    ),
                    hint=below.hint,
                    location=view.location,
                )
                break
    return found


def _view(catalog: Catalog, name: str) -> View:
    found = catalog.get(name)
    if not isinstance(found, View):
        hint = "tidegate amend takes views: " + (", ".join(v.name for v in catalog.views) or "there are none")
        raise TidegateError("TG509", f'"{name}" is not a view', hint=hint)
    return found


def to_dict(report: ViewAmendment) -> dict[str, Any]:
    """JSON-ready."""
    return asdict(report)
