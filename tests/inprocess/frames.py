"""DataFrames of Spark Connect whose Python tasks run in this process, on Arrow tables in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.inprocess.answers.plans import empty_of
from tests.inprocess.answers.terms import type_in_spark
from tests.inprocess.held import answer_locally, frame_of, rows_of, when_computed
from tests.inprocess.views import put_view

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.tasks.transfer import Task


@contextmanager
def inside_a_task() -> Iterator[None]:
    """What asks for the number of its task gets 0."""
    from pyspark import TaskContext

    context: Any = TaskContext._getOrCreate()
    context._partitionId = 0
    try:
        yield
    finally:
        TaskContext._setTaskContext(None)


def _map_in_arrow(frame: DataFrame, task: Task, schema: Any, *_: Any, **__: Any) -> DataFrame:
    """A task over the rows of a frame, at once and in their order: one task has them all."""
    rows = frame.toArrow()
    with inside_a_task():
        made = list(task(iter(rows.to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)])))
    if not made:
        kind = type_in_spark(schema) if isinstance(schema, str) else schema
        return frame_of(frame.sparkSession, empty_of(kind.json()))
    return frame_of(frame.sparkSession, pa.Table.from_batches(made))


def _as_it_is(frame: DataFrame, *_: Any, **__: Any) -> DataFrame:
    """What a frame holds now, computed once."""
    if rows_of(frame) is not None:
        return frame
    return frame_of(frame.sparkSession, frame.toArrow())


def _with_column(with_column: Any) -> Any:
    def numbered(frame: DataFrame, name: str, column: Any) -> DataFrame:
        """As `withColumn`. Numbers that ascend go by the order that the frame has: inside of a larger query Sail would
        leave the sort out, for nothing asks for its order."""
        if getattr(column._expr, "_name", None) != "monotonically_increasing_id":
            return with_column(frame, name, column)  # type: ignore[no-any-return]
        rows = frame.toArrow()
        return frame_of(frame.sparkSession, rows.append_column(name, pa.array(range(len(rows)), pa.int64())))

    return numbered


def _union_by_name(union: Any) -> Any:
    def of_rows(frame: DataFrame, other: DataFrame, allowMissingColumns: bool = False) -> Any:
        """As `unionByName`. To Sail a column that one side misses is of no type, whatever the other side has there.
        Each side is computed by itself: where a column of one is a constant, DataFusion sorts the sides without it, and
        then refuses its own plan, since it knows nothing of that constant any more."""
        if allowMissingColumns:
            frame, other = _completed(frame, other), _completed(other, frame)
        return union(_by_itself(frame), _by_itself(other))

    return of_rows


def _by_itself(frame: DataFrame) -> DataFrame:
    """The rows of a frame, computed in a query of their own when they are asked for."""
    return frame if rows_of(frame) is not None else when_computed(frame.sparkSession, frame.toArrow, frame)


def _completed(frame: DataFrame, other: DataFrame) -> DataFrame:
    """With the columns that only the other one has, which are NULL."""
    from pyspark.sql import functions as F

    known = {name.lower() for name in frame.columns}
    missing = [field for field in other.schema if field.name.lower() not in known]
    if not missing:
        return frame
    return frame.select("*", *(F.lit(None).cast(field.dataType).alias(field.name) for field in missing))


#: The methods that only this process has.
_METHODS = {
    "createOrReplaceTempView": put_view,
    "mapInArrow": _map_in_arrow,
    "localCheckpoint": _as_it_is,
    "persist": _as_it_is,
    "unpersist": lambda frame: frame,
}


def adapt(frame: Any) -> None:
    """Give the class of Spark Connect's frames what happens in this process instead of the server."""
    if frame.mapInArrow is _map_in_arrow:
        return
    answer_locally(frame)
    frame.withColumn = _with_column(frame.withColumn)
    frame.unionByName = _union_by_name(frame.unionByName)
    for name, method in _METHODS.items():
        setattr(frame, name, method)
