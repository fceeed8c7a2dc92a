"""A new version of a view (R4, E5), computed from the log beside the one that is current.

It is a table of its own, `<view>$next`, whose files are in the view's folder. It is filled slice by slice, as a view is
by its ticks: each slice is a commit, and whoever is killed goes on behind the last one. When its frontier has reached
that of the current version, one commit puts its rows, columns and definition into the view's table, and copies no row.
Readers see the one or the other. The earlier results stay readable under a tag.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from pyarrow.fs import FileSelector

from tidegate.errors import TidegateError
from tidegate.iceberg.attempt import overtaken
from tidegate.iceberg.layout import is_of_view
from tidegate.iceberg.protocol import AMENDMENTS
from tidegate.iceberg.versions.swap import BuiltVersion, VersionStart, VersionSwap
from tidegate.plan.closing import PARTIAL, closes_anything
from tidegate.plan.columns.changes import other_columns
from tidegate.plan.gaps import same_scale
from tidegate.plan.stages import rebuild_stages
from tidegate.plan.versions import (
    BUILDING,
    GENERATION,
    HIGHEST,
    KEPT,
    STALE,
    VALID_FROM,
    KeptPast,
    VersionInBuilding,
    current_version,
    cuts,
    next_number,
    next_of,
    says_lives,
    tag_of,
    with_kept,
)
from tidegate.plan.view_stages import KeepStage, SwapStage
from tidegate.sql.catalog.lineage import readers_of
from tidegate.sql.catalog.objects import Relation, View
from tidegate.views.resolve import changes_of, pin
from tidegate.views.revisions.comparable import slices_read
from tidegate.views.versions.held import kept_apart, let_stand
from tidegate.views.versions.in_force import require_current_below
from tidegate.views.versions.past import FinishedRows, begin_with, keep, past_of
from tidegate.views.versions.reached import ReadBefore
from tidegate.views.view_table import ViewTable
from tidegate.watermark import TimeKind

if TYPE_CHECKING:
    from tidegate.iceberg.protocol import Snapshot
    from tidegate.iceberg.tables import StoredTable
    from tidegate.runtime.context import Context

#: A slice reads so many rows or more, and a version has so many slices at most.
ROWS_OF_A_SLICE, SLICES = 1_000_000, 100
#: The part of a view's work that its next version is.
NEXT = "$next"
#: For so long nobody takes a file that no snapshot names for an orphan.
_SAFE = timedelta(hours=12)


class VersionBuild:
    """A version of a view, beside the current one, as far as it is: hold the lease of the view's part `$next`. Begins
    it, or goes on with one of the same definition and of the same results below."""

    def __init__(
        self,
        context: Context,
        view: View,
        start: VersionStart | None = None,
        finished: FinishedRows | None = None,
        at: int | None = None,
    ) -> None:
        """`start`: an earlier version of this definition, whose rows it begins with; `finished`: rows of it that were
        computed elsewhere; `at`: the time (ticks) at which it takes the place of the current one, which stops there
        (`at_time.py`); None: as soon as it has reached that one."""
        self._start, self._finished, self.at = start, finished, at
        #: Whether the last swap gave way to the current version, since that had got further.
        self.is_behind = False
        self._context, self._view = context, view
        self._beside = context.identifier(next_of(view.name))
        self.current = context.tables.open(context.identifier(view.name), context.project.owner)
        self.current.refresh()
        self._stages = context.stages(
            rebuild_stages(context.catalog, view, context.project.storage.namespace_of)
        )
        self._begin()

    def _begin(self) -> None:
        require_current_below(self._context, self._view)
        known, context = self._unfinished(), self._context
        if known is None:
            # Before anything is made: it may be refused.
            self._past({} if self._start is None else self._start.summary)
            context.forget_next(self._view.name)
            known = self._begun()
        self.mark = known
        self._before: ReadBefore | None = None
        self.table = self._opened(known)
        if self._start is not None or self.frontier() is None:
            with self._as_next():
                self._keep()

    def _opened(self, known: VersionInBuilding) -> ViewTable:
        try:
            # Until its last slice it holds what is final, whatever else it shows then.
            return ViewTable(self._context, self._early(), self._beside, known, self._start)
        except TidegateError as error:
            if error.code == "TG506" and self._start is not None:
                # What it begins with can't be continued, and never will be.
                self._context.forget_next(self._view.name)
            raise
        except Exception as error:
            if self._unfinished() != known:
                raise overtaken(self.current.identifier) from error
            raise

    def _keep(self) -> None:
        """Have what there is to begin with, in a commit of its own."""
        past, finished, context = self._past(self.table.said), self._finished, self._context
        if past is not None:
            number = self.mark.number
            keeping = partial(keep, context, self.table, self.current, past, number, self._start, finished)
        elif finished is not None:
            keeping = partial(begin_with, context, self.table, finished)
        else:
            return
        self._stages.carry_out(KeepStage, lambda _: keeping())

    def _past(self, own: Mapping[str, str]) -> KeptPast | None:
        """What it keeps of the current version. `own`: what its last commit says."""
        return past_of(self._context, self._view, self.current, own, self._start)

    def _early(self) -> View:
        view = self._view
        return view if view.emit_on_window_close else replace(view, emit_on_window_close=True)

    def _unfinished(self) -> VersionInBuilding | None:
        """What is there of this very version; None if nothing is, or if it is of another definition."""
        if not self._context.tables.exists(self._beside):
            return None
        properties = self._context.tables.open(self._beside).properties()
        mark = VersionInBuilding.of_text(properties.get(BUILDING))
        if mark is None or not is_of_view(self._view, properties):
            return None
        changes = partial(changes_of, self._context)
        # One that goes back has rows of an earlier version, and no other may continue it; nor it another one.
        same = mark.of == self.current.uuid and mark.inputs == self._lives() and mark.start == self._tag()
        return mark if same and other_columns(self._view, properties, changes) is None else None

    def _lives(self) -> dict[str, str]:
        """Of all that it reads, logs and tables, too: what was made anew has other rows."""
        tables = {name: self._context.opened(name) for name in self._view.reads}
        return {name: table.uuid for name, table in tables.items() if table is not None}

    def _begun(self) -> VersionInBuilding:
        number = next_number(self.current.properties())
        cuts = () if self._start is not None else self._cuts()
        started = self._context.clock().astimezone(UTC).isoformat(timespec="seconds")
        amended = self.current.current().integer(AMENDMENTS) or 0
        return VersionInBuilding(
            number, self.current.uuid, self._lives(), started, cuts, amended, self._tag()
        )

    def _tag(self) -> str:
        """Of the earlier version that it begins with."""
        return "" if self._start is None else self._start.tag

    def _cuts(self) -> tuple[tuple[int, int], ...]:
        """By the files of the largest log that it reads in time."""
        view, most, chosen = self._view, 0, None
        for entry in pin(self._context, view) if view.clock is not None else ():
            in_time = entry.input.time_column is not None and not entry.input.lookup
            known = in_time and isinstance(entry.source, Relation) and entry.opened is not None
            rows = entry.snapshot.integer("tidegate.on_time") or 0
            if known and same_scale(entry.kind, view.kind) and rows > max(most, ROWS_OF_A_SLICE):
                most, chosen = rows, entry
        if chosen is None or chosen.opened is None or chosen.snapshot.id is None:
            return ()
        column = chosen.input.time_column or ""
        target = chosen.opened.target(self._context.project.storage, reading=True)
        files = chosen.opened.files(chosen.snapshot.id, column, target.field_id(column), None, None)
        if files is None or any(file["greatest"] is None for file in files):
            return ()
        return cuts([(file["greatest"], file["rows"]) for file in files], ROWS_OF_A_SLICE, SLICES)

    @property
    def name(self) -> str:
        """Of the view."""
        return self._view.name

    def frontier(self) -> int | None:
        """Up to where its results are final."""
        return self.table.frontier()

    def advance(self) -> bool:
        """Compute the next slice; False once it has come to where its inputs are, or to `at`. Begins anew if what it
        reads was replaced meanwhile. Raises TG502 if another version has taken the place of the one that this one is
        to replace."""
        with self._as_next():
            return self._advanced()

    def _advanced(self) -> bool:
        if self.mark.inputs != self._lives():
            self._begin()
        before = self.frontier()
        upto = self.mark.following(before)
        while upto is not None and (self.at is None or upto < self.at):
            self.table.tick(upto)
            if self.frontier() != before:
                return True
            # No window ends in this slice.
            upto = self.mark.following(upto)
        if self.table.view is not self._view:
            self.table = ViewTable(self._context, self._view, self._beside, self.mark)
        self._before = ReadBefore.now(self._context, self._view, self.current)
        self.table.tick(self.at)
        return False

    def _require_next(self) -> None:
        """Raise TG502 unless it is still the next version of the one that is current, as it was begun: nobody else has
        swapped, or dropped it, or begun another one in its place."""
        self.current.refresh()
        beside = self._context.opened(next_of(self._view.name))
        if self.current.uuid != self.mark.of or beside is None or beside.uuid != self.table.table.uuid:
            raise overtaken(self.current.identifier)

    @contextmanager
    def _as_next(self) -> Iterator[None]:
        """Work on it. What Iceberg says of a table that somebody else has dropped or made anew meanwhile is TG502."""
        self._require_next()
        try:
            yield
        except TidegateError:
            raise
        except Exception:
            self._require_next()
            raise

    def swapped(self, facts: Mapping[str, str] | None = None) -> bool:
        """Put it in the place of the current version, in one commit; False if that one has got further meanwhile, or
        if what it reads was replaced. `facts`: more table properties. Raises TG502 as `advance`, and TG508 if the
        catalog is a folder and somebody writes the view."""
        name = self._view.name
        with kept_apart(self._context, name), self._as_next():
            base = self.current.current()
            if self.current.uuid != self.mark.of or self.mark.inputs != self._lives():
                return False
            beside = self._context.tables.open(self._beside)
            newest = beside.current()
            # In one reading: what is checked here is what is swapped in, and nothing else.
            built = BuiltVersion(beside.uuid, newest.id, beside.properties())
            if VersionInBuilding.of_text(beside.property(BUILDING)) != self.mark:
                raise overtaken(self.current.identifier)
            self.is_behind = self._is_behind(base, newest)
            if self.is_behind or self._has_lost_files(beside):
                return False
            if VALID_FROM in built.properties and (base.integer(AMENDMENTS) or 0) != self.mark.amended:
                # What it has kept may have been amended since.
                self._context.forget_next(name)
                self._begin()
                return False
            try:
                self._stages.carry_out(SwapStage, lambda _: self._swap(base, newest, built, facts or {}))
            except TidegateError as error:
                if error.code != "TG502":
                    raise
                return False
        self._context.forget_next(name)
        return True

    def _kind(self) -> TimeKind:
        """What the frontier of the current version counts in."""
        return TimeKind[self.current.property("tidegate.time-kind") or self._view.kind.name]

    def _is_behind(self, base: Snapshot, newest: Snapshot) -> bool:
        """Whether readers would go back by a swap (E5): in time, or, where no time of both can be compared, because the
        current version has read what the next one has not (O1). `base`: the current version; `newest`: the next one."""
        view, stood = self._view, base.integer("tidegate.frontier")
        if self.at is not None and stood != self.at:
            # Readers have not seen all that this one has up to then, or have seen more of it.
            return True
        if stood is not None and self._is_in_time():
            # A tick that closes nothing is not committed, however far the inputs are.
            own = newest.integer("tidegate.frontier")
            return own is None or closes_anything(view, own, stood)
        return self._before is None or not self._before.covers(base)

    def _is_in_time(self) -> bool:
        """Whether frontiers of both can be compared."""
        return self._view.clock is not None and self._kind().same_ticks(self._view.kind)

    def _has_lost_files(self, beside: StoredTable) -> bool:
        """Whether files of a version that was begun long ago are gone, which it then begins anew: no snapshot of the
        view's table names them, so an earlier release, or whoever else removes orphans, takes them for some. Those of
        an earlier version that it begins with go with that one, whenever somebody drops it."""
        now = self._context.clock()
        if self._start is None and now - datetime.fromisoformat(self.mark.started) < _SAFE:
            return False
        files = self._context.tables.upkeep(beside.identifier).data_files("_tick").select("file_path")
        # Bounded: a path for each file of the version.
        folder = self.current.location.partition(":")[2].strip("/") + "/data/"
        wanted = {row[0].rpartition("/")[2] for row in files.collect() if folder in row[0]}
        filesystem, path = self._context.project.storage.filesystem(f"{self.current.location}/data")
        found = filesystem.get_file_info(FileSelector(path, recursive=True, allow_not_found=True))
        if wanted <= {info.base_name for info in found}:
            return False
        self._context.forget_next(self._view.name)
        self._begin()
        return True

    def let_current_stand(self, seconds: float) -> None:
        """Where ticks of the current version come faster than this one can follow. If that can't be said now, it is
        said behind the next try."""
        with self._as_next():
            try:
                let_stand(self._context, self._view.name, seconds)
            except TidegateError as error:
                if error.code not in ("TG502", "TG508"):
                    raise

    def waits_for(self) -> str:
        """How far both versions are, in words."""
        stood, own = self.current.current().integer("tidegate.frontier"), self.frontier()
        if stood is None or not self._is_in_time():
            return "the current one has read rows that the new one has not read yet"
        return (
            f"the results of the new version are final up to {self._view.kind.format(own)}, those of the current one "
            f"up to {self._kind().format(stood)}"
        )

    def _swap(self, base: Snapshot, newest: Snapshot, built: BuiltVersion, more: Mapping[str, str]) -> None:
        """`base`: the current version, as it was looked at; `newest`: the next one, whose table is `built`."""
        context, view = self._context, self._view
        for reader in readers_of(context.catalog, view.name):
            context.require_own(reader.name)
        before = self.current.properties()
        frontier = self._kind().format(base.integer("tidegate.frontier"))
        until = context.clock().astimezone(UTC).isoformat(timespec="seconds")
        # What it has recorded itself holds for its rows.
        more = {key: value for key, value in more.items() if key not in built.properties}
        facts = {GENERATION: str(self.mark.number), HIGHEST: str(self.mark.number), **more}
        if base.id is not None:
            facts[KEPT] = with_kept(before, until, frontier)
        # Higher than both: nobody takes this commit for one that he has seen (`protocol.stands`).
        tick = max(one.integer("tidegate.tick") or 0 for one in (base, newest)) + 1
        summary = {k: v for k, v in newest.facts.items() if k != PARTIAL} | {"tidegate.tick": str(tick)}
        stood, own = base.integer("tidegate.frontier"), newest.integer("tidegate.frontier")
        if own is not None and stood is not None and own < stood and self._kind().same_ticks(view.kind):
            # Nothing ends in between, so its results are final up to there, too: no reader goes back (C2).
            summary["tidegate.frontier"] = str(stood)
        summary |= slices_read(context.tables.open(self._beside), view)
        swap = VersionSwap.of(tag_of(current_version(before)), before, built, facts, summary)
        with self._marked_stale():
            self.current.swap(self._beside, swap, base)

    @contextmanager
    def _marked_stale(self) -> Iterator[None]:
        """Around the swap: readers whose commits do not say which results they were computed from have a mark that they
        have to be computed anew. It is there before: were this one killed behind the swap, they would go on from
        results that are not there any more."""
        context, name, marked = self._context, self._view.name, []
        for reader in readers_of(context.catalog, name):
            if (table := context.opened(reader.name)) is None:
                continue
            if not says_lives(table.current().summary, name):
                marked.append((table, table.property(STALE) or ""))
                table.set_properties({STALE: name})
        try:
            yield
        except TidegateError as error:
            # (After any other error it may be stored.)
            for table, before in marked if error.code == "TG502" else ():
                table.set_properties({STALE: before})
            raise
