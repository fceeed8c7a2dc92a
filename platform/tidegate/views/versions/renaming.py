"""A view with another name, which is not computed again (`RENAMED FROM`); nor is what reads it.

Its table gets the other name in the catalog, in one step: uuid, snapshots and files are what they were, so that sinks
continue behind what they have delivered. What leads up to this step may be done twice, and says nothing by itself: who
is killed in between leaves a view with its former name, and the next run, apply or live mode begins here again.

A view that reads it says in its query, and in each commit, what it reads, by name. Where the query differs by nothing
but the name, one commit says the name of now in both.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tidegate.errors import TidegateError
from tidegate.iceberg.layout import is_of_renamed, is_of_view, view_identity
from tidegate.iceberg.table_change import TableChange
from tidegate.plan.columns.changes import SEEN
from tidegate.plan.versions import LIFE_OF_INPUT, next_of
from tidegate.project.owner import OWNER, Owner
from tidegate.sql.catalog.lineage import renamed_inputs
from tidegate.sql.catalog.objects import View
from tidegate.store.places import FORMER, former_names, leave
from tidegate.views.versions.held import kept_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidegate.project import Storage
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.catalog import Catalog

#: Part of a view's lease: of whoever builds its next version.
_NEXT = next_of("")
_FOLDER = "a catalog that is a folder can't rename a table"
_GATE = "it reads WATERMARK(…), whose rows are stored under its name"


def take_over(context: Context, view: View) -> None:
    """Let the view have the results that are stored under its former name, if there are any, and none of its own; hold
    its lease. Raises TG506 for results that are not of its query, TG508 for those that another process writes, TG531
    for those of another owner (X3), TG607 where the catalog is a folder."""
    before = context.before_rename(view)
    if before is None:
        return
    with context.lease(before), context.lease(before, _NEXT), kept_apart(context, before):
        if context.before_rename(view) is None:
            return
        storage, identifier = context.project.storage, context.identifier(before)
        table = context.tables.open(identifier, context.project.owner)
        table.current()
        if (why := in_the_way(storage, view, table.properties(), context.catalog)) is not None:
            raise refused(view, why)
        context.forget_next(before)
        names = former_names(table.property(FORMER))
        if names[-1:] != [before]:
            table.set_properties({FORMER: json.dumps([*names, before], ensure_ascii=False)})
        leave(storage, storage.namespace_of(before), before, table.location)
        context.tables.rename_table(identifier, view.name)


def follow(context: Context, view: View) -> None:
    """Let what is stored of a view say what it reads by the names of now, if its query differs by nothing else; hold
    its lease. Raises TG502 if somebody commits meanwhile, and as `take_over` for what it reads."""
    names = renamed_inputs(context.catalog, view)
    if not names or context.stored(view.name) is None:
        return
    table = context.tables.open(context.identifier(view.name), context.project.owner)
    base, stored = table.current(), table.properties()
    if is_of_view(view, stored) or not is_of_renamed(view, stored, names):
        return
    for name in names.values():
        below = context.catalog.get(name)
        assert isinstance(below, View)
        if context.before_rename(context.declared(below)) is not None:
            with context.lease(name):
                take_over(context, context.declared(below))

    def life(name: str) -> str | None:
        opened = context.opened(name)
        return None if opened is None else opened.uuid

    if not reads_the_same(base.summary, names, life):
        return
    facts = {
        "tidegate.definition": view.definition,
        "tidegate.identity": view_identity(view),
        "tidegate.inputs": json.dumps(view.reads),
        **({SEEN: _with_names(stored[SEEN], names)} if SEEN in stored else {}),
    }
    said = {key: _with_names(value, names) for key, value in base.facts.items()}
    was = {"tidegate.definition": stored["tidegate.definition"]}
    table.append([], None, said, base, change=TableChange(properties=facts, expected=was))


def is_to_follow(
    catalog: Catalog,
    view: View,
    stored: Mapping[str, str],
    summary: Mapping[str, str],
    life: Callable[[str], str | None],
) -> bool:
    """Whether `follow` will do this. `stored`, `summary`: what the view's table and its last commit say; `life`: of
    what is stored, by the names of now."""
    names = renamed_inputs(catalog, view)
    if not names or is_of_view(view, stored) or not is_of_renamed(view, stored, names):
        return False
    return reads_the_same(summary, names, life)


def reads_the_same(
    summary: Mapping[str, str], names: Mapping[str, str], life: Callable[[str], str | None]
) -> bool:
    """Whether what a view's commit has read is what is stored under the `names` of now."""
    inputs = json.loads(summary.get("tidegate.inputs") or "{}")
    found = {names[name.casefold()]: entry for name, entry in inputs.items() if name.casefold() in names}
    return all(entry.get(LIFE_OF_INPUT) == life(name) for name, entry in found.items())


def _with_names(text: str, names: Mapping[str, str]) -> str:
    """A fact that may be said of each input, as a JSON object, with the names of now."""
    if not text.startswith("{"):
        return text
    found: dict[str, Any] = json.loads(text)
    if names.keys().isdisjoint(name.casefold() for name in found):
        return text
    return json.dumps({names.get(key.casefold(), key): one for key, one in found.items()}, sort_keys=True)


def not_renamed_yet(context: Context, view: View) -> str | None:
    """The identifier of the results that a view will have, and that still have its former name; None if there are none,
    or if they can't become its own."""
    before = context.before_rename(context.declared(view))
    table = None if before is None else context.tables.open(context.identifier(before))
    if table is None:
        return None
    table.refresh()
    stored = table.properties()
    is_own = Owner.of_text(stored.get(OWNER)) in (None, context.project.owner)
    refused = in_the_way(context.project.storage, context.declared(view), stored, context.catalog)
    return table.identifier if is_own and refused is None else None


def in_the_way(storage: Storage, view: View, stored: Mapping[str, str], catalog: Catalog) -> str | None:
    """Why results that are stored under a view's former name can't get its present one, in words; None if they can.
    `stored`: what their table says."""
    if storage.has_folder_catalog:
        return _FOLDER
    if view.gates:
        return _GATE
    names = renamed_inputs(catalog, view)
    if not is_of_view(view, stored) and not is_of_renamed(view, stored, names):
        return "its query has changed, too"
    return None


def refused(view: View, why: str) -> TidegateError:
    """TG506, or TG607 for a catalog that can't do it. `why`: also what `in_the_way` has not looked at."""
    first = "rename it with the query that it had, run, and change the query then"
    first = {
        _FOLDER: "tidegate catalog migrate moves the catalog into a file of SQLite",
        _GATE: f'keep "{view.renamed_from}"',
    }.get(why, first)
    return TidegateError(
        "TG607" if why == _FOLDER else "TG506",
        f'"{view.renamed_from}" can\'t be renamed to "{view.name}": {why}',
        hint=f'{first}; or leave out RENAMED FROM: "{view.name}" is then computed from the log',
        location=view.location,
    )
