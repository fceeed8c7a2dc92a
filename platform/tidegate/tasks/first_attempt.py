"""What the tasks of a delivery to Kafka do beside sending. Executor side: pyarrow only."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

#: What a task says that was started again; found again in Spark's message.
REPEATED = "tidegate: a task that may have sent messages is not repeated"


class FirstAttempt:
    """Lets rows through, but only those of a task's first attempt (for `mapInArrow`).

    Spark would repeat a task that failed on the way, and send again what it had sent. Failing the job instead lets the
    driver look into the topic first, and send only what is missing.
    """

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber():
            raise RuntimeError(REPEATED)
        yield from batches
