"""Upkeep: what keeps the tables of a pipeline that runs for weeks small, while it runs.

`due` says from the metadata alone whether there is something to do; `maintain` does it: small files are put together,
rows beyond their retention go, old snapshots and what only they held go, then files that no snapshot knows. Killed at
any point it leaves a table that is complete; the next run goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from tidegate.errors import TidegateError
from tidegate.iceberg.protocol import Commit, Conflict, Done, Found, GiveUp, Stored, drive
from tidegate.iceberg.retire import condemned, retire
from tidegate.iceberg.shape import Rested, TableShape
from tidegate.maintenance.edges import bounds_of, edge_of, kind_of, worth_expiring
from tidegate.plan import upkeep_stages as plan
from tidegate.project.jobs.maintenance import Policy
from tidegate.runtime.steps import Steps
from tidegate.sql.catalog.objects import Relation, View
from tidegate.tables.table import note_again
from tidegate.views.versions.keeping import beyond, forget_versions
from tidegate.views.versions.left import clear_left, is_left
from tidegate.wording import counted

if TYPE_CHECKING:
    from tidegate.runtime.context import Context

#: From so many manifests on they are written anew.
MANY_MANIFESTS = 50
#: Table property: up to where `due` need not look again.
CHECKED = "tidegate.retention-checked"
#: Tries of what another commit was in the way of, before it is left to the next upkeep.
TRIES = 3


@dataclass
class TableUpkeep:
    """What was done to one table. `files`, `snapshots`, `manifests`, `bytes`: before and after.

    `compacted`: files that were put together. `retired`: rows beyond their retention, and of the history of the
    watermarks. `orphans`: files that no snapshot knew; None: not looked for. `notes`: what was left, and why.
    """

    table: str
    files: tuple[int, int] = (0, 0)
    snapshots: tuple[int, int] = (0, 0)
    manifests: tuple[int, int] = (0, 0)
    bytes: tuple[int, int] = (0, 0)
    compacted: int = 0
    retired: int = 0
    orphans: int | None = None
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)


@dataclass
class UpkeepReport:
    """Upkeep of one source, table or view: its own table, and of one with a PRIMARY KEY its state's."""

    name: str
    tables: list[TableUpkeep] = field(default_factory=list)
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def due(context: Context, name: str, policy: Policy, now: float | None = None) -> list[str]:
    """Why `maintain` is worth its while, a reason each; nothing if it is not. Reads metadata, runs no Spark job.

    `now`: seconds since the epoch; None is the clock.
    """
    now = context.clock().timestamp() if now is None else now
    found = []
    source = _source(context, name)
    for identifier in _tables(context, source):
        shape = context.tables.upkeep(identifier).shape()
        short = _short(identifier)
        files = shape.new_files(now, policy.settle)
        if files >= policy.compact_when_files:
            found.append(f"{short}: {files} files since the last compaction")
        old = worth_expiring(shape, policy, now)
        if old:
            found.append(f"{short}: {old} old snapshots")
        if isinstance(source, View) and is_left(
            context, context.declared(source), now - policy.orphans_after
        ):
            found.append(f"{short}: a new version that was given up")
        if gone := beyond(context, source.name, shape.properties, policy.keep_versions, now):
            found.append(f"{short}: {counted(len(gone), 'earlier version')}")
        if identifier == context.identifier(source.name):
            edge, _ = edge_of(context, source, identifier, shape, policy, now, history=False)
            if edge.before is not None and shape.properties.get(CHECKED) != str(edge.before):
                found.append(f"{short}: rows beyond their retention")
    return found


def maintain(
    context: Context,
    name: str,
    policy: Policy,
    *,
    leased: bool = False,
    retention: bool = True,
    orphans: bool = False,
    dry_run: bool = False,
    now: float | None = None,
    guard: float | None = None,
    notify: Callable[[str], None] = lambda text: None,
) -> UpkeepReport:
    """Keep the tables of one source, table or view small, and return what was done.

    `leased`: the caller holds the lease of `name` itself (live, between two ticks). Otherwise it is taken where it is
    needed: for the state of a table with a PRIMARY KEY, whose MERGE a compaction could defeat, and for a catalog that
    is a folder, where nothing but the lease keeps two processes apart; what another process is writing is then left
    out, with a note. `retention`, `orphans`: whether rows beyond their retention go, and files that no snapshot knows.
    `guard`: seconds for which snapshots stay in any case. `notify`: told of each step as it begins.
    Raises TG544 if nothing is stored of `name`, TG508 if another upkeep of it is running.
    """
    started = time.monotonic()
    now = context.clock().timestamp() if now is None else now
    source = _source(context, name)
    identifiers = _tables(context, source)
    if not identifiers:
        raise TidegateError("TG544", f'"{source.name}" has no table yet', hint=f"tidegate run {source.name}")
    report = UpkeepReport(source.name)
    with context.lease(source.name, ".upkeep"):
        for identifier in identifiers:
            work = _Work(context, source, identifier, policy, now, guard, notify)
            if dry_run:
                work.look(retention)
            else:
                _run_if_allowed(
                    work, _right_to_write(context, source, identifier, leased), retention, orphans
                )
            report.tables.append(work.done)
    report.seconds = round(time.monotonic() - started, 3)
    return report


def _run_if_allowed(
    work: _Work, right: AbstractContextManager[str | None], retention: bool, orphans: bool
) -> None:
    """`right`: gives why nothing may be done; None: all is allowed."""
    with right as refusal:
        if refusal is None:
            work.run(retention, orphans)
        else:
            work.measure(after=True)
            work.done.notes.append(refusal)


def maintain_all(
    context: Context,
    names: Iterable[str] | None = None,
    policy: Callable[[str], Policy] | None = None,
    steps: Steps | None = None,
    **options: Any,
) -> list[UpkeepReport]:
    """`maintain` for `names` (None: everything that has a table, implicit gates and views of sinks included).

    `policy`: by name; None is what `jobs/maintenance.yaml` says. `steps`: takes down what fails; None: the first
    failure is raised. `options`: of `maintain`.
    """
    from tidegate.project.jobs.maintenance import load_maintenance

    policy = policy or load_maintenance(context.project.root, context.project.variables).of
    chosen = [_source(context, name) for name in (_own(context) if names is None else names)]
    steps = steps or Steps(fail_fast=True)
    reports: list[UpkeepReport] = []

    def one(name: str) -> None:
        if names is None and context.stored(name) is None:
            return
        try:
            reports.append(maintain(context, name, policy(name), **options))
        except TidegateError as error:
            if error.code != "TG508":
                raise
            reports.append(
                UpkeepReport(name, [TableUpkeep(name, notes=[f"left unchanged: {error.message}"])])
            )

    for item in chosen:
        steps.do(item, partial(one, item.name))
    return reports


def _own(context: Context) -> list[str]:
    """Everything that may have a table, each after what it reads; not what another environment takes care of."""
    return [o.name for o in context.catalog.order() if o.name not in context.foreign]


class _Work:
    """Upkeep of one table."""

    def __init__(
        self,
        context: Context,
        source: Relation | View,
        identifier: str,
        policy: Policy,
        now: float,
        guard: float | None,
        notify: Callable[[str], None],
    ) -> None:
        self._context, self._source = context, source
        self._policy, self._now, self._notify = policy, now, notify
        self._guard = {} if guard is None else {"guard": guard}
        self._upkeep = context.tables.upkeep(identifier, context.project.owner)
        self._table = self._upkeep.table
        self._is_state = identifier != context.identifier(source.name)
        planned = plan.table_upkeep(source, self._is_state, context.project.storage.namespace_of)
        self._stages = context.stages(planned)
        self._kind = kind_of(source)
        self._number = "_tick" if isinstance(source, View) else "_epoch"
        self.done = TableUpkeep(_short(identifier))
        self.measure()

    def measure(self, after: bool = False) -> TableShape:
        """Take the figures before or after."""
        shape = self._upkeep.shape()
        found = {
            "files": shape.files,
            "snapshots": len(shape.snapshots),
            "manifests": self._upkeep.manifests(),
            "bytes": shape.bytes,
        }
        for key, value in found.items():
            first = getattr(self.done, key)[0] if after else value
            setattr(self.done, key, (first, value))
        return shape

    def look(self, retention: bool) -> None:
        """What `run` would do, as notes."""
        shape = self.measure(after=True)
        files = shape.new_files(self._now, self._policy.settle)
        self.done.notes.append(f"{files} files since the last compaction")
        self.done.notes.append(f"{shape.expirable(self._bound(shape))} snapshots can expire")
        if retention and not self._is_state:
            edge, notes = self._edge(shape)
            beyond = condemned(self._upkeep, self._kind, edge, self._number)
            rows = beyond.groupBy().sum("record_count").first()
            self.done.notes += [*notes, f"{(rows and rows[0]) or 0} rows beyond their retention"]

    def run(self, retention: bool, orphans: bool) -> None:
        """Everything, in the order in which a crash leaves the least behind."""
        started = time.monotonic()
        if retention and not self._is_state:
            self._attempt("retention", plan.RetireStage, self._retire)
        self._attempt("compaction", plan.CompactStage, self._compact)
        if self._upkeep.manifests() >= MANY_MANIFESTS:
            self._attempt("manifests", plan.ManifestStage, self._upkeep.merge_manifests)
        self._attempt("expiry", plan.ExpireStage, self._expire)
        if orphans:
            self._attempt("orphan files", plan.OrphanStage, self._orphans)
        self.measure(after=True)
        self.done.seconds = round(time.monotonic() - started, 3)

    def _bound(self, shape: TableShape) -> int | None:
        policy = self._policy
        return shape.bound(self._now, policy.keep_snapshots, policy.most_snapshots, **self._guard)

    def _edge(self, shape: TableShape) -> tuple[Any, list[str]]:
        return edge_of(self._context, self._source, self._table.identifier, shape, self._policy, self._now)

    def _attempt(self, what: str, kind: type[plan.TableStage], step: Callable[[], None]) -> None:
        """A stage; anew if another commit was in its way, which always wins. After a few tries it is left."""
        self._notify(f"{self.done.table}: {what}")
        commit = Commit(needs="nothing", tries=TRIES)

        def work(_: plan.TableStage) -> Done | GiveUp:
            return drive(commit, lambda _: Found(self._table.current()), lambda _: self._answer(step))

        end = self._stages.carry_out(kind, work)
        if isinstance(end, GiveUp):
            self.done.notes.append(
                f"{what} is left to the next upkeep, because other commits came at the same time"
            )

    def _answer(self, step: Callable[[], None]) -> Stored | Conflict:
        """What a step is answered; it raises whatever is no conflict."""
        try:
            step()
        except Exception as error:
            if not self._upkeep.is_conflict(error):
                raise
            return Conflict(error)
        return Stored(None)

    def _compact(self) -> None:
        policy, shape = self._policy, self._upkeep.shape()
        if self._is_state:
            # Its rows change all the time; a catalog of commits says nothing about which of them rest.
            gone, _ = self._upkeep.compact(None, policy.target_file_size)
            self.done.compacted += gone
            return note_again(self._table, gone)
        key = "tidegate.tick" if isinstance(self._source, View) else "tidegate.epoch"
        last = shape.last_before(key, self._now - policy.settle)
        if last is None:
            return
        still: tuple[bool | None, ...] | None = None
        if isinstance(self._source, View):
            # Open and carried rows are replaced by every tick; what amendments have replaced is beside the carried.
            still = (False, None) if self._source.over is None else (False,)
        rested = Rested(self._number, last, still)
        gone, _ = self._upkeep.compact(rested, policy.target_file_size, bounds=bounds_of(self._source))
        self.done.compacted += gone

    def _retire(self) -> None:
        shape = self._upkeep.shape()
        edge, notes = self._edge(shape)
        self.done.notes += [note for note in notes if note not in self.done.notes]
        source = self._source
        time_column = source.watermark.column if isinstance(source, Relation) and source.watermark else None
        if edge.before is None and edge.arrived is None and edge.history is None:
            return
        self.done.retired += retire(
            self._context.tables,
            self._context.project.storage,
            self._upkeep,
            self._kind,
            time_column,
            edge,
            self._number,
            self._now,
        )
        if edge.before is not None and self._table.property(CHECKED) != str(edge.before):
            self._table.set_properties({CHECKED: str(edge.before)})
            self._table.current()

    def _expire(self) -> None:
        name, properties = self._source.name, self._table.properties()
        if isinstance(self._source, View):
            # It would hold rows and files for ever: `retention.needed_from`, and `_orphans`.
            begun = self._now - self._policy.orphans_after
            clear_left(self._context, self._context.declared(self._source), begun)
        old = beyond(self._context, name, properties, self._policy.keep_versions, self._now)
        gone = old and forget_versions(self._context, name, lambda one: one.number in old)
        self.done.notes += [f"the retention of version {number} has passed" for number in gone]
        shape = self._upkeep.shape()
        bound = self._bound(shape)
        if bound is not None and shape.expirable(bound):
            self._upkeep.expire(bound)

    def _orphans(self) -> None:
        if not self._context.is_building(self._source.name):
            age = int((self._now - self._policy.orphans_after) * 1000)
            self.done.orphans = self._upkeep.remove_orphans(age)


@contextmanager
def _right_to_write(
    context: Context, source: Relation | View, identifier: str, leased: bool
) -> Iterator[str | None]:
    """Hold the lease where one is needed; what to say if somebody else has it."""
    here = context.project.storage.on_this_machine
    with ExitStack() as held:
        refusal = None
        if not leased and (here or identifier != context.identifier(source.name)):
            try:
                held.enter_context(context.lease(source.name))
            except TidegateError as error:
                if error.code != "TG508":
                    raise
                refusal = (
                    f"left unchanged: {error.message}; a live run does the upkeep of the tables that it "
                    "writes"
                )
        yield refusal


def _source(context: Context, name: str) -> Relation | View:
    found = context.catalog.get(name)
    if not isinstance(found, Relation | View):
        raise TidegateError(
            "TG509",
            f'"{name}" is not a source, table or view',
            hint="upkeep works on sources, tables and views",
        )
    return found


def _tables(context: Context, source: Relation | View) -> list[str]:
    names = [source.name]
    if isinstance(source, Relation) and source.primary_key:
        names.append(plan.state_of(source))
    return [table for name in names if (table := context.stored(name)) is not None]


def _short(identifier: str) -> str:
    """A table's own name."""
    return identifier.rpartition(".")[2].strip("`")
