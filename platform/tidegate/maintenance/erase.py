"""`tidegate erase`: a person's rows go from all that holds them, at rest, and a record of their number stays (E9).

First what is to be done is written down (`erasing.py`), last that is removed: whoever comes after a process that was
killed goes on from what is there (R2). Nobody else may write the source meanwhile (its lease).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from tidegate.errors import TidegateError
from tidegate.iceberg.attempt import overtaken
from tidegate.iceberg.retire import Gone
from tidegate.ingest.erased import erased
from tidegate.ingest.ingest import StoredLog
from tidegate.maintenance.erase_again import ComputedAgain
from tidegate.maintenance.erase_files import ALL, earlier, forget_history
from tidegate.maintenance.erase_log import FoundRows, LogErasure
from tidegate.maintenance.erase_reach import left_to_others, require_reach
from tidegate.maintenance.erase_recompute import recomputed, require_staying
from tidegate.maintenance.erase_state import StateErasure
from tidegate.maintenance.erase_views import ViewErasure, mark_windows
from tidegate.maintenance.erasing import Erasing, ErasingFile, asking
from tidegate.plan.upkeep_stages import EraseStage, ForgetStage, TableStage, erasure_stages, state_of
from tidegate.plan.versions import KEPT
from tidegate.project.jobs.maintenance import load_maintenance
from tidegate.sql.statements.row_condition import log_condition, passed_condition
from tidegate.views.resolve import require_columns
from tidegate.views.revisions.erased_windows import marked
from tidegate.wording import counted

if TYPE_CHECKING:
    from tidegate.iceberg.protocol import Snapshot
    from tidegate.iceberg.tables import StoredTable
    from tidegate.maintenance.erase_reach import ReachedView
    from tidegate.runtime.context import Context
    from tidegate.runtime.stages import Stages
    from tidegate.sql.catalog.objects import Relation, View
    from tidegate.sql.statements.row_condition import RowsCondition

#: What errors call the text of a condition.
_PLACE = "WHERE"


@dataclass
class ErasedTable:
    """What was done to one table, or would be. `rows`: that went; of a log also by outcome. `files`: written again.
    `snapshots`: that went. `orphans`: files that no snapshot knew. `marked`: windows of a view that keep their
    counts. `recomputed`: whether a view was, from the rows that are left."""

    table: str
    rows: int = 0
    on_time: int = 0
    late: int = 0
    rejected: int = 0
    files: int = 0
    snapshots: int = 0
    orphans: int = 0
    marked: int = 0
    recomputed: bool = False


@dataclass
class Erasure:
    """One erasure. `id`, `by` and `at` are those of the record; None of one that is only looked at. `undecoded`:
    rejected rows that the condition can't be told of. `notes`: what is left to others."""

    name: str
    id: str | None = None
    by: str | None = None
    at: str | None = None
    tables: list[ErasedTable] = field(default_factory=list)
    undecoded: int = 0
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def rows(self) -> int:
        """Of the source."""
        return self.tables[0].rows if self.tables else 0

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def erase(
    context: Context,
    name: str,
    where: str | None = None,
    raw: Sequence[str] = (),
    *,
    keep_aggregates: bool = False,
    recompute: bool = False,
    dry_run: bool = False,
    notify: Callable[[str], None] = lambda text: None,
) -> Erasure:
    """Erase the rows of a source or table that a condition finds, with the rows of views that come from them, and say
    what was done.

    `where`: over its columns; None finishes what was interrupted. `raw`: also rejected rows whose raw text has one of
    these texts. `keep_aggregates`: views that only count and sum the rows stay as they are; `recompute`: they are
    computed from the rows that are left, and so is what reads them, and every other view that does not show by what
    the rows are found. `dry_run`: only look. `notify`: told of each step as it begins.
    Raises TG509 for what is neither, TG512 if it has no log, TG1xx and TG2xx for what is no condition, TG404 for an
    empty text, TG571 if not everything can be reached, TG572 if nobody agrees, TG573 for another erasure than the one
    that was interrupted, TG506 and TG543 as `require_staying`, TG508 if another process writes one of the tables, TG502
    if one has a newer commit than the one that was looked at.
    """
    started = time.monotonic()
    relation = context.relation(name)
    if not all(text.strip() for text in raw):
        raise TidegateError("TG404", "the text of --raw is empty, and every rejected row has an empty text")
    file = ErasingFile(context.project.storage, relation.name)
    with ExitStack() as held:
        if not dry_run:
            held.enter_context(context.lease(relation.name))
            held.enter_context(context.lease(relation.name, ".upkeep"))
        wanted = None if where is None else (where, tuple(raw), keep_aggregates, recompute)
        begun = _begun(relation, file.seen() if dry_run else file.read(), wanted)
        if begun is None and where is None:
            return Erasure(relation.name, notes=["no erasure was interrupted"])
        condition = log_condition(where or (begun.where if begun else ""), relation, _PLACE)
        if begun is None:
            texts, keep, again = tuple(raw), keep_aggregates, recompute
        else:
            texts, keep, again = begun.raw, begun.keep, begun.recompute
        work = _SourceErasure(context, relation, condition, texts, keep, again, notify)
        work.again.require(begun)
        require_staying(context, work.staying, again, begins=begun is None)
        if dry_run:
            work.look()
        else:
            try:
                work.run(file, begun)
            except TidegateError as error:
                if error.code != "TG502":
                    raise
                raise TidegateError(
                    "TG502",
                    f'the erasure of rows of "{relation.name}" has not ended: a table has changed meanwhile',
                    hint=f"tidegate erase {relation.name} --resume",
                ) from error
    work.done.seconds = round(time.monotonic() - started, 3)
    return work.done


def _begun(
    relation: Relation, begun: Erasing | None, wanted: tuple[str, tuple[str, ...], bool, bool] | None
) -> Erasing | None:
    """The erasure that was interrupted. Raises TG573 if another one is wanted."""
    if (
        begun is not None
        and wanted is not None
        and (begun.where, begun.raw, begun.keep, begun.recompute) != wanted
    ):
        raise TidegateError(
            "TG573",
            f'another erasure of rows of "{relation.name}" was interrupted, and has to be finished first: {begun.by} '
            f"asked for it at {begun.at}",
            hint=f"tidegate erase {relation.name} --resume",
        )
    return begun


class _SourceErasure:
    """The erasure of rows of one source, and of the rows of views that come from them."""

    def __init__(
        self,
        context: Context,
        relation: Relation,
        condition: RowsCondition,
        raw: Sequence[str],
        keep: bool,
        recompute: bool,
        notify: Callable[[str], None],
    ) -> None:
        stored = context.stored(relation.name)
        if stored is None:
            raise TidegateError(
                "TG512", f'"{relation.name}" has no log yet', hint=f"tidegate run {relation.name}"
            )
        self._context, self._relation, self._notify = context, relation, notify
        self._condition, self._raw, self._keep, self._recompute = condition, tuple(raw), keep, recompute
        storage = context.project.storage
        self._log = StoredLog(context.tables, storage, relation, stored, storage.owner)
        require_columns(context, relation, self._log.table)
        reach = require_reach(context, self._log, condition, keep or recompute, recompute)
        self._views, self._keeping = reach.reached, reach.keeping
        self.again = ComputedAgain(context, relation.name, reach.again)
        #: No row of theirs is taken out of a file. But an earlier version of theirs, or the next one, may show what
        #: this one does not (E5). Each is behind what it reads.
        self.staying = [*reach.keeping, *reach.above, *reach.again]
        for reached in self._views:
            # Before anything is changed it is known that each of them can be.
            self._view(reached)
        self._table = ErasedTable(relation.name)
        self.done = Erasure(relation.name, tables=[self._table], notes=left_to_others(relation))

    def look(self) -> None:
        """What `run` would do."""
        found = self._find()
        self._table.files = len(found.files)
        self._say(found.sum)
        # The newest one alone would stay.
        self._table.snapshots = earlier(self._log.table)
        if self._relation.primary_key and self._context.stored(name := state_of(self._relation)) is not None:
            state = StateErasure(self._context, self._relation, self._condition)
            self.done.tables.append(ErasedTable(name, state.find(), snapshots=earlier(state.table)))
        for reached in self._views:
            self._notify(f"{reached.view.name}: looking for the rows")
            erasure = self._view(reached)
            files = erasure.find()
            name, rows = reached.view.name, sum(files.values())
            self.done.tables.append(
                ErasedTable(name, rows, files=len(files), snapshots=earlier(erasure.table))
            )
        for view in self.again.views:
            table = self._context.tables.open(self._context.identifier(view.name))
            self.done.tables.append(ErasedTable(view.name, snapshots=earlier(table), recomputed=True))

    def _find(self) -> FoundRows:
        self._notify(f"{self._relation.name}: looking for the rows")
        self._erasure = LogErasure(self._context, self._log, self._condition, self._raw)
        found = self._erasure.find()
        self.done.undecoded = found.undecoded
        return found

    def _view(self, reached: ReachedView) -> ViewErasure:
        condition = passed_condition(self._condition.text, self._relation, _PLACE, reached.names)
        return ViewErasure(self._context, reached, condition)

    def _say(self, gone: Gone) -> None:
        self._table.rows = gone.rows
        self._table.on_time, self._table.late, self._table.rejected = gone.on_time, gone.late, gone.rejected

    def run(self, file: ErasingFile, begun: Erasing | None) -> None:
        """Everything, in an order in which each step can be done again: first the log, for what is erased there comes
        back to no view. Nobody else may write one of the tables until the end."""
        with ExitStack() as held:
            for view in [*(reached.view for reached in self._views), *self.staying]:
                for part in ("", ".upkeep", "$next"):
                    held.enter_context(self._context.lease(view.name, part))
            found = self._find()
            if begun is None:
                self._ask(found)
                at = self._context.clock().astimezone(UTC).isoformat(timespec="seconds")
                text, own = self._condition.text, uuid.uuid4().hex
                begun = Erasing(own, text, self._raw, asking(), at, self._keep, self._recompute)
                file.write(begun := self.again.all_of(begun))
            elif found.files and self.again.views:
                # What was recomputed before may have been so from these rows.
                file.write(begun := self.again.all_of(begun))
            stages = self._stages(self._relation)
            stages.carry_out(EraseStage, lambda _: self._remove(found, begun))
            seen = self._erasure.base
            stages.carry_out(ForgetStage, lambda _: self._forget(self._table, self._log.table, seen))
            if self._relation.primary_key:
                self._erase_state()
            for reached in self._views:
                self._erase_view(reached)
            again = frozenset(begun.again)
            if begun.recompute:
                due = self.again.due(begun)
                again |= recomputed(self._context, self.staying, begun, self._notify, due)
                if due:
                    file.write(self.again.done(begun, due))
            for view in self.staying:
                done = next((t for t in self.done.tables if t.table == view.name), ErasedTable(view.name))
                self.done.tables += [] if done in self.done.tables else [done]
                table = self._context.tables.open(self._context.identifier(view.name))
                self._forget_versions(view, table)
                if view.name in again:
                    done.recomputed, done.marked = True, self._marks(table, begun)
                self._stages(view).carry_out(ForgetStage, partial(self._forget_unseen, done, table))
            file.remove()

    def _stages(self, item: Relation | View) -> Stages:
        return self._context.stages(self._planned(item))

    def _planned(self, item: Relation | View, is_state: bool = False) -> tuple[TableStage, ...]:
        return erasure_stages(item, is_state, self._context.project.storage.namespace_of)

    def _erase_state(self) -> None:
        """What the table holds: also in files whose rows are only marked as deleted."""
        name = state_of(self._relation)
        if self._context.stored(name) is None:
            return
        done, erasure = ErasedTable(name), StateErasure(self._context, self._relation, self._condition)
        self.done.tables.append(done)
        stages = self._context.stages(self._planned(self._relation, True))
        self._notify(f"{name}: erasing rows, and writing files again")
        done.rows = erasure.find()
        stages.carry_out(EraseStage, lambda _: erasure.remove())
        stages.carry_out(ForgetStage, partial(self._forget_unseen, done, erasure.table))
        if erasure.find():
            raise overtaken(name)

    def _erase_view(self, reached: ReachedView) -> None:
        # (A server makes a snapshot of it, which is not to come behind the look at the rows.)
        self._forget_versions(
            reached.view, self._context.tables.open(reached.stored, self._context.project.owner)
        )
        done, erasure = ErasedTable(reached.view.name), self._view(reached)
        self.done.tables.append(done)
        stages = self._stages(reached.view)

        def remove(_: EraseStage) -> None:
            found = erasure.find()
            self._notify(f"{done.table}: writing {counted(len(found), 'file')} again")
            done.rows, done.files = sum(found.values()), erasure.remove(found)

        stages.carry_out(EraseStage, remove)
        stages.carry_out(ForgetStage, lambda _: self._forget(done, erasure.table, erasure.base))

    def _forget_versions(self, view: View, table: StoredTable) -> None:
        """The version that is built, which begins anew, and the earlier ones."""
        self._context.forget_next(view.name)
        table.current()
        if table.property(KEPT) not in (None, "[]"):
            table.set_properties({KEPT: "[]"})

    def _ask(self, found: FoundRows) -> None:
        rows = found.sum
        counts = {"on time": rows.on_time, "late": rows.late, "rejected": rows.rejected}
        told = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count) or "none"
        names = [self._relation.name, *(reached.view.name for reached in self._views)]
        lines = [f"  {names[0]}: rows: {told}; {counted(len(found.files), 'file')} written again"]
        lines += [f"  {name}: the rows that come from these" for name in names[1:]]
        then = "is recomputed from the rows that are left" if self._recompute else "keeps its counts and sums"
        lines += [f"  {view.name}: {then}" for view in (*self._keeping, *self.again.views)]
        every = ", ".join([*names, *(view.name for view in self.again.views)])
        self._context.ask(
            "TG572",
            f"these rows, and all earlier snapshots of {every}, are removed and can't be restored:\n"
            + "\n".join(lines),
            "tidegate erase --yes",
        )

    def _remove(self, found: FoundRows, begun: Erasing) -> None:
        table, storage = self._log.table, self._context.project.storage
        if found.files:
            # Before: when the rows have gone, nobody can tell which windows held them.
            recorded = sum(one.erasure == begun.id for one in erased(table, storage).entries)
            for view in self._keeping:
                self._notify(f"{view.name}: marking windows")
                mark_windows(self._context, view, self._erasure, begun, recorded)
        self._notify(f"{self._relation.name}: writing {counted(len(found.files), 'file')} again")
        self._table.files = self._erasure.remove(found, begun)
        # Of one that was interrupted, also what it had removed before.
        gone = [one.gone for one in erased(table, storage).entries if one.erasure == begun.id]
        self._say(reduce(Gone.plus, gone, Gone()))
        self.done.id, self.done.by, self.done.at = begun.id, begun.by, begun.at
        for view in self._keeping:
            own = self._context.tables.open(self._context.identifier(view.name))
            self.done.tables.append(ErasedTable(view.name, marked=self._marks(own, begun)))

    def _marks(self, table: StoredTable, begun: Erasing) -> int:
        """How many windows of a view are marked."""
        return len({(w.start, w.end) for w in marked(self._context, table) if w.of(begun.id)})

    def _forget_unseen(self, done: ErasedTable, table: StoredTable, _: ForgetStage) -> None:
        """Of a table of which no row goes."""
        self._forget(done, table, table.current())

    def _forget(self, done: ErasedTable, table: StoredTable, seen: Snapshot) -> None:
        """`seen`: where its rows were looked for, or the commit that has removed them. If there is a newer one (a
        catalog may have answered with an older state), it may have such rows. Raises TG502 then."""
        self._notify(f"{done.table}: removing what earlier snapshots alone have")
        storage, project = self._context.project.storage, self._context.project
        before = ALL
        if not storage.on_this_machine:
            # No lease tells of the other machines: a batch of one of them has files that no snapshot knows yet.
            policy = load_maintenance(project.root, project.variables).of(done.table)
            before = int((self._context.clock().timestamp() - policy.orphans_after) * 1000)
            self.done.notes.append(
                f"files of {done.table} that tasks have written and that were never committed stay until they are "
                f"{counted(int(policy.orphans_after // 3600), 'hour')} old: then tidegate upkeep removes them"
            )
        upkeep = self._context.tables.upkeep(table.identifier, project.owner)
        try:
            done.snapshots, done.orphans = forget_history(upkeep, before, seen)
        except Exception as error:
            if not upkeep.is_conflict(error):
                raise
            raise overtaken(table.identifier) from error
