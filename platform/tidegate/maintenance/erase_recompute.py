"""Views that only count and sum rows of which some were erased: computed again from those that are left (E9), as a new
version of each (R4), and so is what reads them. The earlier versions go with the history that an erasure removes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.sql.options.kafka_options import KafkaSinkOptions
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
    results are not of its definition, since they may show what it does not; and if they are recomputed, TG543 for one
    of which rows are beyond their retention, and results can't be kept in their place, TG542 for a sink that would need
    the earlier version, which is removed (E6). `begins`: the erasure was not interrupted."""
    for view in views:
        table = context.tables.open(context.identifier(view.name), context.project.owner)
        # (One that was interrupted may have recomputed what the view reads, and then recomputes the view.)
        if begins or not recompute or stale_below(context, table, table.current()) is None:
            same_view(context, view, table)
        if recompute and begins:
            past_of(context, view, table, {}, None)
            for sink in context.catalog.sinks.of(view.name):
                _require_sink(sink)


def _require_sink(sink: Sink) -> None:
    """Raise TG542 for one that would need the earlier version (`sinks.changed.require_way`)."""
    options, hint = sink.connector, "on_change = 'replay' delivers all rows of the new version"
    needs = options.on_change != "replay"
    if options.upserts:
        needs, hint = (
            isinstance(options, KafkaSinkOptions),
            "DROP the sink, and CREATE it again with a new place",
        )
    if needs:
        raise TidegateError(
            "TG542",
            f'"{sink.name}" delivers "{sink.upstream}", and can\'t continue with recomputed results, because the '
            "earlier version is removed; nothing was erased",
            hint=f"{hint}; or --keep-aggregates",
            location=sink.location,
        )


def recomputed(
    context: Context, views: Sequence[View], begun: Erasing, notify: Callable[[str], None]
) -> frozenset[str]:
    """Compute those of the views again that have windows which the erasure has marked, and what reads them. Hold the
    leases of all. `views`: each after what it reads. Returns the names."""
    names, because = [], {}
    for view in views:
        table = context.tables.open(context.identifier(view.name))
        now = table.current()
        held = any(window.of(begun.id) for window in marked(context, table))
        # (Or one that was killed has recomputed what it reads.)
        if held or stale_below(context, table, now) is not None:
            # What somebody had begun before counts the rows that are gone now.
            context.forget_next(view.name)
            names.append(view.name)
        if held:
            because[view.name] = "rows that its results count were erased"
    done = frozenset(one.view for one in rebuild(context, names, notify=notify, because=because))
    for view in views:
        if not view.emit_on_window_close and view.name not in done:
            # Windows that are open, and shown, may count them, too.
            ViewTable(context, view).tick()
    return done
