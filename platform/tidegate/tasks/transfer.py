"""Columns on their way from the JVM into a Python task, and what they were before it.

Spark looks at the size of an Arrow batch after every row, and to know that of a list it writes anew all offsets since
the last list that was not NULL: with 65,536 rows of NULLs, two billion. So a NULL list or map travels as an empty one,
and a flag beside it says that it is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Job:
    """What tasks work on, where that takes no query."""

    def texts(self, task: Task) -> list[str]:
        """The texts of the first column that a task makes of its share, in the order of the shares."""
        raise NotImplementedError


@dataclass(frozen=True)
class Arriving:
    """A task for `mapInArrow` over what `departing` gives: its batches are what the frame was. `names`: the frame's;
    `flagged`: places of the columns that have a flag, in the order of the flags behind all columns."""

    task: Task
    names: tuple[str, ...]
    flagged: tuple[int, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.task(self._restored(batch) for batch in batches)

    def _restored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = batch.columns
        for flag, place in enumerate(self.flagged, len(self.names)):
            nothing = pa.scalar(None, columns[place].type)
            columns[place] = pc.if_else(columns[flag], nothing, columns[place])
        return pa.RecordBatch.from_arrays(columns[: len(self.names)], names=list(self.names))


def map_in_arrow(frame: DataFrame, task: Task, schema: StructType | str) -> DataFrame:
    """What a task makes of a frame."""
    return frame.mapInArrow(task, schema)  # type: ignore[arg-type]  # PySpark hands over an iterator, as `Task` says


def texts_of(frame: DataFrame, task: Task) -> list[str]:
    """The texts of the only column that a task makes of a frame."""
    # Bounded: each task makes a report, and no rows.
    plain, arriving = departing(frame, task)
    return [row[0] for row in map_in_arrow(plain, arriving, "report string").collect()]


def departing(frame: DataFrame, task: Task) -> tuple[DataFrame, Arriving]:
    """What `mapInArrow` takes in the place of a frame and a task.

    PySpark looks columns up there by their bare names, which fails for one with a dot or a backtick: they are numbered.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType

    names = tuple(frame.columns)
    numbered = [f"c{place}" for place in range(len(names))]
    plain = frame.toDF(*numbered)
    kinds = {
        place: field.dataType
        for place, field in enumerate(frame.schema)
        if field.nullable and isinstance(field.dataType, (ArrayType, MapType))
    }
    if not kinds:
        return plain, Arriving(task, names, ())
    filled = {f"c{place}": F.coalesce(F.col(f"c{place}"), _empty(kind)) for place, kind in kinds.items()}
    flags = [F.col(f"c{place}").isNull().alias(f"n{place}") for place in kinds]
    return plain.select("*", *flags).withColumns(filled), Arriving(task, names, tuple(kinds))


def _empty(kind: DataType) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType

    if isinstance(kind, MapType):
        keys, values = ArrayType(kind.keyType, False), ArrayType(kind.valueType, kind.valueContainsNull)
        return F.map_from_arrays(F.array().cast(keys), F.array().cast(values))
    return F.array().cast(kind)
