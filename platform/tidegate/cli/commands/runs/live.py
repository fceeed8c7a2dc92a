"""`tidegate live`: keep sources, views and sinks up to date for ever, in a process that is supervised."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.cli.commands.runs.live_definitions import LiveRequest, read_definitions
from tidegate.cli.commands.runs.live_options import (
    WORKER,
    CertificateOption,
    DurationOption,
    GraceOption,
    HangsAfterOption,
    HostOption,
    IntervalOption,
    IsolateOption,
    KeyOption,
    LogFileOption,
    MaxRowsOption,
    NoHttpOption,
    NoUpkeepOption,
    OnceIdleOption,
    PortOption,
    PriorityOption,
    StandbyOption,
    TokenFileOption,
    WatchOption,
    WorkerOption,
)
from tidegate.cli.invocation import Invocation, guarded
from tidegate.cli.selection import ExcludeOption, NamesAndInputsArgument, SelectOption

if TYPE_CHECKING:
    from tidegate.cli.commands.runs.live_reload import Current
    from tidegate.live.http import Access
    from tidegate.live.reloading import Reloader
    from tidegate.live.standby import LiveLeases
    from tidegate.live.supervisor import Supervisor
    from tidegate.live.workers import Workers
    from tidegate.plan.events import Event
    from tidegate.project import Project
    from tidegate.store.status_values import ProjectStatus

#: Who is told of what happens, as `Supervisor` is.
Listener = Callable[[str | None, "Event | str"], None]


@guarded
def live(
    call: Invocation,
    names: NamesAndInputsArgument = None,
    interval: IntervalOption = None,
    priority: PriorityOption = None,
    max_rows_per_batch: MaxRowsOption = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 9464,
    no_http: NoHttpOption = False,
    token_file: TokenFileOption = None,
    tls_certificate: CertificateOption = None,
    tls_key: KeyOption = None,
    duration: DurationOption = None,
    once_idle: OnceIdleOption = False,
    grace: GraceOption = "60s",  # type: ignore[assignment]  # parsed like what is given
    log_file: LogFileOption = None,
    no_upkeep: NoUpkeepOption = False,
    select: SelectOption = None,
    exclude: ExcludeOption = None,
    isolate: IsolateOption = None,
    standby: StandbyOption = False,
    watch: WatchOption = False,
    hangs_after: HangsAfterOption = "5m",  # type: ignore[assignment]  # parsed like what is given
    worker: WorkerOption = None,
) -> int:
    """Keep sources, views and sinks up to date continuously: every few seconds, a tick reads a batch of each source,
    closes windows and delivers them. One process with one Spark does this for all groups of connected objects; it is
    restarted when it dies.

    The interval, intervals, priorities and isolate of a live run in jobs/*.yaml hold for the groups that it selects.
    An option wins: for the group that it names, or, without a name, over the general interval.

    Ctrl-C or SIGTERM stops it when the commits in progress are done; a second one stops it at once. If it is killed
    at any point, the next run continues from there, and no row is lost or duplicated.

    Example: tidegate live --interval 5s --log-file live.jsonl

    Exit codes: 0 stopped, 1 a worker had to be killed, 2 a group gave up (an error that a restart does not solve).
    """
    if worker is not None:
        from tidegate.cli.commands.runs.live_worker import be_worker

        return be_worker(call, worker, max_rows_per_batch, once_idle, no_upkeep, hangs_after)
    asked = LiveRequest(names, select, exclude, isolate or (), interval or (), priority or ())
    project = call.project()
    definitions = read_definitions(project, asked)
    if not definitions.groups:
        call.console.note("nothing to run: the project has no source, view or sink")
        return 0
    # Java is looked for once here, and not in every worker again and again.
    call.require_java()
    command = _worker_command(project, max_rows_per_batch, once_idle, no_upkeep, hangs_after)
    access = None if no_http else _access(call, host, port, token_file, tls_certificate, tls_key)
    from tidegate.cli.commands.runs.live_reload import Current

    current = Current(definitions, lambda: read_definitions(project, asked))
    listeners: list[Listener] = []
    supervisor, workers = _supervisor(current, command, grace, once_idle, hangs_after, listeners)
    leases = _leases(project, current, supervisor)

    def work() -> int:
        taken = leases.all() if standby else leases.free()
        if taken is None:
            return 0
        with taken, contextlib.ExitStack() as followed:
            if standby:
                current.begin(supervisor, workers, leases)
            reloader = followed.enter_context(current.followed(supervisor, workers, leases, watch))
            _take_signals(supervisor, leases, reloader)
            return supervisor.run(duration)

    return _supervise(call, current, supervisor, workers, leases, listeners, access, work, log_file)


def _worker_command(
    project: Project, max_rows_per_batch: int | None, once_idle: bool, no_upkeep: bool, hangs_after: float
) -> Callable[[str | None], list[str]]:
    """By which command line a worker process is started: of one group alone, or (None) of all others."""
    arguments = [f"--env={project.env_name}", f"--project={project.root}", f"--hangs-after={hangs_after}s"]
    if max_rows_per_batch is not None:
        arguments.append(f"--max-rows-per-batch={max_rows_per_batch}")
    arguments += ["--once-idle"] if once_idle else []
    arguments += ["--no-upkeep"] if no_upkeep else []

    def command(group: str | None) -> list[str]:
        own = [f"{WORKER}={group or '*'}", *arguments]
        return [sys.executable, "-P", "-m", "tidegate.cli.main", "live", *own]

    return command


def _access(
    call: Invocation,
    host: str,
    port: int,
    token_file: Path | None,
    certificate: Path | None,
    key: Path | None,
) -> Access:
    """Where to serve, and to whom; says so where everybody could read what is served. Raises TG703."""
    from tidegate.live.http import Access, read_token

    token = None if token_file is None else read_token(token_file)
    access = Access(host, port, token, certificate, key)
    if access.exposed:
        call.console.note(
            f"warning: other machines can reach {host}, and everybody who reaches it can read the "
            "status: add --token-file FILE"
        )
    return access


def _supervisor(
    current: Current,
    command: Callable[[str | None], list[str]],
    grace: float,
    once_idle: bool,
    hangs_after: float,
    listeners: Sequence[Listener],
) -> tuple[Supervisor, Workers]:
    from tidegate.live.process import WorkerProcess
    from tidegate.live.supervisor import Supervisor
    from tidegate.live.workers import Workers

    def notify(group: str | None, event: Event | str) -> None:
        for listener in listeners:
            listener(group, event)

    workers = Workers(
        lambda name, hear: WorkerProcess(command(name), hear),
        lambda text: supervisor.printed(text),
        current.pace_of,
    )
    workers.define(current.definitions.document())
    supervisor = Supervisor(
        current.definitions.groups,
        workers.spawn,
        notify,
        grace=grace,
        stuck=hangs_after,
        until_idle=once_idle,
        alone=current.definitions.alone,
        interval=lambda group: current.pace_of(group).interval,
        release=workers.release,
        renew=workers.renew,
        close=workers.close,
    )
    return supervisor, workers


def _leases(project: Project, current: Current, supervisor: Supervisor) -> LiveLeases:
    """The right to run live mode for these groups."""
    from tidegate.live.standby import LiveLeases, group_leases

    def lost(group: str) -> None:
        supervisor.printed(f'another process has taken over live mode for "{group}": this one ends')
        supervisor.stop()

    leases = LiveLeases(
        current.definitions.groups, group_leases(project, lost), lambda told: supervisor.notify(None, told)
    )
    supervisor.stands_by = lambda: leases.waits
    return leases


def _take_signals(supervisor: Supervisor, leases: LiveLeases, reloader: Reloader | None = None) -> None:
    """SIGTERM and Ctrl-C end live mode; SIGUSR1 (`tidegate reload`) and SIGHUP have definitions read again. At a
    terminal SIGHUP says that the terminal is gone."""

    def stop(*_: object) -> None:
        leases.stop()
        supervisor.stop()

    def reload(*_: object) -> None:
        if reloader is not None:
            reloader.ask()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    signal.signal(signal.SIGUSR1, reload)
    signal.signal(signal.SIGHUP, stop if sys.stdin.isatty() else reload)


def _supervise(
    call: Invocation,
    current: Current,
    supervisor: Supervisor,
    workers: Workers,
    leases: LiveLeases,
    listeners: list[Listener],
    access: Access | None,
    work: Callable[[], int],
    log_file: Path | None,
) -> int:
    """Do the work, and show what happens; its exit code."""
    from tidegate.live.failures import Failures, Overdue
    from tidegate.live.http import HttpServer
    from tidegate.live.load import Load
    from tidegate.live.logs import FileLog
    from tidegate.live.metrics import Metrics
    from tidegate.store.attention import document
    from tidegate.store.status import read_status

    def status(ask_brokers: bool = True) -> ProjectStatus:
        now = current.definitions
        return read_status(now.project, now.members, ask_brokers=ask_brokers, catalog=now.catalog)

    def scraped() -> ProjectStatus | None:
        return None if leases.waits else status()

    with contextlib.ExitStack() as open_things:
        metrics = Metrics(scraped, workers.pids, supervisor.health)
        for group in current.definitions.groups:
            metrics.expect(group.name)
        load = Load(
            current.interval_of,
            workers.pids,
            workers.worked,
            current.record,
            metrics.spend,
        )
        overdue = Overdue(supervisor.overdue, lambda groups: current.record(overdue=groups))

        def beat() -> None:
            load.beat()
            overdue.beat()

        supervisor.beat = beat
        listeners += [metrics, load, Failures(lambda failing: current.record(failing=failing))]
        if access is not None:
            server = HttpServer(access, supervisor.health, lambda: document(status()), metrics.registry)
            open_things.callback(server.close)
            supervisor.url = leases.url = server.url
        if log_file is not None:
            log = FileLog(log_file)
            open_things.callback(log.close)
            listeners.append(log)
        listeners.append(_shown(call, lambda: status(ask_brokers=False), supervisor, open_things))
        _take_signals(supervisor, leases)
        return work()


def _shown(
    call: Invocation,
    committed: Callable[[], ProjectStatus],
    supervisor: Supervisor,
    open_things: contextlib.ExitStack,
) -> Listener:
    """What shows the events on standard output: a screen for people, else the log."""
    from tidegate.live.logs import DEBUG, INFO, JsonLog

    if call.json or not sys.stdout.isatty():
        return JsonLog(sys.stdout, DEBUG if call.json else INFO)
    from tidegate.live.screen import Screen

    screen = Screen(committed, supervisor.health)
    screen.start()
    open_things.callback(screen.close)
    return screen
