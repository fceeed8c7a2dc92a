"""Kafka's options with the values of the environment: for a client, and for nothing that is kept."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.confidential import is_secret
from tidegate.project.reading.variables import expand
from tidegate.sql.options.kafka_options import BOOTSTRAP, KafkaOptions, KafkaSinkOptions

#: Of Spark's readers, unless the properties say otherwise. What is read is there already, nobody waits for it. But the
#: client asks ahead: at a partition's end for what is not there, and Spark's next question to the same broker stands
#: behind that one. With Kafka's own half a second, every partition would take so long.
READING = {"fetch.max.wait.ms": "10"}


def java_properties(
    options: KafkaOptions | KafkaSinkOptions, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The client's properties by Java's names, with every `${NAME}` expanded. Secrets: not for logs, plans, tables or
    errors. Raises TG606 for a variable that is not set."""
    return {
        BOOTSTRAP[1] if name.lower() in BOOTSTRAP else name: expand(value, environ, secret=is_secret(name))
        for name, value in options.properties.items()
    }


def topic(options: KafkaOptions | KafkaSinkOptions, environ: Mapping[str, str] | None = None) -> str:
    """The topic's name, expanded. Raises TG606."""
    return expand(options.topic, environ)
