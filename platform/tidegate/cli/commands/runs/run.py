"""`tidegate run`: read what waits, close what can be closed, exit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.asked import carried_out
from tidegate.cli.failures import FailFastOption, Speaker, conclude
from tidegate.cli.invocation import Invocation, guarded
from tidegate.cli.selection import ExcludeOption, NamesAndInputsArgument, SelectOption, chosen
from tidegate.plan.events import BatchCommitted, Event, SliceCommitted, SourceFinished

if TYPE_CHECKING:
    from tidegate.project import Project
    from tidegate.runtime.result import RunReport, SinkReport, SourceReport, ViewReport
    from tidegate.session.session import Session
    from tidegate.sql.catalog.catalog import Catalog


@guarded
def run(
    call: Invocation,
    names: NamesAndInputsArgument = None,
    max_rows_per_batch: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of rows in a batch, for sources whose batches are measured in rows (replay). "
            "Results do not depend on it.",
            show_default=False,
        ),
    ] = None,
    select: SelectOption = None,
    exclude: ExcludeOption = None,
    fail_fast: FailFastOption = False,
) -> int:
    """Bring sources and views up to date, then exit. If a run is stopped at any point, the next one continues there.

    A failure of one source, view or sink does not stop the others: objects that read it continue with its stored rows,
    unless those are of another definition. The exit code is then 1, with a summary; with --fail-fast, everything
    stops at the first failure, with exit code 2.

    A name as argument includes everything that it reads. --select runs exactly the selection: `--select v` uses the
    rows that the log has already, `--select +v` reads its sources first, `--select v+` continues with its readers.

    While live mode or tidegate warm runs for the project, its process does the work, and no Spark is started.

    Example: tidegate run departures_hourly --max-rows-per-batch 7000

    Example: tidegate run --select tag:finance+ --exclude departures_daily
    """
    memory = CommittedSoFar()
    call.on_interrupt = memory.text

    def on_event(event: Event) -> None:
        memory.add(event)
        call.console.event(event)

    asked = RunRequest(names, max_rows_per_batch, select, exclude, fail_fast)
    # (Both are refused below.)
    if not (names and (select or exclude)):
        code = carried_out(call, {"ask": "run", **asdict(asked)}, on_event)
        if code is not None:
            return code
    project = call.project()
    catalog = project.catalog()

    def work(given: Run) -> RunReport:
        call.console.note("starting Spark …")
        with call.session(project) as session:
            return given(session)

    return bring_up_to_date(call, project, catalog, asked, on_event, work)


@dataclass(frozen=True)
class RunRequest:
    """What a run was asked to do."""

    names: list[str] | None = None
    max_rows_per_batch: int | None = None
    select: list[str] | None = None
    exclude: list[str] | None = None
    fail_fast: bool = False


#: What is done with an open session.
Run = Callable[["Session"], "RunReport"]


def bring_up_to_date(
    call: Speaker,
    project: Project,
    catalog: Catalog,
    asked: RunRequest,
    on_event: Callable[[Event], None],
    work: Callable[[Run], RunReport],
) -> int:
    """The command, in this process or in one that has been asked; its exit code. `work`: opens a session, and gives it
    to the run."""
    for name in asked.names or ():
        if name not in catalog.sinks:
            catalog.get(name)
    if not catalog.names():
        call.console.note("nothing to run: assets/ has no definitions yet")
        return 0
    wanted = chosen(catalog, asked.names, asked.select, asked.exclude)
    upstream = not asked.select and not asked.exclude
    late: dict[str, int] = {}

    def notify(event: Event) -> None:
        if isinstance(event, SourceFinished):
            late[event.source] = event.late
        on_event(event)

    report = _up_to_date(project, catalog, wanted, notify, upstream)
    if report is None:
        most = asked.max_rows_per_batch
        report = work(lambda session: session.run(wanted, most, notify, upstream, asked.fail_fast))
    if call.json:
        call.console.document({"event": "report", **report.to_dict()}, "")
    if sources := [source for source, count in late.items() if count]:
        call.console.note(f"late rows are kept: tidegate late {sources[0]} shows them")
    over = {*(one.name for one in report.failed), *(one.name for one in report.skipped)}
    reports: list[SourceReport | ViewReport | SinkReport] = [*report.sources, *report.views, *report.sinks]
    done = sum(one.name not in over for one in reports)
    return conclude(call, report.failed, report.skipped, done)


def _up_to_date(
    project: Project,
    catalog: Catalog,
    names: list[str] | None,
    on_event: Callable[[Event], None],
    upstream: bool,
) -> RunReport | None:
    """The report of a run that has nothing to do: nobody should wait for Spark to learn that."""
    from tidegate.session.up_to_date import up_to_date

    return up_to_date(project, catalog, names, on_event, upstream)


class CommittedSoFar:
    """What a command has committed so far: what an interrupt does not undo."""

    def __init__(self, command: str = "tidegate run") -> None:
        self._command = command
        self._batches: dict[str, BatchCommitted] = {}
        self._slices: dict[str, SliceCommitted] = {}

    def add(self, event: Event) -> None:
        """Remember an event that says a commit happened."""
        if isinstance(event, BatchCommitted):
            self._batches[event.source] = event
        elif isinstance(event, SliceCommitted):
            self._slices[event.view] = event

    def text(self) -> str:
        """For a person who pressed Ctrl-C."""
        if not self._batches and not self._slices:
            return "interrupted; nothing was committed"
        lines = [f"interrupted; what was committed is kept, and {self._command} continues from there:"]
        for b in self._batches.values():
            lines.append(f"  {b.source}: {b.total_rows:,} rows, batch {b.epoch}, watermark {b.watermark}")
        for s in self._slices.values():
            lines.append(f"  {s.view}: {s.groups:,} final rows, up to {s.frontier}")
        return "\n".join(lines)
