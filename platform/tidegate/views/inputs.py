"""What a view's query reads: every input at one pinned snapshot, between bounds of time, as DataFrames. Sinks and gates
inline follow a log by its commits instead (`sinks/upstream.py` says why there are two)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.iceberg.layout import LATE, ON_TIME, quote, time_type
from tidegate.plan.columns.changes import unfit
from tidegate.plan.resets import Beyond, step_back
from tidegate.plan.versions import LIFE_OF_INPUT
from tidegate.sql.catalog.objects import Input, Relation, View, is_reserved
from tidegate.sql.dialect.types import display
from tidegate.tables.lives import changes_frame, current_rows, state_identifier
from tidegate.watermark import Mark, SessionMark, TimeKind, window_is_closed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.iceberg.protocol import Snapshot
    from tidegate.iceberg.tables import StoredTable, Tables
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import CatalogColumn

#: What a query finds of a relation's rows beside the relation's own columns.
HIDDEN = (("_source_partition", "string"), ("_offset", "bigint"), ("_arrival", "timestamp"))

#: The table property by which a log and its state say of which definition they are (`relation_identity`).
IDENTITY = "tidegate.identity"


@dataclass(frozen=True)
class Pinned:
    """One input of a view at one snapshot. `table`: its identifier, None if nothing is stored of it yet; `columns`:
    those of a view with the types that Spark gives them. `earlier`: the snapshot may be one from before columns were
    added. `opened`: that table, as it was found; `life`: of a view's results, as of the snapshot (E5). `called`: where
    `source` is what an earlier definition of it was (`View.seen`), by its columns what they are called now, None for
    one that is gone; `narrowed`: those of a wider type now that the query may read, with the type of then; `identity`:
    of the definition that its table had when this was found out."""

    input: Input
    source: Relation | View
    columns: tuple[CatalogColumn, ...]
    table: str | None
    snapshot: Snapshot
    earlier: bool = False
    opened: StoredTable | None = field(default=None, compare=False, repr=False)
    life: str | None = None
    called: Mapping[str, str | None] | None = None
    narrowed: Mapping[str, str] = field(default_factory=dict)
    identity: str | None = None

    @property
    def mark(self) -> Mark:
        """How far the input is, for `View.clock`: a relation's watermark, a view's frontier (D3)."""
        if isinstance(self.source, Relation):
            return self.snapshot.integer("tidegate.watermark")
        frontier = self.snapshot.integer("tidegate.frontier")
        if self.source.open_sql is None:
            return frontier
        return SessionMark(frontier, self.snapshot.integer("tidegate.earliest-open"))

    @property
    def kind(self) -> TimeKind | None:
        """What the input's time column counts in; None where there is none."""
        if isinstance(self.source, View):
            return self.source.kind
        return self.source.watermark.kind if self.source.watermark is not None else None

    def at(self, snapshot: int | None) -> Pinned:
        """The same input at another snapshot."""
        return replace(self, snapshot=replace(self.snapshot, id=snapshot), earlier=True)

    def fields(self) -> list[tuple[str, str]]:
        """(name, Spark type) of what a query finds here."""
        own = [(c.name, c.type) for c in self.columns]
        if isinstance(self.source, Relation):
            if self.source.primary_key:
                return [*own, *HIDDEN]
            return [*own, *HIDDEN, *self.source.message_columns, ("_wm", time_type(self.source))]
        return [*own, ("_window_end", bound_type(self.source.kind))]

    def rows(
        self,
        tables: Tables,
        view: View,
        base: int | None = None,
        clock: int | None = None,
        late: int | None = None,
    ) -> DataFrame:
        """What `view`'s query may see of it: rows from `base` + low on and before `clock` + high, both on the scale of
        the view's clock (None: no bound). Of a view only final rows, if `view` itself emits only those. `late`: rows
        that were late, too, of the log's commits up to this one (B1)."""
        from pyspark.sql import functions as F

        names = [quote(name) for name, _ in self.fields()]
        if self.table is None or self.snapshot.id is None:
            return empty(tables.spark, self.fields())
        called = self._called_then(tables)
        if isinstance(self.source, Relation) and self.source.primary_key:
            low, high = self.bounds(view, base, clock)
            rows = self._table_rows(tables, _with_names(self.source, called), low, high)
            return self._narrow(self._as_seen(rows, called), view).select(*names)
        stored = self._as_seen(tables.rows(self.table, self.snapshot.id), called)
        if self.earlier and called is None:
            there = {name.casefold() for name in stored.columns}
            added = [(n, kind) for n, kind in self.fields() if n.casefold() not in there]
            stored = stored.selectExpr("*", *(f"CAST(NULL AS {kind}) AS {quote(n)}" for n, kind in added))
        if isinstance(self.source, Relation):
            seen = F.col("_outcome") == ON_TIME
            if late is not None and not self.input.lookup:
                seen = seen | ((F.col("_outcome") == LATE) & (F.col("_epoch") <= late))
            rows = stored.where(seen)
        elif view.emit_on_window_close and not self.input.lookup:
            rows = final_now(stored.where(~F.col("_open")), self.source, self.snapshot.summary)
        else:
            # NULL: rows that an over view carries from one tick to the next, and what amendments have replaced; they
            # are nobody's result.
            rows = shown(stored.where(F.col("_open").isNotNull()), self.source, self.snapshot.summary)
        return self._narrow(self.within(rows, view, base, clock), view).select(*names)

    def within(self, rows: DataFrame, view: View, base: int | None, clock: int | None) -> DataFrame:
        """Those of the input's stored `rows`, whatever became of them, that lie between these bounds (see `rows`)."""
        from pyspark.sql import functions as F

        low, high = self.bounds(view, base, clock)
        time = F.col(quote(self.input.time_column or ""))
        if low is not None:
            rows = rows.where(time >= F.expr(self._literal(low)))
        if high is not None:
            rows = rows.where(time < F.expr(self._literal(high)))
        return rows

    def among(self, rows: DataFrame, view: View, ranges: Sequence[tuple[int | None, int]]) -> DataFrame:
        """Those of the input's `rows` that windows need which end in one of `ranges`: after the first tick (None:
        ever), at the second or before."""
        from pyspark.sql import functions as F

        time, wanted = F.col(quote(self.input.time_column or "")), F.lit(False)
        for after, upto in ranges:
            low, high = self.bounds(view, after, upto)
            if low is None and high is None:
                return rows
            here = F.lit(True)
            if low is not None:
                here &= time >= F.expr(self._literal(low))
            if high is not None:
                here &= time < F.expr(self._literal(high))
            wanted |= here
        return rows.where(wanted)

    def _table_rows(self, tables: Tables, relation: Relation, low: int | None, high: int | None) -> DataFrame:
        """The rows of a table with a PRIMARY KEY: for windows what its changes left, else what it holds now.
        `relation`: with the columns by the names that the state has for them."""
        assert self.table is not None
        if relation.watermark is not None and not self.input.lookup:
            return changes_frame(tables, relation, self.table, self.snapshot.id, low, high)
        system = [name for name, _ in HIDDEN]
        return current_rows(tables, relation, self.table, *system, snapshot=self.snapshot.id)

    def _called_then(self, tables: Tables) -> Mapping[str, str | None] | None:
        """`called`, of the columns as they are called at the snapshot. TG506 if they have changed since the input was
        pinned: under a name of then there may be another column now (E2)."""
        if self.called is None or not self.earlier or self.snapshot.id is None:
            return self.called
        assert self.table is not None
        keyed = isinstance(self.source, Relation) and self.source.primary_key
        stored = tables.open(state_identifier(self.table) if keyed else self.table)
        require_identity(self.source.name, stored, self.identity)
        then = stored.names_at(self.snapshot.id)
        return {name: None if now is None else then.get(now) for name, now in self.called.items()}

    def _as_seen(self, rows: DataFrame, called: Mapping[str, str | None] | None) -> DataFrame:
        """Stored rows with the columns of `source`, and tidegate's own: no other column of the table has one of their
        names."""
        if called is None:
            return rows
        own = []
        for c in self.columns:
            now = called[c.name]
            own.append(f"{f'CAST(NULL AS {c.type})' if now is None else quote(now)} AS {quote(c.name)}")
        return rows.selectExpr(*own, *(quote(name) for name in rows.columns if is_reserved(name)))

    def bounds(self, view: View, base: int | None, clock: int | None) -> tuple[int | None, int | None]:
        """[low, high) of the time column in its own ticks, None where there is no bound. Both come as ticks of the
        view's clock, which say nothing about a time that counts in something else."""
        if self.input.time_column is None or self.input.lookup or self.kind is None:
            return None, None
        if not self.kind.same_ticks(view.kind):
            return None, None
        low = None if base is None or self.input.low is None else base + self.input.low
        high = None if clock is None or self.input.high is None else clock + self.input.high
        return low, high

    def _literal(self, value: int) -> str:
        assert self.kind is not None
        return self.kind.spark_literal(value)

    def _narrow(self, rows: DataFrame, view: View) -> DataFrame:
        """Rows with the types of then. Raises TG506 if one of them has a value that the query can't have seen: by the
        definition of then, its row would have been another one."""
        for column, was in self.narrowed.items():
            # Bounded: one row.
            if rows.where(unfit(quote(column), was)).limit(1).collect():
                raise TidegateError(
                    "TG506",
                    f'"{view.name}" can\'t be continued with the columns of before: "{column}" of '
                    f'"{self.source.name}" has values that are no {display(was)}',
                    hint=f"tidegate apply {view.name} builds the new version, and swaps it in",
                    location=view.location,
                )
        from pyspark.sql import functions as F

        narrow = {name: F.col(quote(name)).cast(was) for name, was in self.narrowed.items()}
        return rows.withColumns(narrow) if narrow else rows


@dataclass(frozen=True)
class Cut:
    """What tick `number` cuts out of a view's inputs, `pinned` at a snapshot each: their rows from `start` on, of which
    becomes final what ends above `frontier` and at or below `reached` (ticks; None: no bound). `again`: rows that were
    emitted beyond the frontier, before a step back (W9), close among them. `carried`: so many rows has the tick before
    carried for OVER, None if that is not known."""

    pinned: tuple[Pinned, ...]
    start: int | None
    frontier: int | None
    reached: int | None
    number: int
    again: bool
    carried: int | None


def require_identity(name: str, stored: StoredTable, identity: str | None) -> None:
    """TG506 if what is stored of a relation is of other columns than those of this definition: they are being
    changed, and its log has them before its rows do."""
    if stored.property(IDENTITY) != identity:
        raise TidegateError(
            "TG506",
            f'the columns of "{name}" are being changed: its log has them, and its rows do not yet',
            hint=f"try again; if the change was interrupted, tidegate run {name} continues it",
        )


def _with_names(relation: Relation, called: Mapping[str, str | None] | None) -> Relation:
    """A relation with its columns by other names, without those that have none."""
    if called is None:
        return relation
    names = [(c, called[c.name]) for c in relation.columns]
    return replace(relation, columns=tuple(replace(c, name=name) for c, name in names if name is not None))


def pending(view: View, own: Mapping[str, str], pinned: Sequence[Pinned]) -> int | None:
    """See `plan.resets.step_back`; `own`: the summary of the view's last commit."""
    inputs = {p.input.name: p.snapshot.summary for p in pinned}
    return step_back(view, own, inputs, [p.mark for p in pinned])


def clock_of(view: View, pinned: Sequence[Pinned]) -> int | None:
    """W: up to where the inputs allow the view's rows to be final; None while that is not known, or never is."""
    return None if view.clock is None else view.clock.at(*[p.mark for p in pinned])


def shown(rows: DataFrame, view: View, summary: Mapping[str, str]) -> DataFrame:
    """What a SELECT finds of a view's stored `rows`, by the summary of its last commit. What it had emitted beyond the
    frontier that it stepped back to (W9) stays until it closes again; a view that shows its open windows shows it
    as those again."""
    return rows if view.emit_on_window_close else final_now(rows, view, summary)


def final_now(rows: DataFrame, view: View, summary: Mapping[str, str]) -> DataFrame:
    """Without those that were emitted, and are not final now (W9)."""
    from pyspark.sql import functions as F

    stale, frontier = Beyond.of(summary), summary.get("tidegate.frontier")
    if stale is None or frontier is None:
        return rows
    final = window_is_closed(F.col("_window_end"), F.expr(view.kind.spark_literal(int(frontier))))
    return rows.where(F.col("_open") | final)


def positions(pinned: Sequence[Pinned]) -> str:
    """What the summary of a view's commit says about its inputs, as JSON: for each name the `snapshot` that was read,
    the `commit`, the newest snapshot of tidegate's own (others' maintenance changes no rows), and the `life` of a view,
    which another version of it ends (E5)."""
    found: dict[str, dict[str, int | str | None]] = {}
    for p in pinned:
        found[p.input.name] = {"snapshot": p.snapshot.id, "commit": p.snapshot.commit}
        found[p.input.name] |= {} if p.life is None else {LIFE_OF_INPUT: p.life}
    return json.dumps(found, sort_keys=True)


def source_of(context: Context, name: str) -> Relation | View:
    """A source, table or view of the catalog (TG509 for anything else)."""
    found = context.catalog.get(name)
    if not isinstance(found, Relation | View):
        raise TidegateError(
            "TG509", f'"{name}" is not a source, table or view', hint="a view reads sources, tables and views"
        )
    return found


def bound_type(kind: TimeKind) -> str:
    """Spark type of `_window_start` and `_window_end`."""
    types = {
        TimeKind.TIMESTAMP: "timestamp_ntz",
        TimeKind.TIMESTAMPTZ: "timestamp",
        TimeKind.DATE: "date",
    }
    return types.get(kind, "bigint")


def empty(spark: SparkSession, fields: Sequence[tuple[str, str]]) -> DataFrame:
    """No rows, of these columns; Spark sees through it and plans nothing."""
    columns = ", ".join(f"CAST(NULL AS {kind}) AS {quote(name)}" for name, kind in fields)
    return spark.sql(f"SELECT {columns} WHERE FALSE")
