"""A Kafka broker for this machine: `python -m infra.kafka start|stop|status|kill|restart|topic|topics|send`."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from infra.kafka.broker import BrokerError, LocalBroker
from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from infra.kafka.topics import Topics

FOLDER = Path(".tidegate") / "kafka"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="python -m infra.kafka",
        description="A single-node Kafka (KRaft) on loopback, without Docker. Its data outlives stop and start.",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        made.add_argument("--dir", type=Path, default=FOLDER, help=f"the broker's folder (default {FOLDER})")
        return made

    start = command("start", "start it and wait until it serves; says so if it runs already")
    restart = command("restart", "stop it, if it runs, and start it")
    for made in (start, restart):
        made.add_argument("--port", type=int, help="where it listens (default: as the last time, or 9092)")
        made.add_argument(
            "--wait",
            action=argparse.BooleanOptionalAction,
            default=True,
            help="wait until it serves, and say why if it does not",
        )
    command("stop", "stop it")
    command("kill", "end it with SIGKILL, as a power cut would")
    status = command("status", "say whether it runs, and where; exit code 1 if it does not")
    status.add_argument("--json", action="store_true", help="as one line of JSON")
    topic = command("topic", "create a topic")
    topic.add_argument("name")
    topic.add_argument("--partitions", type=int, default=1)
    topic.add_argument("--config", action="append", default=[], metavar="NAME=VALUE", help="may be repeated")
    sending = command("send", "send messages, one per line of a file or of standard input")
    sending.add_argument("name", help="the topic")
    sending.add_argument("file", type=argparse.FileType("rb"), nargs="?", default=sys.stdin.buffer)
    sending.add_argument("--partition", type=int, help="all to this one (default: in turn)")
    topics = command("topics", "list the topics: name, partitions, messages")
    topics.add_argument("--json", action="store_true", help="as one line of JSON")
    return top


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit code."""
    given = parser().parse_args(arguments)
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    broker = LocalBroker(given.dir)
    try:
        return _run(given, broker)
    except (BrokerError, TidegateError) as error:
        print(error, file=sys.stderr)
        return 1


def _run(given: argparse.Namespace, broker: LocalBroker) -> int:
    if given.command in ("start", "restart"):
        if given.command == "restart":
            broker.stop()
        started = broker.start(given.port, wait=given.wait, notify=print)
        status = broker.status()
        state = "runs" if started and given.wait else "is starting" if started else "runs already"
        print(f"Kafka {state} at {status.bootstrap} (process {status.pid}, data in {given.dir})")
    elif given.command in ("stop", "kill"):
        ended = broker.stop() if given.command == "stop" else broker.kill()
        print("Kafka has stopped" if ended else f"no broker of {given.dir} runs")
    elif given.command == "status":
        status = broker.status()
        if given.json:
            print(json.dumps(status.document()))
        elif status.running:
            print(f"Kafka runs at {status.bootstrap} (process {status.pid}, data in {given.dir})")
        else:
            print(f"no broker of {given.dir} runs")
        return 0 if status.running else 1
    else:
        _topics(given, broker)
    return 0


def _topics(given: argparse.Namespace, broker: LocalBroker) -> None:
    from kafka.errors import KafkaError, TopicAlreadyExistsError

    from infra.kafka.topics import Topics

    bootstrap = broker.status().bootstrap
    if bootstrap is None:
        raise BrokerError(f"no broker of {given.dir} runs: start it with python -m infra.kafka start")
    try:
        with Topics(bootstrap) as topics:
            if given.command == "topic":
                topics.create(given.name, given.partitions, dict(c.split("=", 1) for c in given.config))
                print(f"{given.name}: {given.partitions} partitions")
                return
            if given.command == "send":
                print(f"{given.name}: {_send(given, bootstrap, topics)} messages sent")
                return
            found = {name: topics.ends(name) for name in topics.names()}
    except TopicAlreadyExistsError as error:
        raise BrokerError(f"there is a topic {given.name} already") from error
    except KafkaError as error:
        raise BrokerError(f"{bootstrap}: {error}") from error
    if given.json:
        print(json.dumps(found))
    else:
        for name, ends in found.items():
            print(f"{name}  {len(ends)} partitions  {sum(ends.values())} messages")


def _send(given: argparse.Namespace, bootstrap: str, topics: Topics) -> int:
    """Send every line as it is; how many there were."""
    from infra.kafka.topics import producer, send

    places = topics.partitions(given.name) if given.partition is None else [given.partition]
    lines = (line.rstrip(b"\r\n") for line in given.file)
    rows = ((places[n % len(places)], None, line, None) for n, line in enumerate(lines))
    with contextlib.closing(producer(bootstrap)) as out:
        return send(out, given.name, rows)


if __name__ == "__main__":
    sys.exit(main())
