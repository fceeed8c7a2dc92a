"""Which client reads a source's messages: the tasks that judge, by Kafka's protocol, or Java's, in Spark's connector.

Both give the same rows. The tasks cost less, but know only what stands here: a property that could change what is read,
or how a broker is reached, and that is not one of these, is for Java's client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.sql.options.kafka_options import KafkaOptions

#: What means the same in both.
_ALIKE = """
    bootstrap.server bootstrap.servers isolation.level security.protocol sasl.mechanism sasl.jaas.config
    ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.key.password ssl.keystore.certificate.chain
    ssl.keystore.key ssl.keystore.location ssl.keystore.type ssl.truststore.certificates ssl.truststore.location
    ssl.truststore.type
"""
#: How much is asked for at a time, how long somebody waits, and what a client calls itself: it changes no message.
_WITHOUT_EFFECT = """
    auto.include.jmx.reporter client.id enable.metrics.push fetch.max.bytes fetch.max.wait.ms fetch.min.bytes
    max.partition.fetch.bytes max.poll.interval.ms max.poll.records metrics.num.samples metrics.recording.level
    metrics.sample.window.ms receive.buffer.bytes send.buffer.bytes
"""
_UNDERSTOOD = frozenset([*_ALIKE.split(), *_WITHOUT_EFFECT.split()])
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def why_java(options: KafkaOptions) -> str | None:
    """Why Java's client reads a source, as its definition has it; None if tasks can."""
    if options.reader == "java":
        return "reader = 'java'"
    for name in options.properties:
        if name.lower() not in _UNDERSTOOD:
            return f"the tasks do not know properties.{name}"
    return _why_of_access({name.lower(): value for name, value in options.properties.items()})


def _why_of_access(given: dict[str, str]) -> str | None:
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        return "properties.security.protocol is known only when a client is made"
    # What Java has if none is given is Kerberos.
    mechanism = given.get("sasl.mechanism", "GSSAPI").upper()
    if protocol.startswith("SASL") and mechanism not in _MECHANISMS:
        return f"the tasks know only the mechanisms {', '.join(_MECHANISMS)}"
    for store in ("truststore", "keystore") if protocol.endswith("SSL") else ():
        named = any(name.startswith(f"ssl.{store}.") and not name.endswith(".type") for name in given)
        if named and given.get(f"ssl.{store}.type", "JKS").upper() != "PEM":
            return f"properties.ssl.{store}.* is a key store of Java's"
    return None
