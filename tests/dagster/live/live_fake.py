"""A `tidegate live` that has no Spark: tells the events of one small stream, and does what `FAKE_LIVE` says.

forever     commits every 50 ms until SIGTERM, then finishes one more tick and exits 0
crash       breaks down after its first batch, unless the file `crashed` is there already, which it makes
refused     ends with an error in SQL, which no other try can cure
stubborn    as forever, but does not listen to SIGTERM
orphan      leaves a child behind in its group, then exits 0
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tidegate.plan.events import (
    BatchCommitted,
    Event,
    LiveStarted,
    LiveStopped,
    SliceCommitted,
    TickFinished,
    WorkerStarted,
    WorkerStopping,
)


def notify(event: Event) -> None:
    print(json.dumps(event.to_dict()), flush=True)


def batch(epoch: int) -> None:
    notify(BatchCommitted("orders", epoch, 5, 1, 0, 6 * epoch, "2026-03-01 10:30:00", 0.5))


def closed(groups: int) -> None:
    notify(SliceCommitted("orders_hourly", "2026-03-01 10:30:00", groups, 0, 0.25))


def main() -> int:
    mode = os.environ["FAKE_LIVE"]
    Path("started.json").write_text(json.dumps({"pid": os.getpid(), "arguments": sys.argv[1:]}))
    asked: list[int] = []
    signal.signal(signal.SIGTERM, signal.SIG_IGN if mode == "stubborn" else lambda *_: asked.append(1))
    notify(LiveStarted(("orders",), None))
    notify(WorkerStarted("orders", ("orders", "orders_hourly"), os.getpid()))
    if mode == "refused":
        print(json.dumps({"error": {"code": "TG201", "message": "no such thing", "hint": None}}), flush=True)
        return 2
    batch(1)
    closed(1)
    if mode == "orphan":
        left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        Path("orphan.pid").write_text(str(left.pid))
        return 0
    if mode == "crash" and not Path("crashed").exists():
        Path("crashed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    tick = 1
    # Left alone by a test that failed, it ends by itself.
    until = time.monotonic() + 150
    while not asked and time.monotonic() < until and (mode != "crash" or tick < 3):
        tick += 1
        batch(tick)
        closed(tick)
        notify(TickFinished("orders", tick, 6, False, 0.75, 0.2))
        time.sleep(0.05)
    batch(tick + 1)
    closed(1_000)
    notify(WorkerStopping("orders", "asked to", tick))
    notify(LiveStopped(0, 1.0))
    return 0


if __name__ == "__main__":
    sys.exit(main())
