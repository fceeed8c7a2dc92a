"""`tidegate warm`: a Spark that is kept ready for other commands of the project."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import ExitStack
from typing import Annotated

import typer

from tidegate.cli.asked import is_somebody_there
from tidegate.cli.commands.runs.live_definitions import seconds
from tidegate.cli.invocation import Invocation, guarded
from tidegate.errors import TidegateError

_Idle = Annotated[
    float,
    typer.Option(
        "--idle",
        parser=seconds,
        metavar="TIME",
        help="End when no command has asked for anything for this time.",
    ),
]
#: Seconds between two looks at the clock.
_LOOKS_EVERY = 0.5


@guarded
def warm(call: Invocation, idle: _Idle = "30 minutes") -> int:  # type: ignore[assignment]  # parsed like what is given
    """Keep Spark ready for other commands of this project: tidegate run, and tidegate sql with statements that only
    read, then take a second or two instead of ten; tidegate status of hundreds of objects is faster, too. They find it
    by a socket in .tidegate/workers, which only your user can open.

    It needs the memory of one Spark, holds no lease while nothing runs, and ends with Ctrl-C, SIGTERM, or when it has
    been idle for a while. While live mode runs for the whole project, it is not needed: live mode does the same.

    Example: tidegate warm --idle 1h &
    """
    from tidegate.cli.commands.runs.served import Files, Service
    from tidegate.jvm.endings import when_gone
    from tidegate.session.session import Session

    files, over, lost = Files.of(call), threading.Event(), threading.Event()
    project = call.project()
    call.require_java()
    if is_somebody_there(call):
        call.console.note("note: another process may be ready for this project already")
    session = Session.open(project, log="warm", lasting=True, several=True)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    when_gone(session.spark, lost.set)
    service = Service(session, files)
    with ExitStack() as opened:
        try:
            desk = opened.enter_context(service.open_to_commands("warm"))
        except OSError as error:
            raise TidegateError(
                "TG708",
                f"other commands could not use this Spark, because it can't have a socket: {error}",
                hint="the folder .tidegate/workers must be yours, on a file system that has sockets",
            ) from None
        told = {"event": "warm_ready", "pid": os.getpid(), "idle_seconds": idle}
        call.console.document(told, f"ready: process {os.getpid()} works for other commands of this project")
        while not over.wait(_LOOKS_EVERY) and not lost.is_set() and desk.idle < idle:
            pass
    if lost.is_set():
        print("tidegate: Spark is gone; this process ends", file=sys.stderr, flush=True)
        os._exit(1)
    session.close(stop_spark=True)
    return 0
