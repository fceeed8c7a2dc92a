"""The Dagster resource: a tidegate session that starts Spark when it is first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster import ConfigurableResource, InitResourceContext
from pydantic import Field, PrivateAttr

from tidegate.project import Project
from tidegate.runtime.stored_gates import with_gate_names

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from tidegate.session.session import Session


class TidegateResource(ConfigurableResource):  # type: ignore[type-arg]  # it is its own value
    """A project's session, for assets and ops. Follows dagster-pyspark's `LazyPySparkResource`: nothing starts before
    `session`, `spark_session` or `spark_context` is used. Spark is stopped after the run if this resource started it;
    a SparkSession that was there before is used and left alone.

    To use Spark of your own (say, another resource's), override `start_spark`:

        class Ours(TidegateResource):
            pyspark: dg.ResourceDependency[LazyPySparkResource]

            def start_spark(self, project):
                return self.pyspark.spark_session
    """

    project: str = Field(description="Folder of the tidegate project.")
    env: str = Field(default="local", description="Which resources/<env>.yaml.")
    max_rows_per_batch: int | None = Field(
        default=None,
        description="Overrides the number of rows in a batch, for sources whose batches are measured in rows.",
    )
    plot_up_to_rows: int = Field(
        default=20_000_000,
        description=(
            "The completeness curve is measured over the whole log after each run, up to this number of rows."
        ),
    )

    _session: Session | None = PrivateAttr(default=None)
    _stop_spark: bool = PrivateAttr(default=False)

    def load_project(self) -> Project:
        """The project in its environment. Raises `TidegateError`."""
        return with_gate_names(Project.load(self.project, self.env))

    @property
    def session(self) -> Session:
        """The run's session; the first use starts Spark."""
        if self._session is None:
            from tidegate.session.session import Session

            project = self.load_project()
            project.catalog()  # a definition that does not hold should not cost a JVM
            self._session = Session.open(project, spark=self.start_spark(project))
        return self._session

    @property
    def spark_session(self) -> SparkSession:
        """The session's Spark, with tidegate's catalog: `SELECT * FROM tidegate.main.flights` works in it."""
        return self.session.spark

    @property
    def spark_context(self) -> SparkContext:
        """The SparkContext behind `spark_session`."""
        return self.spark_session.sparkContext

    def start_spark(self, project: Project) -> SparkSession:
        """The SparkSession to work in: this process's, or a new one that `teardown_after_execution` will stop."""
        from tidegate.jvm.spark import start
        from tidegate.session.session import packages, purpose

        self._stop_spark = not _spark_runs()
        token = project.state_dir / "logs" / "dagster.ui-token"
        needed = packages(project)
        return start(project.env, needed, project.name, purpose=purpose(project), ui_token=token)

    def teardown_after_execution(self, context: InitResourceContext) -> None:
        """Close the session, and stop Spark if it was started here."""
        session, self._session = self._session, None
        if session is None:
            return
        session.close()
        if self._stop_spark:
            session.spark.stop()
            self._stop_spark = False


def _spark_runs() -> bool:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        SparkSession.active()
    except PySparkRuntimeError:
        return False
    return True
