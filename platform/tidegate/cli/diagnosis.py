"""What `tidegate doctor` looks at: each check one function, none of them starts a JVM."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import sys
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tidegate.errors import TidegateError
from tidegate.masking import masked
from tidegate.sql.options.sink_connectors import IcebergSinkOptions

if TYPE_CHECKING:
    from tidegate.project import Project

PYSPARK = "4.1.3"
_GIB = 2**30


@dataclass(frozen=True)
class CheckResult:
    """Result of one check: `ok`, `warning` (works, but) or `bad` (won't work); `todo` says what to do."""

    check: str
    state: Literal["ok", "warning", "bad"]
    found: str
    todo: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def examine(project: Project | None, problem: TidegateError | None) -> list[CheckResult]:
    """All checks, in the order in which a newcomer needs them. `problem`: why there is no project."""
    findings = [
        python(),
        java(),
        package("pyspark", PYSPARK),
        iceberg_jar(project),
        *jar_sums(project),
        dagster(),
        disk(project),
    ]
    findings.append(_project(project, problem))
    if project is not None:
        findings += [warehouse(project), *_tables(project), *_packages_of(project)]
    return findings


def python() -> CheckResult:
    """3.11 or 3.12."""
    version = ".".join(map(str, sys.version_info[:3]))
    if (3, 11) <= sys.version_info < (3, 13):
        return CheckResult("python", "ok", f"{version} at {sys.executable}")
    return CheckResult("python", "bad", version, "use Python 3.11 or 3.12: python3.11 -m venv .venv")


def java() -> CheckResult:
    """The Java that Spark would start."""
    from tidegate.project.java import require_java

    try:
        found = require_java()
    except TidegateError as error:
        return CheckResult("java", "bad", error.message, error.hint)
    state: Literal["ok", "warning"] = "warning" if found.warning else "ok"
    return CheckResult("java", state, f"{found.version} at {found.path}", found.warning)


def package(name: str, wanted: str) -> CheckResult:
    """An installed distribution of exactly this version; it is not imported."""
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return CheckResult(name, "bad", "not installed", f"pip install {name}=={wanted}")
    if version != wanted:
        return CheckResult(
            name, "bad", version, f"tidegate works with {wanted}: pip install {name}=={wanted}"
        )
    return CheckResult(name, "ok", version)


def iceberg_jar(project: Project | None) -> CheckResult:
    """Whether the Iceberg runtime is on this machine already."""
    from tidegate.jvm.packages import ICEBERG_PACKAGE

    _, artifact, version = ICEBERG_PACKAGE.split(":")
    jar = _jar(ICEBERG_PACKAGE, project)
    if jar is not None:
        return CheckResult("iceberg jar", "ok", f"{version} at {jar}")
    todo = "the first tidegate run downloads it from Maven Central (about 50 MB)"
    return CheckResult("iceberg jar", "warning", f"{artifact} {version} is not in the cache", todo)


def jar_sums(project: Project | None) -> list[CheckResult]:
    """Whether the jars that are here are those that tidegate was made with; a stand-in of tests is named."""
    from tidegate.jvm.jars import ivy_name, verify
    from tidegate.jvm.packages import ICEBERG_PACKAGE, KAFKA_PACKAGES
    from tidegate.project.storage import OPTIONAL_PACKAGES

    packages = (ICEBERG_PACKAGE, *KAFKA_PACKAGES, *OPTIONAL_PACKAGES)
    found = {ivy_name(p): jar for p in packages if (jar := _jar(p, project)) is not None}
    try:
        notes = verify(found)
    except TidegateError as error:
        return [CheckResult("jar sums", "bad", error.message, error.hint)]
    todo = (
        "fetch the real jar (docs/install.md) before you use Kafka with TLS or a login, or run in production"
    )
    return [CheckResult("jar sums", "warning", note, todo) for note in notes] or [
        CheckResult("jar sums", "ok", f"{len(found)} jars are the ones that tidegate was built with")
    ]


def dagster() -> CheckResult:
    """Whether the UI could start; found, not imported (that takes seconds)."""
    absent = [m for m in ("dagster", "dagster_webserver") if importlib.util.find_spec(m) is None]
    if absent:
        todo = f"pip install {' '.join(a.replace('_', '-') for a in absent)}"
        return CheckResult("dagster", "bad", f"no {', '.join(absent)}", todo)
    return CheckResult("dagster", "ok", importlib.metadata.version("dagster"))


def disk(project: Project | None) -> CheckResult:
    """Room where Spark spills and tables are written."""
    folder = project.root if project else Path.cwd()
    free = shutil.disk_usage(folder).free
    text = f"{free / _GIB:.1f} GiB free at {folder}"
    if free < _GIB:
        return CheckResult("disk", "bad", text, "free some disk space: Spark needs at least 1 GiB")
    if free < 5 * _GIB:
        return CheckResult("disk", "warning", text, "little space for Spark's shuffle files")
    return CheckResult("disk", "ok", text)


def warehouse(project: Project) -> CheckResult:
    """Whether a file can be written where the tables go, and removed again."""
    name = f".tidegate-doctor-{uuid.uuid4().hex}"
    where = project.storage.warehouse
    try:
        local = project.storage.local_warehouse
        if local is not None:
            _write_local(local, name)
        else:
            filesystem, path = project.storage.filesystem()
            with filesystem.open_output_stream(f"{path}/{name}") as stream:
                stream.write(b"")
            filesystem.delete_file(f"{path}/{name}")
    except OSError as error:
        from tidegate.project.disk import trouble

        if (known := trouble(error)) is not None:
            return CheckResult("warehouse", "bad", f"{where}: {known.message}", known.hint)
        first = masked(next(iter(str(error).splitlines()), ""))
        return CheckResult("warehouse", "bad", f"{where}: {first}", "check warehouse.path")
    return CheckResult("warehouse", "ok", f"{where} is writable")


def _write_local(folder: Path, name: str) -> None:
    """Try the folder, or the nearest one above it that exists: looking must not create it."""
    while not folder.exists():
        folder = folder.parent
    (folder / name).touch()
    (folder / name).unlink()


def _packages_of(project: Project) -> list[CheckResult]:
    findings = []
    for coordinates in project.storage.packages():
        artifact, version = coordinates.split(":")[1:]
        if _jar(coordinates, project) is not None:
            findings.append(CheckResult(artifact, "ok", version))
        else:
            todo = "the first tidegate run downloads it from Maven Central"
            findings.append(CheckResult(artifact, "warning", f"{version} is not in the cache", todo))
    return findings


def _project(project: Project | None, problem: TidegateError | None) -> CheckResult:
    if project is None:
        assert problem is not None
        return CheckResult("project", "warning", problem.message, problem.hint)
    checks: tuple[Callable[[], Any], ...] = (project.catalog, project.jobs)
    try:
        for check in checks:
            check()
    except TidegateError as error:
        todo = error.hint if error.location is None else "tidegate check shows where"
        return CheckResult("project", "bad", error.message, todo)
    return CheckResult("project", "ok", f"{project.root}, environment {project.env_name}")


def _tables(project: Project) -> list[CheckResult]:
    """Which storage versions the project's tables have (E8); nothing without any, or without definitions that hold."""
    from tidegate.store.metadata import load_properties
    from tidegate.store.positions import sink_table
    from tidegate.store.version import NEWEST, STORAGE_VERSION, storage_version

    try:
        catalog = project.catalog()
    except TidegateError:
        return []
    counts: Counter[int] = Counter()
    later = []
    try:
        names: list[tuple[str | None, str]] = [(None, r.name) for r in catalog.relations]
        names += [(None, v.name) for v in catalog.views]
        names += [(None, f"{r.name}$state") for r in catalog.relations if r.primary_key]
        iceberg = (s for s in catalog.sinks if isinstance(s.connector, IcebergSinkOptions))
        names += [sink_table(project.storage, sink) for sink in iceberg]
        for namespace, name in names:
            found = load_properties(project.storage, name, namespace)
            version = None if found is None else storage_version(found)
            if version is not None and version <= NEWEST:
                counts[version] += 1
            elif found is not None:
                later.append(f"{name} ({found[STORAGE_VERSION]})")
    except TidegateError as error:
        return [CheckResult("tables", "bad", error.message, error.hint)]
    if later:
        text = f"storage version later than {NEWEST}: {', '.join(later)}"
        return [CheckResult("tables", "bad", text, "install the release of tidegate that wrote them")]
    if not counts:
        return []
    text = ", ".join(f"{n} with storage version {version}" for version, n in sorted(counts.items()))
    return [CheckResult("tables", "ok", text)]


def _jar(coordinates: str, project: Project | None) -> Path | None:
    from tidegate.jvm.packages import cached_jar

    return cached_jar(coordinates, project.env.spark.conf.get("spark.jars.ivy") if project else None)
