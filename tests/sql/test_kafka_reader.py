"""Which client reads a source's messages, and why (`sql/options/kafka_reader.py`)."""

from __future__ import annotations

import pytest

from tidegate.sql.options.kafka_options import KafkaOptions
from tidegate.sql.options.kafka_reader import why_java
from tidegate.tasks.kafka.cluster import TopicAccess
from tidegate.tasks.kafka.reader import MessagesInTask

SASL = {"security.protocol": "SASL_SSL", "sasl.jaas.config": "${LOGIN}"}


def options(properties: dict[str, str], **given: str) -> KafkaOptions:
    return KafkaOptions.model_validate(
        {"topic": "t", "properties": {"bootstrap.server": "b:9092"} | properties} | given
    )


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"isolation.level": "read_committed", "client.id": "me", "fetch.max.bytes": "1000"},
        {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "${LOGIN}"},
        SASL
        | {"sasl.mechanism": "SCRAM-SHA-512", "ssl.truststore.type": "PEM", "ssl.truststore.location": "a"},
        # Nothing of it is used.
        {"ssl.truststore.location": "trust.jks"},
    ],
)
def test_tasks_read_with_what_means_the_same_to_them(properties: dict[str, str]) -> None:
    assert why_java(options(properties)) is None
    assert why_java(options(properties, reader="JAVA")) == "reader = 'java'"


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        (SASL, "mechanisms PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        (SASL | {"sasl.mechanism": "OAUTHBEARER"}, "mechanisms"),
        (SASL | {"sasl.mechanism": "${MECHANISM}"}, "mechanisms"),
        ({"security.protocol": "${PROTOCOL}"}, "security.protocol"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "trust.jks"}, "ssl.truststore.*"),
        (
            {"security.protocol": "SSL", "ssl.keystore.location": "k.p12", "ssl.keystore.type": "PKCS12"},
            "ssl.keystore.*",
        ),
        ({"client.rack": "a"}, "properties.client.rack"),
        ({"check.crcs": "false"}, "properties.check.crcs"),
        ({"sasl.login.class": "x.Login"}, "properties.sasl.login.class"),
        ({"request.timeout.ms": "900"}, "properties.request.timeout.ms"),
    ],
)
def test_javas_client_reads_with_anything_else(properties: dict[str, str], why: str) -> None:
    found = why_java(options(properties))
    assert found is not None
    assert why in found


def test_X4_what_tasks_are_given_shows_no_secret() -> None:
    access = TopicAccess("t", ("user:hush@b:9092",), False, (("sasl.jaas.config", "hush"),))
    assert "hush" not in repr(MessagesInTask(access, [[(0, 1, 2)]], iter))
