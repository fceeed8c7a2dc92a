"""`tidegate ui`: the project in Dagster's web interface, on this machine."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.child import Foreground
from tidegate.cli.invocation import Invocation, guarded
from tidegate.errors import TidegateError
from tidegate.project.disk import private_folder

if TYPE_CHECKING:
    from pathlib import Path

    from tidegate.project import Project

_INSTANCE = """\
# `tidegate ui` wrote this file because none existed. You can change it.
telemetry:
  enabled: false
nux:
  enabled: false
# One run at a time writes one log: the pools are named after the sources.
concurrency:
  pools:
    default_limit: 1
    granularity: run
  runs:
    # A live run occupies one of them as long as it runs.
    max_concurrent_runs: 3
# What was running when the machine went down is not running any more.
run_monitoring:
  enabled: true
  start_timeout_seconds: 300
"""


@guarded
def ui(
    call: Invocation,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on 127.0.0.1.")] = 3000,
) -> int:
    """Open the project in Dagster: assets with lineage, runs, checks, schedules. Ctrl-C, SIGTERM and SIGHUP end it; a
    second one ends it at once. It leaves no process behind.

    Example: tidegate ui --port 3001
    """
    project = call.project()
    project.catalog()
    if _taken(port):
        raise TidegateError("TG703", f"port {port} is in use", hint=f"tidegate ui --port {port + 1}")
    home = dagster_home(project)
    call.console.note(f"Dagster on http://127.0.0.1:{port} (state in {home}); Ctrl-C ends it")
    return Foreground().run(command(port), environment(project, home), project.root)


def dagster_home(project: Project) -> Path:
    """DAGSTER_HOME of the project, with an instance configuration that is written if there is none."""
    home = project.state_dir / "dagster"
    private_folder(home)
    settings = home / "dagster.yaml"
    if not settings.exists():
        settings.write_text(_INSTANCE, encoding="utf-8")
    return home


def command(port: int) -> list[str]:
    """The `dagster dev` that is started."""
    module = "tidegate.dagster.definitions"
    return [sys.executable, "-m", "dagster", "dev", "-m", module, "-h", "127.0.0.1", "-p", str(port)]


def environment(project: Project, home: Path) -> dict[str, str]:
    """What Dagster's processes need to know, on top of this process's environment."""
    return {
        **os.environ,
        "DAGSTER_HOME": str(home),
        "TIDEGATE_PROJECT": str(project.root),
        "TIDEGATE_ENV": project.env_name,
        "DAGSTER_DISABLE_TELEMETRY": "yes",
    }


def _taken(port: int) -> bool:
    import socket

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False
