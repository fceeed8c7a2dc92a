"""`tidegate doctor`: is everything there that tidegate needs, and what to do if not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.invocation import Invocation, guarded, in_one_line
from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from tidegate.cli.diagnosis import CheckResult
    from tidegate.project import Project

#: What the Python workers use to judge and write rows.
_COMPARED = ("numpy", "pyarrow")
_MARKS = {"ok": "ok     ", "warning": "warning", "bad": "BAD    "}


@guarded
def doctor(
    call: Invocation,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also start Spark and compare versions on its executors.")
    ] = False,
) -> int:
    """Check Python, Java, pyspark, the Iceberg jar, Dagster, disk and warehouse, and say what to do. Exit code 1: a
    check failed.

    Example: tidegate doctor --deep
    """
    from tidegate.cli.diagnosis import examine

    project: Project | None = None
    problem: TidegateError | None = None
    try:
        project = call.project()
    except TidegateError as error:
        problem = error
    findings = examine(project, problem)
    if deep:
        findings.append(executors(call, project))
    lines = []
    for f in findings:
        lines.append(f"{_MARKS[f.state]}  {f.check:<12}{f.found}" + (f" – {f.todo}" if f.todo else ""))
    data = {"ok": all(f.state != "bad" for f in findings), "checks": [f.to_dict() for f in findings]}
    call.console.document(data, "\n".join(lines))
    return 0 if data["ok"] else 1


def executors(call: Invocation, project: Project | None) -> CheckResult:
    """Run a tiny Spark job that reports the versions its Python workers have, and compare with ours."""
    from importlib.metadata import version

    from tidegate.cli.diagnosis import CheckResult
    from tidegate.project import Project as ProjectClass

    here = {n: version(n) for n in _COMPARED}
    try:
        with call.session(project or ProjectClass.temporary()) as session:
            context = session.spark.sparkContext
            slots = max(2, context.defaultParallelism)
            # Bounded: one short text for each kind of executor.
            found = context.parallelize(range(slots), slots).map(_versions).distinct().collect()
    except TidegateError as error:
        return CheckResult("executors", "bad", error.message, error.hint)
    except Exception as error:
        return CheckResult(
            "executors", "bad", f"Spark does not work: {in_one_line(error)}", "read the error above"
        )
    differ = {f"{n} {v} (here {here[n]})" for worker in found for n, v in worker if here.get(n, v) != v}
    if differ:
        todo = "install the same versions of numpy and pyarrow on the executors"
        return CheckResult("executors", "bad", ", ".join(sorted(differ)), todo)
    same = ", ".join(f"{n} {v}" for n, v in here.items())
    return CheckResult("executors", "ok", f"{slots} tasks ran, all with {same}")


def _versions(_: int) -> tuple[tuple[str, str], ...]:
    """On an executor."""
    from importlib.metadata import PackageNotFoundError, version

    found = []
    for name in _COMPARED:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            found.append((name, "missing"))
    return tuple(found)
