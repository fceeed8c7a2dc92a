"""What holds rows of a source, or values of them, beside its log. What an erasure can't reach refuses it (E9): a row
that stays somewhere in silence is worse than an error."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.plan.upkeep_stages import state_of
from tidegate.project import Project
from tidegate.project.project import environments
from tidegate.sql.catalog.lineage import sources_of
from tidegate.sql.catalog.objects import Relation, View
from tidegate.sql.options.connectors import ReplayOptions
from tidegate.store.metadata import load_properties, table_names
from tidegate.watermark import Expression

if TYPE_CHECKING:
    from tidegate.ingest.ingest import StoredLog
    from tidegate.project import Storage
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.catalog import Catalog
    from tidegate.sql.statements.row_condition import LogCondition


def require_reach(context: Context, log: StoredLog, condition: LogCondition) -> None:
    """Raise TG571 with all that holds rows of the log, or values of them, and is not reached."""
    relation = log.relation
    reasons = [
        *_own(relation),
        *_names(log, condition),
        *_readers(context.catalog, relation, context.project.storage),
        *_left(context, relation),
        *_branches(context, relation),
    ]
    if reasons:
        lines = "".join(f"\n  {reason}" for reason in reasons)
        raise TidegateError(
            "TG571",
            f'not every place that may have the rows of "{relation.name}" can be reached, so nothing was '
            f"erased:{lines}",
            hint='"Erasing a person\'s rows" (docs/erasure.md) says for each of them what can be done',
        )


def _own(relation: Relation) -> Iterator[str]:
    """What the relation keeps beside its log."""
    if relation.primary_key:
        yield f"{state_of(relation)}: the rows of a table with a PRIMARY KEY are not erased yet"
    if isinstance(relation.connector, ReplayOptions):
        yield "the copy of the recording that the connector replay reads"
    strategy = relation.watermark.strategy if relation.watermark is not None else None
    if isinstance(strategy, Expression) and strategy.preceding:
        yield "the memory of the watermark strategy, which has values of the preceding rows (W11)"


def _names(log: StoredLog, condition: LogCondition) -> Iterator[str]:
    """Names of partitions and of files may have the very value that rows are erased by; the log's progress has them."""
    columns = {name.casefold() for name in condition.columns}
    partitioned = getattr(log.relation.connector, "partition_columns", ())
    if named := [name for name in partitioned if name.casefold() in columns]:
        yield f"the names of the log's partitions, which are values of {', '.join(named)}"
    for file in log.consumed_files():
        folders = {part.partition("=")[0].casefold() for part in file.path.split("/") if "=" in part}
        if found := sorted(folders & columns):
            yield f"the names of the files that were read, which have values of {', '.join(found)}"
            return


def _readers(catalog: Catalog, relation: Relation, storage: Storage) -> Iterator[str]:
    """What reads the log, over any number of views, and has a table or a place of its own."""
    downstream = {relation.name, *(item.name for item in readers(catalog, relation))}
    for item in readers(catalog, relation):
        if load_properties(storage, item.name) is not None:
            kind = "view" if isinstance(item, View) else "gate of WATERMARK(…)"
            yield f"{item.name}: a {kind} that reads it"
    for sink in catalog.sinks:
        if sink.upstream in downstream:
            yield f"{sink.name}: a sink that delivers rows to {sink.connector.connector} {sink.place}"


def readers(catalog: Catalog, relation: Relation) -> list[Relation | View]:
    """Every view and gate whose rows come from a relation, each after what it reads."""
    return [o for o in catalog.order() if relation.name in {source.name for source in sources_of(catalog, o)}]


def _left(context: Context, relation: Relation) -> Iterator[str]:
    """Stored tables that read it, and that nothing defines any more."""
    known = {o.name for o in context.catalog.order()}
    storage = context.project.storage
    for name in _undefined(storage, storage.namespace_of(relation.name), known, [relation.name]):
        yield f"{name}: a stored table that reads it, and that no file defines any more"


def _undefined(storage: Storage, namespace: str, known: set[str], of: Iterable[str]) -> list[str]:
    """The tables of a namespace that are not `known`, and that read one `of` these, or another one that does."""
    inputs: dict[str, set[str]] = {}
    for name in table_names(storage, namespace):
        text = (load_properties(storage, name, namespace) or {}).get("tidegate.inputs")
        if text is not None:
            inputs[name] = set(json.loads(text))
    found = set(of)
    while more := {name for name, own in inputs.items() if name not in found and own & found}:
        found |= more
    return sorted(found & inputs.keys() - known)


def _branches(context: Context, relation: Relation) -> Iterator[str]:
    """Views of the environments that read this one's sources (X3)."""
    project = context.project
    for name in environments(project.root):
        if name == project.env_name:
            continue
        try:
            other = Project.load(project.root, name)
            if other.env.reads != project.env_name:
                continue
            catalog = other.catalog()
        except TidegateError as error:
            yield f'environment "{name}", which can\'t be looked at: {error.message}'
            continue
        stored = [
            item.name
            for item in readers(catalog, relation)
            if load_properties(other.storage, item.name) is not None
        ]
        known = {item.name for item in catalog.order()}
        stored += _undefined(other.storage, other.env.warehouse.namespace, known, [relation.name])
        if stored:
            yield f'environment "{name}": {", ".join(stored)}'
