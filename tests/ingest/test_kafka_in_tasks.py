"""Sources whose messages the tasks that judge read by themselves: the same log as by Java's client, always."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Workbench
from tests.ingest.topics import project, row
from tests.support.kafka import Broker
from tidegate.runtime.kafka_topics import SparkSourceTopic
from tidegate.session.session import Session


def log_of(session: Session) -> list[Any]:
    columns = ["partition", "offset", "outcome", "reason", "raw", "id", "ts", "$rowtime", "$key", "$headers"]
    names = ", ".join(f'"{name}"' for name in columns)
    return session.execute(f'SELECT {names} FROM "s$raw" ORDER BY "partition", "offset"').rows()


@pytest.mark.long_run
def test_R2_the_log_is_the_same_whichever_client_reads(
    workbench: Workbench,
    kafka: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = kafka.topic(partitions=2)

    def send(first: int) -> None:
        texts: list[Any] = [row(first + n, (n * 7) % 60 + n // 2) for n in range(40)]
        texts[3:6] = [None, "{", b"\xff"]
        headers = [("a", b"1"), ("b", b"")]
        kafka.send(
            topic,
            [(n % 2, f"k{n}" if n % 3 else None, text, 1_700_000_000_000 + n, headers if n % 5 == 0 else [])
             for n, text in enumerate(texts)],
        )  # fmt: skip

    caplog.set_level(logging.INFO, "tidegate.ingest")
    send(0)
    session = project(workbench, kafka, topic)
    other = project(Workbench(tmp_path / "java", session.spark), kafka, topic, reader="java")
    by_java: list[str] = []
    real = SparkSourceTopic.messages

    def messages(self: Any, ranges: Any) -> Any:
        by_java.append(str(self))
        return real(self, ranges)

    monkeypatch.setattr(SparkSourceTopic, "messages", messages)
    session.run()
    assert not by_java
    other.run()
    assert by_java
    assert log_of(session) == log_of(other)
    assert len(log_of(session)) == 40
    # Tasks that can't read leave the batch to Java's client, with all its rows, and none of them twice.
    found = SparkSourceTopic.in_tasks
    broken = monkeypatch.context()
    with broken as patch:
        patch.setattr(
            SparkSourceTopic,
            "in_tasks",
            lambda self: replace(found(self), servers=("no address",)),  # type: ignore[type-var]
        )
        del by_java[:]
        send(100)
        session.run()
        assert by_java
        assert "Java's client reads a batch" in caplog.text
    other.run()
    assert log_of(session) == log_of(other)
    assert len(log_of(session)) == 80
