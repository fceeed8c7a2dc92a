"""The real stack on this machine: `python -m infra.stack start|stop|status`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from infra.kafka.broker import BrokerError
from infra.stack.postgres import StackError
from infra.stack.stack import Stack
from tidegate.errors import TidegateError

FOLDER = Path(".tidegate") / "stack"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="python -m infra.stack",
        description="PostgreSQL, Kafka and Dagster (code server, daemon, webserver) on loopback, without Docker.",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in (
        ("start", "start what does not run, and wait until it serves"),
        ("stop", "stop it all; data stays"),
        ("status", "say what runs; exit code 1 if something does not"),
    ):
        made = commands.add_parser(name, help=text, description=text)
        made.add_argument(
            "--project", type=Path, default=Path("."), help="the tidegate project (default: here)"
        )
        made.add_argument("--env", default="local", help="its environment (default: local)")
        made.add_argument(
            "--dir", type=Path, help=f"where the stack keeps its data (default {FOLDER} of the project)"
        )
        made.add_argument("--no-kafka", action="store_true", help="without the broker")
        made.add_argument("--json", action="store_true", help="what runs, as one line of JSON")
    return top


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit code."""
    given = parser().parse_args(arguments)
    stack = Stack(given.project, given.env, given.dir or given.project / FOLDER, not given.no_kafka)
    out = sys.stderr if given.json else sys.stdout

    def notify(line: str) -> None:
        print(line, file=out, flush=True)

    try:
        if given.command == "start":
            ports = stack.start(notify)
            notify(f"Dagster on http://127.0.0.1:{ports['webserver']}; logs in {stack.folder}")
        elif given.command == "stop":
            notify("stopped" if stack.stop(notify) else "nothing ran")
        status = stack.status()
    except (StackError, BrokerError, TidegateError) as error:
        print(error, file=sys.stderr)
        return 1
    if given.json:
        print(json.dumps(status))
    elif given.command == "status":
        for name, state in status["services"].items():  # type: ignore[attr-defined]
            notify(f"  {name:<10}{'running' if state else 'stopped'}")
    return 1 if given.command == "status" and not status["running"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
