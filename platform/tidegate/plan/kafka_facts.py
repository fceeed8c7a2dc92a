"""What `explain` says about reading from Kafka. Options are shown as they are written: `${NAME}` is not expanded."""

from __future__ import annotations

from datetime import UTC, datetime

from tidegate.sql.options.kafka_options import KafkaOptions
from tidegate.sql.options.kafka_reader import why_java
from tidegate.watermark import TimeKind

#: Where it depends on more than the definition, whoever knows the environment says it.
READ_BY = "read by"


def kafka_facts(options: KafkaOptions) -> tuple[tuple[str, str], ...]:
    """(label, text) lines of a source's connector (W6, W7, W12, R1)."""
    facts = [("topic", options.topic)]
    facts += [("properties", f"{name} = {value}") for name, value in options.properties.items()]
    if options.group_prefix is not None:
        facts.append(("group.id.prefix", options.group_prefix))
    facts.append(("begins", f"{_start(options)}; then it continues where its log ends (R1)"))
    facts.append(
        ("partition", "of the topic; they are enumerated at the broker before the first row is judged (W6)")
    )
    facts.append(("order", "offset"))
    facts.append((READ_BY, _reader(options)))
    facts.append(("keeps", "of each message its timestamp, key and headers: $rowtime, $key, $headers (W12)"))
    facts.append(("max_rows_per_batch", f"{options.max_rows_per_batch:,}"))
    if options.idle_timeout is None:
        facts.append(("idle", "never: a quiet partition holds the watermark back (idle_timeout = 'off')"))
    else:
        quiet = (
            f"a partition read to its end and quiet for {_span(options.idle_timeout)} leaves the minimum (W7)"
        )
        moves = "; if all are idle, the clock moves G" if options.idle_advance else ""
        facts.append(("idle", quiet + moves))
    facts.append(
        ("stalled", f"a partition with rows whose Wp stands still for {_span(options.stall_timeout)} (W8)")
    )
    lost = "the run stops and says what is missing"
    if options.on_data_loss == "record":
        lost = "reading continues after the gap, which is written to the log"
    facts.append(
        ("on_data_loss", f"{options.on_data_loss}: if retention removed what was not read yet, {lost}")
    )
    return tuple(facts)


def _reader(options: KafkaOptions) -> str:
    if why := why_java(options):
        return f"Spark's connector, since {why}"
    return (
        "the tasks that judge, where Spark runs on this machine and they decode, too; else Spark's connector"
    )


def _start(options: KafkaOptions) -> str:
    if options.startup_mode == "timestamp" and options.startup_timestamp is not None:
        since = datetime.fromtimestamp(options.startup_timestamp / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        return f"with the first message of each partition from {since} UTC on"
    if options.startup_mode == "latest":
        return "with the messages that arrive after the first look at the topic"
    return "with the oldest message of each partition"


def _span(seconds: float) -> str:
    return TimeKind.TIMESTAMP.format_duration(int(seconds * 1_000_000))
