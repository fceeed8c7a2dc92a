"""Amendment of one view (B1-B3): find the closed windows whose rows are not what their query says, and replace them.

What a window should hold is computed by the view's own query (`comparable.py`); a window is hit if that differs from
what is stored, in the number of its source rows at least. Where to look is known beforehand: a late row lies in
windows that end within the reach of its time, a row of a view below in those around its own window. So only these days
are read.

The stored rows of hit windows move to where nobody's results are (`revisions.py`), and the new ones take their place,
in one fenced commit that carries the view's state on. A run or a live stream need not stop for it: a tick whose commit
it has overtaken is tried again."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidegate.errors import TidegateError
from tidegate.iceberg.commit import (
    ABSORBED,
    AMENDED_AT,
    AMENDED_GROUPS,
    AMENDMENTS,
    FOLLOWED,
    IcebergTable,
    Snapshot,
)
from tidegate.iceberg.differences import KIND, differences
from tidegate.iceberg.layout import quote, ticks_of
from tidegate.sql.catalog.objects import Relation, View
from tidegate.sql.dialect.inner_names import inner
from tidegate.sql.views.repeatable import order_dependent
from tidegate.tasks.writer import Target
from tidegate.views.inputs import Pinned
from tidegate.views.resolve import pin
from tidegate.views.revisions.amend_ranges import candidates, clip
from tidegate.views.revisions.amend_report import GROUPS, LATE_ROWS, Scope, ViewAmendment, examples, stretches
from tidegate.views.revisions.amend_write import Writer
from tidegate.views.revisions.comparable import Range, among, as_stored, batch, comparable_since
from tidegate.views.revisions.revisions import NUMBER, UPTO, beside_units, latest, units, without_units
from tidegate.views.revisions.step_back import effective_frontier
from tidegate.views.slices import read, run_sql
from tidegate.views.view_table import same_view
from tidegate.watermark import window_is_closed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.runtime.context import Context

#: Commits of others that an amendment gives way to before it gives up.
_TRIES = 8
#: Inside: the bounds of a session, source rows of one side, and what a window had absorbed before.
_FROM, _TO, _N, _BEFORE = (inner(name) for name in ("from", "to", "n", "before"))


def refusal(context: Context, view: View, scope: Scope | None = None) -> TidegateError | None:
    """TG561: why a view can't be amended (as `scope` asks), or None."""
    why = None
    if view.over is not None:
        why = "its OVER windows carry rows and running values from each tick to the next"
    for entry in view.inputs:
        source = context.catalog.get(entry.name)
        if isinstance(source, Relation) and source.primary_key and not entry.lookup:
            why = f'a late change of "{source.name}" has expired: its effect on the results is not known (T1)'
    if view.open_sql is not None and scope is not None and scope.absorb and not scope.whole:
        why = (
            "late rows join sessions, and a range could cut through a session; without --range, "
            "it can be amended"
        )
    if why is None:
        return None
    return TidegateError(
        "TG561",
        f'"{view.name}" can\'t be amended: {why}',
        hint="views over windows, sessions, joins and sorted rows of append-only sources can be amended",
        location=view.location,
    )


def amend_view(
    context: Context,
    view: View,
    scope: Scope,
    dry_run: bool = False,
    at: datetime | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> ViewAmendment:
    """Amend one view; the views that read it are the caller's business. `at`: the clock of the amendment.

    Raises TG561 for a view that can't be amended, TG562 for a range that begins below what is kept (R5), TG508 if
    another amendment of it goes on, TG502 if others commit all the time.
    """
    refused = refusal(context, view, scope)
    if refused is not None:
        raise refused
    stored = context.stored(view.name)
    if stored is None or view.clock is None:
        note = (
            "nothing is stored yet"
            if stored is None
            else "its results are never final: each run recomputes all of them"
        )
        return ViewAmendment(view.name, dry_run=dry_run, notes=[note])
    # A catalog that is a folder does not keep two committers apart: there a live run's lease is in the way (TG508).
    is_folder = context.project.storage.settings.catalog.type == "hadoop"
    with context.lease(view.name, "" if is_folder else "$amend"):
        return _Amendment(context, view, stored, scope, dry_run, at or datetime.now(UTC), tell).run()


class _Amendment:
    """One amendment of one view, on one snapshot of it and of each of its inputs."""

    def __init__(
        self,
        context: Context,
        view: View,
        stored: str,
        scope: Scope,
        dry_run: bool,
        at: datetime,
        tell: Callable[[str], None],
    ) -> None:
        self._context, self._spark, self._view, self._stored = context, context.spark, view, stored
        self._scope, self._dry_run, self._at, self._tell = scope, dry_run, at, tell
        self._table = IcebergTable(context.spark, stored, context.project.owner)
        same_view(view, self._table)
        self._base: Snapshot = self._table.current()
        self._pinned: tuple[Pinned, ...] = pin(context, view)
        self._notes: list[str] = []
        self._target: Target | None = None
        #: Where the first session begins that is open, if late rows count.
        self._open_since: int | None = None

    def run(self) -> ViewAmendment:
        started = time.monotonic()
        frontier = effective_frontier(self._view, self._base.summary, self._pinned)
        if frontier is None or self._base.id is None:
            return self._nothing("no window is closed yet", started)
        ranges = self._ranges(frontier)
        if not ranges:
            if not self._dry_run and self._scope.whole and self._is_news(frontier):
                self._commit([], [], {}, frontier)
            return self._nothing(None, started)
        self._tell(f"{self._view.name}: comparing the windows that end {self._described(ranges)}")
        late = self._upto() if self._scope.absorb else None
        if late is None:
            now, since, _ = as_stored(
                self._context, self._view, self._pinned, self._stored, frontier, self._notes, ranges
            )
        else:
            now, since = batch(self._context, self._view, self._pinned, frontier, self._notes, ranges, late)
        if since is not None:
            # Lookups of before are not known any more.
            ranges = [] if since == math.inf else clip(ranges, int(since), frontier)
            if not ranges:
                return self._nothing(None, started)
            now = among(now, self._view, ranges)
        now = now.persist()
        try:
            return self._amend(now, ranges, frontier, late, started)
        finally:
            now.unpersist()

    def _amend(
        self,
        now: DataFrame,
        ranges: Sequence[Range],
        frontier: int,
        late: Mapping[str, int] | None,
        started: float,
    ) -> ViewAmendment:
        from pyspark.sql import functions as F

        changed = self._changed(now, ranges, frontier, late).persist()
        try:
            end = ticks_of("_window_end", self._view.kind)
            sums = changed.agg(
                F.count(F.lit(1)).alias("windows"),
                F.sum(LATE_ROWS).alias("late"),
                F.sum(GROUPS).alias("groups"),
                F.min(end).alias("low"),
                F.max(end).alias("high"),
            ).first()
            assert sums is not None
            windows = int(sums["windows"])
            tells = windows == 0 or sums["late"] is not None
            report = ViewAmendment(
                self._view.name,
                windows,
                int(sums["late"] or 0) if tells else None,
                int(sums["groups"] or 0),
                dry_run=self._dry_run,
                examples=examples(changed) if windows else [],
                notes=self._notes,
                stretches=stretches(changed, self._view.kind, self._scope.every) if windows else [],
            )
            if not self._dry_run and (windows or (self._scope.whole and self._is_news(frontier))):
                files: list[dict[str, Any]] = []
                removed: list[Any] = []
                delta = 0
                if windows:
                    self._tell(
                        f"{self._view.name}: writing {windows:,} {('window' if windows == 1 else 'windows')} "
                        "again"
                    )
                    number = (self._base.integer(AMENDMENTS) or 0) + 1
                    writer = Writer(self._context, self._view, self._table, self._base, number, self._at)
                    files, removed, delta = writer.write(now, changed, sums["low"], sums["high"])
                    self._target = writer.target
                facts = {"windows": windows, "delta": delta}
                self._commit(files, removed, facts, frontier)
        finally:
            changed.unpersist()
        return _with_seconds(report, started)

    # -- where to look -----------------------------------------------------------------------------------------

    def _ranges(self, frontier: int) -> list[Range]:
        """The windows that are compared, as ranges of their ends."""
        view, kind = self._view, self._view.kind
        after, upto = (
            None if text is None else _parsed(view, text) for text in (self._scope.after, self._scope.upto)
        )
        notes: list[str] = []
        since = comparable_since(self._context, view, self._stored, self._pinned, notes)
        if since == math.inf or (since is not None and after is not None and after < since):
            raise TidegateError(
                "TG562",
                f'"{view.name}" can\'t be recomputed from '
                f"{(kind.format(after) if after is not None else 'the beginning')}: {notes[-1]}",
                hint="jobs/maintenance.yaml sets how long rows are kept"
                if since == math.inf
                else (
                    f"use --range '{kind.format(int(since or 0))}' …: windows that end after that can be "
                    "recomputed"
                ),
                location=view.location,
            )
        lowest = max((int(m) for m in (since, after) if m is not None), default=None)
        highest = frontier if upto is None else min(frontier, upto)
        if self._scope.everything:
            found: list[Range] | None = None
        else:
            found = candidates(self._spark, view, self._pinned, self._known(), self._scope.absorb)
        if found is None:
            # Nothing says where: everything that is stored, and whatever late rows may have added below it.
            found = [(lowest, highest)]
        clipped = clip(found, lowest, highest)
        if since is not None and clip(found, None, int(since)):
            self._notes += notes
        return clipped

    def _known(self) -> Mapping[str, Any]:
        """What earlier amendments have taken in."""
        absorbed = json.loads(self._base.summary.get(ABSORBED) or "{}")
        return {"absorbed": absorbed, "followed": json.loads(self._base.summary.get(FOLLOWED) or "{}")}

    def _upto(self) -> dict[str, int]:
        """By name of each source that is read in time, its last commit."""
        return {
            p.input.name: p.snapshot.integer("tidegate.epoch") or 0
            for p in self._pinned
            if isinstance(p.source, Relation) and not p.input.lookup
        }

    def _is_news(self, frontier: int) -> bool:
        """Whether the next amendment has less to look for if this one writes down that it found nothing."""
        facts = self._facts(frontier, self._base)
        return any(self._base.summary.get(key) != value for key, value in facts.items())

    # -- what differs ------------------------------------------------------------------------------------------

    def _changed(
        self, now: DataFrame, ranges: Sequence[Range], frontier: int, late: Mapping[str, int] | None
    ) -> DataFrame:
        """One line for each hit window: the columns of `units`, `GROUPS` (result rows that differ), `LATE_ROWS`
        (source rows that come), `NUMBER` (its new revision), `UPTO` (see `layout.REVISION_TYPE`) and `_tick` (the
        commit that its rows count to: that of the live ones)."""
        from pyspark.sql import functions as F

        view, keys = self._view, [quote(name) for name in units(self._view)]
        then = self._spark.read.option("versionAsOf", self._base.id).table(self._stored)
        then = among(then.where(~F.col("_open")), view, ranges)
        skipped = order_dependent(view)
        names = [
            "_window_start",
            "_window_end",
            "_rows",
            *(c.name for c in view.columns if c.name not in skipped),
        ]
        names = list(dict.fromkeys([*names, *units(view)]))
        pairs = differences(now, then, names).where(F.col(KIND) != "equal")
        missing, unexpected, different = (
            F.count_if(F.col(KIND) == kind) for kind in ("missing", "unexpected", "different")
        )
        hit = pairs.groupBy(*keys).agg((F.greatest(missing, unexpected) + different).alias(GROUPS))
        if view.open_sql is not None and late is not None:
            hit = self._without_open_sessions(hit, now, frontier, late)
        signed = now.select(*keys, F.col("_rows").alias(_N), F.lit(None).cast("bigint").alias("_tick"))
        signed = signed.unionByName(then.select(*keys, (-F.col("_rows")).alias(_N), "_tick"))
        sums = signed.groupBy(*keys).agg(F.sum(_N).alias(LATE_ROWS), F.max("_tick").alias("_tick"))
        found = beside_units(sums, hit, view, [GROUPS])
        # A window that the live run has never said anything about counts to the first commit: a sink that began later
        # has gone past it.
        found = found.withColumn("_tick", F.coalesce("_tick", F.lit(1).cast("bigint")))
        if not self._counts_source_rows():
            found = found.withColumn(LATE_ROWS, F.lit(None).cast("bigint"))
        before = latest(self._spark, view, self._stored, self._base.id)
        if before is None:
            found = found.withColumns({NUMBER: F.lit(2).cast("bigint"), _BEFORE: F.lit(None).cast("string")})
        else:
            known = beside_units(found, before, view, [NUMBER, UPTO])
            known = known.withColumns({NUMBER: F.col(NUMBER) + 1, _BEFORE: F.col(UPTO)}).drop(UPTO)
            fresh = without_units(found, before, view)
            fresh = fresh.withColumns({NUMBER: F.lit(2).cast("bigint"), _BEFORE: F.lit(None).cast("string")})
            found = known.unionByName(fresh)
        upto = F.col(_BEFORE) if late is None else F.lit(json.dumps(late, sort_keys=True))
        return found.withColumn(UPTO, upto.cast("string")).drop(_BEFORE)

    def _without_open_sessions(
        self, hit: DataFrame, now: DataFrame, frontier: int, late: Mapping[str, int]
    ) -> DataFrame:
        """Leave out closed sessions that a late row joins to one that is still open: they follow when that one has
        closed, or its live rows would be lost."""
        from pyspark.sql import functions as F

        view = self._view
        assert view.open_sql is not None
        rows = read(self._context, view, self._pinned, None, frontier, late)
        sessions = run_sql(self._spark, view, view.open_sql, rows)
        end = F.expr(view.kind.spark_literal(frontier))
        opened = sessions.where(~window_is_closed(F.col("_window_end"), end))
        opened = opened.select(
            F.col("_window_start").alias(_FROM), F.col("_window_end").alias(_TO)
        ).distinct()
        found = opened.agg(F.min(ticks_of(_FROM, view.kind))).first()
        self._open_since = None if found is None else found[0]
        inside = (F.col("_window_start") >= F.col(_FROM)) & (F.col("_window_end") <= F.col(_TO))
        waiting = hit.join(F.broadcast(opened), inside, "left_semi")
        # Those that the new sessions cover as a whole are amended: the open one is of another key.
        keys = [quote(name) for name in view.group_columns]
        covers = now.select(
            F.col("_window_start").alias(_FROM),
            F.col("_window_end").alias(_TO),
            *[F.col(k).alias(inner(f"key{i}")) for i, k in enumerate(keys)],
        )
        same = inside
        for i, key in enumerate(view.group_columns):
            if key not in _bounds_of(view):
                same = same & F.col(quote(key)).eqNullSafe(F.col(inner(f"key{i}")))
        return without_units(hit, waiting.join(covers, same, "left_anti"), view)

    def _counts_source_rows(self) -> bool:
        """Whether `_rows` of the view are rows of one source."""
        inputs = [p for p in self._pinned if not p.input.lookup]
        return len(inputs) == 1 and isinstance(inputs[0].source, Relation)

    # -- the commit --------------------------------------------------------------------------------------------

    def _facts(self, frontier: int, at: Snapshot) -> dict[str, str]:
        """What the summary says of late rows that are absorbed, and of amendments below that are followed.

        `at`: the snapshot that is committed on. If a tick came in between, what it closed may not have followed the
        amendments below that came in between, too: so the next amendment looks at them again.
        """
        facts: dict[str, str] = {}
        if not self._scope.whole or self._scope.everything:
            return facts
        if self._scope.absorb and self._upto():
            settled = frontier if self._open_since is None else min(frontier, self._open_since)
            absorbed = {"frontier": settled, "commits": self._upto()}
            facts[ABSORBED] = json.dumps(absorbed, sort_keys=True)
        below = {
            p.input.name: p.snapshot.integer(AMENDMENTS) or 0
            for p in self._pinned
            if isinstance(p.source, View) and not p.input.lookup and p.snapshot.integer(AMENDMENTS)
        }
        if below and at.summary.get("tidegate.tick") == self._base.summary.get("tidegate.tick"):
            facts[FOLLOWED] = json.dumps(below, sort_keys=True)
        return facts

    def _commit(
        self, files: list[dict[str, Any]], removed: list[Any], counted: Mapping[str, int], frontier: int
    ) -> None:
        """On top of what others have committed meanwhile: a tick's windows are none of ours."""
        for left in reversed(range(_TRIES)):
            at = self._table.current()
            if at.integer(AMENDMENTS) != self._base.integer(AMENDMENTS):
                raise TidegateError(
                    "TG502",
                    (
                        f'another process has amended "{self._view.name}" in the meantime; this amendment '
                        "was not stored"
                    ),
                    hint="run again: it goes on from the result of the other process",
                )
            summary = {k: v for k, v in at.summary.items() if k.startswith("tidegate.")}
            if counted.get("windows"):
                summary[AMENDMENTS] = str((at.integer(AMENDMENTS) or 0) + 1)
                summary[AMENDED_AT] = self._at.isoformat(timespec="seconds")
                summary[AMENDED_GROUPS] = str((at.integer(AMENDED_GROUPS) or 0) + counted["delta"])
            try:
                self._table.append(
                    files, self._target, summary | self._facts(frontier, at), at, removed=removed
                )
                return
            except TidegateError as error:
                if error.code != "TG502" or not left:
                    raise
                time.sleep(0.05)

    def _described(self, ranges: Sequence[Range]) -> str:
        kind = self._view.kind
        first = "the beginning" if ranges[0][0] is None else kind.format(ranges[0][0])
        parts = "" if len(ranges) == 1 else f" in {len(ranges)} stretches"
        return f"after {first} and up to {kind.format(ranges[-1][1])}{parts}"

    def _nothing(self, note: str | None, started: float) -> ViewAmendment:
        notes = [*self._notes, *([note] if note else [])]
        return _with_seconds(ViewAmendment(self._view.name, dry_run=self._dry_run, notes=notes), started)


def _with_seconds(report: ViewAmendment, started: float) -> ViewAmendment:
    return replace(report, seconds=round(time.monotonic() - started, 3))


def _bounds_of(view: View) -> set[str]:
    """The group columns of a view of sessions that are bounds of its window: another session has others."""
    return {c.column for c in view.watermarks}


def _parsed(view: View, text: str) -> int:
    """A bound of a range in the view's time. TG563 for what is none."""
    try:
        return view.kind.parse(text)
    except ValueError as error:
        example = {"DATE": "2026-01-31", "EPOCH": "1767225600"}.get(view.kind.name, "2026-01-31 12:00:00")
        raise TidegateError(
            "TG563", f'"{view.name}": {error}', hint=f"its windows end at times such as {example}"
        ) from None
