"""`make demo-kafka`: flights through a real Kafka topic, live; one airport falls silent, one slows down, on purpose."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import shutil
import signal
import sys
import time
from datetime import date
from pathlib import Path

from infra.demo_kafka.flights import AIRPORTS, SILENT, NoData, Script, departures, messages
from infra.demo_kafka.livemode import LiveMode
from infra.demo_kafka.picture import News, Picture, picture
from infra.demo_kafka.producer import Player
from infra.demo_kafka.screen import Screen, choose
from infra.kafka.broker import BrokerError, LocalBroker, free_port
from infra.kafka.topics import Topics
from tidegate.errors import TidegateError
from tidegate.project.java import require_java

PROJECT = Path(__file__).resolve().parent / "project"
TOPIC = "flights"
#: A day of 2013 in five seconds: four weeks in a bit more than two minutes.
SPEED = 17_280.0
_START_WITHIN, _FINISH_WITHIN, _POLL = 180.0, 120.0, 1.0


class Failed(Exception):
    """The demo cannot go on, in words."""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m infra.demo_kafka", description=__doc__)
    made.add_argument(
        "--speed",
        type=float,
        default=SPEED,
        help=f"seconds of 2013 in one second of the demo (default {SPEED:,.0f}: a day in five seconds)",
    )
    made.add_argument(
        "--from", dest="first", type=date.fromisoformat, default=date(2013, 2, 1), help="the first day"
    )
    made.add_argument("--days", type=int, default=28, help="how many days (default 28)")
    made.add_argument("--rows", type=int, help="only so many flights")
    made.add_argument(
        "--dir", type=Path, default=Path(".tidegate") / "demo-kafka", help="everything is kept here"
    )
    return made


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; 0 if every row that was sent is accounted for, 130 if it was interrupted."""
    given = parser().parse_args(arguments)
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    screen = choose()
    try:
        return run(given, screen)
    except KeyboardInterrupt:
        print("\nInterrupted; broker, producer and live mode have stopped", file=sys.stderr)
        return 130
    except (Failed, NoData, BrokerError, TidegateError) as error:
        print(error, file=sys.stderr)
        return 2


def run(given: argparse.Namespace, screen: Screen) -> int:
    """Start everything, show it, stop everything."""
    began = time.monotonic()
    require_java()
    flights = departures(given.first, given.days)[: given.rows]
    if not flights:
        raise Failed(
            f"nothing left New York in the {given.days} days from {given.first}: choose days of 2013"
        )
    seconds = (flights[-1].left - flights[0].left).total_seconds() / given.speed
    script = Script.of(seconds)
    folder = _fresh(given.dir)
    with contextlib.ExitStack() as running:
        broker = LocalBroker(folder / "broker")
        running.callback(broker.stop)
        broker.start(free_port(), with_parent=True, notify=screen.note)
        bootstrap = broker.status().bootstrap
        assert bootstrap is not None
        with Topics(bootstrap) as topics:
            topics.create(TOPIC, len(AIRPORTS))
        screen.note(f"A Kafka broker runs at {bootstrap}; starting live mode …")
        live = LiveMode(folder / "project", os.environ | {"TIDEGATE_KAFKA": bootstrap})
        running.callback(live.stop)
        _wait_for(live)
        screen.note(
            f"Playing {len(flights):,} departures from {flights[0].left:%-d %B} to {flights[-1].left:%-d %B %Y} "
            f"in {script.end:.0f} s, one partition for each airport"
        )
        player = Player(bootstrap, TOPIC, messages(flights, given.speed, script), script.silent_until)
        running.callback(player.stop)
        player.start()
        last = None
        try:
            last = _watch(player, live, script, screen)
        finally:
            screen.close(last)
        code = live.stop()
        if code:
            raise Failed(f"live mode ended with {code}: " + "\n".join(live.said))
    return _close(last, given.dir, time.monotonic() - began)


def _fresh(folder: Path) -> Path:
    """An empty folder with a copy of the demo's project; a broker that a killed demo has left is stopped."""
    folder = folder.resolve()
    if folder.is_dir() and any(folder.iterdir()):
        if not (folder / "project" / "assets" / "flights.sql").is_file():
            raise Failed(
                f"{folder} holds something else, and the demo begins by emptying it: choose another --dir"
            )
        LocalBroker(folder / "broker").stop()
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(PROJECT, folder / "project")
    return folder


def _wait_for(live: LiveMode) -> None:
    deadline = time.monotonic() + _START_WITHIN
    while not live.began.wait(0.2):
        if not live.running or time.monotonic() > deadline:
            why = "ended" if not live.running else f"did not start within {_START_WITHIN:.0f} s"
            live.stop()
            raise Failed(f"live mode {why}: " + "\n".join(live.said))


def _watch(player: Player, live: LiveMode, script: Script, screen: Screen) -> Picture:
    """Show how it goes until all that was sent is judged; the last picture."""
    news = News()
    deadline: float | None = None
    while True:
        status = live.status()

        def doing(airport: str) -> str:
            asleep = airport == SILENT and player.asleep
            return "silent" if asleep else script.doing(airport, player.seconds)

        now = picture(player.seconds, player.sent, doing, status)
        for text in news.between(now):
            screen.note(text)
        if any(row.airport == SILENT and row.state == "idle" for row in now.rows):
            player.seen_idle.set()
        screen.show(now)
        if player.error is not None:
            raise Failed(f"the producer failed: {player.error}")
        if not live.running:
            raise Failed("live mode ended: " + "\n".join(live.said))
        if player.done:
            deadline = deadline or time.monotonic() + _FINISH_WITHIN
            if _settled(now, status) or time.monotonic() > deadline:
                return now
        time.sleep(_POLL)


def _settled(now: Picture, status: dict | None) -> bool:  # type: ignore[type-arg]
    """Whether every message is judged, and every window closed that can be."""
    views = (status or {}).get("views") or [{}]
    return now.adds_up and bool(views[0].get("current"))


def _close(last: Picture, folder: Path, seconds: float) -> int:
    print(f"\n{last.total()}")
    for row in last.rows:
        counts = f"{row.on_time:,} on time + {row.late:,} late + {row.rejected:,} rejected"
        print(f"  {row.airport}  {row.sent:,} = {counts}, watermark {row.watermark}")
    print(
        f"departures_hourly: {last.windows:,} windows closed, final up to {last.frontier}, {last.open:,} open"
    )
    print(f"\nDone in {seconds:.0f} s; nothing runs any more. What came of it is still there:")
    project = folder / "project"
    print(f"  .venv/bin/tidegate status --project {project}")
    print(f"  .venv/bin/tidegate late flights --project {project}")
    return 0 if last.adds_up else 1


if __name__ == "__main__":
    sys.exit(main())
