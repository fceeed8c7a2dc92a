"""A driver: a process that runs the engine on the simulated outside."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, lru_cache
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.fs as pafs
import pyarrow.parquet as pq
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import clear_manifest_cache

from tests.inprocess.session import new_spark
from tests.inprocess.stored.files import forget_files
from tests.inprocess.stored.tables import InProcessTables
from tests.inprocess.stored.upkeep import InProcessUpkeep, forget_manifests
from tests.inprocess.topics import InProcessTopics
from tests.simulate.world.broker import SimulatedBroker
from tests.simulate.world.outside import Driver, Outside
from tests.simulate.world.store import Handler, Store
from tests.simulate.world.tables import Identifier, SimulatedCatalog
from tidegate.errors import TidegateError
from tidegate.evolve import planning
from tidegate.maintenance import erase_reach
from tidegate.project import Project
from tidegate.project.storage import Storage
from tidegate.runtime.runner import Runner
from tidegate.runtime.stored_gates import with_gate_names
from tidegate.session.session import Session
from tidegate.sql.catalog.catalog import Catalog
from tidegate.store.metadata import CommittedTable, _state

_ROLES = (
    (re.compile(r"/_streams/[^/]+/[^/]+/plans(/|$)"), "plan"),
    (re.compile(r"/_streams/[^/]+/[^/]+/memory(/|$)"), "memory"),
    (re.compile(r"/_streams/[^/]+/[^/]+/erasing(/|$)|/erased(/|$)"), "erasing"),
    (re.compile(r"/_tidegate/\.?position"), "position"),
    (re.compile(r"/_tidegate/staging(/|$)"), "staging"),
    (re.compile(r"/out(/|$)"), "delivery"),
    (re.compile(r"/input(_\w+)?(/|$)"), "input"),
    (re.compile(r"/_streams(/|$)"), "position"),
    (re.compile(r"/data(/|$)"), "data"),
    (re.compile(r"/metadata(/|$)"), "metadata"),
)
_new_writer = pq.ParquetWriter.__init__


def _uncompressed(writer: pq.ParquetWriter, *given: Any, **named: Any) -> None:
    """Files of a few rows: to make a compressor ready would cost more than to write them."""
    named.pop("compression_level", None)
    _new_writer(writer, *given, **named | {"compression": "none"})


@lru_cache(4096)
def role_of(path: str) -> str:
    """What a path is to the engine."""
    return next((role for pattern, role in _ROLES if pattern.search(path)), "other")


@dataclass(frozen=True)
class SimulatedStorage(Storage):
    """All of whose files are simulated."""

    files: pafs.FileSystem | None = field(default=None, compare=False)

    def filesystem(self, uri: str | None = None) -> tuple[pafs.FileSystem, str]:
        _, path = super().filesystem(uri)
        assert self.files is not None
        return self.files, path


@cache
def project_folder(sql: str, changing: bool = False) -> Path:
    """A project on disk with these definitions; nothing else is ever written into it, unless it is `changing`: then
    other definitions. It goes with this process."""
    root = Path(tempfile.mkdtemp(prefix="simulated-")) / "project"
    Finalize(None, shutil.rmtree, (root.parent, True), exitpriority=0)
    (root / "assets").mkdir(parents=True)
    (root / "assets" / "all.sql").write_text(sql)
    return root


class World:
    """The outside of one project: its store and its catalog."""

    def __init__(self, outside: Outside, sql: str, logs: tuple[str, ...], changing: bool = False) -> None:
        # Ids follow from the seed: what is known of a snapshot may be another history's.
        forget_files()
        forget_manifests()
        clear_manifest_cache()
        self.outside, self.root = outside, project_folder(sql, changing)
        if changing:
            self.define(sql)
        self.store = Store(outside, role_of)
        self.broker = SimulatedBroker(outside)
        self.files = pafs.PyFileSystem(Handler(self.store))
        self._logs = logs
        #: Processes that have not ended.
        self.drivers: list[Driver] = []
        project = Project.load(self.root)
        warehouse = project.storage.local_warehouse
        assert warehouse is not None
        self.namespace = project.env.warehouse.namespace
        self.catalog = SimulatedCatalog(warehouse, self.store, self._table_role)
        self.catalog.conflicting = self._compacted

    def _table_role(self, name: str) -> str:
        if name.endswith("$state"):
            return "state"
        return "log" if name in self._logs else "view"

    def _compacted(self, table: Identifier) -> bool:
        """Put the files of a table together, as somebody else's upkeep does; whether there was something to do."""
        with self.outside.looking():
            before = self.catalog.newest(table)
            tables = InProcessTables(None, self.catalog)  # type: ignore[arg-type]  # upkeep of rows needs no session
            opened = tables.open(".".join(("tidegate", *(f"`{part}`" for part in table))))
            InProcessUpkeep(None, opened).compact(least_files=2)  # type: ignore[arg-type]
            return self.catalog.newest(table) is not before

    def cleaned(self) -> bool:
        """Whether rows of the table WITH TTL have expired and were cleaned up (T3)."""
        state = self.catalog.newest((self.namespace, "events$state"))
        snapshot = None if state is None else state.current_snapshot()
        said = None if snapshot is None else snapshot.summary
        return said is not None and "tidegate.cleaned" in said.additional_properties

    def define(self, sql: str) -> None:
        """Somebody edits the definitions."""
        (self.root / "assets" / "all.sql").write_text(sql)

    def catalog_of_project(self) -> Catalog:
        """What its files define."""
        return Project.load(self.root).catalog()

    def open(self) -> Session:
        """A session, as a new process opens it."""
        # (As a context has it, which keeps the storage then.)
        project = with_gate_names(Project.load(self.root))
        storage = Storage(self.root, project.env.warehouse, owner=project.owner)
        project.__dict__["storage"] = SimulatedStorage(**vars(storage), files=self.files)
        spark = new_spark()
        tables, topics = InProcessTables(spark, self.catalog), InProcessTopics(spark, lambda _: self.broker)
        outside = self.outside
        runner = Runner(tables, topics, outside.clock, self._lease, outside.elapsed, outside.pass_time)
        return Session(project, runner)

    @contextmanager
    def holds(self) -> Iterator[None]:
        """While the block runs, who reads tables without a session reads those of this world."""
        with (
            patch.object(planning, "load_table", self._committed),
            patch.object(
                erase_reach, "every_namespace", lambda storage: sorted({t[0] for t in self.catalog.tables})
            ),
            patch.object(erase_reach, "table_names", self._names),
            patch.object(erase_reach, "load_properties", self._properties),
            patch.object(pq.ParquetWriter, "__init__", _uncompressed),
        ):
            yield

    def _names(self, storage: Storage, namespace: str) -> list[str]:
        return sorted(table[-1] for table in self.catalog.tables if table[0] == namespace)

    def _properties(
        self, storage: Storage, name: str, namespace: str | None = None
    ) -> Mapping[str, str] | None:
        found = self._committed(storage, name, namespace)
        return None if found is None else found.properties

    def _committed(self, storage: Storage, name: str, namespace: str | None = None) -> CommittedTable | None:
        try:
            table = self.catalog.open((namespace or storage.namespace_of(name), name))
        except NoSuchTableError:
            return None
        metadata = json.loads(table.metadata.model_dump_json(by_alias=True))
        return _state(name, table.metadata_location, metadata)

    @contextmanager
    def _lease(self, folder: Path, name: str) -> Iterator[None]:
        """A lock that knows the processes of its own machine, and ends with its holder."""
        driver = self.outside.driver
        others = [one for one in self.drivers if one is not driver and one.machine == driver.machine]
        if any(name in one.locks for one in others):
            raise TidegateError("TG508", f'another process is writing "{name}"')
        mine = name not in driver.locks
        driver.locks.add(name)
        try:
            yield
        finally:
            if mine:
                driver.locks.discard(name)
