"""`tidegate erase`: a person's rows go from all that holds them, at rest, and a record of their number stays (E9).

First what is to be done is written down (`erasing.py`), last that is removed: whoever comes after a process that was
killed goes on from what is there (R2). Nobody else may write the source meanwhile (its lease).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC
from functools import partial, reduce
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.iceberg.attempt import overtaken
from tidegate.iceberg.retire import Gone
from tidegate.ingest.erased import erased
from tidegate.ingest.ingest import StoredLog
from tidegate.maintenance.erase_again import ComputedAgain
from tidegate.maintenance.erase_branches import asked_about, drop, hold, is_theirs, once, to_be_dropped
from tidegate.maintenance.erase_history import EVERYTHING, earlier, forget_history
from tidegate.maintenance.erase_log import FoundRows, LogErasure
from tidegate.maintenance.erase_reach import branches_since, left_to_others, require_reach
from tidegate.maintenance.erase_recompute import following, recomputed, require_staying
from tidegate.maintenance.erase_sinks import SinkErasure, sink_erasures
from tidegate.maintenance.erase_state import StateErasure
from tidegate.maintenance.erase_topics import TopicErasure
from tidegate.maintenance.erase_views import ViewErasure, mark_windows
from tidegate.maintenance.erasing import Erasing, ErasingFile, asking, same_erasure
from tidegate.maintenance.erasure import ErasedTable, Erasure, said_of
from tidegate.plan.upkeep_stages import (
    EraseStage,
    ForgetStage,
    TableStage,
    erasure_stages,
    sink_erasure_stages,
    state_of,
)
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


def erase(
    context: Context,
    name: str,
    where: str | None = None,
    raw: Sequence[str] = (),
    *,
    keep_aggregates: bool = False,
    recompute: bool = False,
    drop_branches: bool = False,
    dry_run: bool = False,
    notify: Callable[[str], None] = lambda text: None,
) -> Erasure:
    """Erase the rows of a source or table that a condition finds, with the rows of views that come from them, and say
    what was done.

    `where`: over its columns; None finishes what was interrupted. `raw`: also rejected rows whose raw text has one of
    these texts. `keep_aggregates`: views that only count and sum the rows stay as they are; `recompute`: they are
    computed from the rows that are left, and so is what reads them, and every other view that does not show by what
    the rows are found. `drop_branches`: tables of branches that read the rows are dropped (X3). `dry_run`: only look.
    `notify`: told of each step as it begins.
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
        begun = same_erasure(relation.name, file.seen() if dry_run else file.read(), wanted)
        if begun is None and where is None:
            return Erasure(relation.name, notes=["no erasure was interrupted"])
        condition = log_condition(where or (begun.where if begun else ""), relation, _PLACE)
        if begun is None:
            texts, keep, again = tuple(raw), keep_aggregates, recompute
        else:
            texts, keep, again = begun.raw, begun.keep, begun.recompute
        work = _SourceErasure(context, relation, condition, texts, keep, again, drop_branches, begun, notify)
        work.again.require(begun)
        require_staying(context, work.staying, again, begins=begun is None)
        if dry_run:
            work.look()
        else:
            try:
                work.run(file)
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
        drops: bool,
        begun: Erasing | None,
        notify: Callable[[str], None],
    ) -> None:
        stored = context.stored(relation.name)
        if stored is None:
            raise TidegateError(
                "TG512", f'"{relation.name}" has no log yet', hint=f"tidegate run {relation.name}"
            )
        self._context, self._relation, self._notify = context, relation, notify
        self._condition, self._raw, self._keep, self._recompute = condition, tuple(raw), keep, recompute
        self._begun, self._drops = begun, drops or (begun is not None and begun.drop)
        storage = context.project.storage
        self._log = StoredLog(context.tables, storage, relation, stored, storage.owner)
        require_columns(context, relation, self._log.table)
        dropped = [one for one in (() if begun is None else begun.dropped) if is_theirs(context, one)]
        reach = require_reach(context, self._log, condition, keep, recompute, self._drops, dropped)
        self._reach, self._views, self._keeping = reach, reach.reached, reach.keeping
        #: Those of branches, in the order in which they were found.
        self._dropped = list(dict.fromkeys([*dropped, *to_be_dropped(storage, reach.branches)]))
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
        self._table.files = len((found := self._find()).files)
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
        for one in sink_erasures(self._context, self._reach.sinks, self._passed):
            self._notify(f"{one.sink.name}: looking for the rows")
            self.done.tables.append(one.look())
        self._say_dropped()

    def _find(self) -> FoundRows:
        self._notify(f"{self._relation.name}: looking for the rows")
        self._erasure = LogErasure(self._context, self._log, self._condition, self._raw)
        found = self._erasure.find()
        self.done.undecoded = found.undecoded
        return found

    def _view(self, reached: ReachedView) -> ViewErasure:
        return ViewErasure(self._context, reached, self._passed(reached.names))

    def _passed(self, names: Mapping[str, str]) -> RowsCondition:
        return passed_condition(self._condition.text, self._relation, _PLACE, names)

    def _say(self, gone: Gone) -> None:
        self._table.rows = gone.rows
        self._table.on_time, self._table.late, self._table.rejected = gone.on_time, gone.late, gone.rejected

    def run(self, file: ErasingFile) -> None:
        """Everything, in an order in which each step can be done again: first what branches have, then the log, for
        what is erased there comes back to no view. Nobody else may write one of the tables until the end."""
        with ExitStack() as held:
            for view in [*(reached.view for reached in self._views), *self.staying]:
                for part in ("", ".upkeep", "$next"):
                    held.enter_context(self._context.lease(view.name, part))
            followers = following(self._context, self.staying if self._recompute else ())
            for sink in (*(one.sink for one in self._reach.sinks), *followers):
                held.enter_context(self._context.lease(sink.name))
            hold(self._context, once(self._dropped), held)
            found = self._find()
            begun = self._agreed(found, file)
            drop(self._context, begun.dropped, self._notify)
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
                    file.write(begun := self.again.done(begun, due))
            for view in self.staying:
                done = next((t for t in self.done.tables if t.table == view.name), ErasedTable(view.name))
                self.done.tables += [] if done in self.done.tables else [done]
                table = self._context.tables.open(self._context.identifier(view.name))
                self._forget_versions(view, table)
                if view.name in again:
                    done.recomputed, done.marked = True, self._marks(table, begun)
                self._stages(view).carry_out(ForgetStage, partial(self._forget_unseen, done, table))
            self._erase_sinks()
            self._drop_since(begun, file, held)
            file.remove()

    def _agreed(self, found: FoundRows, file: ErasingFile) -> Erasing:
        """What is to be done, which is written down. Who agreed once has agreed to all but the dropping that is allowed
        only now."""
        begun = self._begun
        if begun is None:
            self._ask(found)
            at = self._context.clock().astimezone(UTC).isoformat(timespec="seconds")
            text, own = self._condition.text, uuid.uuid4().hex
            begun = Erasing(own, text, self._raw, asking(), at, self._keep, self._recompute)
        elif self._dropped and not begun.drop:
            self._ask(found)
        if found.files or self._begun is None:
            # (What was recomputed before an interruption may have been so from these rows.)
            begun = self.again.all_of(begun)
        now = replace(begun, drop=self._drops, dropped=tuple(self._dropped))
        if now != self._begun:
            file.write(now)
        return now

    def _drop_since(self, begun: Erasing, file: ErasingFile, held: ExitStack) -> None:
        """What a branch has made meanwhile of the rows that were there."""
        found = branches_since(self._context, self._log, self._reach, self._drops, begun.dropped)
        storage = self._context.project.storage
        new = [one for one in to_be_dropped(storage, found) if one not in begun.dropped]
        if new:
            hold(self._context, once(new, begun.dropped), held)
            self._dropped += new
            file.write(replace(begun, dropped=tuple(self._dropped)))
            drop(self._context, new, self._notify)
        self._say_dropped()

    def _say_dropped(self) -> None:
        self.done.tables += [ErasedTable(one.table, dropped=one.environment) for one in once(self._dropped)]

    def _stages(self, item: Relation | View) -> Stages:
        return self._context.stages(self._planned(item))

    def _planned(self, item: Relation | View, is_state: bool = False) -> tuple[TableStage, ...]:
        return erasure_stages(item, is_state, self._context.project.storage.namespace_of)

    def _erase_state(self) -> None:
        """What the table holds: also in files whose rows are only marked as deleted."""
        if self._context.stored(name := state_of(self._relation)) is not None:
            erasure = StateErasure(self._context, self._relation, self._condition)
            self._erase_from(name, erasure, self._planned(self._relation, True))

    def _erase_sinks(self) -> None:
        for erasure in sink_erasures(self._context, self._reach.sinks, self._passed):
            if isinstance(erasure, TopicErasure):
                self.done.tables.append(erasure.run(self._notify))
                self.done.notes.append(erasure.note)
            else:
                self._erase_from(erasure.sink.name, erasure, sink_erasure_stages(erasure.sink))

    def _erase_from(self, name: str, erasure: StateErasure | SinkErasure, plan: Sequence[TableStage]) -> None:
        done, stages = ErasedTable(name), self._context.stages(plan)
        self.done.tables.append(done)
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
        names = [self._relation.name, *(reached.view.name for reached in self._views)]
        again, sinks = self.again.views, self._reach.sinks
        past = [*names, *(view.name for view in again), *(s.sink.name for s in sinks if not s.is_topic)]
        lines = [f"  {names[0]}: {said_of(found.sum, len(found.files))}"]
        lines += [f"  {name}: the rows that come from these" for name in names[1:]]
        then = "is recomputed from the rows that are left" if self._recompute else "keeps its counts and sums"
        lines += [f"  {view.name}: {then}" for view in (*self._keeping, *again)]
        lines += [f"  {one.sink.name}: {one.loses}" for one in sinks]
        lines += asked_about(self._dropped)
        self._context.ask(
            "TG572",
            f"these rows, and all earlier snapshots of {', '.join(past)}, are removed and can't be restored:\n"
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
        before = EVERYTHING
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
