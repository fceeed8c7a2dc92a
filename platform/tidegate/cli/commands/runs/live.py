"""`tidegate live`: keep sources, views and sinks up to date for ever, in a process that is supervised."""

from __future__ import annotations

import contextlib
import re
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.invocation import Invocation, guarded
from tidegate.cli.selection import ExcludeOption, NamesAndInputsArgument, SelectOption, chosen
from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from tidegate.live.groups import Group
    from tidegate.live.http import Access
    from tidegate.live.standby import LiveLeases
    from tidegate.live.supervisor import Supervisor
    from tidegate.live.workers import Workers
    from tidegate.plan.events import Event
    from tidegate.project import Project
    from tidegate.sql.catalog.catalog import Catalog
    from tidegate.store.status_values import ProjectStatus

_WORKER = "--worker"
#: Who is told of what happens, as `Supervisor` is.
Listener = Callable[[str | None, "Event | str"], None]


def seconds(text: str) -> float:
    """Seconds of a text such as `2s`, `0.5s` or `1 hour`."""
    from tidegate.project.reading.durations import parse_duration

    if plain := re.fullmatch(r"(\d+(?:\.\d+)?)s?", text.strip()):
        return float(plain.group(1))
    try:
        return float(parse_duration(text))
    except ValueError as error:
        raise typer.BadParameter(f"{error}: write for example 2s, 0.5s or 5 minutes") from None


_Interval = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[NAME=]TIME",
        help=(
            "Time from the start of one tick to the start of the next; with NAME=, only for the group of this source, "
            "view or sink. While there is a backlog, the next tick starts at once. May be repeated."
        ),
        show_default="2s",
    ),
]
_MaxRows = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Number of rows in a batch, for sources whose batches are measured in rows (kafka, replay). "
        "Results do not depend on it.",
        show_default=False,
    ),
]
_Host = Annotated[str, typer.Option(help="Address on which health and metrics are served.")]
_Port = Annotated[
    int,
    typer.Option(
        min=0, max=65535, help="Port of /healthz, /livez, /metrics and /status; 0 chooses a free port."
    ),
]
_NoHttp = Annotated[bool, typer.Option("--no-http", help="Serve neither health nor metrics.")]
_TokenFile = Annotated[
    Path | None,
    typer.Option(
        help="A file with a token that clients must send as Authorization: Bearer TOKEN. /livez, "
        "and /healthz without details, need no token.",
        show_default=False,
    ),
]
_Certificate = Annotated[
    Path | None,
    typer.Option(help="Serve over TLS with this certificate (a PEM file).", show_default=False),
]
_Key = Annotated[
    Path | None,
    typer.Option(help="The key of the certificate, if it is in a separate file.", show_default=False),
]
_Duration = Annotated[
    float | None,
    typer.Option(parser=seconds, metavar="TIME", help="Stop after this time.", show_default=False),
]
_OnceIdle = Annotated[bool, typer.Option("--once-idle", help="Stop when nothing waits any more.")]
_Grace = Annotated[
    float,
    typer.Option(
        parser=seconds,
        metavar="TIME",
        help="How long a worker that is stopped may take to finish its commit.",
    ),
]
_LogFile = Annotated[
    Path | None,
    typer.Option(
        help=(
            "Write the log to this file as well, as JSON lines; it is rotated at 50 MB, and 5 files are kept."
        ),
        show_default=False,
    ),
]
_NoUpkeep = Annotated[
    bool,
    typer.Option("--no-upkeep", help="Do not compact or expire here: leave that to tidegate upkeep."),
]
_Isolate = Annotated[
    list[str] | None,
    typer.Option(
        "--isolate",
        help="A source, view or sink whose group gets a process of its own, with a Spark of its own. May be repeated.",
        show_default=False,
    ),
]
_Standby = Annotated[
    bool,
    typer.Option(
        "--standby",
        help=(
            "While another process runs live mode for the same groups, wait without Spark, and take over within 30 "
            "seconds after its end, however it ends."
        ),
    ),
]
_Worker = Annotated[str | None, typer.Option(_WORKER, hidden=True)]


@guarded
def live(
    call: Invocation,
    names: NamesAndInputsArgument = None,
    interval: _Interval = None,
    max_rows_per_batch: _MaxRows = None,
    host: _Host = "127.0.0.1",
    port: _Port = 9464,
    no_http: _NoHttp = False,
    token_file: _TokenFile = None,
    tls_certificate: _Certificate = None,
    tls_key: _Key = None,
    duration: _Duration = None,
    once_idle: _OnceIdle = False,
    grace: _Grace = "60s",  # type: ignore[assignment]  # parsed like what is given
    log_file: _LogFile = None,
    no_upkeep: _NoUpkeep = False,
    select: SelectOption = None,
    exclude: ExcludeOption = None,
    isolate: _Isolate = None,
    standby: _Standby = False,
    worker: _Worker = None,
) -> int:
    """Keep sources, views and sinks up to date continuously: every few seconds, a tick reads a batch of each source,
    closes windows and delivers them. One process with one Spark does this for all groups of connected objects; it is
    restarted when it dies.

    Ctrl-C or SIGTERM stops it when the commits in progress are done; a second one stops it at once. If it is killed
    at any point, the next run continues from there, and no row is lost or duplicated.

    Example: tidegate live --interval 5s --log-file live.jsonl

    Exit codes: 0 stopped, 1 a worker had to be killed, 2 a group gave up (an error that a restart does not solve).
    """
    if worker is not None:
        from tidegate.cli.commands.runs.live_worker import be_worker

        return be_worker(call, worker, max_rows_per_batch, once_idle, no_upkeep)
    project = call.project()
    from tidegate.live import find_groups

    catalog = project.catalog()
    groups = find_groups(catalog, chosen(catalog, names, select, exclude))
    if not groups:
        call.console.note("nothing to run: the project has no source, view or sink")
        return 0
    alone = {_group_of(catalog, groups, name, f"--isolate {name}") for name in isolate or ()}
    usual, paces = _intervals(interval or (), lambda n: _group_of(catalog, groups, n, f"--interval {n}=…"))
    # Java is looked for once here, and not in every worker again and again.
    call.require_java()
    command = _worker_command(project, max_rows_per_batch, once_idle, no_upkeep)
    access = None if no_http else _access(call, host, port, token_file, tls_certificate, tls_key)

    def pace_of(group: Group) -> float:
        return paces.get(group.name, usual)

    listeners: list[Listener] = []
    supervisor, workers = _supervisor(groups, alone, pace_of, command, grace, once_idle, listeners)
    leases = _leases(project, groups, supervisor)

    def work() -> int:
        taken = leases.all() if standby else leases.free()
        if taken is None:
            return 0
        with taken:
            return supervisor.run(duration)

    return _supervise(call, project, catalog, supervisor, workers, leases, listeners, access, work, log_file)


def _intervals(given: Sequence[str], group_of: Callable[[str], str]) -> tuple[float, dict[str, float]]:
    """That of all groups, and those of single ones. Raises TG706 for a group, or all, that has two."""
    found: dict[str | None, tuple[str, float]] = {}
    for text in given:
        name, equals, time = text.rpartition("=")
        value = seconds(time)
        group = group_of(name) if equals else None
        if group in found:
            whose = "all groups" if group is None else f'the group "{group}"'
            raise TidegateError(
                "TG706",
                f"--interval is given twice for {whose}: {found[group][0]} and {text}",
                hint="give one --interval for each group, by the name of one of its members",
            )
        found[group] = text, value
    _, usual = found.pop(None, ("", 2.0))
    return usual, {name: value for name, (_, value) in found.items() if name is not None}


def _group_of(catalog: Catalog, groups: Sequence[Group], name: str, option: str) -> str:
    """The group that `name` belongs to. Raises TG201 for a name that is not there."""
    from tidegate.live import find_groups

    (found,) = find_groups(catalog, [name]) or (None,)
    if found is None or all(found.name != group.name for group in groups):
        raise typer.BadParameter(f"{option}: {name} is not among what is to run")
    return found.name


def _worker_command(
    project: Project, max_rows_per_batch: int | None, once_idle: bool, no_upkeep: bool
) -> Callable[[str | None], list[str]]:
    """By which command line a worker process is started: of one group alone, or (None) of all others."""
    arguments = [f"--env={project.env_name}", f"--project={project.root}"]
    if max_rows_per_batch is not None:
        arguments.append(f"--max-rows-per-batch={max_rows_per_batch}")
    arguments += ["--once-idle"] if once_idle else []
    arguments += ["--no-upkeep"] if no_upkeep else []

    def command(group: str | None) -> list[str]:
        own = [f"{_WORKER}={group or '*'}", *arguments]
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
    groups: tuple[Group, ...],
    alone: set[str],
    interval: Callable[[Group], float],
    command: Callable[[str | None], list[str]],
    grace: float,
    once_idle: bool,
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
        interval,
    )
    supervisor = Supervisor(
        groups,
        workers.spawn,
        notify,
        grace=grace,
        until_idle=once_idle,
        alone=alone,
        interval=interval,
        close=workers.close,
    )
    return supervisor, workers


def _leases(project: Project, groups: tuple[Group, ...], supervisor: Supervisor) -> LiveLeases:
    """The right to run live mode for these groups."""
    from tidegate.live.standby import LiveLeases, group_leases

    def lost(group: str) -> None:
        supervisor.printed(f'another process has taken over live mode for "{group}": this one ends')
        supervisor.stop()

    leases = LiveLeases(groups, group_leases(project, lost), lambda told: supervisor.notify(None, told))
    supervisor.stands_by = lambda: leases.waits
    return leases


def _supervise(
    call: Invocation,
    project: Project,
    catalog: Catalog,
    supervisor: Supervisor,
    workers: Workers,
    leases: LiveLeases,
    listeners: list[Listener],
    access: Access | None,
    work: Callable[[], int],
    log_file: Path | None,
) -> int:
    """Do the work, and show what happens; its exit code."""
    from tidegate.live.http import HttpServer
    from tidegate.live.logs import FileLog
    from tidegate.live.metrics import Metrics
    from tidegate.store.status import read_status

    groups = tuple(supervisor.groups)
    members = [name for group in groups for name in group.members]

    def status() -> ProjectStatus:
        return read_status(project, members, catalog=catalog)

    def committed() -> ProjectStatus:
        return read_status(project, members, ask_brokers=False, catalog=catalog)

    def scraped() -> ProjectStatus | None:
        return None if leases.waits else status()

    def stop(*_: object) -> None:
        leases.stop()
        supervisor.stop()

    with contextlib.ExitStack() as open_things:
        metrics = Metrics(scraped, workers.pids, supervisor.health)
        for group in groups:
            metrics.expect(group.name)
        listeners.append(metrics)
        if access is not None:
            server = HttpServer(access, supervisor.health, lambda: status().to_dict(), metrics.registry)
            open_things.callback(server.close)
            supervisor.url = leases.url = server.url
        if log_file is not None:
            log = FileLog(log_file)
            open_things.callback(log.close)
            listeners.append(log)
        listeners.append(_shown(call, committed, supervisor, open_things))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
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
