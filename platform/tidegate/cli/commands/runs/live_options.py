"""The options of `tidegate live`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.commands.runs.live_definitions import seconds

#: Seconds below which work that is only slow would count as hanging again and again.
_LEAST_HANGING = 10.0


def _hanging_seconds(text: str) -> float:
    if (found := seconds(text)) < _LEAST_HANGING:
        raise typer.BadParameter(
            f"--hangs-after: after {text!r} work that is only slow would be broken off: write at least 10s"
        )
    return found


#: Starts a worker process, instead of its supervisor.
WORKER = "--worker"

IntervalOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[NAME=]TIME",
        help=(
            "Time from the start of one tick to the start of the next; with NAME=, only for the group of this source, "
            "view or sink. While there is a backlog, the next tick starts at once. May be repeated."
        ),
        show_default="that of jobs/, else 2s",
    ),
]
PriorityOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=NUMBER",
        help=(
            "How much a second of waiting counts for the group of this source, view or sink, where the machine is too "
            "small for all groups: from 1 (default, unless jobs/ has another one) to 100. May be repeated."
        ),
        show_default=False,
    ),
]
MaxRowsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Number of rows in a batch, for sources whose batches are measured in rows (kafka, replay). "
        "Results do not depend on it.",
        show_default=False,
    ),
]
HostOption = Annotated[str, typer.Option(help="Address on which health and metrics are served.")]
PortOption = Annotated[
    int,
    typer.Option(
        min=0, max=65535, help="Port of /healthz, /livez, /metrics and /status; 0 chooses a free port."
    ),
]
NoHttpOption = Annotated[bool, typer.Option("--no-http", help="Serve neither health nor metrics.")]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        help="A file with a token that clients must send as Authorization: Bearer TOKEN. /livez, "
        "and /healthz without details, need no token.",
        show_default=False,
    ),
]
CertificateOption = Annotated[
    Path | None,
    typer.Option(help="Serve over TLS with this certificate (a PEM file).", show_default=False),
]
KeyOption = Annotated[
    Path | None,
    typer.Option(help="The key of the certificate, if it is in a separate file.", show_default=False),
]
DurationOption = Annotated[
    float | None,
    typer.Option(parser=seconds, metavar="TIME", help="Stop after this time.", show_default=False),
]
OnceIdleOption = Annotated[bool, typer.Option("--once-idle", help="Stop when nothing waits any more.")]
GraceOption = Annotated[
    float,
    typer.Option(
        parser=seconds,
        metavar="TIME",
        help="How long a worker that is stopped may take to finish its commit.",
    ),
]
HangsAfterOption = Annotated[
    float,
    typer.Option(
        parser=_hanging_seconds,
        metavar="TIME",
        help="When the work for a source or view has taken this time and does not advance, it is broken off with its "
        "process, and the group gets a process of its own. Each time that this happens again in a row, it has twice as "
        "much time. A group is overdue, too, when its tick is so late. At least 10s.",
    ),
]
LogFileOption = Annotated[
    Path | None,
    typer.Option(
        help=(
            "Write the log to this file as well, as JSON lines; it is rotated at 50 MB, and 5 files are kept."
        ),
        show_default=False,
    ),
]
NoUpkeepOption = Annotated[
    bool,
    typer.Option("--no-upkeep", help="Do not compact or expire here: leave that to tidegate upkeep."),
]
IsolateOption = Annotated[
    list[str] | None,
    typer.Option(
        "--isolate",
        help="A source, view or sink whose group gets a process of its own, with a Spark of its own, beside those that "
        "jobs/ isolates. May be repeated.",
        show_default=False,
    ),
]
StandbyOption = Annotated[
    bool,
    typer.Option(
        "--standby",
        help=(
            "While another process runs live mode for the same groups, wait without Spark, and take over within 30 "
            "seconds after its end, however it ends."
        ),
    ),
]
WatchOption = Annotated[
    bool,
    typer.Option(
        "--watch",
        help="Take up changes of files in assets/ by itself, as tidegate reload does.",
    ),
]
WorkerOption = Annotated[str | None, typer.Option(WORKER, hidden=True)]
