"""The rows of files with their positions, as Spark's tasks read them. Driver side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from tidegate.iceberg.layout import quote
from tidegate.ingest.sources.conversion import converted
from tidegate.ingest.sources.files import InputFile, paths_of
from tidegate.jvm.failures import failed, failing_as, is_from_spark, too_little_memory, worker_died
from tidegate.jvm.spark import cores, require_s3
from tidegate.sql.dialect.inner_names import inner
from tidegate.tasks.crashes.crashes import found_in
from tidegate.tasks.crashes.parquet_crashes import ParquetCrashes
from tidegate.tasks.crashes.text_crashes import FileCrashes
from tidegate.tasks.decode.columns import required_columns, stored_columns, wanted_of
from tidegate.tasks.decode.limits import limits_of
from tidegate.tasks.decode.tasks import on_tasks, tasks_of
from tidegate.tasks.decode.text.bulk import parsed_fields
from tidegate.tasks.decode.text.decoders import JsonDecoder, text_decoder
from tidegate.tasks.decode.text.files import (
    CsvFiles,
    FileSpan,
    JsonFiles,
    TextFiles,
    dealt,
    has_headers,
    spans_of,
)
from tidegate.tasks.parquet.parquet import ParquetFrame, Unit
from tidegate.tasks.smaller import FEW_ROWS, rows_at_once

if TYPE_CHECKING:
    import pyarrow.fs as pafs
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.project import Project
    from tidegate.sql.catalog.objects import Relation

T = TypeVar("T")

#: Where a row of a file stands: columns beside the file's own. `BLOCK` and `ROW` order the rows of a file.
PATH, BLOCK, ROW = inner("path"), inner("block"), inner("row")
PLACE = {PATH: "string", BLOCK: "bigint", ROW: "bigint"}


def read_files(
    spark: SparkSession,
    project: Project,
    relation: Relation,
    uris: list[str],
    crashed: Iterable[Sequence[Any]] = (),
    care: int = 0,
) -> DataFrame:
    """Rows of the files with `_raw` (text of a row that does not parse, or lacks what it must have), `_why` it does not
    parse, and `PLACE`.

    A row that does not parse has `_why` set and whatever columns could be read. `BLOCK` and `ROW` order
    the rows inside one file. `crashed`: rows that no decoder may see, as (URI, block, row). `care`: of a plan.
    """
    assert relation.format is not None
    if any(uri.startswith("s3://") for uri in uris):
        require_s3(spark, f'source "{relation.name}"')
    if relation.format.encode == "parquet":
        return _read_parquet(spark, project, relation, uris, crashed, care)
    reader = replace(_text_files(spark, project, relation, uris, crashed), at_most=rows_at_once(care))
    return _read_text(spark, relation, reader, care)


def crashed_in(
    spark: SparkSession, project: Project, relation: Relation, uris: list[str], known: Sequence[Sequence[Any]]
) -> list[list[Any]]:
    """The rows of the files that end the process that decodes them, as (URI, block, row), of Parquet with the row
    behind the last one; `known` are not asked again."""
    assert relation.format is not None
    if relation.format.encode == "parquet":
        filesystem, tasks = _parquet_tasks(spark, project, uris, known)
        reader = ParquetCrashes(filesystem, wanted_of(stored_columns(relation)), tasks, limits_of(project))
        found = on_tasks(spark, len(tasks), reader, "uri string, block bigint, row bigint, until bigint")
    else:
        texts = _text_files(spark, project, relation, uris, known)
        crashes = FileCrashes(texts)
        found = on_tasks(spark, len(texts.tasks), crashes, "uri string, block bigint, row bigint")
    return found_in(found)


def surviving(
    spark: SparkSession,
    project: Project,
    relation: Relation,
    files: list[InputFile],
    crashed: list[list[Any]],
    look: Callable[[list[InputFile], int], T],
    both: Callable[[T, T], T] | None = None,
    care: int = 0,
) -> T:
    """What a look at the rows of files finds, which leaves out those that are `crashed`: if its worker dies, the rows
    that end the process that decodes them are added there, and it is looked again. Where no row is to blame, fewer
    files are looked at (`both`: what is found in two lists of files, from that of each), then with `care`."""
    given, what = (spark, project, relation), f'a first look at "{relation.name}"'
    try:
        return look(files, care)
    except Exception as error:
        if not is_from_spark(error):
            raise
        if not worker_died(error):
            raise failed(what, error, relation.location) from error
        with failing_as(what, relation.location):
            found = crashed_in(*given, [f.uri for f in files], crashed)
        if not found and both is not None and len(files) > 1:
            halves = files[: len(files) // 2], files[len(files) // 2 :]
            return both(*(surviving(*given, half, crashed, look, both, care) for half in halves))
        if not found and care == FEW_ROWS:
            more = f" and {len(files) - 1} more files" if len(files) > 1 else ""
            raise too_little_memory(what, files[0].path + more, relation.location) from error
        crashed += found
    return surviving(*given, files, crashed, look, both, care if found else care + 1)


def crashed_rows(crashed: Iterable[Sequence[Any]]) -> dict[str, tuple[tuple[int, int], ...]]:
    """The rows of Parquet files that no decoder may see, as (from, until), by their URIs."""
    found: dict[str, tuple[tuple[int, int], ...]] = {}
    for uri, _, row, until in crashed:
        found[uri] = (*found.get(uri, ()), (row, until))
    return found


def _read_text(spark: SparkSession, relation: Relation, reader: TextFiles, care: int) -> DataFrame:
    """Rows of JSON and CSV files."""
    schema = ", ".join(
        f"{quote(name)} {kind}" for name, kind in [*parsed_fields(reader.decoder.targets), *PLACE.items()]
    )
    rows = on_tasks(spark, len(reader.tasks), reader, schema, care)
    return converted(rows, relation, [quote(name) for name in PLACE])


def _text_files(
    spark: SparkSession,
    project: Project,
    relation: Relation,
    uris: list[str],
    crashed: Iterable[Sequence[Any]],
) -> TextFiles:
    """What the tasks of `_read_text` do. `crashed`: see `TextFiles`."""
    filesystem, paths = paths_of(project, uris)
    decoder = text_decoder(relation, limits_of(project))
    aside = frozenset((uri, block, row) for uri, block, row in crashed)
    at_once = cores(spark)
    files, place = list(zip(paths, uris, strict=True)), tuple(PLACE)
    if isinstance(decoder, JsonDecoder):
        tasks = dealt(spans_of(filesystem, files), at_once)
        return JsonFiles(filesystem, decoder, tasks, aside, place=place)
    tasks = dealt([(FileSpan(path, uri), 1) for path, uri in files], at_once)
    return CsvFiles(filesystem, decoder, tasks, aside, header=has_headers(relation), place=place)


def _parquet_tasks(
    spark: SparkSession, project: Project, uris: list[str], crashed: Iterable[Sequence[Any]]
) -> tuple[pafs.FileSystem, tuple[tuple[Unit, ...], ...]]:
    filesystem, paths = paths_of(project, uris)
    aside = crashed_rows(crashed)
    units = {path: Unit(path, None, uri, aside.get(uri, ())) for path, uri in zip(paths, uris, strict=True)}
    shares = tasks_of([(path, [path]) for path in paths], [1] * len(paths), cores(spark))
    return filesystem, tuple(tuple(units[path] for path in task) for task in shares)


def _read_parquet(
    spark: SparkSession,
    project: Project,
    relation: Relation,
    uris: list[str],
    crashed: Iterable[Sequence[Any]],
    care: int,
) -> DataFrame:
    """Rows of Parquet files, with `_why` beside `_raw`; a file's rows are in one task, in their order."""
    from pyspark.sql import functions as F

    columns = stored_columns(relation)
    wanted = wanted_of(columns, required_columns(relation))
    filesystem, tasks = _parquet_tasks(spark, project, uris, crashed)
    beside = {"_raw": "string", "_why": "string", PATH: "string", ROW: "bigint"}
    kinds = [*(c.type for c in columns), *beside.values()]
    rows = on_tasks(
        spark,
        len(tasks),
        ParquetFrame(filesystem, wanted, tasks, limits_of(project), rows_at_once(care)),
        ", ".join(f"c{i} {kind}" for i, kind in enumerate(kinds)),
        care,
    )
    return rows.toDF(*(c.name for c in columns), *beside).withColumn(BLOCK, F.lit(0))
