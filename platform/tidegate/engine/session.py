"""The Python API: a session on a project, with SQL statements, tables as DataFrames, and runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.engine import spark as spark_room
from tidegate.engine.borrowed import Borrowed
from tidegate.engine.class_archive import Purpose
from tidegate.engine.commit import IcebergTable
from tidegate.engine.failures import refused
from tidegate.engine.ingest import Log
from tidegate.engine.lease import lease
from tidegate.engine.lives import state_identifier
from tidegate.engine.owners import Owners
from tidegate.engine.relations import relation_frame, system_frame, view_frame
from tidegate.engine.resolve import resolve_columns
from tidegate.engine.result import Result, RunReport
from tidegate.engine.revisions import revisions_frame
from tidegate.engine.table import KEEP_SECONDS, Cleaned
from tidegate.engine.view_table import ViewTable
from tidegate.errors import TidegateError
from tidegate.project import Project
from tidegate.project.disk import private_folder
from tidegate.project.project import is_project
from tidegate.sql.catalog.objects import Column, Relation, SystemTable, View
from tidegate.sql.kafka_options import KafkaOptions, KafkaSinkOptions
from tidegate.sql.settings import Settings

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession

    from tidegate.engine.steps import Steps
    from tidegate.errors import Location
    from tidegate.plan.events import Event


class Session:
    """An open project. Use `tidegate.connect()`; close it, or use it in a `with` block.

    `spark` is tidegate's child session of the Spark application; `catalog` everything that the project defines;
    `settings` what SET has changed.
    """

    def __init__(self, project: Project, spark: SparkSession, parent: SparkSession | None) -> None:
        self.project = project
        self.spark = spark
        self.catalog = project.catalog()
        #: What another environment's runs write or deliver, and this one only reads (`reads:` of its file).
        self.foreign = frozenset[str]()
        if project.lender is not None:
            sinks = [s.name for s in self.catalog.sinks if not project.is_interactive(s.name)]
            self.foreign = project.storage.lent | frozenset(sinks)
            for name in sinks:
                self.catalog.drop_sink(name)
        self.settings = Settings()
        #: Who shows the rows of console sinks that FLUSH and CREATE SINK deliver; None: standard output.
        self.listener: Callable[[Event], None] | None = None
        #: Who is asked before a statement does what can't be undone: given what it is, says whether to go on. None:
        #: nobody is there, and the statement is refused.
        self.confirm: Callable[[str], bool] | None = None
        self._parent = parent
        self.owners = Owners(spark, project)
        #: What this session's sinks may not deliver into.
        self.borrowed = Borrowed(project)
        #: The types of views' columns, which Spark is asked for once (`resolve_columns`).
        self.resolved: dict[str, tuple[View, tuple[Column, ...]]] = {}
        #: What this session has the right to write: a name, and the part of the work on it ("": all of it).
        self._held: set[tuple[str, str]] = set()

    @classmethod
    def open(
        cls,
        project: Project | Path | str | None = None,
        env: str = "local",
        spark: SparkSession | None = None,
        log: str = "spark",
        lasting: bool = False,
    ) -> Session:
        """See `tidegate.connect`. `log`: name of the file in `.tidegate/logs` that gets what Spark has to say.
        `lasting`: this process runs for long (see `Purpose`)."""
        if project is None:
            opened = Project.load(Path.cwd(), env) if is_project(Path.cwd()) else Project.temporary()
        else:
            opened = project if isinstance(project, Project) else Project.load(project, env)
        opened.catalog()  # a definition that does not hold should not cost a JVM
        owned = None
        if spark is None:
            if opened.storage.local_warehouse is not None and spark_room.in_this_process(
                opened.env.spark.master
            ):
                private_folder(opened.storage.local_warehouse)
            logs = opened.state_dir / "logs"
            spark = owned = spark_room.start(
                opened.env, packages(opened), opened.name, logs / f"{log}.log", purpose(opened, lasting)
            )
        child = spark_room.child(spark, opened.storage)
        return cls(opened, child, owned)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, stop_spark: bool = False) -> None:
        """End the session; a temporary project is removed. Spark itself stays up for the next session of this
        process unless `stop_spark` is set (and tidegate started it)."""
        if stop_spark and self._parent is not None:
            self._parent.stop()
        self.project.remove()

    # -- SQL ---------------------------------------------------------------------------------------------------

    def execute(self, sql: str, yes: bool = False) -> Result:
        """Run every statement of `sql`; the last one's result. Raises `TidegateError` at the first that fails.

        `yes`: agree to what a statement asks before it does what can't be undone (DROP of something with rows, RESET
        WATERMARK that leaves results behind); else `confirm` is asked, and without it the statement is refused."""
        result, confirm = Result(message="nothing to do"), self.confirm
        if yes:
            self.confirm = lambda text: True
        try:
            for result in self.execute_all(sql):  # noqa: B007
                pass
        finally:
            self.confirm = confirm
        return result

    def execute_all(self, sql: str, file: str = "<sql>", line: int = 1) -> Iterator[Result]:
        """Run the statements one after the other and give each one's result. `line`: where in `file` they start."""
        from pyspark.errors import AnalysisException

        from tidegate.engine.statements import execute
        from tidegate.sql.analysis import analyse

        for statement in analyse(sql, self.catalog, file, line):
            try:
                result = execute(self, statement)
            except AnalysisException as error:
                raise refused("this statement", error) from None
            yield result

    def table(self, name: str, hidden: bool = False) -> DataFrame:
        """A source, table or view, or one of `name$late`, `$rejected`, `$raw`, `$watermarks`, as a DataFrame.

        `hidden`: with the hidden columns of a log, `$rowtime` (W12) and `$watermark` (W14).
        """
        found = self.catalog.get(name)
        if isinstance(found, SystemTable) and isinstance(found.relation, View):
            columns = resolve_columns(self, found.relation)
            return revisions_frame(self.spark, found, columns, self.stored(found.relation.name))
        if isinstance(found, SystemTable):
            return system_frame(self.spark, found, self.stored(found.relation.name), hidden)
        if isinstance(found, View):
            columns = resolve_columns(self, found)
            return view_frame(self.spark, found, columns, self.stored(found.name))
        return relation_frame(self.spark, found, self.stored(found.name), hidden)

    # -- runs --------------------------------------------------------------------------------------------------

    def run(
        self,
        names: Iterable[str] | None = None,
        max_rows_per_batch: int | None = None,
        on_event: Callable[[Event], None] | None = None,
        upstream: bool = True,
        fail_fast: bool = True,
    ) -> RunReport:
        """Read what waits in the sources and close what can be closed, then return.

        `names`: sources, tables, views or sinks; None is everything.
        `max_rows_per_batch`: overrides the option of sources that are cut by rows. `on_event`: told of every
        commit as it happens. `upstream`: whether a view brings its source along; without it, a view takes in only
        what its source's log holds already. `fail_fast`: raise at the first failure; without it, a failure of one
        source, view or sink leaves the others alone, and is told in the report (`failed`, `skipped`).
        """
        from tidegate.engine.run import run
        from tidegate.engine.settled import settled

        names = None if names is None else list(names)
        for name in names or ():
            self.require_unlent(name)
        report = settled(self.project, self.catalog, names, on_event, upstream)
        if report is not None:
            return report
        most = max_rows_per_batch or self.settings.max_rows_per_batch
        return run(self, names, most, on_event, upstream, fail_fast)

    def cleanup(
        self,
        names: Iterable[str] | None = None,
        keep_seconds: float = KEEP_SECONDS,
        steps: Steps | None = None,
    ) -> list[Cleaned]:
        """Delete the rows of tables WITH TTL that have expired and that no view needs any more (T2, T3), and tidy
        their files; views' results stay.

        `names`: tables with a PRIMARY KEY, None is all of them. `keep_seconds`: how long old snapshots can be read.
        `steps`: takes down what fails; None: the first failure is raised.
        Raises TG509 for anything else, TG508 if somebody is writing one of them.
        """
        from tidegate.engine.retention import cleanup

        return cleanup(self, names, keep_seconds, steps)

    # -- for the other files of this room, and for the audit ----------------------------------------------------

    def identifier(self, name: str) -> str:
        """Spark identifier of the table that stores `name`."""
        return self.owners.identifier(name)

    def require_own(self, name: str) -> None:
        """Raise TG515 for what is only read here, TG531 for what another project or environment owns (X3)."""
        self.require_unlent(name)
        self.owners.require(name)

    def require_unlent(self, name: str) -> None:
        """Raise TG515 for what is only read here: sources, tables and sinks of the environment that this one reads."""
        found = next((one for one in self.foreign if one.casefold() == name.casefold()), None)
        if found is not None:
            env, reads = self.project.env_name, self.project.env.reads
            raise TidegateError(
                "TG515",
                f'"{found}" is only read in environment "{env}": it belongs to "{reads}"',
                hint=f"views run here; sources, tables and sinks with --env {reads}",
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

    def stored(self, name: str) -> str | None:
        """The identifier if the table exists, else None. Raises TG622 for one of a later release."""
        return self._known(self.identifier(name))

    def _known(self, identifier: str) -> str | None:
        if not self.spark.catalog.tableExists(identifier):
            return None
        return IcebergTable(self.spark, identifier).identifier

    def relation(self, name: str) -> Relation:
        """A source or table of the catalog."""
        found = self.catalog.get(name)
        if not isinstance(found, Relation):
            raise TidegateError(
                "TG509", f'"{name}" is neither a source nor a table', hint="its log has the rows"
            )
        return found

    def log(self, relation: Relation) -> Log:
        """The relation's log, opened for writing; hold its `lease` while it is used. Raises TG515 and TG531 as
        `require_own`."""
        if not self._has_asked(relation.name):
            self.require_own(relation.name)
        return Log(self.spark, self.project.storage, relation, self.identifier(relation.name))

    def view_table(self, view: View) -> ViewTable:
        """The view's table, opened for writing; hold its `lease` while it is used."""
        return ViewTable(self, view)

    def lease(self, name: str, part: str = "") -> AbstractContextManager[None]:
        """The right to write `name` (TG508 if another process has it), or only a `part` of that work. This session may
        take it twice: live mode holds for its whole life what a run takes for every batch. TG515 and TG531 as
        `require_own`."""
        if (name, part) in self._held:
            return nullcontext()
        if not self._has_asked(name):
            self.require_own(name)
        return self._holding(name, part)

    def _has_asked(self, name: str) -> bool:
        """Whether the owner was asked for already: once for a statement, by whatever lease it took first. Tables that
        are open for writing ask again at every commit (`owners.py`)."""
        return any(held == name for held, _ in self._held)

    @contextmanager
    def _holding(self, name: str, part: str) -> Iterator[None]:
        with lease(self.project.state_dir / "locks" / self.project.env.warehouse.namespace, name + part):
            self._held.add((name, part))
            try:
                yield
            finally:
                self._held.discard((name, part))

    def work_folder(self, name: str) -> str:
        """URI of a source's plans and checkpoint, or of a sink's position."""
        return self.project.storage.work_folder(name)

    def forget(self, name: str) -> None:
        """Drop what is stored of `name`: table, plans, checkpoint, staged recording."""
        self.require_own(name)
        log = self.identifier(name)
        tables = (state_identifier(log), self.identifier(f"{name}$next"), log)
        for table in tables:
            self._known(table)
        for table in tables:
            self.spark.sql(f"DROP TABLE IF EXISTS {table} PURGE")
        storage = self.project.storage
        namespace = self.project.env.warehouse.namespace
        for uri in (self.work_folder(name), f"{storage.warehouse}/_replay/{namespace}/{name}"):
            filesystem, path = storage.filesystem(uri)
            info: Any = filesystem.get_file_info(path)
            if info.type.name == "Directory":
                filesystem.delete_dir(path)


def packages(project: Project) -> list[str]:
    """Maven coordinates that Spark needs for a project, beyond the Iceberg runtime."""
    kafka = list(spark_room.KAFKA_PACKAGES)
    needed = any(isinstance(c, KafkaOptions | KafkaSinkOptions) for c in _connectors(project))
    # Where it costs no download it is there, so that a shell can create a Kafka source, too.
    return project.storage.packages() + (kafka if needed or spark_room.cached_jars(kafka) else [])


def purpose(project: Project, lasting: bool = False) -> Purpose:
    """What Spark does for a project, as far as it makes a difference to which classes it loads."""
    kinds = {type(c).__name__ for c in _connectors(project) if c is not None}
    return Purpose(" ".join(sorted(kinds)), lasting)


def _connectors(project: Project) -> list[Any]:
    catalog = project.catalog()
    return [x.connector for x in [*catalog.relations, *catalog.sinks]]
