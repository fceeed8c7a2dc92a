"""What a branch has computed of a view, where production would compute the very same (X3, E5).

Final rows follow from the definitions and from the logs alone (C2, D3, B1). So a branch's rows are vouched for if they
are of production's definition, of a snapshot that production's logs still have, and of nothing that each environment
has for itself. Of a view below, the branch has read production's own results, or results of its own. Then those must
be vouched for, too, as they were when they were read, and production must have the same rows of that view: they are
compared, up to where both are final.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tidegate.iceberg.layout import carried_column, is_of_view, quote
from tidegate.iceberg.protocol import AMENDMENTS
from tidegate.plan.columns.changes import other_columns
from tidegate.plan.gaps import RETAINED_FROM, gaps
from tidegate.plan.lost_totals import LOST_TOTALS
from tidegate.plan.resets import RESETS, Beyond
from tidegate.plan.versions import LIFE_OF_INPUT, MARKS, STALE, VALID_FROM
from tidegate.project.owner import OWNER, Owner
from tidegate.project.storage import CATALOG
from tidegate.sql.catalog.objects import Relation, View
from tidegate.sql.dialect.inner_names import inner
from tidegate.views.definition import stale_below
from tidegate.views.inputs import clock_of
from tidegate.views.over import carried_type, missing_totals
from tidegate.views.resolve import changes_of, no_rows, resolve_columns, standing
from tidegate.views.slices import run_sql
from tidegate.views.versions.past import FinishedRows
from tidegate.watermark import window_is_closed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.iceberg.protocol import Snapshot
    from tidegate.iceberg.tables import StoredTable
    from tidegate.project import Project
    from tidegate.runtime.context import Context

#: Inside: how often a row is there more on the one side than on the other.
_MORE = inner("more")


def is_here(context: Context, view: View, table: StoredTable | None = None) -> bool:
    """Whether this environment has results of this definition already, and of the present ones below. `table`: where it
    is open."""
    table = table or context.opened(view.name)
    if table is None:
        return False
    now, properties = table.current(), table.properties()
    changes = partial(changes_of, context)
    is_of_it = is_of_view(view, properties) and other_columns(view, properties, changes) is None
    return now.id is not None and is_of_it and stale_below(context, table, now) is None


def finished(
    context: Context,
    view: View,
    branch: Project,
    coming: Collection[str] = (),
    commit: int | None = None,
) -> FinishedRows | str:
    """What the branch has computed of a view; or why that can't be taken as it is. `coming`: views whose results in the
    branch become this environment's before. `commit`: as of this one of its commits; None: the newest."""
    if (before := context.before_rename(view)) is not None:
        return f'it keeps the results that are stored as "{before}", which the next run renames'
    table = _in_branch(context, view, branch)
    if isinstance(table, str):
        return table
    now, properties = table.current(), table.properties()
    if (why := _not_repeatable(context, view) or _not_as_computed(now.summary, properties)) is not None:
        return why
    if view.over is not None and not _carries_alike(context, view, table):
        return "what OVER carries from run to run is of an earlier release in the branch"
    if commit is not None and commit not in table.snapshot_ids():
        return "the snapshot that was read of it in the branch has expired"
    at = now if commit is None else table.at(commit)
    if at.integer("tidegate.frontier") is None:
        return "it has no final results in the branch yet"
    inputs, lives = json.loads(at.summary.get("tidegate.inputs") or "{}"), dict[str, str]()
    for name in view.reads:
        below, here = context.catalog.get(name), context.opened(name)
        if isinstance(below, View):
            here = None if name in coming else here
            if here is not None:
                # Before it is looked at: whatever is found holds for this life of it.
                lives[name] = here.uuid
            if (why := _not_the_same(context, below, here, branch, inputs.get(name), coming)) is not None:
                return why
        elif here is None or not _has_read(here, inputs.get(name)):
            return f'the snapshot of "{name}" that the branch has read has expired, or is of another log'
    kept = properties.get(VALID_FROM)
    found = FinishedRows(table.identifier, at, None if kept is None else int(kept) - 1, lives=lives)
    # (Of views that are coming it is not known yet how far they are.)
    return _as_far(context, view, found) if lives and not {*coming} & {*view.reads} else found


def _in_branch(context: Context, view: View, branch: Project) -> StoredTable | str:
    """The table of a view in the branch; or why its results are no others' to take."""
    identifier = f"{CATALOG}.{branch.env.warehouse.namespace}.{quote(view.name)}"
    if not context.tables.exists(identifier):
        return "the branch has no results of it"
    table = context.tables.open(identifier)
    table.current()
    properties = table.properties()
    if Owner.of_text(properties.get(OWNER)) != branch.owner:
        return "its results in the namespace of the branch belong to another project or environment"
    if not is_of_view(view, properties):
        return "its results in the branch are of another definition"
    if (other := other_columns(view, properties, partial(changes_of, context))) is not None:
        return f"its results in the branch were computed before a change: {other}"
    if properties.get(STALE):
        return f'it was computed from earlier results of "{properties[STALE]}" in the branch'
    return table


def _has_read(log: StoredTable, entry: Mapping[str, Any] | None) -> bool:
    """Whether what was read is a snapshot that this very log still has: no rows of it were erased since."""
    log.current()
    return entry is not None and entry["commit"] in log.snapshot_ids()


def _not_repeatable(context: Context, view: View) -> str | None:
    """Why two environments may have computed different rows of the same definition, or rows alone don't tell how to
    continue."""
    sources = [context.catalog.get(name) for name in view.reads]
    if any(entry.lookup for entry in view.inputs):
        return "it looks rows up as they are at each run"
    if any(not isinstance(one, Relation | View) or getattr(one, "kind", "") == "gate" for one in sources):
        return "it reads WATERMARK(…), which each environment has for itself"
    if any(isinstance(one, Relation) and one.primary_key for one in sources):
        return "it reads a table with a PRIMARY KEY"
    return "no result of it is ever final" if view.clock is None else None


def _not_as_computed(summary: Mapping[str, str], properties: Mapping[str, str]) -> str | None:
    """Why rows of the branch are not what the definition gives of the log alone."""
    if int(summary.get(AMENDMENTS) or 0):
        return "the branch has amended its results"
    if gaps(summary) or RETAINED_FROM in properties:
        return "some of its results are missing in the branch, because rows were removed"
    return "its watermark was reset, and its results have not closed again" if Beyond.of(summary) else None


def _carries_alike(context: Context, view: View, table: StoredTable) -> bool:
    """Whether what a table has of the rows that OVER carries (C5) is all that this release carries of them."""
    assert view.over is not None
    rows = run_sql(context.spark, view, view.over.rows_sql, no_rows(context, view))
    name, wanted = carried_column(view), carried_type(context.spark, view, rows)
    schema = table.target(context.project.storage, reading=True).schema
    return name in schema.names and not missing_totals(name, wanted, schema.field(name).type)


# -- views below -----------------------------------------------------------------------------------------------


def _not_the_same(
    context: Context,
    below: View,
    here: StoredTable | None,
    branch: Project,
    entry: Mapping[str, Any] | None,
    coming: Collection[str],
) -> str | None:
    """Why this environment may have other rows of a view than those that its reader has read in the branch. `here`: its
    results, None if there are none, or others are `coming`; `entry`: what the reader's commit says of it."""
    name = below.name
    if entry is None or entry.get(LIFE_OF_INPUT) is None or entry["commit"] is None:
        return f'it does not say which results of "{name}" it has read in the branch'
    if name not in coming and (here is None or not is_here(context, below, here)):
        return f'it reads "{name}", of which "{context.project.env_name}" has no results of the present definitions'
    if here is not None and (why := _not_of_logs_alone(here)) is not None:
        return f'results of "{name}", which it reads, {why} in "{context.project.env_name}"'
    if here is not None and entry[LIFE_OF_INPUT] == here.uuid:
        # The branch has read these very results.
        known = _has_read(here, entry)
        return None if known else f'the snapshot of "{name}" that the branch has read has expired'
    found = finished(context, below, branch, coming, entry["commit"])
    if isinstance(found, str):
        return f'it reads "{name}", for which the branch can\'t vouch: {found}'
    table = context.tables.open(found.identifier)
    if table.uuid != entry[LIFE_OF_INPUT]:
        return f'it was computed from earlier results of "{name}" in the branch'
    if (why := _not_of_logs_alone(table)) is not None:
        return f'results of "{name}", which it reads, {why} in the branch'
    if here is None or _same_rows(context, below, here, found):
        return None
    return f'"{context.project.env_name}" has other results of "{name}" than the branch'


def _not_of_logs_alone(table: StoredTable) -> str | None:
    """Why results of a view, as they are now, may not be what its definition gives of the logs alone, or why who reads
    them has more to follow than new rows."""
    summary, properties = table.current().summary, table.properties()
    if int(summary.get(AMENDMENTS) or 0):
        return "were amended"
    if RESETS in summary:
        return "have closed again after a reset of the watermark"
    if gaps(summary) or not {RETAINED_FROM, VALID_FROM, MARKS}.isdisjoint(properties):
        return "are in part missing, of an earlier query or of erased rows"
    return None


def _same_rows(context: Context, below: View, here: StoredTable, found: FinishedRows) -> bool:
    """Whether this environment has the rows of a view that a branch has `found`, up to where both are final. (The last
    digits of sums of floating-point numbers, and what depends on the order of rows, may differ: C7.)"""
    from pyspark.sql import functions as F

    now = here.current()
    own = now.integer("tidegate.frontier")
    if own is None:
        return True
    upto = min(own, found.frontier)
    columns = [(c.name, c.type) for c in resolve_columns(context, below)]
    if any("map<" in kind or "variant" in kind for _, kind in columns):
        # Spark compares no such values.
        return False

    def final(identifier: str, at: Snapshot, count: int) -> DataFrame:
        rows = context.tables.rows(identifier, at.id).where(~F.col("_open"))
        rows = rows.where(window_is_closed(F.col("_window_end"), F.expr(below.kind.spark_literal(upto))))
        own = [F.col(quote(name)).cast(kind).alias(name) for name, kind in columns]
        return rows.select(*own, "_window_start", "_window_end", "_rows", F.lit(count).alias(_MORE))

    both = final(here.identifier, now, 1).unionByName(final(found.identifier, found.at, -1))
    names = [quote(name) for name in both.columns if name != _MORE]
    other = both.groupBy(*names).agg(F.sum(_MORE).alias(_MORE)).where(F.col(_MORE) != 0)
    # Bounded: one row.
    return not other.limit(1).collect()


def _as_far(context: Context, view: View, found: FinishedRows) -> FinishedRows | str:
    """Of what is `found` of a view over views what ends up to where this environment's own results below allow it."""
    clock = clock_of(view, standing(context, view))
    if clock is None:
        return "nothing of what it reads is final here yet"
    if clock >= found.frontier:
        return found
    if view.open_sql is not None or view.over is not None or LOST_TOTALS in found.at.summary:
        # What was open at an earlier time, or was carried from there, is not stored.
        return (
            f"what it reads allows results up to {view.kind.format(clock)} here, and those of the branch are final up "
            f"to {view.kind.format(found.frontier)}: promote it when what it reads has come so far here"
        )
    return replace(found, upto=clock)
