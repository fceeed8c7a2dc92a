"""What holds rows of a source, or values of them, beside its log. What an erasure can't reach refuses it (E9): a row
that stays somewhere in silence is worse than an error."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pyarrow.fs import FileSelector

from tidegate.errors import TidegateError
from tidegate.maintenance.erase_again import why_not_again
from tidegate.maintenance.erase_branches import BranchTables, sinks_of, why_not_dropped
from tidegate.maintenance.erase_sinks import ReachedSink, reach_sinks
from tidegate.plan.upkeep_stages import state_of
from tidegate.plan.versions import kept_versions, next_of
from tidegate.sql.catalog.lineage import sources_of
from tidegate.sql.catalog.objects import Relation, View, reads
from tidegate.sql.options.connectors import ReplayOptions
from tidegate.sql.views.passed_columns import counts_only, passed_columns
from tidegate.store.listing import every_namespace, owners_in, table_names
from tidegate.store.metadata import load_properties, load_table
from tidegate.store.places import FORMER, former_names
from tidegate.store.positions import last_deployment
from tidegate.views.definition import same_view
from tidegate.watermark import Expression

if TYPE_CHECKING:
    from tidegate.iceberg.tables import StoredTable
    from tidegate.ingest.ingest import StoredLog
    from tidegate.maintenance.erasing import DroppedTable
    from tidegate.project import Storage
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.catalog import Catalog
    from tidegate.sql.statements.row_condition import RowsCondition

#: A text of a condition that is shorter than this says nothing where it is part of a name.
_TELLING = 3


@dataclass(frozen=True)
class ReachedView:
    """A view of which those rows go that come from rows that go: it has the columns of the condition as they are.
    `names`: by their names in the source, what they are called in the view."""

    view: View
    stored: str
    names: Mapping[str, str]


@dataclass
class ReadersOfLog:
    """The stored views that read a log: `reached`, each after what it reads; and `keeping`: those whose counts and sums
    over the rows stay. `above`: those that read only such views. `again`: those that are computed again from what is
    left. `beyond`: in words, what is none of these. `having`: the names of all that has rows of the log, or values of
    them. `branches`: what other environments have of them. `sinks`: those of whose tables rows go."""

    reached: list[ReachedView] = field(default_factory=list)
    keeping: list[View] = field(default_factory=list)
    above: list[View] = field(default_factory=list)
    again: list[View] = field(default_factory=list)
    beyond: list[str] = field(default_factory=list)
    having: list[str] = field(default_factory=list)
    branches: list[BranchTables] = field(default_factory=list)
    sinks: list[ReachedSink] = field(default_factory=list)


def require_reach(
    context: Context,
    log: StoredLog,
    condition: RowsCondition,
    keep: bool,
    recompute: bool,
    drop: bool,
    begun: Sequence[DroppedTable] = (),
) -> ReadersOfLog:
    """The views that read the log. Raises TG571 with all that holds rows of it, or values of them, and is not reached;
    TG506 for a view that continues with the columns of before a change. `keep`: counts and sums may stay; `recompute`:
    until they are computed again, as what does not show by what the rows are found; `drop`: tables of branches may be
    dropped, of which this erasure has `begun` to drop some."""
    relation = log.relation
    found = _readers(context, relation, condition, keep or recompute, recompute)
    found.having += list(_formerly(context, found.having))
    found.branches = _branches(context, log, found.having, begun)
    reasons = [
        *_own(relation, condition),
        *_names(log, condition),
        *found.beyond,
        *_left(context, relation),
        *_sinks_left(context, found.having),
        *_reasons(found.branches, drop),
    ]
    if reasons:
        raise _unreached(relation, "so nothing was erased", reasons)
    return found


def branches_since(
    context: Context, log: StoredLog, found: ReadersOfLog, drop: bool, begun: Sequence[DroppedTable]
) -> list[BranchTables]:
    """What branches have of the rows, looked for again when the rows have left the log: no lease keeps a new table from
    being made of what was there. Raises TG571 for what is not dropped."""
    since = _branches(context, log, found.having, begun)
    if reasons := _reasons(since, drop):
        raise _unreached(
            log.relation, "because of what was stored during the erasure, which has not ended", reasons
        )
    return since


def _reasons(branches: Iterable[BranchTables], drop: bool) -> list[str]:
    return [reason for one in branches if (reason := one.reason(drop)) is not None]


def _unreached(relation: Relation, what: str, reasons: Iterable[str]) -> TidegateError:
    lines = "".join(f"\n  {reason}" for reason in reasons)
    return TidegateError(
        "TG571",
        f'not every place that may have the rows of "{relation.name}" can be reached, {what}:{lines}',
        hint='"Erasing a person\'s rows" (docs/erasure.md) says for each of them what can be done',
    )


def _formerly(context: Context, names: Iterable[str]) -> Iterator[str]:
    """The names that these had before: what nobody has continued since may read them by those."""
    for name in names:
        table = context.opened(name)
        yield from former_names(table.property(FORMER)) if table is not None else ()


def _own(relation: Relation, condition: RowsCondition) -> Iterator[str]:
    """What the relation keeps beside its log."""
    key = relation.primary_key
    if key and not (condition.columns and set(condition.columns) <= set(key)):
        # Another change of a key that goes may have another value, and stay, and become what the key holds.
        yield f"{state_of(relation)}: what a key holds is found only by a condition on {', '.join(key)} alone"
    if isinstance(relation.connector, ReplayOptions):
        yield "the copy of the recording that the connector replay reads"
    strategy = relation.watermark.strategy if relation.watermark is not None else None
    if isinstance(strategy, Expression) and strategy.preceding:
        yield "the memory of the watermark strategy, which has values of the preceding rows (W11)"


def _names(log: StoredLog, condition: RowsCondition) -> Iterator[str]:
    """Names of partitions and of files may have the very value that rows are erased by; the log's progress has them."""
    columns = {name.casefold() for name in condition.columns}
    partitioned = getattr(log.relation.connector, "partition_columns", ())
    if named := [name for name in partitioned if name.casefold() in columns]:
        yield f"the names of the log's partitions, which are values of {', '.join(named)}"
    values = [re.escape(value) for value in condition.values if len(value) >= _TELLING]
    value = re.compile(rf"(?<![^\W_])(?:{'|'.join(values)})(?![^\W_])", re.IGNORECASE) if values else None
    for file in log.consumed_files():
        folders = {part.partition("=")[0].casefold() for part in file.path.split("/") if "=" in part}
        if found := sorted(folders & columns):
            yield f"the names of the files that were read, which have values of {', '.join(found)}"
            return
        if value is not None and value.search(unquote(file.path)) is not None:
            yield "the names of the files that were read, of which one has a text of the condition"
            return


def _readers(
    context: Context, relation: Relation, condition: RowsCondition, keep: bool, recompute: bool
) -> ReadersOfLog:
    """See `ReadersOfLog`."""
    catalog, wanted, found = context.catalog, set(condition.columns), ReadersOfLog()
    own = {column.name for column in relation.columns}
    # By object, what it calls the columns of the condition; None if it does not have all of them as they are.
    names: dict[str, Mapping[str, str] | None] = {
        relation.name: {name: name for name in wanted} if wanted <= own else None
    }
    for item in readers(catalog, relation):
        stored = context.stored(item.name)
        if not any(name in names for name in reads(item)):
            found.above += [item] if stored is not None and isinstance(item, View) else []
            continue
        if isinstance(item, View) and item.seen and stored is not None:
            # What the condition calls a column may be another one to its query (E2).
            same_view(context, context.declared(item), context.tables.open(stored))
        shown = names[item.name] = _shown(item, names)
        counting = item.reads == (relation.name,) if isinstance(item, View) else False
        # (What a key's earlier changes have added to a window, its later ones have taken away again.)
        counting = counting and not relation.primary_key and shown is None
        if isinstance(item, View) and counting and counts_only(item, wanted):
            if stored is None or keep:
                # It stays as it is, and so does what reads it.
                del names[item.name]
                found.keeping += [] if stored is None else [item]
            else:
                found.beyond.append(
                    f"{item.name}: counts and sums over the rows (--keep-aggregates keeps them, --recompute "
                    "computes them from the rows that are left)"
                )
        elif stored is not None and isinstance(item, View) and shown is not None:
            found.reached.append(ReachedView(item, stored, shown))
        elif stored is not None and isinstance(item, View):
            columns = ", ".join(sorted(wanted)) or "a column of the condition"
            why = why_not_again(catalog, item)
            if recompute and why is None:
                found.again.append(item)
                continue
            found.beyond.append(
                f"{item.name}: a view whose rows do not show {columns} as they are "
                f"({why or '--recompute computes it from the rows that are left'})"
            )
        elif stored is not None:
            found.beyond.append(f"{item.name}: a gate of WATERMARK(…) that reads it")
    found.sinks, beyond = reach_sinks(context, names)
    found.beyond += beyond
    found.having += names
    return found


def _shown(item: Relation | View, names: Mapping[str, Mapping[str, str] | None]) -> Mapping[str, str] | None:
    """What a reader calls the columns of the condition; None if it does not have all of them as they are."""
    if isinstance(item, Relation) or len(item.inputs) != 1:
        return None
    below = names.get(item.inputs[0].name)
    if not below:
        return None
    passed = passed_columns(item)
    return {n: passed[b] for n, b in below.items()} if set(below.values()) <= passed.keys() else None


def readers(catalog: Catalog, relation: Relation) -> list[Relation | View]:
    """Every view and gate whose rows come from a relation, each after what it reads."""
    return [o for o in catalog.order() if relation.name in {source.name for source in sources_of(catalog, o)}]


def _left(context: Context, relation: Relation) -> Iterator[str]:
    """Stored tables that read it, and that nothing defines any more."""
    # What is built of a view's next version goes with the view's past, and so do its earlier versions.
    reading = {o.name for o in readers(context.catalog, relation)}
    known = {name for one in reading for name in (one, next_of(one))}
    defined = {o.name for o in context.catalog.order()}
    storage = context.project.storage
    # (A gate of another source is defined, and reads that one.)
    known |= {o.name for o in context.catalog.order() if isinstance(o, Relation)}
    for name in _undefined(storage, storage.namespace_of(relation.name), known, [relation.name]):
        if name in defined:
            yield f"{name}: earlier results of this view, which read it then"
        else:
            yield f"{name}: a stored table that reads it, and that no file defines any more"


def _undefined(storage: Storage, namespace: str, known: set[str], of: Iterable[str]) -> list[str]:
    """The tables of a namespace that are not `known`, and that read one `of` these, or another one that does, or of
    which an earlier version does."""
    inputs: dict[str, set[str]] = {}
    former: dict[str, list[str]] = {}
    for name in table_names(storage, namespace):
        properties = load_properties(storage, name, namespace) or {}
        former[name] = former_names(properties.get(FORMER))
        texts = [properties, *(one.definition for one in kept_versions(properties))]
        inputs[name] = {one for text in texts for one in json.loads(text.get("tidegate.inputs") or "[]")}
        if properties.get("tidegate.kind") == "gate" and name not in known:
            # Its table does not say what it reads. It may be this.
            inputs[name] |= set(of)
    found = called = set(of)
    while more := {name for name, own in inputs.items() if name not in found and own & called}:
        found = found | more
        # (Another table may have one of the names by now. It is not known which of the two is meant.)
        called = found.union(*(former[name] for name in found & former.keys()))
    return sorted(found & inputs.keys() - known)


def _branches(
    context: Context, log: StoredLog, having: Sequence[str], begun: Sequence[DroppedTable]
) -> list[BranchTables]:
    """What the environments have that read this one's sources, or its views that are `having` the rows (X3). They have
    namespaces in the same catalog, whatever files and variables this process sees: those of others who work on the
    project, and of pull requests. `begun`: what was found to be a branch's."""
    storage, owner, name = context.project.storage, context.project.owner, log.relation.name
    found, judged = [], {(one.namespace, one.environment) for one in begun}

    @cache
    def lent() -> dict[str, StoredTable]:
        opened = {one: table for one in having if (table := context.opened(one)) is not None}
        return opened | {name: log.table}

    @cache
    def commits() -> frozenset[int]:
        return frozenset().union(*(table.snapshot_ids() for table in lent().values()))

    for namespace in every_namespace(storage):
        if namespace == storage.namespace_of(name):
            continue
        # (All that is in a namespace is of one owner.)
        _, other = next(owners_in(storage, namespace), (None, None))
        if other is not None and (other.project != owner.project or other == owner):
            continue
        # Also by an earlier version, and what no file defines any more.
        own = set(table_names(storage, namespace))
        names = _undefined(storage, namespace, set(), {name, *having} - (own - {name})) if other else []
        if name in own:
            # That environment has a source of this name itself.
            names = [
                one
                for one in names
                if one != name and _read_of(storage, namespace, one, name) in log.table.snapshot_ids()
            ]
        sinks = sinks_of(storage, namespace, names, lambda: {one: t.uuid for one, t in lent().items()})
        one = BranchTables(namespace, other, tuple(names), tuple(sinks))
        if not one.names and not one.sinks:
            continue
        is_known = other is not None and (namespace, other.environment) in judged and not one.sinks
        why = None if is_known else why_not_dropped(context.project, one, name in own, commits)
        found.append(replace(one, why=why))
    return found


def _read_of(storage: Storage, namespace: str, name: str, log: str) -> int | None:
    """The commit of a log of this name that a table says it has read last."""
    table = load_table(storage, name, namespace)
    inputs = json.loads(table.summary.get("tidegate.inputs") or "{}") if table is not None else {}
    commit: int | None = inputs.get(log, {}).get("commit")
    return commit


def _sinks_left(context: Context, names: Collection[str]) -> Iterator[str]:
    """Places with rows of these that a sink has delivered which no file defines any more: it was not dropped."""
    catalog, storage = context.catalog, context.project.storage
    filesystem, folder = storage.filesystem(storage.work_folder("").rstrip("/"))
    for one in filesystem.get_file_info(FileSelector(folder, allow_not_found=True)):
        name = one.base_name
        if catalog.sinks.find(name) is not None or catalog.find(name) is not None:
            continue
        found = last_deployment(storage, name)
        # (What it has delivered may be gone, too.)
        if found is not None and (found["from"] in names or catalog.find(found["from"]) is None):
            place = f"{found['connector']} {found['place']}"
            yield f"{name}: a sink that no file defines any more, and that has delivered to {place}"


def left_to_others(relation: Relation) -> list[str]:
    """Where the rows came from: tidegate reads there, and deletes nothing."""
    path, topic = (getattr(relation.connector, name, None) for name in ("path", "topic"))
    if topic is not None:
        return [f"the topic {topic} is not tidegate's: delete the messages there, or let its retention do so"]
    if path is not None:
        return [f"the files in {path} are not tidegate's: delete the rows there"]
    return []
