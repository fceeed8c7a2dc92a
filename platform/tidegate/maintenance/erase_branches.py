"""Tables of branch environments (`reads:`) that have rows of a source, or values of them (E9).

A branch is there for a pull request, and its next run computes its views again from the log. So an erasure that may
drop them drops these tables with their files, and erases nothing in them. What is not known to be a branch of this very
environment stays, and refuses the erasure (X3).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyarrow.fs import FileSelector, FileType

from tidegate.errors import TidegateError
from tidegate.maintenance.erasing import DroppedTable
from tidegate.plan.versions import next_of
from tidegate.project import Project
from tidegate.project.object_store import read_json
from tidegate.project.owner import OWNER, Owner
from tidegate.project.project import environments
from tidegate.runtime.context import Context
from tidegate.sql.catalog.catalog import Catalog
from tidegate.store.listing import owners_in, table_names
from tidegate.store.metadata import load_properties, load_table
from tidegate.store.places import FORMER, former_names
from tidegate.store.positions import KAFKA_POSITION, last_deployment
from tidegate.wording import counted

if TYPE_CHECKING:
    from tidegate.project import Storage

#: What may be added to the name of a view or table, of tables that are dropped with it.
_BESIDE = ("$state", next_of(""))
#: The parts of the work on a table that are held while it is dropped: all, upkeep, and the building of a version.
_PARTS = ("", ".upkeep", "$next")


@dataclass(frozen=True)
class BranchTables:
    """What has rows of a source, or values of them, in the namespace of another environment. `owner`: whose it is, None
    if no table there says it. `names`: its tables; `sinks`: in words. `why`: why they are not dropped; None: they can
    be."""

    namespace: str
    owner: Owner | None
    names: tuple[str, ...]
    sinks: tuple[str, ...] = ()
    why: str | None = None

    def __str__(self) -> str:
        environment = "" if self.owner is None else f'environment "{self.owner.environment}", '
        return f"{environment}namespace {self.namespace}: {', '.join([*self.names, *self.sinks])}"

    def reason(self, dropping: bool) -> str | None:
        """Why the erasure is refused; None: it is not. `dropping`: whether tables of branches may be dropped."""
        if self.why is not None:
            return f"{self} ({self.why})"
        return None if dropping else f"{self} (--drop-branches drops these tables with their files)"


def why_not_dropped(
    project: Project, found: BranchTables, has_same: bool, commits: Callable[[], frozenset[int]]
) -> str | None:
    """Why these tables are not dropped, see `BranchTables`. `has_same`: the environment has a source of the same name
    itself. `commits`: the ids of all that this environment has committed to what the branch may read."""
    storage, owner = project.storage, found.owner
    if found.sinks:
        return "drop this sink there, and delete the rows at its target"
    if owner is None or has_same:
        return "it has a source of this name itself, and is no branch of this environment"
    for name in found.names:
        whose = Owner.of_text((load_properties(storage, name, found.namespace) or {}).get(OWNER))
        if whose != owner:
            return f"{name} belongs to {whose or 'nobody'}"
    if owner.environment in environments(project.root):
        return _by_its_file(project, owner)
    if any(commits() & _read_by(storage, found.namespace, name) for name in found.names):
        return None
    return (
        f"resources/{owner.environment}.yaml is not here, and its tables name no commit that is still there, so it is "
        "not known whether it is a branch of this environment"
    )


def _by_its_file(project: Project, owner: Owner) -> str | None:
    file = f"resources/{owner.environment}.yaml"
    try:
        other = Project.load(project.root, owner.environment)
    except TidegateError as error:
        return f"{file} can't be read: {error.message}"
    if other.env.reads == project.env_name and other.owner == owner:
        return None
    return f'{file} does not say reads: {project.env_name}, so it is no branch of environment "{project.env_name}"'


def _read_by(storage: Storage, namespace: str, name: str) -> set[int]:
    """The commits that a table says it has read last. (No two commits have the same id.)"""
    table = load_table(storage, name, namespace)
    inputs = json.loads(table.summary.get("tidegate.inputs") or "{}") if table is not None else {}
    return {one["commit"] for one in inputs.values() if one.get("commit") is not None}


# -- sinks of others -------------------------------------------------------------------------------------------


def sinks_of(
    storage: Storage, namespace: str, found: Iterable[str], lent: Callable[[], dict[str, str]]
) -> Iterator[str]:
    """Sinks of another environment, in words, that have delivered from its tables that were `found`; or from what it
    reads here: by their names, the ids of the tables that are `lent`."""
    beside = _storage_of(storage, namespace, None)
    filesystem, folder = beside.filesystem(beside.work_folder("").rstrip("/"))
    for one in filesystem.get_file_info(FileSelector(folder, allow_not_found=True)):
        said = last_deployment(beside, one.base_name) if one.type is FileType.Directory else None
        if said is None:
            continue
        source = said["from"]
        if source in found or (source in lent() and _is_of(beside, one.base_name, said, lent()[source])):
            yield f"sink {one.base_name}, which has delivered {source} to {said['connector']} {said['place']}"


def _is_of(storage: Storage, sink: str, said: dict[str, str], table: str) -> bool:
    """Whether a sink has delivered from the table with this id, by the positions that it keeps beside its rows. Without
    one that can be read: unless its environment has what it delivers itself."""
    work = storage.work_folder(sink)
    filesystem, folder = storage.filesystem(work)
    names = [one.base_name for one in filesystem.get_file_info(FileSelector(folder, allow_not_found=True))]
    files = [f"{work}/{name}" for name in names if name.startswith(KAFKA_POSITION) or name == "position.json"]
    if said["connector"] == "filesystem":
        files.append(f"{said['place']}/_tidegate/position.json")
    known = set()
    for file in files:
        filesystem, path = storage.filesystem(file)
        if filesystem.get_file_info(path).is_file:
            known.add(str(read_json(filesystem, path).get("table")).partition("/")[0])
    if not known:
        return load_table(storage, said["from"]) is None
    return table.partition("/")[0] in known


# -- dropping --------------------------------------------------------------------------------------------------


def to_be_dropped(storage: Storage, found: Iterable[BranchTables]) -> Iterator[DroppedTable]:
    """Each table, with the folders that it has: nothing else leads there when the catalog does not know it any more."""
    for branch in found:
        assert branch.owner is not None
        every = set(branch.names)
        for suffix in _BESIDE:
            every = {name.removesuffix(suffix) for name in every}
        for name in sorted(every):
            folders = {
                folder
                for suffix in ("", *_BESIDE)
                if (folder := _own_folder(storage, branch.namespace, f"{name}{suffix}")) is not None
            }
            yield DroppedTable(branch.namespace, branch.owner.environment, name, tuple(sorted(folders)))


def _own_folder(storage: Storage, namespace: str, name: str) -> str | None:
    """The folder of a table, if it has a name of the table's, as `Context.forget` removes it."""
    table = load_table(storage, name, namespace)
    if table is None:
        return None
    folder = table.location.rstrip("/")
    names = (name, *former_names(table.properties.get(FORMER)))
    return folder if folder.rpartition("/")[2].startswith(names) else None


def once(tables: Iterable[DroppedTable], but: Iterable[DroppedTable] = ()) -> list[DroppedTable]:
    """Each table once (one that was made again may be in other folders), without those of `but`."""
    names = {one.table for one in but}
    return list({one.table: one for one in tables if one.table not in names}.values())


def hold(context: Context, tables: Iterable[DroppedTable], held: ExitStack) -> None:
    """Take the leases of these tables. Raises TG508 while a process of the branch writes one of them."""
    for one in tables:
        with _named(one):
            for part in _PARTS:
                held.enter_context(_branch(context, one).lease(one.name, part))


def drop(context: Context, tables: Iterable[DroppedTable], notify: Callable[[str], None]) -> None:
    """Drop these tables with all that is stored of them; their leases are held. Can be done again: who was killed may
    have left a folder that no table of the catalog has any more."""
    for one in tables:
        notify(f'{one.table}: dropping this table of environment "{one.environment}"')
        beside = _branch(context, one)
        with _named(one):
            beside.forget(one.name)
        for folder in one.folders:
            remove_folder(beside.project.storage, one.namespace, folder)


def is_theirs(context: Context, one: DroppedTable) -> bool:
    """Whether the namespace has not become another owner's since the erasure began."""
    _, owner = next(owners_in(context.project.storage, one.namespace), (None, None))
    return owner in (None, Owner(context.project.owner.project, one.environment))


def remove_folder(storage: Storage, namespace: str, folder: str) -> None:
    """Remove the folder of a table that was dropped, if something is left of it, and no other table has it now."""
    filesystem, path = storage.filesystem(folder)
    if filesystem.get_file_info(path).type is not FileType.Directory:
        return
    for name in table_names(storage, namespace):
        table = load_table(storage, name, namespace)
        if table is not None and storage.filesystem(table.location.rstrip("/"))[1] == path:
            return
    filesystem.delete_dir(path)


@contextmanager
def _named(one: DroppedTable) -> Iterator[None]:
    """Say of which environment the table is that could not be dropped: this one may have one of the same name."""
    try:
        yield
    except TidegateError as error:
        what = f'environment "{one.environment}", namespace {one.namespace}: {error.message}'
        raise TidegateError(error.code, what, hint=error.hint) from error


def _branch(context: Context, one: DroppedTable) -> Context:
    """An environment as its own processes see what it has stored. Its files say nothing here: they may be elsewhere."""
    own = context.project
    owner = Owner(own.owner.project, one.environment)
    storage = _storage_of(own.storage, one.namespace, owner)
    env = own.env.model_copy(update={"warehouse": storage.settings, "project": owner.project, "reads": None})
    project = replace(own, env_name=one.environment, env=env, lender=None, lending=None, texts=())
    return Context(project, context.runner, Catalog())


def _storage_of(storage: Storage, namespace: str, owner: Owner | None) -> Storage:
    settings = storage.settings.model_copy(update={"namespace": namespace})
    return replace(storage, settings=settings, lender=None, lent=frozenset(), owner=owner)


def asked_about(tables: Iterable[DroppedTable]) -> list[str]:
    """What is asked before."""
    by_environment: dict[tuple[str, str], list[str]] = {}
    for one in once(tables):
        by_environment.setdefault((one.environment, one.namespace), []).append(one.name)
    return [
        f'  environment "{environment}", namespace {namespace}: {counted(len(names), "table")} dropped with all files: '
        f"{', '.join(names)}"
        for (environment, namespace), names in by_environment.items()
    ]
