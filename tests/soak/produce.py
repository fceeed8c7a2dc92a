"""The producer of `make soak`, a process of its own: `python -m tests.soak.produce BOOTSTRAP TOPIC RATE SEED`.

Rows of this very moment at a steady rate, until it is told to stop: a little out of order, some late, some that do not
parse. Partitions are as uneven as those of `make chaos`.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import accumulate

from tests.chaos.load import JITTER_MS, LATE_MS, LATE_SHARE, POISON, POISON_SHARE, SENSORS, WEIGHTS, Message
from tests.chaos.produce import Pace, Sender

#: Every partition has rows all the time: the steady case is what is measured here.
_POISON = [value for value in POISON if value is not None and len(value) > 2]


def messages(seed: int) -> Iterator[Message]:
    """Without end; event times follow the clock."""
    rng, totals = random.Random(seed), list(accumulate(WEIGHTS))
    for i in range(sys.maxsize):
        partition = rng.choices(range(len(WEIGHTS)), cum_weights=totals)[0]
        if rng.random() < POISON_SHARE:
            yield Message(partition, rng.choice(_POISON))
            continue
        behind = rng.randint(*LATE_MS) if rng.random() < LATE_SHARE else rng.randint(0, JITTER_MS)
        time_of = datetime.now(UTC) - timedelta(milliseconds=behind)
        stamp = time_of.replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")
        row = f'{{"id":{i},"sensor":"s{rng.randrange(SENSORS)}","amount":{rng.randint(-500, 500)},"ts":"{stamp}"}}'
        yield Message(partition, row.encode())


def main() -> int:
    bootstrap, topic, rate, seed = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    sender, pace, told = Sender(bootstrap, topic), Pace(rate), time.monotonic()
    for message in messages(seed):
        sender.send(message)
        pace.wait()
        if stop.is_set():
            break
        if time.monotonic() - told > 5:
            told = time.monotonic()
            print(sender.sent, flush=True)
    sender.flush()
    print(sender.sent, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
