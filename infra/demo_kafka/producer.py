"""Sends messages when they are due, in a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from infra.demo_kafka.flights import AIRPORTS, Message
from infra.kafka.topics import producer

_PATIENCE = 0.05


class Player(threading.Thread):
    """`start()` begins to play. `sent`: messages per airport that the broker has, or will have at `done`. `error`: what
    ended it early."""

    def __init__(self, bootstrap: str, topic: str, messages: Sequence[Message]) -> None:
        super().__init__(daemon=True, name="player")
        self._servers, self._topic, self._messages = bootstrap, topic, messages
        self._over = threading.Event()
        self._began: float | None = None
        self.sent = dict.fromkeys(AIRPORTS, 0)
        self.done = False
        self.error: Exception | None = None

    @property
    def seconds(self) -> float:
        """Since it began."""
        return 0.0 if self._began is None else time.monotonic() - self._began

    def stop(self) -> None:
        """Send nothing more; returns when it is over."""
        self._over.set()
        if self.is_alive():
            self.join(10.0)

    def run(self) -> None:
        try:
            out = producer(self._servers)
            try:
                self._play(out)
            finally:
                out.close(timeout=10)
        except Exception as error:
            self.error = error

    def _play(self, out) -> None:  # type: ignore[no-untyped-def]
        self._began = time.monotonic()
        for message in self._messages:
            while (wait := message.due - self.seconds) > 0:
                if self._over.wait(min(wait, _PATIENCE)):
                    return
            out.send(
                self._topic,
                value=message.value.encode(),
                key=message.key.encode(),
                partition=AIRPORTS.index(message.airport),
                timestamp_ms=message.timestamp_ms,
            )
            self.sent[message.airport] += 1
        out.flush()
        self.done = True
