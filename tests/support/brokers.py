"""One broker for tests on both runners: Kafka itself for Spark, the model in memory for the one without a JVM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from tidegate.session.session import Session


class AnyBroker(Protocol):
    """What tests do with a broker, see `tests.support.kafka.Broker`."""

    bootstrap: str

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def kill(self) -> None: ...

    def topic(self, name: str | None = None, partitions: int = 3, **config: str) -> str: ...

    def send(self, topic: str, rows: Iterable[tuple[Any, ...]]) -> int: ...

    def transaction(
        self, topic: str, rows: Iterable[tuple[Any, ...]], commit: bool
    ) -> AbstractContextManager[None]: ...

    def read(self, topic: str) -> dict[int, list[tuple[bytes | None, bytes | None]]]: ...

    def add_partitions(self, topic: str, n: int) -> None: ...

    def delete_before(self, topic: str, offsets: Mapping[int, int]) -> None: ...

    def delete_topic(self, topic: str) -> None: ...

    def recreate(self, topic: str, partitions: int) -> None: ...

    def ends(self, topic: str) -> dict[int, int]: ...

    def starts(self, topic: str) -> dict[int, int]: ...


@pytest.fixture
def broker(runner: str, request: pytest.FixtureRequest) -> Iterator[AnyBroker]:
    """The broker of the runner that the test's projects run on."""
    if runner == "spark":
        yield request.getfixturevalue("kafka")
        return
    from tests.inprocess.broker import Broker
    from tests.inprocess.topics import running

    with running(Broker()) as model:
        yield model


def break_send(
    monkeypatch: pytest.MonkeyPatch, session: Session, rows: int | None, error: Exception | str
) -> None:
    """Let the next delivery of a sink send so many rows (None: all), and fail then with this error, or one with these
    words; the ones after it are as always."""
    from tests.inprocess.topics import InProcessSinkTopic
    from tidegate.runtime.kafka_topics import SparkSinkTopic, SparkTopics

    on_spark = isinstance(session.runner.topics, SparkTopics)
    kind: Any = SparkSinkTopic if on_spark else InProcessSinkTopic
    real = kind.send

    def send(self: Any, messages: Any) -> None:
        monkeypatch.setattr(kind, "send", real)
        if rows != 0:
            real(self, messages if rows is None else messages.limit(rows))
        raise RuntimeError(error) if isinstance(error, str) else error

    monkeypatch.setattr(kind, "send", send)
