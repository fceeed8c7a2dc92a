"""What engine code is given: a project, Spark, the catalog, who is asked, and what this process holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tidegate.errors import TidegateError
from tidegate.iceberg.layout import name_of
from tidegate.iceberg.versions.swap import KEEP_FILES, VERSION
from tidegate.plan.versions import current_version, next_of
from tidegate.runtime.borrowed import Borrowed
from tidegate.runtime.lending import with_lent_views
from tidegate.runtime.owners import Owners
from tidegate.runtime.stages import Stages, Watcher
from tidegate.runtime.stored_gates import with_gate_names
from tidegate.sql.catalog.objects import CatalogColumn, Relation, View
from tidegate.sql.settings import SessionSettings
from tidegate.store.listing import spelled
from tidegate.store.places import FORMER, former_names, is_left
from tidegate.tables.lives import state_identifier

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tidegate.errors import Location
    from tidegate.iceberg.tables import StoredTable
    from tidegate.plan.events import Event
    from tidegate.plan.stages import Stage
    from tidegate.project import Project
    from tidegate.runtime.runner import Runner
    from tidegate.sql.catalog.catalog import Catalog


class Context:
    """An open project, as the code below `Session` knows it.

    `spark` is tidegate's child session of the Spark application; `catalog` everything that the project defines;
    `settings` what SET has changed.
    """

    def __init__(self, project: Project, runner: Runner, catalog: Catalog | None = None) -> None:
        """`catalog`: what the project defines, where somebody has read it already."""
        self.project = project = with_gate_names(with_lent_views(project))
        self.runner, self.tables = runner, runner.tables
        self.spark = runner.tables.spark
        runner.serve(project.storage)
        #: The wall clock, UTC.
        self.clock = runner.clock
        # (Others go by the same reading: what stands in for a definition here is not theirs.)
        self.catalog = project.catalog() if catalog is None else catalog.copied()
        #: What another environment's runs write or deliver, and this one only reads (`reads:` of its file).
        self.foreign = frozenset[str]()
        if project.lender is not None:
            sinks = project.foreign_sinks(self.catalog)
            self.foreign = project.storage.lent | frozenset(sinks)
            for name in sinks:
                self.catalog.drop_sink(name)
        #: By the names of views: definitions of the project's files that other ones stand in for, with those.
        self._declared: dict[str, tuple[View, View]] = {}
        #: Views whose queries do not hold for what stands in, each with the name of a view that it reads.
        self.unfit: dict[str, str] = {}
        #: Views that continue although the project's files have something else for them: what is to be said of that.
        self.undecided: dict[str, TidegateError] = {}
        self.settings = SessionSettings()
        #: Who shows the rows of console sinks that FLUSH and CREATE SINK deliver; None: standard output.
        self.listener: Callable[[Event], None] | None = None
        #: Who is asked before a statement does what can't be undone: given what it is, says whether to go on. None:
        #: nobody is there, and the statement is refused.
        self.confirm: Callable[[str], bool] | None = None
        #: Who hears of every stage that is carried out.
        self.watcher: Watcher | None = None
        #: Whose the stored tables are (X3).
        self.owners = Owners(self.tables, project)
        #: What this project's sinks may not deliver into.
        self.borrowed = Borrowed(project)
        #: The types of views' columns, which Spark is asked for once (`resolve_columns`).
        self.resolved: dict[str, tuple[View, tuple[CatalogColumn, ...]]] = {}
        #: Tables that were there when they were opened last.
        self._seen: set[str] = set()
        #: What this process has the right to write: a name, and the part of the work on it ("": all of it).
        self._held: set[tuple[str, str]] = set()

    # -- what is stored, and where -----------------------------------------------------------------------------

    def identifier(self, name: str) -> str:
        """Spark identifier of the table that stores `name`."""
        return self.owners.identifier(name)

    def stored(self, name: str) -> str | None:
        """The identifier if the table exists, else None. Raises TG622 for one of a later release."""
        return self._known(self.identifier(name))

    def opened(self, name: str) -> StoredTable | None:
        """The table that stores `name`, to be read; None if there is none. Raises TG622 as `stored`."""
        identifier = self.identifier(name)
        if identifier in self._seen:
            # To ask whether it is there reads all of its metadata, as opening it does.
            with suppress(Exception):
                return self.tables.open(identifier)
            self._seen.discard(identifier)
        if not self.tables.exists(identifier):
            return None
        found = self.tables.open(identifier)
        self._seen.add(identifier)
        return found

    def before_rename(self, view: View) -> str | None:
        """The name under which the results of a view are stored that is still to be renamed, as the catalog spells it;
        None if there are none, or if it has some under its own name."""
        if view.renamed_from is None or self.stored(view.name) is not None:
            return None
        name = spelled(self.project.storage, view.renamed_from)
        return name if self.stored(name) is not None else None

    def _known(self, identifier: str) -> str | None:
        if not self.tables.exists(identifier):
            return None
        return self.tables.open(identifier).identifier

    def relation(self, name: str) -> Relation:
        """A source or table of the catalog."""
        found = self.catalog.get(name)
        if not isinstance(found, Relation):
            raise TidegateError(
                "TG509", f'"{name}" is neither a source nor a table', hint="its log has the rows"
            )
        return found

    def work_folder(self, name: str) -> str:
        """URI of a source's plans and checkpoint, or of a sink's position."""
        return self.project.storage.work_folder(name)

    def stages(self, planned: Sequence[Stage]) -> Stages:
        """The stages of a plan, to be carried out here."""
        return Stages(planned, lambda: self.watcher)

    def put_in_force(self, view: View) -> None:
        """Let a definition stand in for the one that the project's files have (`views/versions/in_force.py`)."""
        now = self.catalog.get(view.name)
        assert isinstance(now, View)
        declared, standing = self._declared.get(view.name, (now, now))
        # (A statement may have given it another definition since.)
        self._declared[view.name] = (declared if standing is now else now), view
        self._replace(view)

    def declare(self) -> None:
        """Have the definitions of the project's files again."""
        for name, (declared, standing) in self._declared.items():
            if self.catalog.find(name) is standing:
                self._replace(declared)
        self._declared.clear()
        self.unfit.clear()

    def declared(self, view: View) -> View:
        """What the project's files say of a view, whatever stands in for that."""
        return self._declared.get(view.name, (view, view))[0]

    def _replace(self, view: View) -> None:
        """In the catalog, and where it is a sink's own query, in the sink."""
        self.catalog.replace(view)
        for sink in list(self.catalog.sinks):
            if sink.view is not None and sink.view.name == view.name:
                self.catalog.sinks.add(replace(sink, view=view))

    # -- who may write, and who agrees -------------------------------------------------------------------------

    def require_own(self, name: str) -> None:
        """Raise TG515 for what is only read here, TG531 for what another project or environment owns (X3)."""
        self.require_unlent(name)
        self.owners.require(name)

    def require_own_once(self, name: str) -> None:
        """As `require_own`, but once for a statement: whatever lease it took first has asked. Tables that are open for
        writing ask again at every commit (`owners.py`)."""
        if all(held != name for held, _ in self._held):
            self.require_own(name)

    def require_unlent(self, name: str) -> None:
        """Raise TG515 for what is only read here: of the environment that this one reads, sources, tables, sinks, and
        views without a change."""
        found = next((one for one in self.foreign if one.casefold() == name.casefold()), None)
        if found is not None:
            env, reads = self.project.env_name, self.project.env.reads
            raise TidegateError(
                "TG515",
                f'"{found}" is only read in environment "{env}": it belongs to "{reads}"',
                hint=f"only views that are not those of {reads} run here; run everything else with --env {reads}",
            )

    def ask(
        self,
        code: str,
        what: str,
        command: str = "tidegate sql --yes; in Python: session.execute(sql, yes=True)",
        location: Location | None = None,
    ) -> None:
        """Raise an error that says what would happen, unless somebody agrees to it. `command`: how scripts agree."""
        if self.confirm is None or not self.confirm(what):
            hint = f"agree when you are asked, or with {command}"
            raise TidegateError(code, what, hint=hint, location=location)

    def lease(self, name: str, part: str = "") -> AbstractContextManager[None]:
        """The right to write `name` (TG508 if another process has it), or only a `part` of that work. It may be taken
        twice: live mode holds for its whole life what a run takes for every batch. TG515 and TG531 as `require_own`."""
        if (name, part) in self._held:
            return nullcontext()
        self.require_own_once(name)
        return self._holding(name, part)

    @contextmanager
    def _holding(self, name: str, part: str) -> Iterator[None]:
        with self.runner.lease(
            self.project.state_dir / "locks" / self.project.env.warehouse.namespace, name + part
        ):
            self._held.add((name, part))
            try:
                yield
            finally:
                self._held.discard((name, part))

    @contextmanager
    def standing_in_for(self, *others: Context) -> Iterator[None]:
        """While the block runs, this one has the leases of others, which leave alone what they are for."""
        lent = frozenset[tuple[str, str]]().union(*(other._held for other in others)) - self._held
        self._held |= lent
        try:
            yield
        finally:
            self._held -= lent

    def forget(self, name: str) -> None:
        """Drop what is stored of `name`: table, plans, checkpoint, staged recording. Raises TG506 for a view whose
        results still have its former name."""
        self.require_own(name)
        self._require_renamed(name)
        log = self.identifier(name)
        tables = (state_identifier(log), log)
        for table in (*tables, self.identifier(next_of(name))):
            self._known(table)
        self.forget_next(name)
        folders = [folder for table in tables if (folder := self._dropped(table)) is not None]
        storage = self.project.storage
        namespace = self.project.env.warehouse.namespace
        folders += [self.work_folder(name), f"{storage.warehouse}/_replay/{namespace}/{name}"]
        if storage.settings.catalog.type == "jdbc":
            # Also of tables that were never made whole. (The folder may be that of a table which had this name.)
            ours = [one for one in (f"{name}$state", name) if not is_left(storage, namespace, one)]
            folders += [storage.table_uri(one) for one in ours]
        self._remove(folders)

    def _require_renamed(self, name: str) -> None:
        view = self.catalog.find(name)
        before = self.before_rename(view) if isinstance(view, View) else None
        if before is not None:
            raise TidegateError(
                "TG506",
                f'"{name}" is not dropped: its results are still stored as "{before}"',
                hint=f'run first, which renames them; or leave out RENAMED FROM, and "{before}" is another view',
            )

    def _dropped(self, identifier: str) -> str | None:
        """Drop a table. Its folder, if that has a name of the table's: Iceberg removes what its metadata name, not the
        folder, nor what killed tasks have left there; and a server not even that if its client asks twice. Then it
        hears that there is no such table."""
        folder, names = None, [name_of(identifier)]
        if not self.project.storage.has_folder_catalog and self.tables.exists(identifier):
            table = self.tables.open(identifier)
            folder, names = table.location.rstrip("/"), [*names, *former_names(table.property(FORMER))]
        try:
            self.tables.drop_table(identifier)
        except Exception:
            if self.tables.exists(identifier):
                raise
        is_own = folder is not None and folder.rpartition("/")[2].startswith(tuple(names))
        return folder if is_own else None

    def is_building(self, name: str) -> bool:
        """Whether the next version of a view is built: its files are in the view's folder, while no snapshot of the
        view's table names them."""
        beside, table = self.opened(next_of(name)), self.opened(name)
        if beside is None or table is None:
            return False
        return int(beside.property(VERSION) or 0) > current_version(table.properties())

    def forget_next(self, name: str) -> None:
        """Drop the table of a version of a view that is built, or was. Its files are in the view's folder: they are the
        view's by now, or orphans. (Those of an earlier release are its own.)"""
        beside = self.opened(next_of(name))
        if beside is not None:
            shared = KEEP_FILES.items() <= beside.properties().items()
            (self.tables.end_version if shared else self.tables.drop_table)(beside.identifier)
        if self.project.storage.settings.catalog.type == "jdbc":
            self._remove([self.project.storage.table_uri(next_of(name))])

    def _remove(self, folders: Iterable[str]) -> None:
        for uri in folders:
            filesystem, path = self.project.storage.filesystem(uri)
            info: Any = filesystem.get_file_info(path)
            if info.type.name == "Directory":
                filesystem.delete_dir(path)
