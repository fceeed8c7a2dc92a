"""Small batches of messages by jobs without a query (`runtime/kafka_jobs.py`): the rows and errors of a query."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from tests.inprocess.test_topic_conformance import COMMITTED, FIRST, session, source
from tests.support.brokers import AnyBroker
from tidegate.ingest.sources.kafka_messages import _short
from tidegate.jvm.failures import is_from_spark
from tidegate.runtime import kafka_jobs
from tidegate.runtime.topics import MessageJobs, Share, SourceTopic
from tidegate.session.session import Session
from tidegate.tasks.decode.text.arrow_json import LONG
from tidegate.tasks.transfer import texts_of

__all__ = ["session"]


def shown(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A task whose texts are its rows, and what their columns are."""
    for batch in batches:
        kinds = [str(field.type) for field in batch.schema]
        yield pa.RecordBatch.from_pydict({"report": [repr((kinds, row)) for row in batch.to_pylist()]})


def by_query(topic: SourceTopic, *shares: Share) -> list[str]:
    ranges = {str(partition): (since, until) for partition, since, until in shares}
    return sorted(texts_of(_short(topic.messages(ranges)), shown))


def jobs_of(topic: SourceTopic) -> MessageJobs:
    jobs = topic.jobs(_short)
    assert jobs is not None
    return jobs


def test_a_job_gives_the_rows_of_a_query_whatever_the_messages_are(
    session: Session, broker: AnyBroker
) -> None:
    name, chance = broker.topic(partitions=3), random.Random(5)
    topic = source(session, broker, name)
    jobs, ends = jobs_of(topic), [0, 0, 0]
    for _ in range(6):
        before = list(ends)
        sent: list[Any] = []
        for _ in range(chance.randrange(1, 30)):
            partition = chance.randrange(3)
            value = chance.choice([None, b"", b"\xff\xfe", b'{"id": 1}', b"x" * (LONG - 1), b"x" * LONG])
            headers = chance.choice([[], [("a", b"1"), ("a", b"")], [("b", "x" * LONG)]])
            key = chance.choice([None, b"", b"k\xff", b"k" * LONG])
            sent.append((partition, key, value, FIRST + ends[partition], headers))
            ends[partition] += 1
        broker.send(name, sent)
        shares = [(p, before[p], ends[p]) for p in range(3) if ends[p] > before[p]]
        found = jobs.batch([shares]).texts(shown)
        assert len(found) == len(sent)
        assert sorted(found) == by_query(topic, *shares)
        # In as many tasks as one likes, each partition's messages in their order; and the same again.
        apart = jobs.batch([[share] for share in shares]).texts(shown)
        assert apart == found
    whole = [(p, 0, ends[p]) for p in range(3)]
    assert sorted(jobs.batch([whole[:1], whole[1:]]).texts(shown)) == by_query(topic, *whole)
    topic.close()


def test_W5_transactions_leave_the_gaps_that_a_query_finds(session: Session, broker: AnyBroker) -> None:
    name = broker.topic(partitions=1)
    anyone, patient = source(session, broker, name), source(session, broker, name, COMMITTED)
    broker.send(name, [(0, None, "a", FIRST)])
    readers = [(topic, jobs_of(topic)) for topic in (anyone, patient)]
    for _, jobs in readers:
        assert len(jobs.batch([[(0, 0, 1)]]).texts(shown)) == 1
    with broker.transaction(name, [(0, None, "b", FIRST), (0, None, "c", FIRST)], commit=True):
        pass
    with broker.transaction(name, [(0, None, "d", FIRST)], commit=False):
        broker.send(name, [(0, None, "e", FIRST)])
    for (topic, jobs), rows in zip(readers, (4, 3), strict=True):
        found = jobs.batch([[(0, 1, 7)]]).texts(shown)
        assert len(found) == rows
        assert found == by_query(topic, (0, 1, 7))
        topic.close()


def test_W5_what_is_gone_fails_the_job_as_it_fails_the_query(session: Session, broker: AnyBroker) -> None:
    name = broker.topic(partitions=1)
    topic = source(session, broker, name)
    jobs = jobs_of(topic)
    broker.send(name, [(0, None, f"{n}", FIRST) for n in range(6)])
    assert len(jobs.batch([[(0, 0, 2)]]).texts(shown)) == 2
    broker.delete_before(name, {0: 5})
    with pytest.raises(Exception, match=r"(?s)lost|out of range") as lost:
        jobs.batch([[(0, 3, 6)]]).texts(shown)
    assert is_from_spark(lost.value)
    assert len(jobs.batch([[(0, 5, 6)]]).texts(shown)) == 1
    topic.close()


def test_another_spark_is_asked_by_queries(
    session: Session, broker: AnyBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = source(session, broker, broker.topic(partitions=1))
    monkeypatch.setattr(kafka_jobs, "_SPARK", "9.9.")
    assert topic.jobs(_short) is None
    monkeypatch.setattr(kafka_jobs, "_SPARK", "4.")
    monkeypatch.setattr(kafka_jobs, "_KAFKA", "org.apache.spark.sql.kafka99")
    assert topic.jobs(_short) is None
    topic.close()
