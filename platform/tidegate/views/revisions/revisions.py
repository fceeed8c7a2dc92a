"""Revisions of a view's windows, where they are stored (B2).

An amendment replaces all rows of a window in one commit. What it replaces stays in the view's table beside the rows
that the view carries, where `_open` is NULL: nobody's result. Every row that an amendment wrote or replaced says so in
`_revision` (`layout.REVISION_TYPE`), and one more row for each window and revision that it was amended, whether or not
the window has any row left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegate.iceberg.layout import quote
from tidegate.sql.dialect.inner_names import inner
from tidegate.sql.views.repeatable import not_over
from tidegate.views.inputs import empty

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidegate.iceberg.tables import Tables
    from tidegate.sql.catalog.objects import CatalogColumn, SystemTable, View
    from tidegate.views.inputs import Pinned

#: Of a window's newest revision, beside the columns of `units`: its number, the amendment that made it, and what it
#: has absorbed.
NUMBER, AMENDMENT, UPTO = inner("number"), inner("amendment"), inner("upto")
_NEWEST = inner("newest")
#: What the rows of `_revision` are about.
ROW, TOMBSTONE, WINDOW = "row", "tombstone", "window"


def units(view: View) -> tuple[str, ...]:
    """The columns that say what is amended as a whole: a window; of sessions, which every key has for itself, that of
    one group; of OVER windows the row itself, which another row can release earlier (C5)."""
    if view.over is not None:
        return ("_window_start", *not_over(view))
    bounds = ("_window_start", "_window_end")
    return (*bounds, *view.group_columns) if view.open_sql is not None else bounds


def has_revisions(frame: DataFrame) -> bool:
    """Whether a view's table, as of some snapshot, has ever been amended."""
    return "_revision" in frame.columns


def latest(tables: Tables, view: View, stored: str, snapshot: int | None = None) -> DataFrame | None:
    """One line for each window that was ever amended: the columns of `units`, and of its newest revision `NUMBER`,
    `UPTO` and `AMENDMENT`. None if there is none."""
    from pyspark.sql import functions as F

    table = tables.rows(stored, snapshot)
    if not has_revisions(table):
        return None
    marks = table.where(F.col("_open").isNull() & (F.col("_revision.kind") == WINDOW))
    newest = F.max(F.struct("_revision.number", "_revision.amendment", "_revision.upto"))
    found = marks.groupBy(*map(quote, units(view))).agg(newest.alias(_NEWEST))
    return found.select(
        *map(quote, units(view)),
        F.col(_NEWEST)["number"].alias(NUMBER),
        F.col(_NEWEST)["upto"].alias(UPTO),
        F.col(_NEWEST)["amendment"].alias(AMENDMENT),
    )


def amended_ends(tables: Tables, below: Pinned, after: int) -> DataFrame | None:
    """`_window_end` of the windows of a view below that were amended by an amendment later than number `after`."""
    from pyspark.sql import functions as F

    if below.table is None or below.snapshot.id is None:
        return None
    table = tables.rows(below.table, below.snapshot.id)
    if not has_revisions(table):
        return None
    newer = (F.col("_revision.kind") == WINDOW) & (F.col("_revision.amendment") > after)
    return table.where(F.col("_open").isNull() & newer).select("_window_end")


def with_units(frame: DataFrame, chosen: DataFrame, view: View) -> DataFrame:
    """The rows of the windows (`units`) that are among `chosen`."""
    return _joined(frame, chosen, view, (), "left_semi")


def without_units(frame: DataFrame, chosen: DataFrame, view: View) -> DataFrame:
    """The rows of all other windows."""
    return _joined(frame, chosen, view, (), "left_anti")


def beside_units(
    frame: DataFrame, chosen: DataFrame, view: View, added: Sequence[str], how: str = "inner"
) -> DataFrame:
    """The rows of the windows that are among `chosen`, each with the columns `added` of its window; `how` = "left": all
    rows, NULL where there is none."""
    return _joined(frame, chosen, view, added, how)


def _joined(frame: DataFrame, chosen: DataFrame, view: View, added: Sequence[str], how: str) -> DataFrame:
    from pyspark.sql import functions as F

    keys = units(view)
    there = chosen.select(
        *[F.col(quote(name)).alias(inner(f"unit{i}")) for i, name in enumerate(keys)],
        *[F.col(name).alias(name) for name in added],
    )
    same = F.lit(True)
    for i, name in enumerate(keys):
        same = same & F.col(quote(name)).eqNullSafe(F.col(inner(f"unit{i}")))
    joined = frame.join(there, same, how)
    return joined.drop(*[inner(f"unit{i}") for i in range(len(keys))]) if how in ("inner", "left") else joined


def revisions_frame(
    tables: Tables, system: SystemTable, columns: Sequence[CatalogColumn], table: str | None
) -> DataFrame:
    """`<view>$revisions`: every revision of every closed row, the live one is number 1."""
    from pyspark.sql import functions as F

    kinds = {c.name: c.type for c in columns}
    if table is None:
        own = [(c.name, kinds.get(c.name, c.type)) for c in system.columns]
        return empty(tables.spark, own)
    stored = tables.rows(table)
    if has_revisions(stored):
        mark = F.col("_revision")
        closed = F.coalesce(~F.col("_open"), mark.kind.isin(ROW, TOMBSTONE))
    else:
        mark, closed = None, ~F.col("_open")

    def fact(name: str, kind: str) -> Column:
        return F.lit(None).cast(kind) if mark is None else mark[name]

    facts = {
        "number": F.coalesce(fact("number", "bigint"), F.lit(1)).cast("bigint"),
        "amended_at": fact("amended_at", "timestamp"),
        "late": fact("late", "bigint"),
        "is_current": F.coalesce(~F.col("_open"), F.lit(False)),
        "is_tombstone": F.coalesce(fact("kind", "string") == TOMBSTONE, F.lit(False)),
    }
    rows = stored.where(closed).withColumns({inner(name): value for name, value in facts.items()})
    order = [name for name in ("_window_end", NUMBER, "_ordinal") if name in rows.columns]
    shown = zip(system.stored, system.columns, strict=True)
    return rows.orderBy(*order).select(*[F.col(quote(s)).alias(c.name) for s, c in shown])
