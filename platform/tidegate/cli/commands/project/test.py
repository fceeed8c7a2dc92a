"""`tidegate test`: sqllogictest files, each on a fresh temporary project."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.invocation import Invocation, guarded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@guarded
def run_tests(
    call: Invocation,
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH…", help="Test files, or folders with *.slt files in them.")
    ],
    pattern: Annotated[
        str | None,
        typer.Option("-k", help="Run only files with this text in their path.", show_default=False),
    ] = None,
    fail_fast: Annotated[bool, typer.Option("-x", "--fail-fast", help="Stop at the first failure.")] = False,
    bail: Annotated[
        int | None, typer.Option(min=1, help="Stop after this number of failures.", show_default=False)
    ] = None,
    update: Annotated[
        bool,
        typer.Option(
            "--update", help="Write the actual rows of queries into the test files. Review the diff."
        ),
    ] = False,
    junit: Annotated[
        Path | None, typer.Option(help="Write a JUnit report to this file.", show_default=False)
    ] = None,
) -> int:
    """Run sqllogictest files: statements, and the rows that they must give. Exit code 1: a result differs.

    Example: tidegate test tests -k orders --junit report.xml
    """
    from tidegate.cli.progress import FileProgress, is_terminal
    from tidegate.testing.files import find, load

    names = [p for p in find(paths) if pattern is None or pattern.casefold() in str(p).casefold()]
    files = [(path, load(path)) for path in names]
    progress = FileProgress(call.console, color=not call.json and is_terminal())
    if not files:
        call.console.note(f'no file has "{pattern}" in its path')
        return 1
    from tidegate.testing.runner import Options, run_files

    call.console.note("starting Spark …")
    spark = _spark(call)
    stop_after = 1 if fail_fast else bail
    options = Options(update=update, stop_after=stop_after, on_record=progress.record)
    reports = run_files(spark, files, options, progress.file)
    progress.summary(reports, not_run=len(files) - len(reports))
    if junit is not None:
        from tidegate.testing.junit import write

        write(reports, junit)
    return 1 if any(report.failures for report in reports) else 0


def _spark(call: Invocation) -> SparkSession:
    """This process's Spark, tuned for tiny jobs; what the JVM itself says goes to a file of its own."""
    from tidegate.jvm.spark import start
    from tidegate.project import Environment
    from tidegate.project.disk import temporary_space
    from tidegate.testing.runner import QUICK

    call.require_java()
    log = Path(tempfile.mkdtemp(prefix="tidegate-test-", dir=temporary_space())) / "spark.log"
    spark = start(Environment.model_validate({"spark": {"conf": QUICK}}), [], "tidegate test", log)
    call.take_interrupts()
    return spark
