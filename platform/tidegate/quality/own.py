"""The team's own suites: which rows they are about, and up to where they have been checked.

A check takes the rows that came since the last one, so that its cost does not grow with history: a view's closed rows
by the end of their window, a log's on-time rows by commit. Where nothing has come since, the last stretch is checked
again: a verdict does not turn by waiting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.iceberg.layout import ON_TIME, quote
from tidegate.plan.resets import position
from tidegate.project.expectations import LOG_COLUMNS, VIEW_COLUMNS, Expectation, identity
from tidegate.project.owner import OWNER, Owner
from tidegate.quality.model import WindowSpan
from tidegate.sinks.statefile import StateFile
from tidegate.sql.catalog.objects import Relation, View
from tidegate.watermark import TimeKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.session.session import Session

#: Columns of a failing row that are shown; more are not read.
MOST_COLUMNS = 10
_PLAIN = ("struct", "array", "map", "binary", "variant")


@dataclass(frozen=True)
class SuiteRows:
    """The rows that a suite is about. `shown`: columns that tell a person which row it is. `position`: what to remember
    when they have been checked; None: nothing."""

    frame: DataFrame | None
    scope: str
    shown: list[str]
    position: dict[str, Any] | None = None


def new_rows(
    session: Session,
    item: Relation | View,
    stored: str,
    suite: tuple[Expectation, ...],
    span: WindowSpan | None = None,
    everything: bool = False,
) -> SuiteRows:
    """What came since the last check of this suite; `span`: rows of these windows (or event times) instead, and the
    position stays. With `everything`, or another suite than the last time, it begins at the beginning."""
    if isinstance(item, Relation) and item.primary_key:
        # What a key holds may change at any time: the whole table is what there is to check.
        frame = session.table(item.name)
        return SuiteRows(frame, "all rows that the table holds now", _shown(frame, ()))
    table = session.tables.open(stored)
    current = table.current()
    rows = session.tables.rows(stored, current.id) if current.id else None
    reached = current.integer("tidegate.frontier" if isinstance(item, View) else "tidegate.epoch")
    if rows is None or reached is None:
        what = "no window is final yet" if isinstance(item, View) else "no rows yet"
        return SuiteRows(None, what, [])
    if span is not None:
        frame, scope = _spanned(rows, item, span, reached)
        return SuiteRows(_own(frame, item), scope, _shown(_own(frame, item), _place(item)))
    # What a neighbour has checked is not remembered: beside a table only its owner writes (X3). A branch's memory of
    # what it borrows is in its own namespace.
    lent = session.project.storage.is_lent(item.name)
    remembers = lent or Owner.of_text(table.property(OWNER)) in (None, session.project.owner)
    known = (position_file(session, item.name).read() or {}) if remembers else {}
    fresh = everything or known.get("table") != table.uuid or known.get("suite") != identity(suite)
    after, reset = checked(item, current.summary, {} if fresh else known, reached)
    frame, scope = _since(rows, item, after, reached)
    place = {"table": table.uuid, "suite": identity(suite), "after": after, "upto": reached, "reset": reset}
    frame = _own(frame, item)
    return SuiteRows(frame, scope, _shown(frame, _place(item)), place if remembers else None)


def checked(
    item: Relation | View, summary: Mapping[str, str], known: Mapping[str, Any], reached: int
) -> tuple[int | None, int]:
    """Up to where the rows before `reached` have been checked, by the position `known` of the last check (None: none
    have), and the newest step back that this takes into account: a view's frontier goes back behind a watermark that
    was reset, and what closes again is checked again (W9). A log's commits only go on."""
    after, reset = known.get("upto"), known.get("reset", 0)
    if isinstance(item, View) and after is not None:
        after, reset = position(summary, after, reset)
    if after is not None and after >= reached:
        after = known["after"]
    return (None if after is not None and after >= reached else after), reset


def position_file(session: Session, name: str) -> StateFile:
    """Where it is written up to where an asset's own suite has been checked."""
    storage = session.project.storage
    folder = f"{storage.warehouse}/_quality/{session.project.env.warehouse.namespace}"
    return StateFile(storage, f"{folder}/{name}.json")


def _since(rows: DataFrame, item: Relation | View, after: int | None, reached: int) -> tuple[DataFrame, str]:
    """Rows beyond `after` (a frontier, or a commit) up to `reached`."""
    from pyspark.sql import functions as F

    if isinstance(item, View):
        low = None if after is None else after + 1
        return _spanned(rows, item, WindowSpan(low, reached + 1), reached)
    found = rows.where((F.col("_outcome") == ON_TIME) & (F.col("_epoch") <= reached))
    if after is None:
        return found, f"all on-time rows, up to commit {reached:,}"
    # Files say which commits they hold: older ones are not opened.
    found = found.where(F.col("_epoch") > after)
    return found, f"on-time rows of commits {after + 1:,} to {reached:,}"


def _spanned(rows: DataFrame, item: Relation | View, span: WindowSpan, reached: int) -> tuple[DataFrame, str]:
    from pyspark.sql import functions as F

    if isinstance(item, View):
        kind, time = item.kind, "_window_end"
        high = reached + 1 if span.high is None else min(reached + 1, span.high)
        found = rows.where(~F.col("_open")).where(F.col(time) < F.expr(kind.spark_literal(high)))
        scope = window_scope(WindowSpan(span.low, high), kind)
    else:
        found = rows.where(F.col("_outcome") == ON_TIME)
        if item.watermark is None:
            return found, "all rows: there is no event time to choose by"
        kind, time = item.watermark.kind, item.watermark.column
        scope = (
            f"on-time rows from {kind.format(span.low)} on" if span.low is not None else "all on-time rows"
        )
        if span.high is not None:
            found = found.where(F.col(quote(time)) < F.expr(kind.spark_literal(span.high)))
            scope += f", before {kind.format(span.high)}"
    if span.low is not None:
        found = found.where(F.col(quote(time)) >= F.expr(kind.spark_literal(span.low)))
    return found, scope


def window_scope(span: WindowSpan, kind: TimeKind) -> str:
    """Which windows a check was about, for people."""
    upto = "" if span.high is None else f" up to {kind.format(span.high - 1)}"
    return (
        f"all final windows{upto}"
        if span.low is None
        else f"windows that ended {lower(span.low, kind)}{upto}"
    )


def lower(low: int, kind: TimeKind) -> str:
    """A lower bound as it was meant: "after" the tick before it where that is the rounder time."""
    at, before = kind.format(low), kind.format(low - 1)
    return f"after {before}" if len(before) <= len(at) else f"from {at} on"


def _place(item: Relation | View) -> tuple[str, ...]:
    return VIEW_COLUMNS if isinstance(item, View) else LOG_COLUMNS[:2]


def _own(frame: DataFrame, item: Relation | View) -> DataFrame:
    """The columns that expectations may name."""
    system = VIEW_COLUMNS if isinstance(item, View) else LOG_COLUMNS
    return frame.select(*[quote(c.name) for c in item.columns], *system)


def _shown(frame: DataFrame, place: tuple[str, ...]) -> list[str]:
    """Where a row is, then its plain columns; a view's window only once."""
    fields = {f.name: f.dataType.typeName() for f in frame.schema.fields}
    double = {name.lstrip("_") for name in place}
    own = [
        n for n, kind in fields.items() if kind not in _PLAIN and n not in double and not n.startswith("_")
    ]
    return [*place, *own][:MOST_COLUMNS]
