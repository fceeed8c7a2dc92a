"""Which client reads a source's messages here: as its definition, its environment and this installation have it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from tidegate.jvm.spark import in_this_process
from tidegate.sql.options.kafka_options import KafkaOptions
from tidegate.sql.options.kafka_reader import why_java

if TYPE_CHECKING:
    from tidegate.sql.catalog.objects import Relation


def why_connector(options: KafkaOptions, master: str) -> str | None:
    """Why Spark's connector reads, whatever the messages are, where `master` is that of Spark; None if tasks can."""
    if why := why_java(options):
        return why
    # Executors elsewhere need not have what reading takes, nor the files that properties name.
    if not in_this_process(master):
        return f"Spark does not run on this machine (master: {master})"
    if find_spec("google_crc32c") is None:
        return "the tasks could not verify checksums without the package google-crc32c"
    return None


def read_by(relation: Relation, master: str) -> str:
    """For people: which client reads the messages of a Kafka source, and why."""
    from tidegate.tasks.decode.text.arrow_json import why_not_decoded

    assert isinstance(relation.connector, KafkaOptions)
    if why := why_connector(relation.connector, master):
        return f"Spark's connector, since {why}"
    if why := why_not_decoded(relation):
        return f"Spark's connector, since the tasks that judge do not decode these messages: {why}"
    return f"the tasks that judge, since they decode these messages and Spark runs on this machine (master: {master})"
