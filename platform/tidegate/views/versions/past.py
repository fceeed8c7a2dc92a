"""What a new version of a view can't compute, because the rows behind it are gone: the results of the current version
stay for that part of the past, and the boundary is on record (E5).

They are the first slice of the new version: read, cast and written by tasks, and committed with the frontier from which
the new query computes. `plan.versions.kept_past` says what is kept; `tidegate plan` shows the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.iceberg.attempt import overtaken
from tidegate.iceberg.layout import ddl, quote
from tidegate.iceberg.protocol import AMENDMENTS
from tidegate.plan.closing import closes_anything, final_upto
from tidegate.plan.gaps import GAPS, RETAINED_FROM, gaps_between, with_gap
from tidegate.plan.lost_totals import LOST_TOTALS
from tidegate.plan.resets import FOLLOWED_RESETS, RESETS, Beyond, followed
from tidegate.plan.versions import VALID_FROM, KeptPast, kept_past, kept_versions, tag_of
from tidegate.sql.dialect.inner_names import ORDINAL
from tidegate.views.inputs import final_now, pending, positions
from tidegate.views.over import carried_rows
from tidegate.views.resolve import pin, resolve_columns, standing
from tidegate.views.retention import first_edges
from tidegate.views.revisions.erased_windows import marks_of_past
from tidegate.watermark import window_is_closed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidegate.iceberg.protocol import Snapshot
    from tidegate.iceberg.tables import StoredTable
    from tidegate.iceberg.versions.swap import VersionStart
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import View
    from tidegate.views.view_table import ViewTable

#: Columns of a view's table that both versions have.
_SYSTEM = ("_window_start", "_window_end", "_rows")
#: What a commit says of rows that were finished elsewhere.
_CONTINUED = (
    "tidegate.frontier",
    "tidegate.inputs",
    "tidegate.earliest-open",
    FOLLOWED_RESETS,
    LOST_TOTALS,
)


def past_of(
    context: Context, view: View, current: StoredTable, own: Mapping[str, str], start: VersionStart | None
) -> KeptPast | None:
    """What a new version keeps of the current one; None if it can compute all that it does not have. `own`: what its
    last commit says; `start`: what it has begun with. Raises TG543 if it can't keep it."""
    now = current.current()
    pinned = standing(context, view)
    edges = first_edges(pinned)
    if all(edge is None for _, edge in edges.values()):
        return None
    fields = context.tables.rows(current.identifier, now.id).schema.fields
    stored = [(field.name, ddl(field.dataType)) for field in fields]
    columns = [(c.name, c.type) for c in resolve_columns(context, view)]
    frontier = now.integer("tidegate.frontier")
    past = kept_past(view, columns, edges, frontier, current.properties(), stored, own)
    if past is not None and (Beyond.of(own) is not None or pending(view, own, pinned) is not None):
        why = "results of it would have to close again after a reset of the watermark, and rows behind it are gone"
        past = replace(past, refused=why)
    if past is not None and past.refused is not None:
        remedy = past.remedy
        if start is not None:
            remedy = f'SELECT * FROM "{view.name}$v{start.tag.rpartition("_")[2]}" has the earlier results'
        raise TidegateError(
            "TG543",
            f'a new version of "{view.name}" can\'t begin: {past.refused}',
            hint=remedy,
            location=view.location,
        )
    return past


@dataclass(frozen=True)
class FinishedRows:
    """Final rows of the very definition that another table has, as of a snapshot of it (`views/amend/vouched.py`).
    `after`: those that end up to this tick are of an earlier definition, which that table has kept; None: there are
    none. `upto`: only those that end up to this tick are taken; None: all. `lives`: by name of each view that it reads,
    the life here of the results of which these rows are, too."""

    identifier: str
    at: Snapshot
    after: int | None = None
    upto: int | None = None
    lives: Mapping[str, str] = field(default_factory=dict)

    @property
    def frontier(self) -> int:
        """Up to where they are final."""
        found = self.at.integer("tidegate.frontier")
        assert found is not None
        return found if self.upto is None else min(found, self.upto)


def keep(
    context: Context,
    table: ViewTable,
    current: StoredTable,
    past: KeptPast,
    number: int,
    start: VersionStart | None,
    finished: FinishedRows | None = None,
) -> None:
    """Let the `table` of version `number` have what it keeps of the current version: behind the rows of the `start`, or
    before `finished` ones. The boundary is recorded before the rows are: killed in between, it is recorded again."""
    view, base, after = table.view, current.current(), _after(table.view, table.frontier())
    table.table.set_properties(_facts(context, view, current, past, number, start))
    rows = _rows(context, view, current.identifier, base, past, after)
    skipped = _skipped(table, base, after, past.upto)
    if finished is not None and finished.frontier > past.upto:
        rows = rows.unionByName(_finished(context, view, finished, past.upto), allowMissingColumns=True)
        table.begin_with(rows, _said(context, table, finished) | skipped)
        return
    pinned = pin(context, view)
    summary = {"tidegate.inputs": positions(pinned), "tidegate.frontier": str(past.upto)}
    summary |= followed({p.input.name: p.snapshot.summary for p in pinned}) | skipped
    table.begin_with(rows, summary, behind=start is not None)


def _after(view: View, frontier: int | None) -> int | None:
    """Behind what it has itself a version keeps results of the current one. That one's windows may be shorter: some of
    them end before its own frontier, and in none of its own windows."""
    return None if frontier is None else final_upto(view, frontier)


def _facts(
    context: Context,
    view: View,
    current: StoredTable,
    past: KeptPast,
    number: int,
    start: VersionStart | None,
) -> dict[str, str]:
    """The table properties of version `number`, which keeps what ends up to the boundary, and behind the `start`."""
    earlier = {tag_of(one.number): one for one in kept_versions(current.properties())}
    continued = None if start is None else earlier.get(start.tag)
    own = None if start is None else start.summary.get("tidegate.frontier")
    after = _after(view, None if own is None else int(own))
    facts = {VALID_FROM: str(past.valid_from)}
    facts |= marks_of_past(context, current, number, past.upto, after, continued)
    # What is gone of the results of either version is gone here, too.
    edges = [] if continued is None else [continued.of_rows.get(RETAINED_FROM)]
    if (retired := current.property(RETAINED_FROM)) is not None and (after is None or int(retired) > after):
        edges.append(str(min(int(retired), past.valid_from)))
    known = [int(edge) for edge in edges if edge is not None]
    return facts | {RETAINED_FROM: str(max(known))} if known else facts


def begin_with(context: Context, table: ViewTable, finished: FinishedRows) -> None:
    """Let a table without rows begin with `finished` ones of its definition. Raises TG502 if results that it reads were
    replaced since they were found."""
    rows, view = context.tables.rows(finished.identifier, finished.at.id), table.view
    carried = None if view.over is None else carried_rows(rows, view)
    said = _said(context, table, finished)
    table.begin_with(_finished(context, view, finished, finished.after), said, carried=carried)


def _said(context: Context, table: ViewTable, finished: FinishedRows) -> dict[str, str]:
    """What the commit says that has these rows: up to where they are final, of which inputs, and what has to be known
    to continue. Of views below it names the results that are here, and not those that the branch has read."""
    said = {key: finished.at.summary[key] for key in _CONTINUED if key in finished.at.summary}
    below = [one for one in pin(context, table.view) if one.input.name in finished.lives]
    for one in below:
        has_more = one.snapshot.integer(AMENDMENTS) or RESETS in one.snapshot.summary
        if one.life != finished.lives[one.input.name] or has_more:
            raise overtaken(table.table.identifier)
    inputs = json.loads(said["tidegate.inputs"]) | json.loads(positions(below))
    facts = {"tidegate.inputs": json.dumps(inputs, sort_keys=True)} if below else {}
    return said | {"tidegate.frontier": str(finished.frontier)} | facts


def _finished(context: Context, view: View, finished: FinishedRows, after: int | None) -> DataFrame:
    """Those that end after a tick (None: all)."""
    from pyspark.sql import functions as F

    rows = context.tables.rows(finished.identifier, finished.at.id).where(~F.col("_open"))
    end = F.col("_window_end")
    if after is not None:
        rows = rows.where(~window_is_closed(end, F.expr(view.kind.spark_literal(after))))
    if finished.upto is not None:
        rows = rows.where(window_is_closed(end, F.expr(view.kind.spark_literal(finished.upto))))
    columns = [F.col(quote(c.name)).cast(c.type).alias(c.name) for c in resolve_columns(context, view)]
    return rows.select(*columns, *_system(rows))


def _skipped(table: ViewTable, base: Snapshot, after: int | None, upto: int) -> dict[str, str]:
    """What nobody has computed below the boundary: the current version has skipped it, or had not come to it."""
    said = table.said
    for stretch in gaps_between(base.summary, after, upto):
        said = with_gap(said, *stretch)
    reached = [mark for mark in (after, base.integer("tidegate.frontier")) if mark is not None]
    if reached and max(reached) < upto and closes_anything(table.view, max(reached), upto):
        said = with_gap(said, max(reached), upto)
    return {GAPS: said[GAPS]} if GAPS in said else {}


def _rows(
    context: Context, view: View, identifier: str, base: Snapshot, past: KeptPast, after: int | None
) -> DataFrame:
    """Final rows of the current version that end after a tick (None: all), in the columns of the new one."""
    from pyspark.sql import functions as F

    stored = context.tables.rows(identifier, base.id).where(~F.col("_open"))
    stored = final_now(stored, view, base.summary)
    boundary = F.expr(view.kind.spark_literal(past.upto))
    stored = stored.where(window_is_closed(F.col("_window_end"), boundary))
    if after is not None:
        own = F.expr(view.kind.spark_literal(after))
        stored = stored.where(~window_is_closed(F.col("_window_end"), own))
    columns = []
    for column in resolve_columns(context, view):
        before = past.columns[column.name]
        value = F.lit(None) if before is None else F.col(quote(before))
        columns.append(value.cast(column.type).alias(column.name))
    return stored.select(*columns, *_system(stored))


def _system(rows: DataFrame) -> list[Column]:
    """The columns that are not the view's own. In the order that the rows have had they are sorted again (C4)."""
    from pyspark.sql import functions as F

    order = [F.col("_ordinal").alias(ORDINAL)] if "_ordinal" in rows.columns else []
    return [*map(F.col, (*_SYSTEM, "_open")), *order]
