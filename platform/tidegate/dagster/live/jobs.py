"""Live runs as Dagster jobs: one op starts `tidegate live`, records what it commits, and stops it in order.

A process of its own rather than a stream inside the run: Dagster interrupts a run by an exception at any statement,
and what writes tables must not meet one; a process is asked by a signal, and answers when its commit is done.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from dagster import (
    AssetKey,
    DagsterExecutionInterruptedError,
    DagsterInstance,
    DagsterRunStatus,
    Failure,
    JobDefinition,
    OpExecutionContext,
    RetryRequested,
    RunRecord,
    RunsFilter,
    in_process_executor,
    job,
    op,
)
from dagster._core.storage.tags import MAX_RETRIES_TAG
from dagster._utils.interrupts import capture_interrupts, pop_captured_interrupt

from tidegate.dagster.live.events import LiveJournal
from tidegate.dagster.live.process import STOP_SECONDS, LiveProcess
from tidegate.dagster.markdown import as_text
from tidegate.dagster.naming import identifier
from tidegate.dagster.resource import TidegateResource
from tidegate.errors import TidegateError
from tidegate.project.jobs.live import LiveRun, live_families, live_members
from tidegate.runtime.codes import is_curable
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.lineage import computed
from tidegate.sql.catalog.objects import Relation, Sink, View

#: The command, unless a test puts another one in its place.
TIDEGATE = (sys.executable, "-P", "-m", "tidegate.cli.main")

#: On every live run: the name in jobs/.
LIVE_TAG = "tidegate/live"

#: Seconds between two looks at the process and the journal.
_LOOK = 1.0

#: Pause before a run's next try, and twice as long before each further one.
RETRY_SECONDS = 10

#: Statuses of a run that has not ended.
ACTIVE = (
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
)

_logger = logging.getLogger(__name__)


def live_job_name(prefix: str, run: LiveRun) -> str:
    """Name of the job, of its op's pool, and of nothing else."""
    return identifier(f"{prefix}_live_{run.name}")


def build_live_jobs(
    runs: Sequence[LiveRun],
    catalog: Catalog,
    keys: Mapping[str, AssetKey],
    prefix: str,
    resource_key: str,
    program: Sequence[str] = TIDEGATE,
) -> list[JobDefinition]:
    """One for each live run that Dagster starts."""
    return [
        _live_job(run, catalog, keys, prefix, resource_key, program)
        for run in runs
        if run.started_by == "dagster"
    ]


def live_jobs_of_families(runs: Sequence[LiveRun], catalog: Catalog, prefix: str) -> dict[str, str]:
    """The live job that writes a family's tables, by the name of its first member."""
    return {
        family[0]: live_job_name(prefix, run)
        for run in runs
        if run.started_by == "dagster"
        for family in live_families(catalog, run)
    }


def refuse_while_live(instance: DagsterInstance, job_name: str, family: str) -> None:
    """Raise TG508 if a run of that job is going on: said in a moment, instead of after Spark has started."""
    record = newest_run(instance, job_name, (DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING))
    if record is not None:
        raise TidegateError(
            "TG508",
            f'the live run {record.dagster_run.run_id} of job {job_name} keeps "{family}" up to date',
            hint="its materializations appear as windows close; terminate that run to launch others. "
            "Checks can be launched in the meantime",
        )


def newest_run(
    instance: DagsterInstance, job_name: str, statuses: Sequence[DagsterRunStatus] = ()
) -> RunRecord | None:
    """The newest run of a job, among those in one of `statuses` if there are any."""
    wanted = RunsFilter(job_name=job_name, statuses=list(statuses) or None)
    return next(iter(instance.get_run_records(wanted, limit=1)), None)


def live_assets(
    run: LiveRun, catalog: Catalog, keys: Mapping[str, AssetKey]
) -> dict[str, tuple[Relation | View | Sink, AssetKey]]:
    """What a live run keeps up to date, with the keys."""
    items = {item.name: item for item in computed(catalog)}
    return {name: (items[name], keys[name]) for name in live_members(catalog, run)}


def live_arguments(run: LiveRun, names: Iterable[str], project: str, env: str) -> list[str]:
    """What comes after `tidegate`. `names`: everything that is to be kept up to date, since a name stands for what it
    reads, and not for what reads it.
    """
    found = ["live", *([] if run.select == "*" else names)]
    found += ["--project", project, "--env", env, "--json", "--interval", f"{run.interval}s"]
    for name, seconds in run.intervals.items():
        found += ["--interval", f"{name}={seconds}s"]
    for name, priority in run.priorities.items():
        found += ["--priority", f"{name}={priority}"]
    for name in run.isolate:
        found += ["--isolate", name]
    if run.max_rows_per_batch is not None:
        found += ["--max-rows-per-batch", str(run.max_rows_per_batch)]
    found += ["--no-http"] if run.port is None else ["--port", str(run.port)]
    return found if run.upkeep else [*found, "--no-upkeep"]


def _live_job(
    run: LiveRun,
    catalog: Catalog,
    keys: Mapping[str, AssetKey],
    prefix: str,
    resource_key: str,
    program: Sequence[str],
) -> JobDefinition:
    name = live_job_name(prefix, run)
    assets = live_assets(run, catalog, keys)
    text = as_text(
        f"Keeps {', '.join(assets)} up to date continuously. Terminate the run to stop it in order."
    )

    @op(
        name=f"{name}_op",
        description=text,
        required_resource_keys={resource_key},
        # One run at a time. Not the family's own pool: what waited there would wait for weeks, without a word.
        pool=name,
        # And no retry policy: Dagster applies it to what was terminated, too.
    )
    def live(context) -> None:  # type: ignore[no-untyped-def]  # Dagster reads no hint that is text
        resource: TidegateResource = getattr(context.resources, resource_key)
        command = [*program, *live_arguments(run, assets, resource.project, resource.env)]
        _Supervision(context, run, LiveJournal(assets, run.report_every, _elsewhere), resource).watch(command)

    # Kept running by a sensor, which starts the next run with a back-off of its own; else Dagster's run retries do,
    # where the instance has them on, after a machine or a container has gone.
    tags = {LIVE_TAG: run.name, MAX_RETRIES_TAG: "0" if run.enabled else str(run.retries)}

    @job(name=name, executor_def=in_process_executor, description=text, tags=tags)
    def start() -> None:
        live()

    return start


class _Supervision:
    """One process in one run. `clock`: monotonic seconds."""

    def __init__(
        self,
        context: OpExecutionContext,
        run: LiveRun,
        journal: LiveJournal,
        resource: TidegateResource,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context, self._run, self._journal = context, run, journal
        self._folder = resource.load_project().root
        self._clock = clock

    def watch(self, command: Sequence[str]) -> None:
        """Until the process ends, its time is over, or Dagster interrupts. Raises `Failure` if it broke down."""
        process = LiveProcess(command, self._folder, self._journal.take)
        try:
            self._context.log.info(f"live run {self._run.name}: process {process.pid} started")
            code = self._wait(process)
        except DagsterExecutionInterruptedError:
            # A second interrupt must not leave the process without anybody who waits for it.
            with capture_interrupts():
                self._stop(process, "the run is terminated")
                self._record(everything=True)
            raise
        finally:
            process.kill()
        self._record(everything=True)
        if code:
            self._broke_down(code)
        self._context.log.info(f"live run {self._run.name}: ended in order: {self._journal.summary()}")

    def _wait(self, process: LiveProcess) -> int:
        # Only what a sensor starts again may end by itself.
        until = self._clock() + self._run.run_for if self._run.enabled else None
        while (code := process.wait(_LOOK)) is None:
            self._record()
            if until is not None and self._clock() >= until:
                self._stop(process, "its time is over, the next run continues from here")
                return 0
        return code

    def _stop(self, process: LiveProcess, why: str) -> None:
        name = self._run.name
        self._context.log.info(f"live run {name}: {why}; process {process.pid} finishes its commit")
        code = process.stop()
        if code is None:
            # Safe: what was not committed is read again (R2).
            self._context.log.warning(f"live run {name}: not stopped within {STOP_SECONDS:.0f} s, killed")
        else:
            self._context.log.info(f"live run {name}: stopped, exit code {code}")

    def _record(self, everything: bool = False) -> None:
        # Not cut off between two events: what the journal has given away, nobody else has.
        with capture_interrupts():
            for level, text in self._journal.lines():
                self._context.log.log(level, text)
            for event in self._journal.due(everything):
                try:
                    self._context.log_event(event)
                except Exception:
                    # An event log that is away for a moment is no reason to stop a stream; the run's totals go on.
                    _logger.exception("an event was not recorded")
            # They are stored already. Dagster keeps them for the end of the step as well, which is weeks away.
            for _ in self._context.consume_events():
                pass
            interrupted = pop_captured_interrupt()
        if interrupted:
            raise DagsterExecutionInterruptedError

    def _broke_down(self, code: int) -> NoReturn:
        error, attempt = self._journal.error, self._context.retry_number
        text = " ".join(str(error[k]) for k in ("code", "message") if error.get(k))
        ended = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        failure = Failure(
            description=f"live process failed, {ended}{(': ' + text if text else '')}",
            metadata={k: str(v) for k, v in {**error, "exit code": code}.items() if v is not None},
        )
        if attempt < self._run.retries and _may_help(error):
            raise RetryRequested(self._run.retries, RETRY_SECONDS * 2**attempt) from failure
        raise failure


def _elsewhere(text: str) -> None:
    """What Spark and tracebacks say belongs to the standard error of the step, which Dagster keeps in a file."""
    print(text, file=sys.stderr, flush=True)


def _may_help(error: Mapping[str, Any]) -> bool:
    """Whether another try makes sense: not after an error in SQL, in the project's files or in the command."""
    code = error.get("code")
    return code is None or is_curable(TidegateError(code, ""))
