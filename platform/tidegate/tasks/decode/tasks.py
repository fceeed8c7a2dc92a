"""Which files one task reads: all of a source partition's, in their order (the order trap); and a job of such tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from tidegate.tasks.numbers import Numbers
from tidegate.tasks.transfer import map_in_arrow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


T = TypeVar("T")


def on_tasks(
    spark: SparkSession,
    tasks: int,
    work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: str,
    care: int = 0,
) -> DataFrame:
    """What `work` makes of the numbers of so many tasks."""
    return map_in_arrow(Numbers(spark, tasks, care).frame, work, schema)


def of_tasks(batches: Iterator[pa.RecordBatch], tasks: Sequence[Sequence[T]]) -> Iterator[T]:
    """What some tasks read, given by their numbers. Executor side."""
    for batch in batches:
        for task in batch.column(0).to_pylist():
            yield from tasks[task]


def tasks_of(
    files: Sequence[tuple[str, Iterable[str | None]]], sizes: Sequence[int], at_most: int
) -> list[list[str]]:
    """Deal out `files`, given as (path, its partitions) in reading order, to at most `at_most` tasks of about the same
    size. Files that share a partition are together, each task's files in the order given."""
    parent = list(range(len(files)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    first: dict[str | None, int] = {}
    for number, (_, partitions) in enumerate(files):
        for partition in partitions:
            parent[root(number)] = root(first.setdefault(partition, number))
    together: dict[int, list[int]] = defaultdict(list)
    for number in range(len(files)):
        together[root(number)].append(number)
    weighted = sorted(
        ((sum(sizes[n] for n in numbers), numbers) for numbers in together.values()), reverse=True
    )
    loads = [0] * min(at_most, len(weighted))
    dealt: list[list[int]] = [[] for _ in loads]
    for weight, numbers in weighted:
        lightest = loads.index(min(loads))
        loads[lightest] += max(weight, 1)
        dealt[lightest] += numbers
    return [[files[n][0] for n in sorted(numbers)] for numbers in dealt]
