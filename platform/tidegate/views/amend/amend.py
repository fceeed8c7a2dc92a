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
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidegate.errors import TidegateError
from tidegate.iceberg.layout import ticks_of
from tidegate.iceberg.protocol import (
    ABSORBED,
    AMENDED_AT,
    AMENDED_GROUPS,
    AMENDMENTS,
    FOLLOWED,
    Commit,
    Conflict,
    Found,
    GiveUp,
    Snapshot,
    Stored,
    drive,
)
from tidegate.plan.stages import amendment_stages
from tidegate.plan.view_stages import CompareStage, RevisionStage, SliceStage, StepStage
from tidegate.sql.catalog.objects import Relation, View
from tidegate.tasks.writer import WriteTarget
from tidegate.views.amend.comparison import AmendmentComparison
from tidegate.views.definition import same_inputs, same_view
from tidegate.views.inputs import Pinned
from tidegate.views.resolve import pin
from tidegate.views.revisions.amend_ranges import candidates, clip
from tidegate.views.revisions.amend_report import (
    GROUPS,
    LATE_ROWS,
    AmendmentScope,
    ViewAmendment,
    examples,
    stretches,
)
from tidegate.views.revisions.amend_write import AmendmentWriter
from tidegate.views.revisions.comparable import Range, among, as_stored, batch, comparable_since
from tidegate.views.revisions.step_back import effective_frontier
from tidegate.views.versions.in_force import in_force

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.runtime.context import Context

#: Commits of others that an amendment gives way to before it gives up.
_TRIES = 8


def refusal(context: Context, view: View, scope: AmendmentScope | None = None) -> TidegateError | None:
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
    scope: AmendmentScope,
    dry_run: bool = False,
    at: datetime | None = None,
    notify: Callable[[str], None] = lambda text: None,
) -> ViewAmendment:
    """Amend one view; the views that read it are the caller's business. `at`: the clock of the amendment.

    Raises TG561 for a view that can't be amended, TG562 for a range that begins below what is kept (R5), TG508 if
    another amendment of it goes on, TG502 if others commit all the time.
    """
    view = in_force(context, view)
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
    # Where the catalog is of this machine, a live run's lease is in the way (TG508).
    with context.lease(view.name, "" if context.project.storage.on_this_machine else "$amend"):
        return _Amendment(context, view, stored, scope, dry_run, at or context.clock(), notify).run()


class _Amendment:
    """One amendment of one view, on one snapshot of it and of each of its inputs."""

    def __init__(
        self,
        context: Context,
        view: View,
        stored: str,
        scope: AmendmentScope,
        dry_run: bool,
        at: datetime,
        notify: Callable[[str], None],
    ) -> None:
        self._context, self._spark, self._view, self._stored = context, context.spark, view, stored
        self._scope, self._dry_run, self._at, self._notify = scope, dry_run, at, notify
        self._table = context.tables.open(stored, context.project.owner)
        self._base: Snapshot = same_view(context, view, self._table)
        self._pinned: tuple[Pinned, ...] = pin(context, view)
        same_inputs(view, self._table, self._base, self._pinned)
        self._notes: list[str] = []
        self._target: WriteTarget | None = None
        namespace = context.project.storage.namespace_of
        # A view that follows an amendment below takes part in it; what recomputes everything is a backfill.
        planned = amendment_stages(context.catalog, view, namespace, absorbs=not scope.everything)
        self._stages = context.stages(planned)
        self._comparison = AmendmentComparison(context, view, stored, self._base, self._pinned)

    def run(self) -> ViewAmendment:
        started = time.monotonic()
        frontier = effective_frontier(self._view, self._base.summary, self._pinned)
        if frontier is None or self._base.id is None:
            return self._nothing("no window is closed yet", started)
        ranges = self._ranges(frontier)
        if not ranges:
            if not self._dry_run and self._scope.whole and self._is_news(frontier):
                self._stages.carry_out(RevisionStage, lambda _: self._commit([], [], {}, frontier))
            return self._nothing(None, started)
        self._notify(f"{self._view.name}: comparing the windows that end {self._described(ranges)}")
        late = self._upto() if self._scope.absorb else None
        now, since = self._stages.carry_out(
            SliceStage, lambda _: self._recomputed(ranges, frontier, late), StepStage
        )
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

    def _recomputed(
        self, ranges: Sequence[Range], frontier: int, late: Mapping[str, int] | None
    ) -> tuple[DataFrame, float | None]:
        """What the windows in these ranges should hold, and from where on that can be told (None: everywhere)."""
        given = self._context, self._view, self._pinned
        if late is not None:
            return batch(*given, frontier, self._notes, ranges, late)
        now, since, _ = as_stored(*given, self._stored, frontier, self._notes, ranges)
        return now, since

    def _amend(
        self,
        now: DataFrame,
        ranges: Sequence[Range],
        frontier: int,
        late: Mapping[str, int] | None,
        started: float,
    ) -> ViewAmendment:
        changed = self._comparison.hit(now, ranges, frontier, late).persist()
        try:
            report, extent = self._stages.carry_out(CompareStage, lambda _: self._compared(changed))
            if not self._dry_run and (report.windows or (self._scope.whole and self._is_news(frontier))):
                self._stages.carry_out(
                    RevisionStage, lambda _: self._revise(now, changed, report.windows, extent, frontier)
                )
        finally:
            changed.unpersist()
        return _with_seconds(report, started)

    def _compared(self, changed: DataFrame) -> tuple[ViewAmendment, tuple[int, int] | None]:
        """Which windows were hit, and from where to where they end; None if none was."""
        from pyspark.sql import functions as F

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
        return report, None if windows == 0 else (sums["low"], sums["high"])

    def _revise(
        self, now: DataFrame, changed: DataFrame, windows: int, extent: tuple[int, int] | None, frontier: int
    ) -> None:
        """Write the revisions of so many windows, which end in `extent`, and commit."""
        files: list[dict[str, Any]] = []
        removed: list[Any] = []
        delta = 0
        if extent is not None:
            what = "window" if windows == 1 else "windows"
            self._notify(f"{self._view.name}: writing {windows:,} {what} again")
            number = (self._base.integer(AMENDMENTS) or 0) + 1
            writer = AmendmentWriter(self._context, self._view, self._table, self._base, number, self._at)
            files, removed, delta = writer.write(now, changed, *extent)
            self._target = writer.target
        self._commit(files, removed, {"windows": windows, "delta": delta}, frontier)

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
            found = candidates(self._context.tables, view, self._pinned, self._known(), self._scope.absorb)
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
            opened = self._comparison.open_since
            settled = frontier if opened is None else min(frontier, opened)
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
        commit = Commit(self._base, "amendments", tries=_TRIES, looks=True)
        end = drive(
            commit,
            lambda _: Found(self._table.current()),
            lambda at: self._attempted(files, removed, counted, frontier, at),
        )
        if isinstance(end, GiveUp) and end.why == "overtaken":
            raise TidegateError(
                "TG502",
                (
                    f'another process has amended "{self._view.name}" in the meantime; this amendment '
                    "was not stored"
                ),
                hint="run again: it continues from the result of the other process",
            )
        end.result()

    def _attempted(
        self,
        files: list[dict[str, Any]],
        removed: list[Any],
        counted: Mapping[str, int],
        frontier: int,
        at: Snapshot,
    ) -> Stored | Conflict:
        summary = at.facts
        if counted.get("windows"):
            summary[AMENDMENTS] = str((at.integer(AMENDMENTS) or 0) + 1)
            summary[AMENDED_AT] = self._at.isoformat(timespec="seconds")
            summary[AMENDED_GROUPS] = str((at.integer(AMENDED_GROUPS) or 0) + counted["delta"])
        summary |= self._facts(frontier, at)
        try:
            return Stored(self._table.append(files, self._target, summary, at, removed=removed))
        except TidegateError as error:
            if error.code != "TG502":
                raise
            self._context.runner.wait(0.05)
            return Conflict(error)

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


def _parsed(view: View, text: str) -> int:
    """A bound of a range in the view's time. TG563 for what is none."""
    try:
        return view.kind.parse(text)
    except ValueError as error:
        example = {"DATE": "2026-01-31", "EPOCH": "1767225600"}.get(view.kind.name, "2026-01-31 12:00:00")
        raise TidegateError(
            "TG563", f'"{view.name}": {error}', hint=f"its windows end at times such as {example}"
        ) from None
