"""ALTER of watermarks (W13) and columns (E1), and RESET WATERMARK (W9) in a session: what is kept, what is committed,
what is said."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.evolve.apply import open_log, properties_in, refused, require_current
from tidegate.evolve.beside_live import changing, is_changed, store, taken_up
from tidegate.evolve.differences import pending as evolution_of
from tidegate.evolve.planning import planned
from tidegate.plan.resets import RESETS, Step, with_step
from tidegate.runtime.result import Result
from tidegate.sql.catalog.lineage import readers_of
from tidegate.sql.catalog.objects import Relation, reads
from tidegate.sql.statements.alter import gates_over, named
from tidegate.views.inputs import pending
from tidegate.views.resolve import pin
from tidegate.views.revisions.step_back import back

if TYPE_CHECKING:
    from tidegate.errors import Location
    from tidegate.evolve.beside_live import Live
    from tidegate.evolve.differences import Evolution
    from tidegate.ingest.ingest import Log
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.catalog import Catalog
    from tidegate.sql.statements.statements import AlterColumn, AlterWatermark, ResetWatermark


def alter_watermark(context: Context, statement: AlterWatermark) -> Result:
    """Keep the new definition; the next row that is read is judged by it, and its commit records the change.

    Raises TG520 for what a file in assets/ defines: the file would win at the next start; TG709 if live mode, which
    writes the log, does not take the definition up.
    """
    relation = statement.relation
    assert relation.watermark is not None
    strategy = relation.watermark.expression
    clause = f"WATERMARK FOR {relation.watermark.column} AS {strategy}"
    _require_interactive(
        context, relation, f"{clause}; the next run uses it, and nothing is rebuilt", statement.location
    )
    # Not while another process writes the log with the old strategy (TG508), unless it takes up the new one.
    with changing(context, relation.name) as live:
        before = context.relation(relation.name)
        require_current(context, before, statement.location)
        catalog = _with(context, relation, statement.location)
        _store(context, before, relation, catalog, live, statement.location)
    if strategy == statement.before:
        return Result(message=f"the strategy of {relation.name} is {strategy} already: nothing changes")
    return Result(
        message=f"altered {relation.name}: from the next row on, its watermark is {strategy} (it was "
        f"{statement.before}); rows that are judged keep their outcome"
    )


def alter_column(context: Context, statement: AlterColumn) -> Result:
    """Change a log's columns in place, in one commit of its own, and keep the new definition. While live mode writes
    the log, it is asked to change it.

    Everything is looked at before: raises TG520 for what a file in assets/ defines, TG511 if a definition that reads
    the relation does not fit to it any more, TG506 if the log can't be changed in place, TG709 if live mode does not
    take the definition up.
    """
    relation = statement.relation
    clause = f"{statement.clause}; the next run changes the log in place"
    with changing(context, relation.name) as live:
        _require_interactive(context, relation, clause, statement.location)
        before = context.relation(relation.name)
        require_current(context, before, statement.location)
        catalog = _with(context, relation, statement.location)
        _finish(context, before, live)
        found = _evolution(context, relation, catalog)
        if found is not None and (found[1].refused or not found[1].text):
            raise refused(replace(relation, location=statement.location), found[1])
        _store(context, before, relation, catalog, live, statement.location)
        if found is None:
            return Result(message=f"altered {relation.name}; it has no stored rows that the change concerns")
        if not live.writes:
            open_log(context, relation)
        elif not is_changed(context, relation):
            return Result(
                message=f"altered {relation.name}: live mode has taken up the change, and has not changed the log yet"
            )
    readers = [view.name for view in readers_of(context.catalog, relation.name)]
    old = [
        one.name for one in planned(context.project, context.catalog, readers) if one.effect == "new version"
    ]
    message = f"altered {relation.name}: {found[1].text}; rows that are judged keep their outcome"
    if live.records:
        message += "; live mode continues with the change"
    if old:
        message += f"; results of before the change are in {', '.join(old)}: tidegate apply recomputes them"
    return Result(message=message)


def _evolution(context: Context, relation: Relation, catalog: Catalog) -> tuple[Relation, Evolution] | None:
    """The definition of what is stored, and how it becomes this one; None, too, if nothing is stored."""
    stored = context.opened(relation.name)
    if stored is None:
        return None
    return evolution_of(relation, stored.properties(), catalog, properties_in(context))


def _finish(context: Context, relation: Relation, live: Live) -> None:
    """Make the change that an earlier ALTER has kept and was killed before it made: two of them in one are another
    change, for a column that is dropped and added again would be the one that it was (E2). Raises TG709 if live mode
    has taken that up, and does not make it."""
    found = _evolution(context, relation, context.catalog)
    if found is None or not found[1].text or found[1].refused:
        return
    if not live.writes:
        open_log(context, relation)
        return
    taken_up(context, relation, live, None)
    if not is_changed(context, relation):
        raise TidegateError(
            "TG709",
            f'live mode has not made an earlier change of "{relation.name}" yet: {found[1].text}',
            hint="its log says what stands in the way; then try again",
        )


def _store(
    context: Context,
    before: Relation,
    relation: Relation,
    catalog: Catalog,
    live: Live,
    location: Location | None,
) -> None:
    """As `store`; from then on the session goes by the new definition, where it stays stored."""
    try:
        store(context, before, relation, catalog, live, location)
    except TidegateError as error:
        if error.code != "TG710":
            raise
        unanswered: TidegateError | None = error
    else:
        unanswered = None
    context.catalog.renew(catalog)
    context.resolved.clear()
    if unanswered is not None:
        raise unanswered


def _require_interactive(
    context: Context, relation: Relation, clause: str, location: Location | None
) -> None:
    """TG520 for what a file in assets/ defines: the file would win at the next start."""
    if context.project.is_interactive(relation.name):
        return
    where = relation.location.file if relation.location is not None else "a file in assets/"
    raise TidegateError(
        "TG520",
        f'"{relation.name}" is defined by {where}, so a statement can\'t change it',
        hint=f"edit the file: {clause}",
        location=location,
    )


def _with(context: Context, relation: Relation, location: Location | None) -> Catalog:
    """All definitions, with the new one of a relation. Raises TG511 if another one does not fit to it."""
    try:
        return context.project.catalog(instead={relation.name: relation.definition})
    except TidegateError as wrong:
        place = "" if wrong.location is None else f" ({wrong.location.file}:{wrong.location.line})"
        raise TidegateError(
            "TG511",
            f'"{relation.name}" is read by a definition that the change would break{place}: {wrong.message}',
            hint="change or DROP that definition first",
            location=location,
        ) from None


def reset_watermark(context: Context, statement: ResetWatermark) -> Result:
    """Take the watermark of every partition and of the whole back to a time, in a commit of its own (W9).

    Views follow at their next tick, each in a commit of its own. Results that can't be computed anew because rows are
    gone stay as they are; they are listed first, and `context.confirm` is asked. Raises TG521 if nobody agrees.
    """
    relation = context.relation(statement.name)
    with context.lease(relation.name):
        log = open_log(context, relation)
        before, to = log.progress.published, statement.value
        beyond = any(s.watermark is not None and s.watermark > to for s in log.progress.states.values())
        follow, stay = _followers(context, log, to)
        if not beyond and (before is None or before <= to) and not follow:
            return Result(
                message=f"the watermark of {relation.name} is {log.format(before)}: RESET can only set it "
                "back, so nothing changes"
            )
        if stay:
            _ask(context, relation, stay, statement)
        log.reset(to, context.clock())
    message = f"reset the watermark of {relation.name} to {log.format(log.progress.published)}"
    message += f" (it was {log.format(before)}); rows from there on are on time again, late rows stay late"
    if follow:
        message += (
            "; at the next run or FLUSH, these go back as well, and close again when rows "
            f"arrive: {', '.join(follow)}"
        )
    own = [gate for gate in gates_over(context.catalog, relation) if gate.follows is None]
    if own:
        message += f"; these gates have a time of their own, and are reset by their own names: {named(own)}"
    return Result(message=message)


def _followers(context: Context, log: Log, to: int) -> tuple[list[str], list[str]]:
    """The views that a reset to a time takes back, and what stays as it is, in words."""
    relation, stood = log.relation, log.table.current().summary
    facts: dict[str, dict[str, str]] = {
        relation.name: stood | {RESETS: with_step(stood, to), "tidegate.watermark": str(to)}
    }
    follow, stay = [], []
    if relation.ttl:
        upto, lost = _cleaned(log, to)
        facts[relation.name] |= {} if upto is None else {"tidegate.cleaned": str(upto)}
        stay += lost
    for item in context.catalog.order():
        stored = context.stored(item.name)
        if stored is None:
            continue
        if isinstance(item, Relation):
            mark = item.follows.at(to) if item.follows is not None and relation.name in reads(item) else None
            if mark is not None:
                own = context.tables.open(stored).current().summary
                facts[item.name] = own | {RESETS: with_step(own, mark), "tidegate.watermark": str(mark)}
            continue
        if not any(name in facts for name in item.reads):
            continue
        pinned = tuple(
            replace(
                p, snapshot=replace(p.snapshot, summary=p.snapshot.summary | facts.get(p.source.name, {}))
            )
            for p in pin(context, item)
        )
        own = context.tables.open(stored).current().summary
        target = pending(item, own, pinned)
        if target is None:
            continue
        found = back(context, item, stored, pinned, target)
        text, was = item.kind.format, int(own["tidegate.frontier"])
        if not found.is_possible:
            stay.append(f"{item.name}: all results up to {text(was)}: {'; '.join(found.stays)}")
            continue
        frontier = min(int(found.frontier), was)
        follow.append(item.name)
        if frontier > target:
            stay.append(
                f"{item.name}: results that ended after {text(target)}, up to {text(frontier)}: "
                f"{'; '.join(found.stays)}"
            )
        facts[item.name] = own | {RESETS: with_step(own, frontier), "tidegate.frontier": str(frontier)}
    return follow, stay


def _cleaned(log: Log, to: int) -> tuple[int | None, list[str]]:
    """Of a table WITH TTL: up to where rows may be gone once its watermark is reset, and what cleanup has taken that
    does not come back, in words."""
    assert log.state is not None
    upto, lost = log.state.cleaned_behind(Step(0, to, epoch=log.progress.epoch + 1), log.table.current())
    if lost is None:
        return upto, []
    rows = f"{lost.rows} row{'' if lost.rows == 1 else 's'} that TTL has cleaned"
    return upto, [f"{log.relation.name}: {rows}, from {log.format(lost.first)} to {log.format(lost.last)}"]


def _ask(context: Context, relation: Relation, stay: list[str], statement: ResetWatermark) -> None:
    """TG521 unless somebody agrees."""
    what = "these rows and results" if relation.ttl else "these results"
    what += f" stay as they are when the watermark of {relation.name} is reset:\n  " + "\n  ".join(stay)
    context.ask("TG521", what, location=statement.location)
