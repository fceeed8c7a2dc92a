"""Changes of what live mode keeps up to date. Where it writes a log it has the lease, so it makes the change, and is
asked to (E7). A table without a connector it only reads: then the change is made here, and live mode is told of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError, text_of
from tidegate.evolve.planning import PlannedChange, planned
from tidegate.iceberg.layout import relation_identity
from tidegate.sql.catalog.objects import Relation, View
from tidegate.store.metadata import load_table
from tidegate.store.writers import (
    REPLACING,
    LiveRecord,
    ask_to_reload,
    is_below,
    is_here,
    is_replaced,
    read_writer,
    running,
)

if TYPE_CHECKING:
    from tidegate.errors import Location
    from tidegate.project import Project
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.catalog import Catalog


@dataclass(frozen=True)
class Live:
    """Live mode, as who changes a relation sees it. `records`: its processes that go by the definition; `writes`: one
    of them has the lease, so that it changes the log, and nobody else does."""

    records: tuple[LiveRecord, ...]
    writes: bool = False


#: Of the lease of whoever changes a definition beside live mode.
_DEFINITION = "$definition"
#: How long live mode is waited for: until it has read the definitions, and until it has ended the commit that it is at,
#: and changed the log.
_READ_SECONDS, _CHANGE_SECONDS, _LOOKS_EVERY = 60.0, 120.0, 0.2


@contextmanager
def changing(context: Context, name: str) -> Iterator[Live]:
    """While the block runs nobody else changes the definition of a relation. This process has its lease then, and may
    write the log, unless live mode does. Raises TG508 for another process that has a lease."""
    with ExitStack() as held:
        # By both ways, so that no two of them meet.
        held.enter_context(context.lease(name, _DEFINITION))
        live = Live(tuple(one for one in _running(context) if _has(one, name) and is_here(one)))
        try:
            held.enter_context(context.lease(name))
        except TidegateError as error:
            if error.code != "TG508" or not any(_writes(context, one, name) for one in live.records):
                raise
            live = replace(live, writes=True)
        yield live


def require_in_place(project: Project, catalog: Catalog, names: Iterable[str]) -> None:
    """Live mode changes in place what can be, and never replaces results (E1). Raises TG709 for what it would refuse,
    or recompute, unless somebody does that now (`replacing`)."""
    members = set(names)
    found = [one for one in planned(project, catalog, as_run=True) if one.name in members]
    bad = [
        one
        for one in found
        if one.effect == "refused"
        or ((one.effect, one.kind) == ("new version", "view") and not is_replaced(project, one.name))
    ]
    if bad:
        raise TidegateError(
            "TG709",
            "live mode takes up only what can be changed in place:" + "".join(map(_told, bad)),
            hint="; ".join(dict.fromkeys(one.command or "undo the change" for one in bad)),
        )


@contextmanager
def replacing(context: Context, views: Iterable[str]) -> Iterator[None]:
    """While the block runs, live mode takes up definitions by which the results of these views are replaced: this
    process replaces them, and was told to. Until it has, live mode continues with the definitions of before. Raises
    TG508 for a view that live mode writes in a catalog that is a folder: there no swap is possible meanwhile."""
    is_folder = context.project.storage.has_folder_catalog
    with ExitStack() as held:
        for name in views:
            if is_folder and any(_has(one, name) for one in _running(context)):
                with context.lease(name):
                    pass
            held.enter_context(context.lease(name, REPLACING))
        yield


def left_by_live(
    context: Context,
    changes: Sequence[PlannedChange],
    run: Callable[[Sequence[PlannedChange]], None],
    notify: Callable[[str], None],
) -> list[PlannedChange]:
    """Of changes that replace no results, those that are still to be made. If live mode keeps any of them up to date,
    it is asked first to take up the definitions in the files: a sink, for example, delivers a new version of its view
    by the definition that live mode goes by. Where it writes a log that changes, that is waited for. `run`: makes
    changes of logs that live mode only reads. Raises TG709 if it refuses the definitions, TG710 if it does not
    answer."""
    names = [name for change in changes for name in _known_as(change)]
    found = [context.catalog.find(name) for name in names]
    # (It has a view that is renamed by its former name until then.)
    names += [one.renamed_from for one in found if isinstance(one, View) and one.renamed_from is not None]
    live = [one for one in _running(context) if is_here(one) and any(_has(one, name) for name in names)]
    if not live:
        return list(changes)
    logs = [one for one in changes if one.effect == "in place" and one.kind not in ("view", "sink")]
    read = [one for one in logs if _is_read_only(context, one) and any(_runs(record, one) for record in live)]
    with ExitStack() as held:
        # Asked before: live mode would not hear of a change whose process was killed behind it. Right before: its views
        # wait for the log then.
        for one in read:
            held.enter_context(context.lease(one.name))
        live = ask_to_reload(context.project.state_dir, context.project.env_name, live, _READ_SECONDS)
        if refusals := [text_of(one.refused.error) for one in live if one.refused is not None]:
            raise TidegateError(
                "TG709",
                f"live mode does not take up the definitions, so nothing is applied:\n{refusals[0]}",
                hint="undo the change; or stop live mode, and apply it then",
            )
        run(read)
    own = [
        one
        for one in changes
        if any(_runs(record, one) for record in live) and not _is_read_only(context, one)
    ]
    for one in [one for one in own if one in logs]:
        relation = context.catalog.get(one.name)
        assert isinstance(relation, Relation)
        if not is_changed(context, relation):
            raise TidegateError(
                "TG709",
                f'live mode has not changed the log of "{one.name}" yet: {"; ".join(one.what)}',
                hint="its log says what stands in the way; then apply again",
            )
    if own:
        notify(f"live mode makes these changes: {', '.join(one.name for one in own)}")
    return [one for one in changes if one not in own and one not in read]


def _is_read_only(context: Context, change: PlannedChange) -> bool:
    """Whether live mode only reads it: a table without a connector, which anybody may write."""
    found = context.catalog.find(change.name)
    return isinstance(found, Relation) and found.connector is None


def _told(one: PlannedChange) -> str:
    what = "; ".join(one.what)
    return f"\n  {one.name} ({one.kind}): {one.effect}{': ' if what else ''}{what}"


def store(
    context: Context,
    before: Relation,
    relation: Relation,
    catalog: Catalog,
    live: Live,
    location: Location | None,
) -> None:
    """Keep a new definition, of which `catalog` is, and have live mode take it up. Raises TG709 if that would refuse
    it, which is known before anything is stored; or if it does, then the definition `before` is put in its place again.
    TG710 as `taken_up`: the definition stays."""
    project = context.project
    if live.records:
        try:
            require_in_place(project, catalog, [name for one in live.records for name in one.members])
        except TidegateError as error:
            raise (
                _refused(before, text_of(error.to_dict()), location) if error.code == "TG709" else error
            ) from None
    file = project.save_definition(relation.name, relation.definition)
    if not live.records:
        return
    wrote = _content(file)
    try:
        taken_up(context, before, live, location)
    except TidegateError as error:
        # Another one may be there by now, which is not this statement's.
        if error.code == "TG709" and _content(file) == wrote:
            project.save_definition(before.name, before.definition)
            # What it has refused is not there any more; status and alerts would still name it.
            with suppress(TidegateError):
                ask_to_reload(project.state_dir, project.env_name, live.records, _READ_SECONDS)
        raise


def taken_up(context: Context, relation: Relation, live: Live, location: Location | None) -> None:
    """Have live mode take up the definition that is stored. Raises TG709 if it refuses that. TG710 if it does not
    answer: it may take the definition up later, so that stays."""
    project = context.project
    try:
        found = ask_to_reload(project.state_dir, project.env_name, live.records, _READ_SECONDS)
    except TidegateError as error:
        raise TidegateError(
            "TG710",
            f"{error.message}; the new definition is stored, and live mode or the next run makes the change",
            hint="tidegate reload, or tidegate run if live mode does not run any more",
            location=location,
        ) from None
    refusals = [text_of(one.refused.error) for one in found if one.refused is not None]
    if refusals:
        raise _refused(relation, refusals[0], location)


def _refused(relation: Relation, why: str, location: Location | None) -> TidegateError:
    return TidegateError(
        "TG709",
        f'live mode, which runs "{relation.name}", does not take up the change, so nothing is changed:\n{why}',
        hint="make the change in the file of the definition, and run tidegate apply, which asks before it replaces "
        "results; or stop live mode, make the change, and run tidegate apply then",
        location=location,
    )


def is_changed(context: Context, relation: Relation) -> bool:
    """Whether live mode has changed the log; it is waited for."""
    wanted, end = relation_identity(relation), time.monotonic() + _CHANGE_SECONDS
    # (The rows of a table with a key follow its log, in a commit of their own.)
    names = [relation.name, f"{relation.name}$state"][: 2 if relation.primary_key else 1]
    while True:
        log, *states = [load_table(context.project.storage, name) for name in names]
        there = [log, *(one for one in states if one is not None)]
        if all(one is not None and one.properties.get("tidegate.identity") == wanted for one in there):
            return True
        if time.monotonic() >= end:
            return False
        time.sleep(_LOOKS_EVERY)


def _running(context: Context) -> list[LiveRecord]:
    return running(context.project.state_dir, context.project.env_name)


def _writes(context: Context, record: LiveRecord, name: str) -> bool:
    """Whether the process that has the lease of a relation is of this live mode: itself, or one that it has started."""
    project = context.project
    writer = read_writer(project.state_dir / "locks" / project.env.warehouse.namespace, name)
    return writer.pid is not None and is_below(writer.pid, record.pid)


def _content(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None


def _runs(record: LiveRecord, change: PlannedChange) -> bool:
    return any(_has(record, name) for name in _known_as(change))


def _known_as(change: PlannedChange) -> Sequence[str]:
    """What live mode calls it: an implicit gate by the views that it runs it for."""
    return change.readers if change.kind == "gate" else [change.name]


def _has(record: LiveRecord, name: str) -> bool:
    return name.casefold() in (member.casefold() for member in record.members)
