"""The system tables of a source or table (`x$late` and so on), and of a view (`x$revisions`, `x$v1`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.sql.catalog.objects import CatalogColumn, Object, Relation, SystemTable, View
from tidegate.sql.dialect.inner_names import inner
from tidegate.watermark import TimeKind

SYSTEM_TABLES = ("late", "rejected", "raw", "watermarks")
REVISIONS = "revisions"  # of a view (B2)
_TYPES = {TimeKind.TIMESTAMP: "timestamp_ntz", TimeKind.TIMESTAMPTZ: "timestamp", TimeKind.DATE: "date"}


def version_in(suffix: str) -> int | None:
    """The number in the suffix of a view's version (`v1`); None if it is not one."""
    digits = suffix.removeprefix("v")
    return int(digits) if suffix != digits and digits.isdecimal() and digits[0] != "0" else None


def version_table(view: View, suffix: str, columns: tuple[CatalogColumn, ...]) -> SystemTable:
    """The results of one version of a view, with the columns that it had (E5)."""
    return SystemTable(f"{view.name}${suffix}", view, suffix, columns, tuple(c.name for c in columns))


def system_table_of(found: Object | None, suffix: str) -> SystemTable | None:
    """`<found>$<suffix>`, or None if there is no such table."""
    if isinstance(found, Relation) and suffix in SYSTEM_TABLES:
        return system_table(found, suffix)
    return revisions_table(found) if isinstance(found, View) and suffix == REVISIONS else None


def system_table(relation: Relation, suffix: str) -> SystemTable:
    """The columns of `$late`, `$rejected`, `$raw` and `$watermarks`: what was judged, where it stood in the
    log, and why. Times of the watermark have the type of the time column (bigint if there is none)."""
    time = relation.time_column
    time_type = time.type if time else "bigint"
    late_by = {
        "timestamp_ntz": "interval day to second",
        "timestamp": "interval day to second",
        "date": "int",
    }
    if suffix == "watermarks":
        kinds = {
            "epoch": "bigint",
            "at": "timestamp",
            "partition": "string",
            "watermark": time_type,
            "published": time_type,
            "state": "string",
            "next_offset": "bigint",
            "on_time": "bigint",
            "late": "bigint",
            "rejected": "bigint",
            "max_event_time": time_type,
            "note": "string",
        }
        history = tuple(CatalogColumn(name, kind) for name, kind in kinds.items())
        return SystemTable(f"{relation.name}$watermarks", relation, suffix, history, tuple(kinds))
    place = {
        "_source_partition": ("partition", "string"),
        "_offset": ("offset", "bigint"),
        "_arrival": ("arrival", "timestamp"),
        "_epoch": ("epoch", "bigint"),
    }
    missed = {"_wm": ("watermark", time_type)}
    behind = {"_late_by": ("late_by", late_by.get(time_type, "bigint"))}
    why = {"_reason": ("reason", "string"), "_raw": ("raw", "string")}
    system = {
        "late": missed | behind | place,
        "rejected": why | place,
        "raw": {"_outcome": ("outcome", "string")} | missed | why | place,
    }[suffix]
    if relation.primary_key:
        system = {"_op": ("op", "string")} | system
    own = tuple(CatalogColumn(c.name, c.type, comment=c.comment) for c in relation.columns)
    added = _beside(own, system)
    stored = (*(c.name for c in own), *system)
    return SystemTable(f"{relation.name}${suffix}", relation, suffix, (*own, *added), stored)


def _beside(own: Sequence[CatalogColumn], system: Mapping[str, tuple[str, str]]) -> tuple[CatalogColumn, ...]:
    """The system's columns. One of the user's own keeps its name; the system's then has an underscore in front."""
    taken = {c.name.casefold() for c in own}
    added = []
    for name, kind in system.values():
        while name in taken:
            name = f"_{name}"
        added.append(CatalogColumn(name, kind))
    return tuple(added)


def revisions_table(view: View) -> SystemTable:
    """The view's own columns, `window_end` if it has none, and which revision of its window a row belongs to.

    `late_rows`: how many source rows this revision has absorbed beyond the one before; NULL for the live one, and where
    the query does not tell. `is_tombstone`: a group of the revision before is not in this one.
    """
    system = {
        "_window_end": ("window_end", _TYPES.get(view.kind, "bigint")),
        inner("number"): ("revision", "bigint"),
        inner("amended_at"): ("amended_at", "timestamp"),
        inner("late"): ("late_rows", "bigint"),
        inner("is_current"): ("is_current", "boolean"),
        inner("is_tombstone"): ("is_tombstone", "boolean"),
    }
    if "window_end" in (c.name.casefold() for c in view.columns):
        del system["_window_end"]
    added = _beside(view.columns, system)
    stored = (*(c.name for c in view.columns), *system)
    return SystemTable(f"{view.name}${REVISIONS}", view, REVISIONS, (*view.columns, *added), stored)
