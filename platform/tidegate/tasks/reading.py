"""What the readers of a batch's rows are to the tasks that call them: decoders, gate and panes share it, and none of
them loads another in an executor. Executor side."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

#: Turns what a task is given into the gate's input (`shape.gate_input`).
Reader = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


#: Beside the rows, in a column that no definition can name, and in a task's report: what a reader has found in some of
#: them that no column is for (`json_members.Members`).
LOOKED = "\x1flooked"


class NeedsSpark(Exception):
    """A reader met what only Spark reads. Nothing of its micro-batch is kept, and Spark reads all of it."""


class NeedsJava(NeedsSpark):
    """A reader of Kafka met what only Java's client reads, or has the error for. Nothing of its micro-batch is kept,
    and Java's client reads all of it. Its text is for people, without a value that could be a secret."""
