"""What a run would make of the definitions in `assets/` (E1), told from stored metadata, without a JVM: per object new,
unchanged, changed in place, a new version, or refused; what that reads, and who reads it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from tidegate.evolve.differences import Evolution, pending
from tidegate.evolve.kept_versions import spark_type
from tidegate.evolve.seen_by import first_delivery, readers_see, sinks_see
from tidegate.evolve.sink_changes import of_new_version
from tidegate.evolve.stored_rows import held_in
from tidegate.iceberg.layout import (
    has_gone_back,
    is_as_judged,
    is_of_view,
    relation_identity,
    strategy_identity,
)
from tidegate.ingest.definition import options_of
from tidegate.plan.columns.as_seen import BEFORE, as_deployed, until_then, with_columns_before
from tidegate.plan.columns.changes import CHANGES, OPTIONS, other_columns, with_step
from tidegate.plan.costs import expected_seconds
from tidegate.plan.gaps import with_cleaned
from tidegate.plan.versions import (
    HELD_AT,
    STALE,
    KeptPast,
    current_version,
    held_at,
    held_text,
    kept_past,
    replaced_below,
)
from tidegate.runtime.lending import with_lent_views
from tidegate.sql.catalog.lineage import readers_of, reads_of, sources_of
from tidegate.sql.catalog.objects import Relation, Sink, View
from tidegate.sql.options.in_place import changed_options
from tidegate.store.listing import spelled
from tidegate.store.metadata import CommittedTable, load_table
from tidegate.store.positions import continues, deployment, is_moved, last_deployment
from tidegate.store.status import stored_edge
from tidegate.views.versions.renaming import in_the_way, is_to_follow, refused

if TYPE_CHECKING:
    from tidegate.project import Project, Storage
    from tidegate.sql.catalog.catalog import Catalog
    from tidegate.watermark import TimeKind

Effect = Literal["unchanged", "new", "in place", "new version", "refused", "removed"]
_UNKNOWN = Evolution(refused=("the stored definition can't be compared",))
_QUERY = "its query has changed"
_RENAMED = '"{}" is renamed, and keeps its results'
_SAME = "what it reads has another name, and the same results"


@dataclass(frozen=True)
class PlannedChange:
    """One source, table, view or sink. `what`: the differences, in words; of one that is refused, why. `rows`, `bytes`:
    what has to be read of stored inputs for it, as far as metadata tell. `readers`: who reads it. `command`: what does
    it. `valid_from`: of a new version of a view, results that end before this time stay those of the present one,
    because the rows behind them are gone (E5); None where all are computed again. `held_at`: the current version of a
    view stops at this time, where a new one is to take its place (E5); None: it does not. `seconds`: what reading took
    until now, at the pace of the view's largest tick. `readers_see`, `sinks_see`: what they see of it, in words."""

    name: str
    kind: str
    effect: Effect
    what: tuple[str, ...] = ()
    rows: int | None = None
    bytes: int | None = None
    readers: tuple[str, ...] = ()
    command: str | None = None
    valid_from: str | None = None
    held_at: str | None = None
    seconds: float | None = None
    readers_see: str | None = None
    sinks_see: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


@dataclass
class _Planning:
    """`tables`: what is stored, by name. `evolutions`: of logs that the next run changes, from and to which definition,
    and how; `replaced`: views whose results a rebuild replaces. `as_run`: as runs continue, which no definition in a
    file replaces by itself."""

    project: Project
    catalog: Catalog
    storage: Storage
    tables: dict[str, CommittedTable | None] = field(default_factory=dict)
    evolutions: dict[str, tuple[Relation, Relation, Evolution]] = field(default_factory=dict)
    replaced: dict[str, str] = field(default_factory=dict)
    as_run: bool = False

    def table(self, name: str) -> CommittedTable | None:
        if name not in self.tables:
            self.tables[name] = load_table(self.storage, name)
        return self.tables[name]

    def before_rename(self, view: View) -> CommittedTable | None:
        """The results that a view will have by its former name (`RENAMED FROM`), and does not have yet."""
        name = view.renamed_from if self.table(view.name) is None else None
        return None if name is None else self.table(spelled(self.storage, name))

    def life(self, name: str) -> str | None:
        """Of what is stored now."""
        table = self.table(name)
        return None if table is None else table.uuid

    def log(self, name: str) -> Mapping[str, str] | None:
        """What a log will say once the next run has changed it; None if there is none."""
        table = self.table(name)
        if table is None or name not in self.evolutions:
            return None if table is None else table.properties
        (old, now, wanted), said = self.evolutions[name], table.properties
        step = with_step(said.get(CHANGES), *wanted.steps(0, "", ""))
        facts = {"tidegate.identity": relation_identity(now), BEFORE: with_columns_before(said, old)}
        return {**said, **facts, CHANGES: step}

    def changes(self, name: str) -> str | None:
        """`CHANGES` of a log, as it will say then."""
        return (self.log(name) or {}).get(CHANGES)


def changes_to_come(project: Project, catalog: Catalog) -> Callable[[str], str | None]:
    """What `CHANGES` of a log will say once the next run has changed it, by the log's name."""
    planning = _Planning(project, catalog, project.storage_of(catalog))
    for item in catalog.order():
        if isinstance(item, Relation):
            _of_relation(planning, item)
    return planning.changes


def planned(
    project: Project, catalog: Catalog, names: Iterable[str] | None = None, as_run: bool = False
) -> list[PlannedChange]:
    """What becomes of everything, each after what it reads; or of `names`, and of what has to change with them.
    `as_run`: of views that have gone back to an earlier version, what becomes of that, which runs continue (E5). Raises
    TG620 if tables can't be read."""
    project, catalog = with_lent_views(project), catalog.copied()
    for name in project.foreign_sinks(catalog):
        catalog.drop_sink(name)
    planning = _Planning(project, catalog, project.storage_of(catalog), as_run=as_run)
    found = []
    for item in catalog.order():
        one = _of_relation(planning, item) if isinstance(item, Relation) else _of_view(planning, item)
        # What belongs to a view or a sink is shown where it is not what its owner says, and where its results are
        # replaced: who applies the owner's part replaces them.
        own = "$" not in item.name and getattr(item, "kind", "") != "gate"
        if own or one.effect in ("refused", "new version") or item.name in planning.evolutions:
            found.append(one)
    sinks = [_of_sink(planning, sink) for sink in catalog.sinks]
    found = [_with_sights(planning, one, {sink.name: sink.what for sink in sinks}) for one in found] + sinks
    if names is None:
        return found
    wanted = _with_connected(planning, found, {name.casefold() for name in names})
    return [one for one in found if owner_of(one.name) in wanted]


def owner_of(name: str) -> str:
    """The name that a definition has given, in small letters, for that of something that belongs to it, too."""
    return name.partition("$")[0].casefold()


def _with_connected(planning: _Planning, found: Iterable[PlannedChange], names: set[str]) -> set[str]:
    """With what these read, where that has to change first; and with what reads what is changed then, where its results
    are of before by that alone."""
    catalog = planning.catalog
    every = (*catalog.order(), *catalog.sinks)
    below = {owner_of(item.name): _all_below(catalog, item) for item in every}
    # (What changes by itself changes who reads it, and nothing below it does.)
    reads = {owner_of(item.name): {owner_of(one.name) for one in reads_of(catalog, item)} for item in every}
    changed = {owner_of(one.name) for one in found if one.effect != "unchanged"}
    own = {
        owner_of(one.name)
        for one in found
        if one.effect == "new" or planning.replaced.get(one.name) == _QUERY
    }
    wanted, more = set[str](), names
    while not more <= wanted:
        wanted = wanted | more
        moved = wanted & changed
        first = changed & set[str]().union(*(below[name] for name in moved))
        more = first | {name for name in changed - own if not moved.isdisjoint(reads[name])}
    return wanted


def _all_below(catalog: Catalog, item: Relation | View | Sink) -> set[str]:
    """What something reads, itself or through others, by `owner_of`."""
    if isinstance(item, Sink):
        upstream = catalog.get(item.upstream)
        assert isinstance(upstream, Relation | View)
        return ({owner_of(upstream.name)} | _all_below(catalog, upstream)) - {owner_of(item.name)}
    return {owner_of(one.name) for one in sources_of(catalog, item)} - {owner_of(item.name)}


def _with_sights(
    planning: _Planning, one: PlannedChange, sinks: Mapping[str, tuple[str, ...]]
) -> PlannedChange:
    """With what is seen of it."""
    table = planning.table(one.name)
    version = 1 if table is None else current_version(table.properties)
    of = {sink.name: sinks[sink.name] for sink in planning.catalog.sinks.of(one.name)}
    seen = readers_see(one.name, one.kind, one.effect, version)
    return replace(one, readers_see=seen, sinks_see=sinks_see(one.effect, of))


def _of_relation(planning: _Planning, relation: Relation) -> PlannedChange:
    table = planning.table(relation.name)
    readers = _readers(planning, relation)
    if planning.storage.is_lent(relation.name):
        return replace(_of_lent(planning, relation, table), readers=readers)
    if table is None:
        return PlannedChange(relation.name, relation.kind, "new", readers=readers, command="tidegate run")
    what = []
    judged = table.summary.get("tidegate.strategy-identity")
    if relation.watermark is not None and judged not in (None, strategy_identity(relation)):
        what.append(f"from the next row on, the watermark is {relation.watermark.expression} (W13)")
    options = json.loads(options_of(relation) or "{}")
    if others := changed_options(json.loads(table.summary.get(OPTIONS) or "null"), options):
        what.append(f"from the next batch on, these options are other ones: {', '.join(others)}")
    stored = table.properties.get("tidegate.identity")
    found = pending(relation, table.properties, planning.catalog, planning.log)
    # (A gate waits for the log that it reads.)
    if found is not None or (relation.kind != "gate" and stored not in (None, relation_identity(relation))):
        wanted = _UNKNOWN if found is None else found[1]
        if wanted.refused or not wanted.text:
            hint = "undo the change, or give the new definition another name"
            return PlannedChange(
                relation.name, relation.kind, "refused", wanted.refused, readers=readers, command=hint
            )
        assert found is not None
        planning.evolutions[relation.name] = found[0], relation, wanted
        what.insert(0, wanted.text if relation.kind != "gate" else f"{relation.definition}: {wanted.text}")
    state = planning.table(f"{relation.name}$state") if relation.primary_key else None
    if state is not None and state.properties.get("tidegate.identity") != stored:
        # The log has been changed, and the run ended before its rows were (E7).
        what.insert(0, "a change of its columns, which was interrupted, is completed")
    effect: Effect = "in place" if what else "unchanged"
    command = "tidegate run" if what else None
    rows = 0 if what else None
    return PlannedChange(relation.name, relation.kind, effect, tuple(what), rows, rows, readers, command)


def _of_lent(planning: _Planning, relation: Relation, table: CommittedTable | None) -> PlannedChange:
    """Of what another environment's runs judge: its decisions are taken as they are, or not at all."""
    lender = planning.project.env.reads
    if table is None:
        what, command = f'environment "{lender}" has no log of it', f"tidegate run --env {lender}"
    elif is_as_judged(relation, table.properties, table.summary):
        return PlannedChange(relation.name, relation.kind, "unchanged")
    else:
        what = f'environment "{lender}" has another definition of it'
        command = f"tidegate apply --env {lender}; or use an environment with a warehouse of its own"
    return PlannedChange(relation.name, relation.kind, "refused", (what,), command=command)


def _of_view(planning: _Planning, view: View) -> PlannedChange:
    table, readers = planning.table(view.name), _readers(planning, view)
    if planning.storage.is_lent(view.name):
        return PlannedChange(view.name, "view", "unchanged", readers=readers)
    if (before := planning.before_rename(view)) is not None:
        return _of_renamed(planning, view, before, readers)
    rows, size = _to_read(planning, view)
    seconds = expected_seconds((one.summary for one in table.commits), rows) if table and rows else None
    if table is None or "tidegate.identity" not in table.properties:
        return PlannedChange(view.name, "view", "new", (), rows, size, readers, "tidegate run")
    why, held = _other(planning, view, table), held_at(table.properties.get(HELD_AT))
    stops = None if held is None else view.kind.format(held)
    command = f"tidegate apply {view.name.partition('$')[0]}"
    if why is None and stops is not None:
        undone = f"its current version stops at {stops}, where a new one was to take its place, and is continued (E5)"
        return PlannedChange(view.name, "view", "in place", (undone,), 0, 0, readers, command, held_at=stops)
    if why is None and _follows(planning, view, table):
        return PlannedChange(view.name, "view", "in place", (_SAME,), 0, 0, readers, "tidegate run")
    if why is None:
        return PlannedChange(view.name, "view", "unchanged", readers=readers)
    planning.replaced[view.name] = why
    past = _past(planning, view, table)
    if past is not None and past.refused is not None:
        return PlannedChange(
            view.name, "view", "refused", (why, past.refused), readers=readers, command=past.remedy
        )
    what, valid = [why], None
    now = as_deployed(view, table.properties, planning.catalog, planning.log)
    if (until := until_then(now, table.properties, planning.changes)) is not None:
        what.append(f"until then, {until}")
    if stops is not None:
        what.append(held_text(view.name.partition("$")[0], stops))
        command += f" --at '{stops}'"
    if past is not None:
        valid = view.kind.format(past.valid_from)
        gone = "because the rows behind them are gone (valid_from)"
        what.append(f"results that end before {valid} stay as they are, {gone}")
    return PlannedChange(
        view.name, "view", "new version", tuple(what), rows, size, readers, command, valid, stops, seconds
    )


def _follows(planning: _Planning, view: View, stored: CommittedTable) -> bool:
    """Whether its query differs from that of its results by nothing but new names of what it reads."""
    return is_to_follow(planning.catalog, view, stored.properties, stored.summary, planning.life)


def _of_renamed(
    planning: _Planning, view: View, before: CommittedTable, readers: tuple[str, ...]
) -> PlannedChange:
    """Of a view that has another name now: `before`, what is stored under the former one."""
    why = in_the_way(planning.storage, view, before.properties, planning.catalog)
    one = partial(PlannedChange, view.name, "view", readers=readers)
    if (why := why or _other(planning, view, before)) is not None:
        said = refused(view, why)
        return one("refused", (said.message,), command=said.hint)
    planning.tables[view.name] = before
    return one("in place", (_RENAMED.format(view.renamed_from),), 0, 0, command="tidegate run")


def _past(planning: _Planning, view: View, stored: CommittedTable) -> KeptPast | None:
    """What a new version keeps of what is stored (E5)."""
    edges: dict[str, tuple[TimeKind | None, int | None]] = {}
    for name in view.reads:
        item, table = planning.catalog.get(name), planning.table(name)
        if isinstance(item, View):
            edges[name] = item.kind, stored_edge(table)
        elif isinstance(item, Relation):
            state = planning.table(f"{name}$state") if item.primary_key else None
            cleaned = with_cleaned(None, state.summary if state else {})
            edge = cleaned if item.primary_key else stored_edge(table)
            edges[name] = item.watermark.kind if item.watermark is not None else None, edge
    columns = [(c.name, c.type) for c in view.columns]
    there = [(name, spark_type(kind)) for name, kind in stored.columns]
    return kept_past(view, columns, edges, stored.integer("tidegate.frontier"), stored.properties, there)


def _other(planning: _Planning, view: View, stored: CommittedTable) -> str | None:
    """Why the results of a view are not those of its definition, once the next run has changed what it can."""
    properties = stored.properties
    goes_on = planning.as_run and has_gone_back(view, properties)
    before = as_deployed(view, properties, planning.catalog, planning.log) if goes_on else None
    if before is None and not is_of_view(view, properties) and not _follows(planning, view, stored):
        return _QUERY
    view = before or view
    if (other := other_columns(view, properties, planning.changes)) is not None:
        return f"its results are of before a change: {other}"
    below = [name for name in view.reads if name in planning.replaced]
    stale = replaced_below(stored.summary, planning.life) or properties.get(STALE)
    below = below or list(filter(None, [stale]))
    return f"it reads {', '.join(below)}, which is a new version" if below else None


def _of_sink(planning: _Planning, sink: Sink) -> PlannedChange:
    before = last_deployment(planning.project.storage, sink.name)
    if before is None:
        return PlannedChange(sink.name, "sink", "new", (first_delivery(sink),), command="tidegate run")
    now = deployment(sink)
    table = planning.table(sink.upstream)
    if before["from"] != now["from"] and not continues(before, sink, planning.catalog, table):
        what = f'it has delivered "{before["from"]}", and is to deliver "{now["from"]}"'
        return PlannedChange(
            sink.name, "sink", "refused", (what,), command=f"DROP SINK {sink.name}, and CREATE it again"
        )
    if is_moved({**before, "from": now["from"]}, sink):
        what = f"it delivers everything from the start to {now['connector']} {now['place']}"
        return PlannedChange(sink.name, "sink", "new version", (what,), command="tidegate run")
    found = of_new_version(
        planning.storage, planning.catalog, sink, table, sink.upstream in planning.replaced
    )
    others = changed_options(json.loads(before.get("options") or "null"), json.loads(now["options"]))
    news = [f"from the next delivery on, these options are other ones: {', '.join(others)}"] if others else []
    if found is not None:
        effect: Effect = "refused" if found.refused else "in place"
        return PlannedChange(sink.name, "sink", effect, (found.what, *news), command=found.command)
    if news:
        return PlannedChange(sink.name, "sink", "in place", tuple(news), command=f"tidegate run {sink.name}")
    return PlannedChange(sink.name, "sink", "unchanged")


def _readers(planning: _Planning, item: Relation | View) -> tuple[str, ...]:
    catalog = planning.catalog
    names = [view.name.partition("$")[0] for view in readers_of(catalog, item.name)]
    return tuple(dict.fromkeys([*names, *(sink.name for sink in catalog.sinks.of(item.name))]))


def _to_read(planning: _Planning, view: View) -> tuple[int | None, int | None]:
    """Rows and bytes of what is in the stored inputs of a view now; None where nothing is stored."""
    return held_in(planning.storage, [planning.table(item.name) for item in reads_of(planning.catalog, view)])


def exit_code(found: Iterable[PlannedChange]) -> int:
    """For pull requests: 0 nothing to do, 2 changes, 1 something is refused."""
    effects = {one.effect for one in found}
    return 1 if "refused" in effects else 2 if effects - {"unchanged"} else 0
