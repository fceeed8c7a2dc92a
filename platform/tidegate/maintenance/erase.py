"""`tidegate erase`: a person's rows go from all that holds them, at rest, and a record of their number stays (E9).

First what is to be done is written down (`erasing.py`), last that is removed: whoever comes after a process that was
killed goes on from what is there (R2). Nobody else may write the source meanwhile (its lease).
"""

from __future__ import annotations

import getpass
import os
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC
from typing import TYPE_CHECKING, Any

from tidegate.errors import TidegateError
from tidegate.iceberg.retire import Gone
from tidegate.ingest.erased import erased
from tidegate.ingest.ingest import StoredLog
from tidegate.maintenance.erase_log import FoundRows, LogErasure
from tidegate.maintenance.erase_reach import require_reach
from tidegate.maintenance.erasing import Erasing, ErasingFile
from tidegate.plan.upkeep_stages import EraseStage, ForgetStage, erasure_stages
from tidegate.project.jobs.maintenance import load_maintenance
from tidegate.sql.statements.row_condition import log_condition
from tidegate.wording import counted

if TYPE_CHECKING:
    from tidegate.iceberg.tables import Upkeep
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import Relation
    from tidegate.sql.statements.row_condition import LogCondition

#: Later than every snapshot and every file, ms.
_ALL = 1 << 50
#: What errors call the text of a condition.
_PLACE = "WHERE"


@dataclass
class ErasedTable:
    """What was done to one table, or would be. `files`: written again. `snapshots`: that went. `orphans`: files that no
    snapshot knew."""

    table: str
    on_time: int = 0
    late: int = 0
    rejected: int = 0
    files: int = 0
    snapshots: int = 0
    orphans: int = 0

    @property
    def rows(self) -> int:
        return self.on_time + self.late + self.rejected


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
        return sum(table.rows for table in self.tables)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def erase(
    context: Context,
    name: str,
    where: str | None = None,
    raw: Sequence[str] = (),
    *,
    dry_run: bool = False,
    notify: Callable[[str], None] = lambda text: None,
) -> Erasure:
    """Erase the rows of a source or table that a condition finds, and say what was done.

    `where`: over its columns; None finishes what was interrupted. `raw`: also rejected rows whose raw text has one of
    these texts. `dry_run`: only look. `notify`: told of each step as it begins.
    Raises TG509 for what is neither, TG512 if it has no log, TG1xx and TG2xx for what is no condition, TG571 if not
    everything can be reached, TG572 if nobody agrees, TG573 for another erasure than the one that was interrupted,
    TG508 if another process writes one of the tables.
    """
    started = time.monotonic()
    relation = context.relation(name)
    file = ErasingFile(context.project.storage, relation.name)
    with ExitStack() as held:
        if not dry_run:
            held.enter_context(context.lease(relation.name))
            held.enter_context(context.lease(relation.name, ".upkeep"))
        begun = _begun(relation, file.read(), where, raw)
        if begun is None and where is None:
            return Erasure(relation.name, notes=["no erasure was interrupted"])
        condition = log_condition(where or (begun.where if begun else ""), relation, _PLACE)
        work = _SourceErasure(context, relation, condition, begun.raw if begun else tuple(raw), notify)
        if dry_run:
            work.look()
        else:
            work.run(file, begun)
    work.done.seconds = round(time.monotonic() - started, 3)
    return work.done


def _begun(
    relation: Relation, begun: Erasing | None, where: str | None, raw: Sequence[str]
) -> Erasing | None:
    """The erasure that was interrupted. Raises TG573 if another one is asked for."""
    if begun is not None and where is not None and (begun.where, begun.raw) != (where, tuple(raw)):
        raise TidegateError(
            "TG573",
            f'another erasure of rows of "{relation.name}" was interrupted, and has to be finished first: {begun.by} '
            f"asked for it at {begun.at}",
            hint=f"tidegate erase {relation.name} --resume",
        )
    return begun


class _SourceErasure:
    """The erasure of rows of one source."""

    def __init__(
        self,
        context: Context,
        relation: Relation,
        condition: LogCondition,
        raw: Sequence[str],
        notify: Callable[[str], None],
    ) -> None:
        stored = context.stored(relation.name)
        if stored is None:
            raise TidegateError(
                "TG512", f'"{relation.name}" has no log yet', hint=f"tidegate run {relation.name}"
            )
        self._context, self._relation, self._notify = context, relation, notify
        self._condition, self._raw = condition, tuple(raw)
        storage = context.project.storage
        self._log = StoredLog(context.tables, storage, relation, stored, storage.owner)
        self._stages = context.stages(erasure_stages(relation, storage.namespace_of))
        self._table = ErasedTable(relation.name)
        self.done = Erasure(relation.name, tables=[self._table], notes=_left_to_others(relation))

    def look(self) -> None:
        """What `run` would do."""
        require_reach(self._context, self._log, self._condition)
        found = self._find()
        self._table.files = len(found.files)
        self._say(found.sum)
        # The newest one alone would stay.
        self._table.snapshots = max(len(self._log.table.snapshot_ids()) - 1, 0)

    def _find(self) -> FoundRows:
        self._notify(f"{self._relation.name}: looking for the rows")
        self._erasure = LogErasure(self._context, self._log, self._condition, self._raw)
        found = self._erasure.find()
        self.done.undecoded = found.undecoded
        return found

    def _say(self, gone: Gone) -> None:
        self._table.on_time, self._table.late, self._table.rejected = gone.on_time, gone.late, gone.rejected

    def run(self, file: ErasingFile, begun: Erasing | None) -> None:
        """Everything, in an order in which each step can be done again."""
        require_reach(self._context, self._log, self._condition)
        found = self._find()
        if begun is None:
            self._ask(found)
            at = self._context.clock().astimezone(UTC).isoformat(timespec="seconds")
            begun = Erasing(uuid.uuid4().hex, self._condition.text, self._raw, asking(), at)
            file.write(begun)
        self._stages.carry_out(EraseStage, lambda _: self._remove(found, begun))
        self._stages.carry_out(ForgetStage, lambda _: self._forget())
        file.remove()

    def _ask(self, found: FoundRows) -> None:
        rows = found.sum
        counts = {"on time": rows.on_time, "late": rows.late, "rejected": rows.rejected}
        told = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count) or "none"
        name = self._relation.name
        self._context.ask(
            "TG572",
            f"these rows, and all earlier snapshots of {name}, are removed and can't be restored:\n"
            f"  {name}: rows: {told}; {counted(len(found.files), 'file')} written again",
            "tidegate erase --yes",
        )

    def _remove(self, found: FoundRows, begun: Erasing) -> None:
        self._notify(f"{self._relation.name}: writing {counted(len(found.files), 'file')} again")
        self._table.files = self._erasure.remove(found, begun)
        # Of one that was interrupted, also what it had removed before.
        table, storage = self._log.table, self._context.project.storage
        table.current()
        own = [one.gone for one in erased(table, storage).entries if one.erasure == begun.id]
        self._say(sum_of(own))
        self.done.id, self.done.by, self.done.at = begun.id, begun.by, begun.at

    def _forget(self) -> None:
        self._notify(f"{self._relation.name}: removing what earlier snapshots alone have")
        storage, project = self._context.project.storage, self._context.project
        before = _ALL
        if not storage.on_this_machine:
            # No lease tells of the other machines: a batch of one of them has files that no snapshot knows yet.
            policy = load_maintenance(project.root, project.variables).of(self._relation.name)
            before = int((self._context.clock().timestamp() - policy.orphans_after) * 1000)
            self.done.notes.append(
                "files that tasks have written and that were never committed stay until they are "
                f"{counted(int(policy.orphans_after // 3600), 'hour')} old: then tidegate upkeep removes them"
            )
        upkeep = self._context.tables.upkeep(self._log.table.identifier, project.owner)
        self._table.snapshots, self._table.orphans = forget_history(upkeep, before)


def forget_history(upkeep: Upkeep, orphans_before: int) -> tuple[int, int]:
    """Leave of a table what its newest snapshot shows, and what tidegate said last; how many snapshots went, and how
    many files that none knew and that are older (ms)."""
    upkeep.forget_names()
    before = upkeep.table.current()
    there = len(upkeep.table.snapshot_ids())
    upkeep.forget_removed(before.facts)
    upkeep.expire(_ALL)
    upkeep.table.current()
    gone = there + 1 - len(upkeep.table.snapshot_ids()) if before.id is not None else 0
    return gone, upkeep.remove_orphans(orphans_before)


def sum_of(gone: Sequence[Gone]) -> Gone:
    """All of them together."""
    total = Gone()
    for one in gone:
        total = total.plus(one)
    return total


def asking() -> str:
    """Who runs this process, for the record."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"


def _left_to_others(relation: Relation) -> list[str]:
    """Where the rows came from: tidegate reads there, and deletes nothing."""
    path, topic = (getattr(relation.connector, name, None) for name in ("path", "topic"))
    if topic is not None:
        return [f"the topic {topic} is not tidegate's: delete the messages there, or let its retention do so"]
    if path is not None:
        return [f"the files in {path} are not tidegate's: delete the rows there"]
    return []
