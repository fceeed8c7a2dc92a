"""The producer of `make chaos` against a client that fails, as Kafka's client did after its broker was killed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError

from tests.chaos import produce
from tests.chaos.load import Message


class Future:
    """Of one message; the test says what becomes of it."""

    def add_callback(self, call: Callable[[object], None]) -> None:
        self.acknowledge = call

    def add_errback(self, call: Callable[[object], None]) -> None:
        self.refuse = call


class Client:
    """`works`: it acknowledges what it gets when it is flushed."""

    def __init__(self, clock: Clock, works: bool) -> None:
        self.clock, self.works, self.closed = clock, works, False
        self.got: list[tuple[bytes | None, Future]] = []

    def send(self, topic: str, value: bytes | None, key: bytes | None, partition: int) -> Future:
        assert not self.closed
        self.got.append((value, Future()))
        return self.got[-1][1]

    def flush(self, timeout: float) -> None:
        self.clock.now += timeout
        if not self.works:
            raise KafkaTimeoutError
        for _, future in self.got:
            future.acknowledge(None)

    @property
    def _sender(self) -> Client:
        return self

    def force_close(self) -> None:
        self.closed = True
        for _, future in self.got:
            future.refuse(None)


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(produce, "time", made)
    return made


def sender(monkeypatch: pytest.MonkeyPatch, *clients: Client) -> produce.Sender:
    left: Any = iter(clients)
    monkeypatch.setattr(produce.Sender, "_connect", lambda self: next(left))
    return produce.Sender("broker", "topic")


def rows(count: int) -> list[Message]:
    return [Message(0, str(number).encode()) for number in range(count)]


def test_what_a_client_has_stopped_to_send_is_sent_by_another_one(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    stopped, works = Client(clock, False), Client(clock, True)
    sending = sender(monkeypatch, stopped, works)
    first, second, third = rows(3)
    sending.send(first)
    clock.now += 59
    sending.send(second)
    assert not stopped.closed
    clock.now += 2
    sending.send(third)
    assert stopped.closed
    assert sorted(value for value, _ in works.got) == [b"0", b"1", b"2"]
    assert (sending.sent, sending.repeated) == (3, 2)
    sending.flush()
    assert not sending._waiting


def test_a_client_that_acknowledges_is_kept(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    works = Client(clock, True)
    sending = sender(monkeypatch, works)
    for row in rows(5):
        clock.now += 300
        sending.send(row)
        works.got[-1][1].acknowledge(None)
    # What is refused is sent again by the same client.
    sending.send(rows(6)[-1])
    works.got[-1][1].refuse(None)
    sending.flush()
    assert [value for value, _ in works.got] == [b"0", b"1", b"2", b"3", b"4", b"5", b"5"]
    assert (sending.sent, sending.repeated) == (6, 1)


def test_the_end_waits_for_every_row_and_gives_up_at_last(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    sending = sender(monkeypatch, Client(clock, False), Client(clock, True))
    sending.send(rows(1)[0])
    sending.flush()
    assert (clock.now, sending.repeated) == (70, 1)
    clock.now = 0
    sending = sender(monkeypatch, *(Client(clock, False) for _ in range(9)))
    sending.send(rows(1)[0])
    with pytest.raises(TimeoutError, match="1 rows are not acknowledged by broker"):
        sending.flush()
    assert clock.now == pytest.approx(300, abs=10)
