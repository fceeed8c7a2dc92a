"""`tidegate live`: keep sources, views and sinks up to date for ever, one supervised process for each group."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from tidegate.cli.invocation import Invocation, guarded, show_traceback
from tidegate.cli.selection import ExcludeOption, NamesAndInputsArgument, SelectOption, chosen
from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from tidegate.live.groups import Group
    from tidegate.live.http import Access
    from tidegate.live.supervisor import Supervisor
    from tidegate.plan.events import Event
    from tidegate.project import Project
    from tidegate.store.status_values import ProjectStatus

_WORKER = "--worker-group"
#: How long a worker waits for what a worker before it may still hold.
_LEASE_SECONDS = 30.0


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
    float,
    typer.Option(
        parser=seconds,
        metavar="TIME",
        help=(
            "Time from the start of one tick to the start of the next. While there is a backlog, "
            "the next tick starts at once."
        ),
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
_WorkerGroup = Annotated[str | None, typer.Option(_WORKER, hidden=True)]


@guarded
def live(
    call: Invocation,
    names: NamesAndInputsArgument = None,
    interval: _Interval = "2s",  # type: ignore[assignment]  # parsed like what is given
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
    worker_group: _WorkerGroup = None,
) -> int:
    """Keep sources, views and sinks up to date continuously: every few seconds, a tick reads a batch of each source,
    closes windows and delivers them. Each group of connected objects has its own process, restarted when it dies.

    Ctrl-C or SIGTERM stops it when the commits in progress are done; a second one stops it at once. If it is killed
    at any point, the next run continues from there, and no row is lost or duplicated.

    Example: tidegate live --interval 5s --log-file live.jsonl

    Exit codes: 0 stopped, 1 a worker had to be killed, 2 a group gave up (an error that a restart does not solve).
    """
    project = call.project()
    if worker_group is not None:
        options = _Worker(worker_group, names, interval, max_rows_per_batch, once_idle, not no_upkeep)
        return options.run(call, project)
    from tidegate.live import find_groups

    catalog = project.catalog()
    groups = find_groups(catalog, chosen(catalog, names, select, exclude))
    if not groups:
        call.console.note("nothing to run: the project has no source, view or sink")
        return 0
    # Java is looked for once here, and not in every worker again and again.
    call.require_java()
    return _supervise(
        call,
        project,
        groups,
        _worker_command(project, interval, max_rows_per_batch, once_idle, no_upkeep),
        None if no_http else _access(call, host, port, token_file, tls_certificate, tls_key),
        duration,
        once_idle,
        grace,
        log_file,
    )


def _worker_command(
    project: Project, interval: float, max_rows_per_batch: int | None, once_idle: bool, no_upkeep: bool
) -> Callable[[Group], list[str]]:
    """By which command line the worker of a group is started."""
    arguments = [f"--interval={interval}s", f"--env={project.env_name}", f"--project={project.root}"]
    if max_rows_per_batch is not None:
        arguments.append(f"--max-rows-per-batch={max_rows_per_batch}")
    arguments += ["--once-idle"] if once_idle else []
    arguments += ["--no-upkeep"] if no_upkeep else []

    def command(group: Group) -> list[str]:
        own = [f"{_WORKER}={group.name}", *arguments, "--", *group.members]
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


def _supervise(
    call: Invocation,
    project: Project,
    groups: tuple[Group, ...],
    command: Callable[[Group], list[str]],
    access: Access | None,
    duration: float | None,
    once_idle: bool,
    grace: float,
    log_file: Path | None,
) -> int:
    from tidegate.live.http import HttpServer
    from tidegate.live.logs import FileLog
    from tidegate.live.metrics import Metrics
    from tidegate.live.process import WorkerProcess
    from tidegate.live.supervisor import Supervisor
    from tidegate.store.status import read_status

    members = [name for group in groups for name in group.members]
    listeners: list[Callable[[str | None, Event | str], None]] = []

    def notify(group: str | None, event: Event | str) -> None:
        for listener in listeners:
            listener(group, event)

    supervisor = Supervisor(
        groups,
        lambda group, told: WorkerProcess(command(group), told),
        notify,
        grace=grace,
        until_idle=once_idle,
    )

    def status() -> ProjectStatus:
        return read_status(project, members)

    def committed() -> ProjectStatus:
        return read_status(project, members, ask_brokers=False)

    with contextlib.ExitStack() as open_things:
        metrics = Metrics(status, supervisor.pids, supervisor.health)
        for group in groups:
            metrics.expect(group.name)
        listeners.append(metrics)
        if access is not None:
            server = HttpServer(access, supervisor.health, lambda: status().to_dict(), metrics.registry)
            open_things.callback(server.close)
            supervisor.url = server.url
        if log_file is not None:
            log = FileLog(log_file)
            open_things.callback(log.close)
            listeners.append(log)
        listeners.append(_shown(call, committed, supervisor, open_things))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: supervisor.stop())
        return supervisor.run(duration)


def _shown(
    call: Invocation,
    committed: Callable[[], ProjectStatus],
    supervisor: Supervisor,
    open_things: contextlib.ExitStack,
) -> Callable[[str | None, Event | str], None]:
    """What shows the events on standard output: a screen for people, else the log."""
    from tidegate.live.logs import DEBUG, INFO, JsonLog

    if call.json or not sys.stdout.isatty():
        return JsonLog(sys.stdout, DEBUG if call.json else INFO)
    from tidegate.live.screen import Screen

    screen = Screen(committed, supervisor.health)
    screen.start()
    open_things.callback(screen.close)
    return screen


class _Worker:
    """The process that does the work of one group. Its standard output is for the supervisor alone."""

    def __init__(
        self,
        group: str,
        names: list[str] | None,
        interval: float,
        max_rows_per_batch: int | None,
        once_idle: bool,
        upkeep: bool,
    ) -> None:
        self._group, self._names, self._interval = group, names, interval
        self._max_rows, self._once_idle, self._upkeep = max_rows_per_batch, once_idle, upkeep
        self._stop = threading.Event()

    def run(self, call: Invocation, project: Project) -> int:
        """Until told to stop. Exit codes: 0; 2 for a tidegate error, 1 for any other, which was told before."""
        from tidegate.plan.events import WorkerFailed

        # Whatever Spark or a library prints must not get between the events.
        out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._take_signals()
        threading.Thread(target=self._watch_supervisor, daemon=True).start()
        notify = _Pipe(out, self._stop)
        try:
            self._serve(call, project, notify)
        except Exception as error:
            from tidegate.jvm.failures import one_line
            from tidegate.runtime.codes import is_curable

            known = error if isinstance(error, TidegateError) else None
            failed = WorkerFailed(
                self._group,
                known.code if known else None,
                one_line(error),
                known.hint if known else None,
                is_curable(error),
            )
            notify(failed)
            if known is None or call.debug:
                show_traceback(error)
            return 2 if known else 1
        return 0

    def _serve(self, call: Invocation, project: Project, notify: Callable[[Event], None]) -> None:
        from tidegate.session.live import LiveGroup, serve
        from tidegate.session.session import Session

        with Session.open(project, log=f"live-{self._group}", lasting=True) as session:
            # PySpark has taken SIGINT for itself.
            self._take_signals()
            try:
                stopping, names = self._stop.is_set, self._names
                with LiveGroup(
                    session, names, self._group, self._max_rows, stopping, patience=_LEASE_SECONDS
                ) as group:
                    serve(group, notify, self._stop, self._interval, self._once_idle, self._upkeep)
            finally:
                # Of a JVM that is gone already nothing is heard but that; why it went is what is to be told.
                with contextlib.suppress(Exception):
                    session.close(stop_spark=True)

    def _take_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop.set())

    def _watch_supervisor(self) -> None:
        """Standard input ends with the supervisor: without it nobody would ever stop this process."""
        while os.read(0, 4096):
            pass
        self._stop.set()


class _Pipe:
    """Writes events for the supervisor. If that is gone the worker stops; a commit is never broken off by it."""

    def __init__(self, out: TextIO, stop: threading.Event) -> None:
        self._out, self._stop = out, stop
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        import json

        with self._lock:
            try:
                self._out.write(json.dumps(event.to_dict(), ensure_ascii=False, default=str) + "\n")
                self._out.flush()
            except (OSError, ValueError):
                self._stop.set()
