"""A producer of `make chaos`, a process of its own: `python -m tests.chaos.produce BOOTSTRAP TOPIC ROWS SEED`.

Idempotent, and it survives the broker: what is not acknowledged is sent again, by a new client if that of before has
stopped to send, as kafka-python's does after its broker was killed. It reads lines `rate N` (rows a second,
0: as fast as it can) and writes `{"sent": …}` every second. The truth is what the topic holds, not what was sent.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.chaos.load import ADDED, BIG, Load, Message

if TYPE_CHECKING:
    from kafka import KafkaProducer

_PATIENCE = 300.0
#: Seconds without an acknowledgement of anything that waits for one, until another client sends it.
_SILENCE = 60.0


class Pace:
    """Rows a second, changed from outside at any time."""

    def __init__(self, rate: float) -> None:
        self._rate, self._since, self._rows = rate, time.monotonic(), 0

    def set(self, rate: float) -> None:
        self._rate, self._since, self._rows = rate, time.monotonic(), 0

    def wait(self) -> None:
        """After one more row: sleep if it is early. What a stall held up is not sent in one burst."""
        self._rows += 1
        if not self._rate or self._rows % 50:
            return
        ahead = self._rows / self._rate - (time.monotonic() - self._since)
        if ahead > 0:
            time.sleep(min(ahead, 1.0))
        elif ahead < -5:
            self.set(self._rate)


class Sender:
    """A producer that sends again what failed."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap, self.topic = bootstrap, topic
        self.sent = self.repeated = 0
        self._failed: list[Message] = []
        #: What is not acknowledged yet, by its number; when something was, and since when the client is there.
        self._waiting: dict[int, Message] = {}
        self._heard = self._since = time.monotonic()
        self._numbers = count()
        self._producer = self._connect()

    def _connect(self) -> KafkaProducer:
        from kafka import KafkaProducer

        return retried(
            lambda: KafkaProducer(
                bootstrap_servers=self.bootstrap,
                acks="all",
                enable_idempotence=True,
                linger_ms=50,
                batch_size=64 * 1024,
                max_request_size=2 * BIG,
                metadata_max_age_ms=2000,
                reconnect_backoff_max_ms=1000,
                request_timeout_ms=10_000,
                delivery_timeout_ms=120_000,
                max_block_ms=120_000,
            )
        )

    def send(self, message: Message) -> None:
        if not self._waiting and not self._failed:
            self._heard = time.monotonic()
        self._send_again()
        self._send(message)
        self.sent += 1

    def _send(self, message: Message) -> None:
        def send() -> Any:
            # This client sends a null value only with a key.
            key = b"null" if message.value is None else None
            return self._producer.send(self.topic, message.value, key, partition=message.partition)

        number = next(self._numbers)
        self._waiting[number] = message
        future = retried(send)
        future.add_callback(lambda _: self._acknowledged(number))
        future.add_errback(lambda _: self._refused(number))

    def _acknowledged(self, number: int) -> None:
        self._waiting.pop(number, None)
        self._heard = time.monotonic()

    def _refused(self, number: int) -> None:
        message = self._waiting.pop(number, None)
        # (Of an earlier client nothing is expected.)
        if message is not None:
            self._failed.append(message)

    def _send_again(self) -> None:
        """What was refused, or all that waits, by a new client."""
        if self._waiting and time.monotonic() - max(self._heard, self._since) > _SILENCE:
            again = [*self._waiting.values()]
            self._waiting.clear()
            # (`close` would wait for what is never sent.)
            self._producer._sender.force_close()
            self._producer, self._since = self._connect(), time.monotonic()
            self._failed += again
        while self._failed:
            self.repeated += 1
            self._send(self._failed.pop())

    def flush(self) -> None:
        """Until everything is acknowledged. Raises TimeoutError if nothing is for long."""
        from kafka.errors import KafkaError

        while self._waiting or self._failed:
            self._send_again()
            if time.monotonic() - self._heard > _PATIENCE:
                raise TimeoutError(f"{len(self._waiting)} rows are not acknowledged by {self.bootstrap}")
            with suppress(KafkaError):
                self._producer.flush(timeout=5)

    def add_partition(self, number: int) -> None:
        """Let the topic have `number` partitions, and wait until this producer knows."""
        from kafka.admin import KafkaAdminClient

        self.flush()

        def create() -> None:
            admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
            try:
                if number > len(self._producer.partitions_for(self.topic)):
                    admin.create_partitions({self.topic: number})
            finally:
                admin.close()
            deadline = time.monotonic() + 30
            while len(self._producer.partitions_for(self.topic)) < number:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{self.topic} does not get its partition {number - 1}")
                time.sleep(0.2)

        retried(create)


def retried(call: Any) -> Any:
    """What the call gives; errors of the broker are waited out, for a while."""
    from kafka.errors import KafkaError

    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return call()
        except (KafkaError, TimeoutError, OSError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


class Producing:
    """Such a process, seen from the one that has started it. `sent`, `repeated`: rows, as it said last."""

    def __init__(self, bootstrap: str, topic: str, rows: int, seed: int, rate: float, log: Path) -> None:
        self.rows, self.sent, self.repeated, self.log = rows, 0, 0, log
        words = [bootstrap, topic, str(rows), str(seed), str(rate)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.produce", *words],
            cwd=Path(__file__).resolve().parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log.open("wb"),
            text=True,
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            self.sent, self.repeated = told["sent"], told["repeated"]

    def pace(self, seconds: float) -> None:
        """Let what is left last so long; 0: send it as fast as it can."""
        assert self._process.stdin is not None
        rate = (self.rows - self.sent) / seconds if seconds else 0
        with suppress(BrokenPipeError):  # it has sent everything
            # (A rate of 0 would be none.)
            self._process.stdin.write(f"rate {max(rate, 1.0 if seconds else 0):.1f}\n")
            self._process.stdin.flush()

    def exit_code(self) -> int | None:
        """None while it sends; not 0 if it has failed, for what its log says."""
        return self._process.poll()

    def kill(self) -> None:
        self._process.kill()


def main() -> int:
    bootstrap, topic, rows, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    pace = Pace(float(sys.argv[5]) if len(sys.argv) > 5 else 0.0)

    def listen() -> None:
        for line in sys.stdin:
            word, _, value = line.partition(" ")
            if word == "rate":
                pace.set(float(value))

    threading.Thread(target=listen, daemon=True).start()
    sender, has_added, told = Sender(bootstrap, topic), False, 0.0
    for message in Load(rows, seed).messages():
        if message.partition == ADDED and not has_added:
            sender.add_partition(ADDED + 1)
            has_added = True
        sender.send(message)
        pace.wait()
        if time.monotonic() - told > 1:
            told = time.monotonic()
            print(json.dumps({"sent": sender.sent, "repeated": sender.repeated}), flush=True)
    sender.flush()
    print(json.dumps({"sent": sender.sent, "repeated": sender.repeated, "done": True}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
