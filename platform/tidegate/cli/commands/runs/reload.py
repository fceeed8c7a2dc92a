"""`tidegate reload`: have live mode read the definitions again while it runs."""

from __future__ import annotations

import socket
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.commands.runs.live_definitions import live_runs, seconds
from tidegate.cli.invocation import Invocation, guarded
from tidegate.errors import TidegateError, text_of

if TYPE_CHECKING:
    from tidegate.store.writers import LiveRecord

_Timeout = Annotated[
    float,
    typer.Option(
        "--timeout", parser=seconds, metavar="TIME", help="How long to wait for the answer of live mode."
    ),
]


@guarded
def reload(call: Invocation, timeout: _Timeout = "60s") -> int:  # type: ignore[assignment]  # parsed like what is given
    """Have live mode, which runs in this project folder on this machine, take up the definitions as the files in
    assets/ are now, and the settings of live runs in jobs/. Only groups for which something is different begin again;
    all others do not notice.

    The files are checked first. If they have an error, or a change that live mode does not make by itself (results that
    would be replaced, a change that is refused), everything stays as it was.

    Example: tidegate reload && tidegate status

    Exit codes: 0 the definitions are taken up, 1 live mode refuses them, 2 a file has an error, or live mode does not
    run.
    """
    from tidegate.store.writers import ask_to_reload, running

    project = call.project()
    live_runs(project, project.catalog())
    before = running(project.state_dir, project.env_name)
    if not before:
        raise TidegateError(
            "TG710",
            f'live mode does not run for environment "{project.env_name}" in this project folder, on '
            f"{socket.gethostname()}",
            hint="tidegate live starts it; it reads the definitions when it starts",
        )
    found = ask_to_reload(project.state_dir, project.env_name, before, timeout)
    data = {"processes": [asdict(record) for record in found]}
    call.console.document(data, "\n".join(map(_told, found)))
    return int(any(record.refused is not None for record in found))


def _told(record: LiveRecord) -> str:
    who = f"live mode, process {record.pid}"
    if record.refused is not None:
        return f"{who}, continues with the earlier definitions:\n{text_of(record.refused.error)}"
    parts = [f"{', '.join(record.began)} begins with them after its commit"] if record.began else []
    parts += [f"{', '.join(record.ended)} ends"] if record.ended else []
    return f"{who}, has taken up the definitions: {'; '.join(parts) or 'no group is concerned'}"
