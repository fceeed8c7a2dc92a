"""Views that only count and sum rows of which some were erased, and those that do not show by what these are found
(`erase_again.py`): computed again from the rows that are left (E9), as a new version of each (R4), and so is what reads
them. The earlier versions go with the history that an erasure removes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.plan.versions import kept_versions, number_of
from tidegate.sinks.changed import behind
from tidegate.sinks.deliver import deliver, require_continues
from tidegate.sql.options.kafka_options import KafkaSinkOptions
from tidegate.store.positions import read_position
from tidegate.views.amend.rebuild import rebuild
from tidegate.views.definition import same_view, stale_below
from tidegate.views.revisions.erased_windows import marked
from tidegate.views.versions.past import past_of
from tidegate.views.view_table import ViewTable

if TYPE_CHECKING:
    from tidegate.maintenance.erasing import Erasing
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import Sink, View


def require_staying(context: Context, views: Iterable[View], recompute: bool, begins: bool) -> None:
    """Raise what would stand in the way with views whose rows stay, before anything is erased: TG506 for one whose
    results are not of its definition, since they may show what it does not; TG542 for a sink that needs an earlier
    version, which is removed, or the present one, if it is recomputed (E6); and then TG543 for a view of which rows are
    beyond their retention, and results can't be kept in their place. A sink into a topic that upserts gets the
    differences from `recomputed`: what keeps it from that is raised here (`require_continues`). `begins`: the erasure
    was not interrupted."""
    for view in views:
        table = context.tables.open(context.identifier(view.name), context.project.owner)
        # (One that was interrupted may have recomputed what the view reads, and then recomputes the view.)
        if begins or not recompute or stale_below(context, table, table.current()) is None:
            same_view(context, view, table)
        if recompute and begins:
            past_of(context, view, table, {}, None)
        kept = {one.number for one in kept_versions(table.properties())}
        for sink in filter(_needs_earlier, context.catalog.sinks.of(view.name)):
            found = read_position(context.project.storage, sink)
            if recompute and sink.connector.upserts:
                # It gets the differences before the earlier version is removed.
                if begins:
                    require_continues(context, sink)
            elif recompute and begins:
                what = (
                    f'delivers "{view.name}", and can\'t continue with recomputed results, because the earlier '
                    "version is removed; nothing was erased"
                )
                hint = "on_change = 'replay' delivers all rows of the new version; or --keep-aggregates"
                raise TidegateError("TG542", f'"{sink.name}" {what}', hint=hint, location=sink.location)
            elif found is not None and number_of(found[0].table, table.uuid) in kept:
                raise behind(sink)


def following(context: Context, views: Iterable[View]) -> list[Sink]:
    """The sinks of recomputed views that have to get the differences before the earlier versions are removed."""
    sinks = [sink for view in views for sink in context.catalog.sinks.of(view.name)]
    return [sink for sink in sinks if sink.connector.upserts and _needs_earlier(sink)]


def _needs_earlier(sink: Sink) -> bool:
    """Whether a sink goes over to a new version only from the one that it has delivered
    (`sinks.changed.require_way`)."""
    options = sink.connector
    return isinstance(options, KafkaSinkOptions) if options.upserts else options.on_change != "replay"


def recomputed(
    context: Context,
    views: Sequence[View],
    begun: Erasing,
    notify: Callable[[str], None],
    due: Collection[str] = (),
) -> frozenset[str]:
    """Compute those of the views again that have windows which the erasure has marked, those that are `due`, and what
    reads them, and deliver the differences to the topics of sinks that need the version before. Hold the leases of all
    views. `views`: each after what it reads. Returns the names."""
    names, because = [], {}
    for view in views:
        table = context.tables.open(context.identifier(view.name))
        now = table.current()
        held = view.name in due or any(window.of(begun.id) for window in marked(context, table))
        # (Or one that was killed has recomputed what it reads.)
        if held or stale_below(context, table, now) is not None:
            # What somebody had begun before counts the rows that are gone now.
            context.forget_next(view.name)
            names.append(view.name)
        if held:
            because[view.name] = "rows that its results come from were erased"
    done = frozenset(one.view for one in rebuild(context, names, notify=notify, because=because))
    for sink in following(context, views):
        found = read_position(context.project.storage, sink)
        life = context.tables.open(context.identifier(sink.upstream)).uuid
        if found is not None and found[0].table != life:
            notify(f"{sink.name}: delivering what differs from the version before")
            deliver(context, sink)
    for view in views:
        if not view.emit_on_window_close and view.name not in done:
            # Windows that are open, and shown, may count them, too.
            ViewTable(context, view).tick()
    return done
