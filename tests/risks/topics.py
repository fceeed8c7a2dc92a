"""Kafka read in tasks (row 7 of the table of risks): random topics with transactions that end either way, compressed or
not, read whole and cut at random by tasks and by Spark's connector; and a topic that was compacted."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from pathlib import Path

from tests.risks.groups import write_project
from tests.runtime.test_kafka_in_tasks import compare_on_a_compacted_topic, compare_on_a_random_topic
from tests.support.kafka import Broker
from tidegate.project import Project
from tidegate.session.session import Session


def compared(root: Path, seeds: Iterable[int], until: Callable[[], bool], done: Callable[[int], None]) -> int:
    """Compare the topics of the seeds, and then a compacted one; `done`: told of each seed. How many messages the
    compaction has removed; 0 if the time was over before."""
    write_project(root, [], {})
    (root / "assets" / "t.sql").write_text(
        "CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;"
    )
    with ExitStack() as stack:
        broker = Broker(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        stack.callback(broker.kill)
        broker.start()
        session = stack.enter_context(closing(Session.open(Project.load(root, "local"))))
        for seed in seeds:
            if until():
                return 0
            compare_on_a_random_topic(session, broker, seed)
            done(seed)
        return compare_on_a_compacted_topic(session, broker)
