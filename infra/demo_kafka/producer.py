"""Sends messages when they are due, in a thread.

The silent airport wakes when it is due and has been seen idle: on a slow machine a tick takes longer than its silence.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from infra.demo_kafka.flights import AIRPORTS, SILENT, Message
from infra.kafka.topics import producer

_PATIENCE = 0.05
#: So long the silent airport waits, beyond what is due, for somebody to see that it is idle.
_SEEN_WITHIN = 120.0


class Player(threading.Thread):
    """`start()` begins to play. `wakes`: when the silent airport's messages are due again, seconds; `seen_idle`: to be
    set once it was seen idle. `sent`: messages per airport that the broker has, or will have at `done`. `error`:
    what ended it early."""

    def __init__(self, bootstrap: str, topic: str, messages: Sequence[Message], wakes: float) -> None:
        super().__init__(daemon=True, name="player")
        self._servers, self._topic, self._messages = bootstrap, topic, messages
        self._over, self.seen_idle, self._wakes = threading.Event(), threading.Event(), wakes
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
        asleep: list[Message] = []
        for message in self._messages:
            while (wait := message.due - self.seconds) > 0:
                if self._over.wait(min(wait, _PATIENCE)):
                    return
            awake = self._awake()
            if message.airport == SILENT and message.due >= self._wakes and not awake:
                asleep.append(message)
                continue
            if awake:
                # What has gathered comes first: an airport's messages keep their order.
                for one in asleep:
                    self._send(out, one)
                asleep = []
            self._send(out, message)
        while asleep and not self._awake():
            if self._over.wait(_PATIENCE):
                return
        for one in asleep:
            self._send(out, one)
        out.flush()
        self.done = True

    @property
    def asleep(self) -> bool:
        """Whether the silent airport's messages are due, and wait to be seen missing."""
        return self.seconds >= self._wakes and not self._awake()

    def _awake(self) -> bool:
        return self.seen_idle.is_set() or self.seconds > self._wakes + _SEEN_WITHIN

    def _send(self, out, message: Message) -> None:  # type: ignore[no-untyped-def]
        out.send(
            self._topic,
            value=message.value.encode(),
            key=message.key.encode(),
            partition=AIRPORTS.index(message.airport),
            timestamp_ms=message.timestamp_ms,
        )
        self.sent[message.airport] += 1
