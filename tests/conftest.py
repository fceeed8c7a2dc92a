"""Fixtures for all tests: one Spark session per process, and projects on temporary folders."""

from __future__ import annotations

import gc
import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support import catalogs
from tests.support.brokers import broker as broker  # the fixture
from tests.support.catalogs import catalog_server as catalog_server  # the fixture
from tests.support.kafka import kafka as kafka  # the fixture

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.session.session import Session

settings.register_profile(
    "ci",
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("thorough", settings.get_profile("ci"), max_examples=2000, derandomize=False)
settings.load_profile(os.environ.get("TIDEGATE_HYPOTHESIS", "ci"))

ROOT = Path(__file__).resolve().parent.parent
#: The archive of classes that all Sparks of tests start from, where `make test` has made one (`tests.support.classes`).
CLASSES = ROOT / ".tidegate" / "classes"
if CLASSES.is_dir():
    os.environ.setdefault("TIDEGATE_CLASS_ARCHIVES", str(CLASSES))
# What tests define is gone with them.
os.environ.setdefault("TIDEGATE_DEFINITIONS_CACHE", "off")

# The runner without a JVM asks its server by gRPC, which else closes what threads are reading whenever this process
# starts another one.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

#: What needs a server of its own, and is of `make catalogs`.
collect_ignore = [] if catalogs.kind() == "postgres" else ["iceberg/test_lost_answers.py"]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, catalog_server: None) -> Iterator[SparkSession]:
    """The process's one Spark, as `tidegate.connect()` would start it, tuned for thousands of tiny jobs."""
    from tidegate.jvm.class_archive import Purpose
    from tidegate.jvm.packages import USUAL_PACKAGES
    from tidegate.jvm.spark import start
    from tidegate.project import Environment
    from tidegate.testing.runner import QUICK

    os.environ.setdefault("SPARK_LOCAL_DIRS", str(tmp_path_factory.mktemp("spark")))
    packages = [*USUAL_PACKAGES, *catalogs.packages()]
    environment = Environment.model_validate({"spark": {"conf": QUICK}})
    session = start(environment, packages, "tests", purpose=Purpose(lasting=True))
    yield session
    # It ends with this process. To be stopped in order it would wait half a minute for tasks that hang.
    with suppress(Exception):
        session._jvm.java.lang.Runtime.getRuntime().halt(0)


@pytest.fixture(autouse=True)
def _no_secret_of_another_test() -> Iterator[None]:
    """What a test has made a secret is a word like others to the next one."""
    from tidegate import masking

    factory = logging.getLogRecordFactory()
    yield
    masking._KNOWN.clear()
    masking._PATTERN = None
    logging.setLogRecordFactory(factory)


class Workbench:
    """A project on a temporary folder, and sessions on it."""

    def __init__(self, root: Path, spark: SparkSession | None) -> None:
        """`spark`: None: sessions are those of the runner without a JVM."""
        self.root, self._spark = root, spark
        (root / "assets").mkdir(parents=True, exist_ok=True)
        warehouse = catalogs.warehouse() if spark is not None else {}
        self._environment: dict[str, Any] = {"warehouse": warehouse} if warehouse else {}
        if warehouse:
            self._write()

    def assets(self, **files: str) -> Workbench:
        """Write `assets/<name>.sql`."""
        for name, text in files.items():
            (self.root / "assets" / f"{name}.sql").write_text(text, encoding="utf-8")
        return self

    def json_lines(self, path: str, rows: list[dict[str, Any]] | list[str]) -> Workbench:
        """Write rows (or lines as they are) to a file below the project."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        target.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return self

    def allow(self, **settings: Any) -> Workbench:
        """What the environment lets SQL reach (X1), as `allow:` of its file."""
        self._environment["allow"] = settings
        self._write()
        return self

    def with_catalog(self, catalog: dict[str, Any]) -> Workbench:
        """The environment's `warehouse.catalog`."""
        self._environment["warehouse"] = {"catalog": catalog}
        self._write()
        return self

    def _write(self) -> None:
        (self.root / "resources").mkdir(exist_ok=True)
        (self.root / "resources" / "local.yaml").write_text(json.dumps(self._environment), encoding="utf-8")

    def session(self, environment: str = "local", compiled: bool = False) -> Session:
        """A new session, as a new process would open it. `compiled`: Spark compiles its queries and adapts their plans,
        which pays for rows by the hundred thousand."""
        from tidegate.project import Project
        from tidegate.session.session import Session

        project = Project.load(self.root, environment)
        if self._spark is None:
            from tests.inprocess.session import session_on

            return session_on(project)
        session = Session.open(project=project, spark=self._spark)
        if compiled:
            session.spark.conf.set("spark.sql.adaptive.enabled", "true")
            session.spark.conf.set("spark.sql.codegen.wholeStage", "true")
            session.spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
        return session


#: What the engine's work is run by: Spark, or this process without a JVM (`tests.inprocess`).
SPARK, IN_PROCESS = "spark", "inprocess"


def runners(item: pytest.Item | pytest.Function) -> tuple[str, ...]:
    """On which runners a test with a project runs: what `pytest.mark.runner` of it or of its module says, else Spark.
    With TIDEGATE_RUNNERS=all one that runs in this process runs on Spark, too; and where another catalog is chosen
    (`tests.support.catalogs`), on Spark alone. One that is `only` about its runner runs on no other. `long_run`: that
    of its runners on which `make test` skips it, because others show there what the two have in common."""
    marker = item.get_closest_marker("runner")
    names: tuple[str, ...] = marker.args if marker is not None else (SPARK,)
    if marker is not None and marker.kwargs.get("only"):
        return names
    if catalogs.chosen():
        return (SPARK,)
    both = os.environ.get("TIDEGATE_RUNNERS") == "all" and IN_PROCESS in names
    return (IN_PROCESS, SPARK) if both else names


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "runner" in metafunc.fixturenames and len(names := runners(metafunc.definition)) > 1:
        marker = metafunc.definition.get_closest_marker("runner")
        long = marker.kwargs.get("long_run") if marker is not None else None
        given = [pytest.param(name, marks=pytest.mark.long_run if name == long else ()) for name in names]
        metafunc.parametrize("runner", given, indirect=True)


@pytest.fixture
def runner(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of the runner that the test's projects run on."""
    name = getattr(request, "param", None) or runners(request.node)[0]
    if name == SPARK:
        yield name
        return
    from tests.inprocess.session import without_a_jvm

    with without_a_jvm():
        yield name


@pytest.fixture
def new_workbench(tmp_path: Path, runner: str, request: pytest.FixtureRequest) -> Callable[[], Workbench]:
    """For tests that need several projects, one per random case."""
    spark = request.getfixturevalue("spark") if runner == SPARK else None
    count = iter(range(1_000_000))
    return lambda: Workbench(tmp_path / f"project{next(count)}", spark)


@pytest.fixture
def workbench(tmp_path: Path, runner: str, request: pytest.FixtureRequest) -> Workbench:
    return Workbench(tmp_path / "project", request.getfixturevalue("spark") if runner == SPARK else None)


@pytest.fixture
def stored_table(runner: str) -> type[Any]:
    """The class of stored tables whose `append` a test makes break."""
    if runner == SPARK:
        from tidegate.iceberg.commit import IcebergTable

        return IcebergTable
    from tests.inprocess.stored.tables import InProcessTable

    return InProcessTable


def needs_spark(item: pytest.Item) -> bool:
    names = getattr(item, "fixturenames", ())
    if "runner" in names:
        callspec = getattr(item, "callspec", None)
        name = callspec.params.get("runner") if callspec is not None else None
        if (name or runners(item)[0]) == SPARK:
            return True
    return "spark" in names


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        from tests.support.sharing import Sharing

        config.pluginmanager.register(Sharing())


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was imported and collected stays to the end: Python's collector need not look through it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def _has_its_catalog(item: pytest.Item) -> bool:
    """Whether the catalog that was chosen, if any, is one that the test is for: `catalogs` alone is for all of them."""
    marker = item.get_closest_marker("catalogs")
    return marker is None or (
        bool(catalogs.chosen()) and catalogs.kind() in (marker.args or (catalogs.kind(),))
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whatever asks for Spark is marked so, and runs after what does not; whole projects in this process are medium. In
    `make test`, where several processes share the modules (`tests.support.sharing`), the longest suites begin, so that
    no process is left with one of them alone."""
    if others := [item for item in items if not _has_its_catalog(item)]:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]
    for item in items:
        if needs_spark(item):
            item.add_marker(pytest.mark.spark)
        elif "runner" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.medium)
        if "kafka" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.jvm)

    def marked(item: pytest.Item, name: str) -> bool:
        return item.get_closest_marker(name) is not None

    if "PYTEST_XDIST_WORKER" in os.environ:
        from tests.support.sharing import say

        say(config, [item.nodeid for item in items if needs_spark(item)])
        slow = {item.module.__name__ for item in items if marked(item, "slow")}  # type: ignore[attr-defined]
        items.sort(key=lambda item: (item.module.__name__ not in slow, not marked(item, "spark")))  # type: ignore[attr-defined]
    else:
        items.sort(key=lambda item: marked(item, "spark"))
