"""The Python API: a session on a project, with SQL statements, tables as DataFrames, and runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.evolve.apply import open_log
from tidegate.evolve.kept_versions import with_versions
from tidegate.jvm import spark as spark_room
from tidegate.jvm.class_archive import Purpose
from tidegate.jvm.failures import refused
from tidegate.jvm.packages import KAFKA_PACKAGES, cached_jars
from tidegate.jvm.within import tagged
from tidegate.project import Project
from tidegate.project.disk import private_folder
from tidegate.project.folder import is_project
from tidegate.project.storage import SQLITE_PACKAGE
from tidegate.runtime.context import Context
from tidegate.runtime.result import Result, RunReport
from tidegate.runtime.runner import Runner, spark_runner
from tidegate.session.relations import frame_of
from tidegate.sql.catalog.objects import Relation, View
from tidegate.sql.options.kafka_options import KafkaOptions, KafkaSinkOptions
from tidegate.tables.table import KEEP_SECONDS, Cleaned
from tidegate.views.versions.renaming import take_over
from tidegate.views.view_table import ViewTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.ingest.ingest import Log
    from tidegate.plan.events import Event
    from tidegate.runtime.steps import Steps
    from tidegate.sql.catalog.catalog import Catalog


class Session(Context):
    """An open project. Use `tidegate.connect()`; close it, or use it in a `with` block.

    `spark` is tidegate's child session of the Spark application; `catalog` everything that the project defines;
    `settings` what SET has changed.
    """

    def __init__(
        self,
        project: Project,
        runner: Runner,
        parent: SparkSession | None = None,
        catalog: Catalog | None = None,
    ) -> None:
        super().__init__(project, runner, catalog)
        with_versions(self.project, self.catalog)
        self._parent = parent
        self._beside = False

    @classmethod
    def open(
        cls,
        project: Project | Path | str | None = None,
        env: str = "local",
        spark: SparkSession | None = None,
        log: str = "spark",
        lasting: bool = False,
        several: bool = False,
    ) -> Session:
        """See `tidegate.connect`. `log`: name of the file in `.tidegate/logs` that gets what Spark has to say.
        `lasting`: this process runs for long (see `Purpose`); `several`: it works for several groups at a time."""
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
                opened.env,
                packages(opened),
                opened.name,
                logs / f"{log}.log",
                purpose(opened, lasting),
                logs / f"{log}.ui-token",
                several,
            )
        child = spark_room.child(spark, opened.storage)
        return cls(opened, spark_runner(child), owned)

    def beside(self, project: Project | None = None, catalog: Catalog | None = None) -> Session:
        """A session on the same Spark, for another thread. `project`: read again; None: the same one, whose definitions
        don't change while this session is open. `catalog`: what `project` defines, where it is known. When it is
        closed, nothing can be read from its tables any more."""
        catalog = self.catalog if project is None else catalog
        project = project or self.project
        if project.lender is not None:
            # Which views are only read is asked again: the other environment may have replaced results since.
            project = replace(project)
        child = spark_room.child(self.spark, project.storage, lasting=True)
        session = Session(project, spark_runner(child, self.runner), catalog=catalog)
        session._beside = True
        return session

    @contextmanager
    def stoppable(self, pool: str, tag: str) -> Iterator[Callable[[], None]]:
        """While the block runs, what this thread does shares the cores fairly with what others do, and the jobs of it
        that run are stopped by what is given, from any thread. `pool`: nothing else has it now; `tag`: ever."""
        with self.runner.working(pool), tagged(self.spark, tag) as stop:
            yield stop

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, stop_spark: bool = False) -> None:
        """End the session; a temporary project is removed. Spark itself stays up for the next session of this
        process unless `stop_spark` is set (and tidegate started it)."""
        if self._beside:
            # (The project is the other session's, too.)
            self.runner.close()
            return
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

        from tidegate.session.statements import execute
        from tidegate.sql.statements.analysis import analyse

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
        return frame_of(self, name, hidden)

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
        from tidegate.session.run import run
        from tidegate.session.up_to_date import up_to_date

        names = None if names is None else list(names)
        for name in names or ():
            # (A view that is only read here has its results already.)
            if not isinstance(self.catalog.find(name), View):
                self.require_unlent(name)
        report = up_to_date(self.project, self.catalog, names, on_event, upstream)
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
        """Delete the rows of tables WITH TTL that have expired and that no view needs any more (T2, T3), and compact
        their files; views' results stay.

        `names`: tables with a PRIMARY KEY, None is all of them. `keep_seconds`: how long old snapshots can be read.
        `steps`: takes down what fails; None: the first failure is raised.
        Raises TG509 for anything else, TG508 if somebody is writing one of them.
        """
        from tidegate.views.retention import cleanup

        return cleanup(self, names, keep_seconds, steps)

    # -- open for writing --------------------------------------------------------------------------------------

    def log(self, relation: Relation) -> Log:
        """See `evolve.apply.open_log`."""
        return open_log(self, relation)

    def view_table(self, view: View) -> ViewTable:
        """The view's table, opened for writing; hold its `lease` while it is used."""
        take_over(self, self.declared(view))
        return ViewTable(self, view)


def needed_packages(project: Project, catalog: Catalog | None = None) -> list[str]:
    """Maven coordinates of what Spark has to have for a project, beyond the Iceberg runtime. `catalog`: what the
    project defines, where that is known."""
    connectors = _connectors(catalog or project.catalog())
    has_kafka = any(isinstance(c, KafkaOptions | KafkaSinkOptions) for c in connectors)
    return [*project.storage.packages(), *(KAFKA_PACKAGES if has_kafka else ())]


def packages(project: Project, catalog: Catalog | None = None) -> list[str]:
    """With what Spark is started for a project, beyond the Iceberg runtime: what it needs (`needed_packages`), and what
    is here already."""
    needed = needed_packages(project, catalog)
    groups = (KAFKA_PACKAGES, (SQLITE_PACKAGE,))
    # In the same order for all projects: what an archive of classes is for.
    usual = [one for group in groups if set(group) <= set(needed) or cached_jars(group) for one in group]
    return usual + [one for one in needed if one not in usual]


def purpose(project: Project, lasting: bool = False) -> Purpose:
    """What Spark does for a project, as far as it makes a difference to which classes it loads."""
    kinds = {type(c).__name__ for c in _connectors(project.catalog()) if c is not None}
    return Purpose(" ".join(sorted(kinds)), lasting)


def _connectors(catalog: Catalog) -> list[Any]:
    return [x.connector for x in [*catalog.relations, *catalog.sinks]]
