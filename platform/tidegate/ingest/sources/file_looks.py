"""A first look at files (`footers.py`): in tasks, where there are many, and what is wrong with them. Driver side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from tidegate.errors import TidegateError, did_you_mean
from tidegate.ingest.sources.file_rows import crashed_rows
from tidegate.ingest.sources.files import paths_of
from tidegate.jvm.spark import cores
from tidegate.plan.columns.undeclared import MOST_NAMES
from tidegate.tasks.decode.columns import stored_columns
from tidegate.tasks.decode.limits import limits_of
from tidegate.tasks.decode.text.files import headers_of
from tidegate.tasks.decode.text.json_members import JsonNames
from tidegate.tasks.parquet.footers import FileLook, Looker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.ingest.sources.files import InputFile
    from tidegate.project import Project
    from tidegate.sql.catalog.objects import Relation
    from tidegate.tasks.parquet.parquet_layout import Layout

S = TypeVar("S")
T = TypeVar("T")

#: Up to so many footers the driver reads by itself; a Spark job costs more.
_FEW_FILES = 200


def look_at(
    spark: SparkSession,
    project: Project,
    relation: Relation,
    files: Sequence[InputFile],
    layout: Layout | None = None,
    crashed: Iterable[Sequence[Any]] = (),
) -> list[FileLook]:
    """A first look at each of the files, in their order. `layout`: where its columns say what a row's place is.
    `crashed`: as in `read_files`."""
    if not files:
        return []
    assert relation.format is not None
    filesystem, paths = paths_of(project, [f.uri for f in files])
    # (A column that was taken in is not in the files of before.)
    declared = tuple(c.name for c in stored_columns(relation) if not c.taken_in)
    wanted = declared if relation.format.encode == "parquet" else None
    placed = layout if layout is not None and layout.partition_columns else None
    sized = [(path, f.size) for path, f in zip(paths, files, strict=True)]
    limits = limits_of(project)
    headers = headers_of(relation, filesystem, limits)
    members = JsonNames.of(relation) if relation.format.encode == "json" else None
    looker = Looker(filesystem, wanted, placed, headers, limits, members)
    found = {look.path: look for look in _over_files(spark, looker, sized)}
    if unread := [(path, size) for path, size in sized if placed and found[path].unread]:
        # Rows are read in tasks alone: one that ends its process must not end this one.
        aside = crashed_rows(crashed)
        by_path = {path: aside[f.uri] for path, f in zip(paths, files, strict=True) if f.uri in aside}
        reader = replace(looker, reads=True, crashed=by_path)
        found |= {look.path: look for look in _over_files(spark, reader, unread, few=0)}
    return [found[path] for path in paths]


def problem_of(relation: Relation, look: FileLook) -> TidegateError | None:
    """Why a file can't be read at all: it is no Parquet file (TG513), or a column is not in it (TG504)."""
    if look.error is not None:
        return TidegateError(
            "TG513",
            f'source "{relation.name}": {look.path} is not a Parquet file: {look.error}',
            hint="none of the rows of this file were stored; repair the file, or remove it",
        )
    if look.present is None:
        return None
    try:
        wanted = [c.name for c in stored_columns(relation) if not c.taken_in]
        _require_columns(relation, wanted, list(look.present), look.path)
    except TidegateError as problem:
        return problem
    return None


def check_files(
    spark: SparkSession, project: Project, relation: Relation, files: Sequence[InputFile]
) -> dict[str, str]:
    """Say what is wrong with the first file that can't be read, before the first row of any is. Returns columns that
    are not declared, not too many, each with a file that has it. Raises TG504, TG513."""
    undeclared: dict[str, str] = {}
    for file, look in zip(files, look_at(spark, project, relation, files), strict=True):
        if (problem := problem_of(relation, look)) is not None:
            raise problem
        undeclared |= {
            n: file.path for n in look.undeclared if n in undeclared or len(undeclared) < MOST_NAMES
        }
    return undeclared


def _over_files(
    spark: SparkSession, find: Callable[[Iterable[S]], Iterator[T]], files: Sequence[S], few: int = _FEW_FILES
) -> list[T]:
    """What `find` has to say of files; in tasks, unless they are few."""
    if len(files) <= few:
        with ThreadPoolExecutor(16) as threads:
            return [p for found in threads.map(lambda file: list(find([file])), files) for p in found]
    # Bounded: little for each file. Thousands of footers would keep the driver busy for minutes.
    tasks = min(len(files) // _FEW_FILES + 1, 4 * cores(spark))
    return spark.sparkContext.parallelize(files, tasks).mapPartitions(find).collect()


def _require_columns(relation: Relation, wanted: list[str], present: list[str], uri: str) -> None:
    folded = {name.casefold() for name in present}
    declared = {column.name.casefold() for column in relation.columns}
    surplus = [name for name in present if name.casefold() not in declared]
    for name in wanted:
        if name.casefold() not in folded:
            raise TidegateError(
                "TG504",
                f'source "{relation.name}": the file {uri.rpartition("/")[2]} has no column "{name}"',
                hint=did_you_mean(name, surplus) or f"its columns: {', '.join(present[:20])}",
                location=relation.location,
            )
