"""A worker without Spark, for tests of the supervisor: `python worker.py GROUP BEHAVIOUR`, events as JSON lines."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time

GROUP, BEHAVIOUR = sys.argv[1], sys.argv[2]


def notify(event: str, **facts: object) -> None:
    print(json.dumps({"event": event, "group": GROUP, **facts}), flush=True)


def tick(number: int) -> None:
    notify("tick_finished", tick=number, rows=7, backlog=False, seconds=0.5, commit_seconds=0.1, failing=[])


def main() -> int:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    print("words that are no event", file=sys.stderr, flush=True)
    notify("worker_started", names=["a", "b"], pid=os.getpid())
    tick(1)
    match BEHAVIOUR:
        case "definition":
            notify("worker_failed", code="TG506", message="changed", hint="DROP it", curable=False)
            return 2
        case "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        case "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(600)
        case "orphan":
            # As a real worker: without its supervisor it ends.
            while os.read(0, 100):
                pass
            return 0
        case "idle":
            return 0
    while not stop.wait(0.02):
        pass
    notify("worker_stopping", why="asked to", ticks=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
