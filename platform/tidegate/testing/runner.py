"""Running test files: each on a fresh temporary project, all in one Spark session, one after the other."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.errors import TidegateError
from tidegate.masking import masked
from tidegate.project import Project
from tidegate.testing import records as r
from tidegate.testing.comparing import ResultRows, differences, expected_lines, hashed
from tidegate.testing.files import rewrite
from tidegate.testing.outcome import FileReport, RecordOutcome, Status
from tidegate.testing.place import copy_of
from tidegate.testing.rendering import render
from tidegate.testing.substitution import substitute

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.runtime.result import Result
    from tidegate.session.session import Session

#: For thousands of tiny jobs: compiling code, and planning again after each stage, costs more than it saves where a job
#: has a handful of rows. Java reserves 48 MB for the code of its first compiler alone; once these are full, it throws
#: code away and compiles it again. Where the young generation and the space of classes begin small and grow, a tenth of
#: the time goes into collections.
QUICK = {
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -Xshare:auto"
        " -XX:NewSize=300m -XX:MetaspaceSize=300m"
    ),
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
#: What `onlyif` and `skipif` know.
LABELS = frozenset({"tidegate"})
_EXACT = ("tinyint", "smallint", "int", "bigint", "decimal")
_FLOAT = ("float", "double")


@dataclass
class Options:
    """How files are run. `update`: new expectations are written instead of reported; `stop_after`: so many failures
    end everything; `sleep` is what pauses call; `session` opens a project, if that Spark is not to."""

    update: bool = False
    stop_after: int | None = None
    sleep: Callable[[float], None] = time.sleep
    on_record: Callable[[Path, int, int], None] = lambda path, done, total: None
    session: Callable[[Project], Session] | None = None


def run_files(
    spark: SparkSession | None,
    files: Sequence[tuple[Path, list[r.Record]]],
    options: Options,
    on_file: Callable[[FileReport], None] = lambda report: None,
) -> list[FileReport]:
    """Run files with their records; a report for each that was started, given to `on_file` as it ends."""
    reports: list[FileReport] = []
    left = options.stop_after
    for path, records in files:
        report = _FileRun(spark, path, options, left).run(records)
        reports.append(report)
        on_file(report)
        if left is not None:
            left -= len(report.failures)
            if left <= 0:
                break
    return reports


class _Failed(Exception):
    """A record did not do what it says; `diff` where rows differ, `lines` what would be right."""

    def __init__(self, message: str, diff: str = "", lines: list[str] | None = None) -> None:
        super().__init__(message)
        self.message, self.diff, self.lines = message, diff, lines


@dataclass(frozen=True)
class _StatementResult:
    """Of the last statement of a record: its rows, if it has any, and how many there are or were changed."""

    rows: ResultRows | None
    count: int | None


@dataclass
class _Modes:
    sort: r.SortMode = "nosort"
    valuewise: bool = False
    substitution: bool = False
    threshold: int = 0
    variables: dict[str, str] = field(default_factory=dict)


class _FileRun:
    def __init__(self, spark: SparkSession | None, path: Path, options: Options, left: int | None) -> None:
        self._spark, self._path, self._options, self._left = spark, path, options, left
        self._modes = _Modes()
        self._session: Session | None = None
        self._project: Project | None = None
        self._folder: Path | None = None
        self._changes: list[tuple[r.QueryRecord, list[str]]] = []

    def run(self, records: list[r.Record]) -> FileReport:
        report = FileReport(self._path)
        started = time.monotonic()
        try:
            for number, record in enumerate(records):
                if isinstance(record, r.Halt):
                    break
                outcome = self._outcome(record)
                if outcome is not None:
                    report.outcomes.append(outcome)
                self._options.on_record(self._path, number + 1, len(records))
                if self._left is not None and len(report.failures) >= self._left:
                    break
        finally:
            self._close()
        if self._changes:
            rewrite(self._path, self._changes)
        report.seconds = time.monotonic() - started
        return report

    def _close(self) -> None:
        if self._session is not None:
            self._session.close()
        elif self._project is not None:
            self._project.remove()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    # -- one record ---------------------------------------------------------------------------------------------

    def _outcome(self, record: r.Record) -> RecordOutcome | None:
        """None for what only changes how the next records are run."""
        started = time.monotonic()
        sql = record.sql if isinstance(record, r.Sql) else ""

        def done(status: Status, message: str = "", diff: str = "") -> RecordOutcome:
            return RecordOutcome(record, status, time.monotonic() - started, sql, message, diff)

        match record:
            case r.Control():
                self._control(record)
                return None
            case r.HashThreshold():
                self._modes.threshold = record.values
                return None
            case r.Note():
                return None
            case r.Sql() if not all(c.holds(LABELS) for c in record.conditions):
                return done("skipped", "onlyif or skipif")
        try:
            self._attempts(record)
        except _Failed as failed:
            if self._options.update and failed.lines is not None and isinstance(record, r.QueryRecord):
                if record.file == str(self._path):
                    self._changes.append((record, failed.lines))
                    return done("updated", failed.message, failed.diff)
                failed.message += f"; run --update on {record.file} itself"
            return done("failed", failed.message, failed.diff)
        except TidegateError as error:
            return done("failed", str(error))
        except Exception as error:
            return done("failed", _unexpected(error))
        return done("passed") if isinstance(record, r.Sql) else None

    def _attempts(self, record: r.Record) -> None:
        retry = record.retry if isinstance(record, r.Sql) else None
        for _ in range(retry.times if retry else 0):
            try:
                return self._do(record)
            except Exception:
                assert retry is not None
                self._options.sleep(retry.seconds)
                self._catch_up()
        return self._do(record)

    def _do(self, record: r.Record) -> None:
        match record:
            case r.Statement():
                self._statement(record)
            case r.QueryRecord():
                self._query(record)
            case r.Let():
                self._let(record)
            case r.Sleep():
                self._options.sleep(record.seconds)
                self._catch_up()
            case r.UseProject():
                if self._session is not None:
                    raise _Failed("project must come before the first record with SQL")
                self._project = copy_of(Path(record.file).parent / record.folder)
            case r.Run():
                self._opened().run(record.names or None)
            case _:
                raise AssertionError(f"no execution for {type(record).__name__}")

    def _statement(self, record: r.Statement) -> None:
        answer = self._expecting(record, record.error)
        if answer is not None and record.count not in (None, answer.count):
            raise _Failed(f"{answer.count} rows instead of {record.count}")

    def _query(self, record: r.QueryRecord) -> None:
        answer = self._expecting(record, record.error)
        if answer is None:
            return
        rows = answer.rows
        if rows is None:
            raise _Failed("this is not a query; write statement ok")
        sort = record.sort or self._modes.sort
        diff = differences(rows, record.expected, sort, self._modes.valuewise)
        if diff is None:
            return
        lines = expected_lines(rows, sort)
        values = sum(map(len, rows.values))
        if 0 < self._modes.threshold < values:
            lines = [hashed(rows, sort)]
            if record.expected and differences(rows, record.expected, sort) is None:
                return
        elif self._modes.valuewise and sort != "valuesort":
            lines = [value for row in rows.values for value in row]
        raise _Failed("the rows are not as expected", diff, lines)

    def _let(self, record: r.Let) -> None:
        rows = self._execute(record).rows or ResultRows((), ())
        if len(rows.values) != 1 or len(rows.kinds) != len(record.names):
            size = f"{len(rows.values)} rows of {len(rows.kinds)} columns"
            raise _Failed(f"{size}; let needs one row, with one column for each of {', '.join(record.names)}")
        self._modes.variables.update(zip(record.names, rows.values[0], strict=True))

    def _control(self, record: r.Control) -> None:
        if record.what == "substitution":
            self._modes.substitution = record.value == "on"
        elif record.what == "resultmode":
            self._modes.valuewise = record.value == "valuewise"
        else:
            self._modes.sort = record.value  # type: ignore[assignment]  # the parser knows the modes

    # -- SQL ----------------------------------------------------------------------------------------------------

    def _expecting(self, record: r.Sql, wanted: r.ExpectedError | None) -> _StatementResult | None:
        """The answer; None if the statement failed and was to."""
        if wanted is None:
            return self._execute(record)
        try:
            self._execute(record)
        except TidegateError as error:
            texts = _forms(error)
        except Exception as error:
            texts = (_unexpected(error),)
        else:
            raise _Failed("this succeeded, but should have failed")
        if wanted.pattern is not None and not any(map(wanted.pattern.search, texts)):
            raise _Failed(f"failed, but not with /{wanted.pattern.pattern}/:\n{texts[0]}")
        if wanted.text is not None and wanted.text not in [text.strip() for text in texts]:
            raise _Failed(f"failed, but with another text:\n{texts[0]}")
        return None

    def _execute(self, record: r.Sql) -> _StatementResult:
        """Run all statements; the last one's answer."""
        session = self._opened()
        sql = record.sql
        if self._modes.substitution:
            sql = substitute(sql, self._lookup)
        answer = None
        for result in session.execute_all(sql, record.file, record.sql_line):
            rows = _rendered(result) if result.has_rows else None
            answer = _StatementResult(rows, result.count if rows is None else len(rows.values))
        if answer is None:
            raise _Failed("there is no statement")
        return answer

    def _lookup(self, name: str) -> str | None:
        if name == "__TEST_DIR__":
            # In the project, so that SQL may reach it.
            root = self._opened().project.root
            self._folder = self._folder or Path(tempfile.mkdtemp(prefix="test-", dir=root))
            return str(self._folder)
        if name == "__NOW__":
            return str(time.time_ns())
        if name == "__DATABASE__":
            return self._opened().project.name
        return self._modes.variables.get(name, os.environ.get(name))

    def _opened(self) -> Session:
        from tidegate.session.session import Session

        if self._session is None:
            self._project = self._project or Project.temporary()
            opened = self._options.session
            self._session = (
                opened(self._project)
                if opened is not None
                else Session.open(project=self._project, spark=self._spark)
            )
            # It is a copy of the project, and nobody is there to be asked.
            self._session.confirm = lambda text: True
        return self._session

    def _catch_up(self) -> None:
        """What a server does by itself while a test waits."""
        session = self._opened()
        if session.catalog.names():
            session.run()


def _rendered(result: Result) -> ResultRows:
    names = [kind.partition("(")[0] for _, kind in result.columns]
    classes = tuple("exact" if n in _EXACT else "float" if n in _FLOAT else "text" for n in names)
    frame = result.dataframe
    kinds = names if frame is None else [f["type"] for f in frame.schema.jsonValue()["fields"]]
    values = tuple(tuple(render(v, k) for v, k in zip(row, kinds, strict=True)) for row in result.rows())
    return ResultRows(values, classes)


def _forms(error: TidegateError) -> tuple[str, ...]:
    """The texts that an expected error may be: all of it, or its message with or without code and hint."""
    head = f"error {error.code}: {error.message}"
    hint = f"\nhint: {error.hint}" if error.hint else ""
    return str(error), head + hint, head, error.message, error.message + hint


def _unexpected(error: Exception) -> str:
    from tidegate.jvm.failures import is_from_spark, spark_message

    text: Any = spark_message(error) if is_from_spark(error) else str(error)
    return masked(f"{type(error).__name__}: {text}")
