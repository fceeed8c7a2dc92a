"""What a broker is asked without a JVM, and how Java's client properties are understood (kafka-python)."""

from __future__ import annotations

import ssl
import threading
from pathlib import Path

import pytest

from tests.support.kafka import Broker as TestBroker
from tidegate.errors import TidegateError
from tidegate.project.reading.variables import expand
from tidegate.runtime.kafka_topics import producer_properties
from tidegate.sql.options.kafka_options import KafkaOptions
from tidegate.store.brokers import broker as broker_module
from tidegate.store.brokers.broker import BrokerConnection, read_all_offsets, read_offsets
from tidegate.store.brokers.broker_access import OnlyForJava, client_settings

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
TLS = {"security.protocol": "SSL"}
#: Made for these tests, for nobody, with `openssl req -x509 -newkey ec`.
CERTIFICATE = """-----BEGIN CERTIFICATE-----
MIIBijCCAS+gAwIBAgIUUuF/4n8DyOmWqs/R72Gll/z/VNwwCgYIKoZIzj0EAwIw
GTEXMBUGA1UEAwwOdGlkZWdhdGUtdGVzdHMwIBcNMjYxMTIxMTcyOTI4WhgPMjEy
NjEwMjgxNzI5MjhaMBkxFzAVBgNVBAMMDnRpZGVnYXRlLXRlc3RzMFkwEwYHKoZI
zj0CAQYIKoZIzj0DAQcDQgAE7n6QFwrnlJyASWvhP8Is0GpGGu2wd+O9T1SYPkux
V+7SXE7MmnDdnFz8NtGL0tku6vWicY90CL+9A6rvlJUYU6NTMFEwHQYDVR0OBBYE
FC1cNNKv6ttdwJRn0AeOpRAACXctMB8GA1UdIwQYMBaAFC1cNNKv6ttdwJRn0AeO
pRAACXctMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSQAwRgIhAJChEru8
fuYc9GZ5C7NtuQjlyEi3AenqS6aQF8RB21XxAiEA93ULNu6avJhZf0jgKmIzc3/c
k5E1dBHTkRDEAeWQJkE=
-----END CERTIFICATE-----
"""
KEY = """-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgfGisW23L70VxS0av
XywasHlIMPzdjnUPJn8iRLYez5ahRANCAATufpAXCueUnIBJa+E/wizQakYa7bB3
471PVJg+S7FX7tJcTsyacN2cXPw20YvS2S7q9aJxj3QIv70Dqu+UlRhT
-----END PRIVATE KEY-----
"""


def options(topic: str, bootstrap: str, **properties: str) -> KafkaOptions:
    return KafkaOptions(topic=topic, properties={"bootstrap.server": bootstrap} | properties)


@pytest.mark.parametrize(
    ("mechanism", "jaas", "user", "password"),
    [
        ("PLAIN", f'{PLAIN} username="ann" password="p;w=1";', "ann", "p;w=1"),
        ("PLAIN", rf'{PLAIN} password="a\"b\\c" username="ann" ;', "ann", 'a"b\\c'),
        ("SCRAM-SHA-512", f"{SCRAM} username='ann' password=plain;", "ann", "plain"),
    ],
)
def test_a_jaas_line_with_a_name_and_a_password_is_understood(
    mechanism: str, jaas: str, user: str, password: str
) -> None:
    found = client_settings(SASL | {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas})
    assert found == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


@pytest.mark.parametrize(
    ("properties", "message", "hint"),
    [
        ({"security.protocol": "SASL_SSL"}, "Kerberos", "SCRAM-SHA-256"),
        (SASL | {"sasl.mechanism": "OAUTHBEARER"}, "sasl.mechanism", "PLAIN"),
        (
            SASL | {"sasl.jaas.config": f'{SCRAM} username="a" password="hush";'},
            "PlainLoginModule",
            "PlainLoginModule",
        ),
        (SASL | {"sasl.jaas.config": f'{PLAIN} username="a" pass="hush";'}, "no password", "password="),
        (SASL | {"sasl.login.class": "hush.Login"}, "sasl.login.class", "SCRAM"),
        (TLS | {"ssl.truststore.location": "trust.jks"}, "ssl.truststore", "PEM"),
        (TLS | {"ssl.keystore.location": "key.p12", "ssl.keystore.type": "PKCS12"}, "ssl.keystore", "PEM"),
    ],
)
def test_what_only_java_can_do_is_refused_with_what_works(
    properties: dict[str, str], message: str, hint: str
) -> None:
    with pytest.raises(OnlyForJava) as refused:
        client_settings(properties)
    assert refused.value.code == "TG621"
    assert message in refused.value.message
    assert hint in (refused.value.hint or "")
    assert "hush" not in str(refused.value)


def test_tls_takes_pem_as_text_and_from_files(tmp_path: Path) -> None:
    trusted, own = tmp_path / "ca.pem", tmp_path / "own.pem"
    trusted.write_text(CERTIFICATE)
    own.write_text(KEY + CERTIFICATE)
    pem = {"ssl.truststore.type": "PEM", "ssl.keystore.type": "PEM"}
    text = {
        "ssl.truststore.certificates": CERTIFICATE,
        "ssl.keystore.certificate.chain": CERTIFICATE,
        "ssl.keystore.key": KEY,
    }
    files = {"ssl.truststore.location": str(trusted), "ssl.keystore.location": str(own)}
    for given in (text, files):
        context = client_settings(TLS | pem | given)["ssl_context"]
        assert [ca["serialNumber"] for ca in context.get_ca_certs()] == [
            "52E17FE27F03C8E996AACFD1EF61A597FCFF54DC"
        ]
        assert context.check_hostname
    loose = {"ssl.endpoint.identification.algorithm": "", "ssl.enabled.protocols": "TLSv1.3"}
    context = client_settings(TLS | pem | text | loose)["ssl_context"]
    assert not context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    for broken in (
        {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "hush"},
        {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(tmp_path / "nothing")},
    ):
        with pytest.raises(TidegateError) as refused:
            client_settings(TLS | broken)
        assert refused.value.code == "TG621"
        assert "hush" not in str(refused.value)


def test_a_broker_that_is_not_there_is_named_unless_the_environment_names_it() -> None:
    before = threading.active_count()
    # Port 1 of this machine: nobody listens.
    with pytest.raises(TidegateError) as refused:
        read_offsets(options("orders", "127.0.0.1:1"), timeout_s=0.3)
    assert refused.value.code == "TG621"
    assert "127.0.0.1:1: Connection refused" in refused.value.message
    written = {"bootstrap.server": "${KAFKA}"}
    expanded = {"bootstrap.servers": expand("${KAFKA}", {"KAFKA": "127.0.0.1:1"})}
    with pytest.raises(TidegateError) as hidden:
        BrokerConnection(expanded, 0.3, written)
    assert "${KAFKA}" in hidden.value.message
    assert "127.0.0.1" not in str(hidden.value)
    assert threading.active_count() == before


def test_one_cluster_is_connected_to_once_for_all_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    class Silent:
        def __init__(self, properties: dict[str, str], *_: object) -> None:
            opened.append(properties["bootstrap.servers"])
            raise TidegateError("TG621", "it does not answer")

    monkeypatch.setattr(broker_module, "BrokerConnection", Silent)
    sources = {f"s{n}": options(f"t{n}", f"host{n % 2}:9092") for n in range(100)}
    found = read_all_offsets(sources)
    assert sorted(opened) == ["host0:9092", "host1:9092"], (
        "and one that does not answer is not waited for a hundred times"
    )
    assert found.keys() == sources.keys()
    assert all(isinstance(one, TidegateError) for one in found.values())


@pytest.mark.slow
def test_offsets_are_those_of_the_broker(kafka: TestBroker) -> None:
    topic = kafka.topic("orders", partitions=3)
    kafka.send(topic, [(0, None, "a", 1), (0, None, "b", 2), (2, None, "c", 3)])
    kafka.delete_before(topic, {0: 1})
    before = threading.active_count()
    assert read_offsets(options(topic, kafka.bootstrap)) == {0: (1, 2), 1: (0, 0), 2: (0, 1)}
    assert read_offsets(options(topic, kafka.bootstrap, **{"isolation.level": "read_committed"}))[2] == (0, 1)
    with pytest.raises(TidegateError) as missing:
        read_offsets(options(f"{topic}s", kafka.bootstrap))
    assert missing.value.code == "TG621"
    assert f'did you mean "{topic}"?' in (missing.value.hint or "")
    # Many sources at once: what is wrong with one says nothing about the others.
    other = kafka.topic("orders-too", partitions=2)
    asked = {"a": topic, "b": other, "none": f"{topic}s", "again": topic}
    all_at_once = read_all_offsets(
        {name: options(one, kafka.bootstrap) for name, one in asked.items()}
        | {"away": options(topic, "127.0.0.1:1")},
        timeout_s=1.0,
    )
    assert all_at_once["a"] == all_at_once["again"] == {0: (1, 2), 1: (0, 0), 2: (0, 1)}
    assert all_at_once["b"] == {0: (0, 0), 1: (0, 0)}
    failed = [
        one.message for one in (all_at_once["none"], all_at_once["away"]) if isinstance(one, TidegateError)
    ]
    assert [f'does not have topic "{topic}s"' in failed[0], "Connection refused" in failed[1]] == [True, True]
    with BrokerConnection({"bootstrap.servers": kafka.bootstrap}) as broker:
        first = broker.topic_id(topic)
        assert first is not None
        assert broker.topic_id(topic) == first
        assert broker.topic_id(kafka.topic("orders")) != first
    assert threading.active_count() == before


def test_clusters_and_servers_that_do_not_answer_are_waited_for_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A scrape of live mode's metrics asks all of them, and Prometheus gives up after ten seconds."""
    together = threading.Barrier(4, timeout=20.0)

    def asked(connection: BrokerConnection, server: str) -> str:
        # Two servers of each of two clusters: each waits until all four are asked.
        together.wait()
        return "it is asleep"

    monkeypatch.setattr(BrokerConnection, "_why", asked)
    servers = ["127.0.0.1:1,127.0.0.1:2", "127.0.0.1:3,127.0.0.1:4"]
    sources = {f"s{n}": options("orders", server) for n, server in enumerate(servers)}
    found = read_all_offsets(sources, timeout_s=0.2)
    assert [type(one) for one in found.values()] == [TidegateError] * 2
    assert "127.0.0.1:4: it is asleep" in str(found["s1"])


def test_a_sink_that_says_nothing_waits_less_long_than_kafka_by_default() -> None:
    found = producer_properties({"bootstrap.servers": "b:9092"})
    assert found["acks"] == "all"
    waits = {name: int(found[name]) for name in ("max.block.ms", "request.timeout.ms", "delivery.timeout.ms")}
    # Kafka refuses a producer whose delivery has less time than a request.
    assert waits["request.timeout.ms"] < waits["delivery.timeout.ms"] <= 60_000
    assert waits["max.block.ms"] < 60_000


def test_what_a_sink_says_of_it_is_taken_as_a_whole() -> None:
    given = {"bootstrap.servers": "b:9092", "request.timeout.ms": "60000"}
    assert producer_properties(given) == given | {"acks": "all", "enable.idempotence": "true"}
    assert producer_properties({"acks": "0"})["acks"] == "all"
