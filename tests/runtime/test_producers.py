"""How long a sink's producers wait for a broker."""

from __future__ import annotations

from tidegate.runtime.kafka_topics import producer_properties


def test_a_sink_that_says_nothing_waits_less_long_than_kafka_by_default() -> None:
    found = producer_properties({"bootstrap.servers": "b:9092"})
    assert found["acks"] == "all"
    waits = {name: int(found[name]) for name in ("max.block.ms", "request.timeout.ms", "delivery.timeout.ms")}
    # Kafka refuses a producer whose delivery has less time than a request.
    assert waits["request.timeout.ms"] < waits["delivery.timeout.ms"] < 60_000
    assert waits["max.block.ms"] < 60_000


def test_what_a_sink_says_of_it_is_taken_as_a_whole() -> None:
    given = {"bootstrap.servers": "b:9092", "request.timeout.ms": "60000"}
    assert producer_properties(given) == given | {"acks": "all", "enable.idempotence": "true"}
    assert producer_properties({"acks": "0"})["acks"] == "all"
