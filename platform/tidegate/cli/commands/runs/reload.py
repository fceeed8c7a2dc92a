"""`tidegate reload`: have live mode read the definitions again while it runs."""

from __future__ import annotations

import os
import signal
import socket
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.commands.runs.live_definitions import seconds
from tidegate.cli.invocation import Invocation, guarded
from tidegate.errors import TidegateError, text_of

if TYPE_CHECKING:
    from tidegate.project import Project
    from tidegate.store.writers import LiveRecord

_Timeout = Annotated[
    float,
    typer.Option(
        "--timeout", parser=seconds, metavar="TIME", help="How long to wait for the answer of live mode."
    ),
]
_LOOKS_EVERY = 0.1


@guarded
def reload(call: Invocation, timeout: _Timeout = "60s") -> int:  # type: ignore[assignment]  # parsed like what is given
    """Have live mode, which runs in this project folder on this machine, take up the definitions as the files in
    assets/ are now. Only groups whose definitions are others begin again; all others do not notice.

    The files are checked first. If they have an error, or a change that live mode does not make by itself (results that
    would be replaced, a change that is refused), everything stays as it was.

    Example: tidegate reload && tidegate status

    Exit codes: 0 the definitions are taken up, 1 live mode refuses them, 2 a file has an error, or live mode does not
    run.
    """
    from tidegate.store.writers import running

    project = call.project()
    project.catalog()
    before = running(project.state_dir, project.env_name)
    if not before:
        raise TidegateError(
            "TG710",
            f'live mode does not run for environment "{project.env_name}" in this project folder, on '
            f"{socket.gethostname()}",
            hint="tidegate live starts it; it reads the definitions when it starts",
        )
    asked_at = time.time()
    for record in before:
        _signal(record)
    found = _answers(project, before, asked_at, timeout)
    data = {"processes": [asdict(record) for record in found]}
    call.console.document(data, "\n".join(map(_told, found)))
    return int(any(record.refused is not None for record in found))


def _signal(record: LiveRecord) -> None:
    """Raises TG710 for a process that can't be signalled."""
    from tidegate.store.writers import is_here

    why = "it runs in another container"
    if is_here(record):
        try:
            os.kill(record.pid, signal.SIGUSR1)
        except OSError as error:
            why = error.strerror or str(error)
        else:
            return
    raise TidegateError(
        "TG710",
        f"live mode, process {record.pid}, can't be reached from here: {why}",
        hint="run tidegate reload where it runs, as the same user; or send SIGHUP to it",
    )


def _answers(project: Project, before: list[LiveRecord], asked_at: float, timeout: float) -> list[LiveRecord]:
    """What each process has found in a look that began after it was asked. Raises TG710 for one that does not answer,
    or has ended."""
    from tidegate.store.writers import running

    pids, end = {record.pid for record in before}, time.monotonic() + timeout
    while True:
        now = [one for one in running(project.state_dir, project.env_name) if one.pid in pids]
        late = [one.pid for one in now if one.looked_at < asked_at]
        if len(now) == len(before) and not late:
            return now
        if gone := sorted(pids - {one.pid for one in now}):
            raise TidegateError(
                "TG710",
                f"live mode, process {gone[0]}, has ended before it answered",
                hint="start it again: it reads the definitions when it starts",
            )
        if time.monotonic() >= end:
            raise TidegateError(
                "TG710",
                f"live mode, process {late[0]}, has not answered within {timeout:g} s",
                hint="its log says what becomes of the definitions; --timeout waits longer",
            )
        time.sleep(_LOOKS_EVERY)


def _told(record: LiveRecord) -> str:
    who = f"live mode, process {record.pid}"
    if record.refused is not None:
        return f"{who}, continues with the earlier definitions:\n{text_of(record.refused.error)}"
    parts = [f"{', '.join(record.began)} begins with them after its commit"] if record.began else []
    parts += [f"{', '.join(record.ended)} ends"] if record.ended else []
    return f"{who}, has taken up the definitions: {'; '.join(parts) or 'no group is concerned'}"
