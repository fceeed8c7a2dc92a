"""A session without Spark, with the same surface: what the commands do with one is tested here in
milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any

from tidegate.errors import Location, TidegateError
from tidegate.plan import events
from tidegate.plan.events import Event
from tidegate.project import Project
from tidegate.runtime.result import Result, RunReport
from tidegate.tables.table import Cleaned

RUN: list[Event] = [
    events.RunStarted(("orders",)),
    events.SourceStarted("orders", 14, 2),
    events.BatchCommitted("orders", 1, 12, 1, 1, 14, "2026-03-01 11:10:00", 0.5),
    events.SliceCommitted("orders_hourly", "2026-03-01 11:10:00", 4, 0, 0.2),
    events.SourceFinished("orders", 12, 1, 1, "2026-03-01 11:10:00", 1),
    events.RunFinished(1.0),
]


class FakeSession:
    """Answers `SELECT n` with n rows, `BOOM` with an unexpected exception, `STOP` with Ctrl-C, `BAD` with an
    error.

    Class attributes: `opened` projects, `statements` executed, `events` that a run emits (an exception among
    them is raised at its place), `calls` of run, `upstream` and `fail_fast` of each, and the `report` of it.
    """

    opened: list[Project]
    statements: list[str]
    events: list[Event | BaseException]
    calls: list[tuple[list[str] | None, int | None]]
    upstream: list[bool]
    fail_fast: list[bool]
    report: RunReport

    def __init__(self, project: Project) -> None:
        self.project = project
        self.catalog = project.catalog()
        self.opened.append(project)

    def __enter__(self) -> FakeSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self, stop_spark: bool = False) -> None:
        """Nothing is open."""

    def execute(self, sql: str) -> Result:
        """The last statement's result."""
        return list(self.execute_all(sql))[-1]

    def execute_all(self, sql: str, file: str = "<sql>") -> Iterator[Result]:
        """One result per statement."""
        for statement in filter(None, (s.strip() for s in sql.split(";"))):
            self.statements.append(statement)
            word, _, rest = statement.partition(" ")
            if word == "BAD":
                raise TidegateError("TG103", "unknown statement", location=Location(file, 1, 1, 3, sql))
            if word == "BOOM":
                raise RuntimeError("An error occurred while calling o1.x.\n: java.lang.Oops: the JVM says")
            if word == "STOP":
                raise KeyboardInterrupt
            if word == "SELECT":
                yield Result(columns=[("n", "int")], fixed=[(i,) for i in range(int(rest))])
            else:
                yield Result(message=f"did {statement}")

    def run(
        self,
        names: Iterable[str] | None = None,
        max_rows_per_batch: int | None = None,
        on_event: Callable[[Event], None] | None = None,
        upstream: bool = True,
        fail_fast: bool = True,
    ) -> RunReport:
        """Plays `events`."""
        self.calls.append((None if names is None else list(names), max_rows_per_batch))
        self.upstream.append(upstream)
        self.fail_fast.append(fail_fast)
        for event in self.events:
            if isinstance(event, BaseException):
                raise event
            if on_event is not None:
                on_event(event)
        return self.report

    def cleanup(self, names: Iterable[str] | None = None, steps: object = None) -> list[Cleaned]:
        """Plays a table that had rows to lose."""
        self.calls.append((None if names is None else list(names), None))
        return [Cleaned("prices", 7, 12, 3)]

    def table(self, name: str) -> Any:
        """No Spark, no DataFrames."""
        raise AssertionError(f"table({name!r}) needs Spark")
