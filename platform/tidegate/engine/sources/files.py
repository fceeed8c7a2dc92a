"""Files as input: where they are, which there are, and their rows with positions."""

from __future__ import annotations

import fnmatch
import importlib.util
import re
from collections.abc import Callable, Container, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow.fs as pafs

from tidegate.engine.failures import worker_died
from tidegate.engine.sources import no_input
from tidegate.engine.sources.columns import stored_columns, wanted_of
from tidegate.engine.sources.crashes import found_in
from tidegate.engine.sources.footers import Look, Looker
from tidegate.engine.sources.limits import limits_of
from tidegate.engine.sources.parquet import ParquetFrame, Unit
from tidegate.engine.sources.parquet_crashes import ParquetCrashes
from tidegate.engine.sources.place import BLOCK, PATH, ROW
from tidegate.engine.sources.tasks import on_tasks, tasks_of
from tidegate.engine.sources.text_crashes import FileCrashes
from tidegate.engine.sources.text_files import TextFiles, headers_of, read_text_files, text_reader
from tidegate.engine.spark import require_s3
from tidegate.errors import TidegateError, did_you_mean
from tidegate.project.disk import private_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tidegate.engine.progress import ConsumedFile
    from tidegate.engine.sources.parquet_layout import Layout
    from tidegate.project import Project
    from tidegate.sql.catalog.objects import Column, Relation

S = TypeVar("S")
T = TypeVar("T")

_WILDCARDS = "*?["
#: Up to so many footers the driver reads by itself; a Spark job costs more.
_FEW_FILES = 200
#: Names of files that are still being written, copied or edited, or were left by that.
_LEFTOVER = re.compile(
    r"(~|#|\.(tmp|temp|part|partial|filepart|crdownload|download|incomplete|inprogress|uploading|writing|lock|bak"
    r"|sw[a-p]|_copying_))$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class InputFile:
    """`path`: relative to the source's base folder; `uri`: for Spark; `modified`: ms since the epoch."""

    path: str
    uri: str
    size: int
    modified: int

    @property
    def folder(self) -> str:
        """Folder below the base."""
        return folder_of(self.path)


def folder_of(path: str) -> str:
    """The folder of a file below the base, "." for files directly in it."""
    return path.rpartition("/")[0] or "."


def resolve(project: Project, path: str) -> str:
    """URI of a source's `path`. `dataset:NAME/FILE` names a file that `assets/NAME.py` brings when it is missing."""
    if path.startswith("dataset:"):
        name, _, rest = path.removeprefix("dataset:").partition("/")
        return project.storage.uri(str(_dataset(project, name) / rest))
    return project.storage.uri(path)


def _dataset(project: Project, name: str) -> Path:
    """Folder of a dataset, fetched at first use by `fetch(target: Path)` of `assets/<name>.py`."""
    folder = project.state_dir / "datasets" / name
    if (folder / ".complete").is_file():
        return folder
    script = project.root / "assets" / f"{name}.py"
    if not script.is_file():
        raise TidegateError(
            "TG503",
            f'dataset "{name}" has no assets/{name}.py to bring it',
            hint="write assets/NAME.py with a function fetch(target: Path)",
        )
    if not project.env.allow.python:
        raise TidegateError(
            "TG614",
            f"assets/{name}.py is run for it, and Python is off",
            hint=f"whoever operates tidegate allows it in resources/{project.env_name}.yaml, allow: {{python: true}}",
        )
    spec = importlib.util.spec_from_file_location(f"tidegate_dataset_{name}", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    private_folder(folder)
    module.fetch(folder)
    (folder / ".complete").touch()
    return folder


def list_files(project: Project, relation: str, path: str, known: Container[str] = ()) -> list[InputFile]:
    """Files below `path` (a file, a folder, or a pattern), ordered by path.

    Hidden ones (`.x`, `_x`) and leftovers (`x.tmp`, `x.part`, `x~`, …) are not input, unless `path` names one itself, a
    pattern asks for such names, or it is `known` to be read. Raises TG503 if the path does not exist.
    """
    uri = resolve(project, path)
    project.storage.require_object_store(f'source "{relation}"', uri)
    base, pattern = _split(uri)
    filesystem, root = project.storage.filesystem(base)
    info = filesystem.get_file_info(root)
    if info.type == pafs.FileType.File:
        folder = root.rpartition("/")[0]
        return [_input_file(info, folder, base.rpartition("/")[0])]
    if info.type != pafs.FileType.Directory:
        raise no_input(relation, path)
    asked = pattern is not None and _LEFTOVER.search(pattern)
    files = []
    for entry in filesystem.get_file_info(pafs.FileSelector(root, recursive=True)):
        if entry.type != pafs.FileType.File:
            continue
        file = _input_file(entry, root, base)
        hidden = any(part.startswith((".", "_")) for part in file.path.split("/"))
        if (hidden or (_LEFTOVER.search(file.path) and not asked)) and file.path not in known:
            continue
        if pattern is None or fnmatch.fnmatchcase(file.path, pattern):
            files.append(file)
    return sorted(files, key=lambda f: f.path)


def _input_file(entry: pafs.FileInfo, root: str, base: str) -> InputFile:
    relative = entry.path.removeprefix(root).lstrip("/")
    modified = int(entry.mtime_ns // 1_000_000) if entry.mtime_ns is not None else 0
    return InputFile(relative, f"{base}/{relative}", entry.size, modified)


def _split(uri: str) -> tuple[str, str | None]:
    """A pattern's folder without wildcards, and the rest as the pattern."""
    parts = uri.split("/")
    for i, part in enumerate(parts):
        if any(w in part for w in _WILDCARDS):
            return "/".join(parts[:i]), "/".join(parts[i:])
    return uri, None


def read_files(
    spark: SparkSession,
    project: Project,
    relation: Relation,
    uris: list[str],
    crashed: Iterable[Sequence[Any]] = (),
) -> DataFrame:
    """Rows of the files with `_raw` (text of a row that does not parse), `_why` it does not, and
    `place.PLACE`.

    A row that does not parse has `_raw` set and whatever columns could be read. `BLOCK` and `ROW` order
    the rows inside one file. `crashed`: rows that no decoder may see, as (URI, block, row).
    """
    assert relation.format is not None
    if any(uri.startswith("s3://") for uri in uris):
        require_s3(spark, f'source "{relation.name}"')
    if relation.format.encode == "parquet":
        return _read_parquet(spark, project, stored_columns(relation), uris, crashed)
    return read_text_files(spark, relation, _text_reader(spark, project, relation, uris, crashed))


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
        texts = _text_reader(spark, project, relation, uris, known)
        crashes = FileCrashes(texts)
        found = on_tasks(spark, len(texts.tasks), crashes, "uri string, block bigint, row bigint")
    return found_in(found)


def surviving(
    spark: SparkSession,
    project: Project,
    relation: Relation,
    uris: list[str],
    crashed: list[list[Any]],
    look: Callable[[], T],
) -> T:
    """What a look at the rows of files finds, which leaves out those that are `crashed`: if its worker dies, the rows
    that end the process that decodes them are added there, and it is looked again."""
    try:
        return look()
    except Exception as error:
        found = crashed_in(spark, project, relation, uris, crashed) if worker_died(error) else []
        if not found:
            raise
        crashed += found
    return look()


def _text_reader(
    spark: SparkSession,
    project: Project,
    relation: Relation,
    uris: list[str],
    crashed: Iterable[Sequence[Any]],
) -> TextFiles:
    filesystem, paths = paths_of(project, uris)
    return text_reader(spark, relation, uris, paths, filesystem, limits_of(project), crashed)


def crashed_rows(crashed: Iterable[Sequence[Any]]) -> dict[str, tuple[tuple[int, int], ...]]:
    """The rows of Parquet files that no decoder may see, as (from, until), by their URIs."""
    found: dict[str, tuple[tuple[int, int], ...]] = {}
    for uri, _, row, until in crashed:
        found[uri] = (*found.get(uri, ()), (row, until))
    return found


def _parquet_tasks(
    spark: SparkSession, project: Project, uris: list[str], crashed: Iterable[Sequence[Any]]
) -> tuple[pafs.FileSystem, tuple[tuple[Unit, ...], ...]]:
    filesystem, paths = paths_of(project, uris)
    aside = crashed_rows(crashed)
    units = {path: Unit(path, None, uri, aside.get(uri, ())) for path, uri in zip(paths, uris, strict=True)}
    dealt = tasks_of(
        [(path, [path]) for path in paths], [1] * len(paths), spark.sparkContext.defaultParallelism
    )
    return filesystem, tuple(tuple(units[path] for path in task) for task in dealt)


def _read_parquet(
    spark: SparkSession,
    project: Project,
    columns: list[Column],
    uris: list[str],
    crashed: Iterable[Sequence[Any]],
) -> DataFrame:
    """Rows of Parquet files, with `_why` beside `_raw`; a file's rows are in one task, in their order."""
    from pyspark.sql import functions as F

    filesystem, tasks = _parquet_tasks(spark, project, uris, crashed)
    beside = {"_raw": "string", "_why": "string", PATH: "string", ROW: "bigint"}
    kinds = [*(c.type for c in columns), *beside.values()]
    rows = on_tasks(
        spark,
        len(tasks),
        ParquetFrame(filesystem, wanted_of(columns), tasks, limits_of(project)),
        ", ".join(f"c{i} {kind}" for i, kind in enumerate(kinds)),
    )
    return rows.toDF(*(c.name for c in columns), *beside).withColumn(BLOCK, F.lit(0))


def look_at(
    spark: SparkSession,
    project: Project,
    relation: Relation,
    files: Sequence[InputFile],
    layout: Layout | None = None,
    crashed: Iterable[Sequence[Any]] = (),
) -> list[Look]:
    """A first look at each of the files, in their order. `layout`: where its columns say what a row's place is.
    `crashed`: as in `read_files`."""
    if not files:
        return []
    assert relation.format is not None
    filesystem, paths = paths_of(project, [f.uri for f in files])
    wanted = tuple(c.name for c in stored_columns(relation)) if relation.format.encode == "parquet" else None
    placed = layout if layout is not None and layout.partition_columns else None
    sized = [(path, f.size) for path, f in zip(paths, files, strict=True)]
    limits = limits_of(project)
    looker = Looker(filesystem, wanted, placed, headers_of(relation, filesystem, limits), limits)
    found = {look.path: look for look in over_files(spark, looker, sized)}
    if unread := [(path, size) for path, size in sized if placed and found[path].unread]:
        # Rows are read in tasks alone: one that ends its process must not end this one.
        aside = crashed_rows(crashed)
        by_path = {path: aside[f.uri] for path, f in zip(paths, files, strict=True) if f.uri in aside}
        reader = replace(looker, reads=True, crashed=by_path)
        found |= {look.path: look for look in over_files(spark, reader, unread, few=0)}
    return [found[path] for path in paths]


def problem_of(relation: Relation, look: Look) -> TidegateError | None:
    """Why a file can't be read at all: it is no Parquet file (TG513), or a column is not in it (TG504)."""
    if look.error is not None:
        return TidegateError(
            "TG513",
            f'source "{relation.name}": {look.path} is not a Parquet file: {look.error}',
            hint="nothing of this file was kept; repair it, or take it away",
        )
    if look.present is None:
        return None
    try:
        _require_columns(relation, [c.name for c in stored_columns(relation)], list(look.present), look.path)
    except TidegateError as problem:
        return problem
    return None


def check_files(
    spark: SparkSession, project: Project, relation: Relation, files: Sequence[InputFile]
) -> dict[str, str]:
    """Say what is wrong with the first file that can't be read, before the first row of any is. Returns the columns
    that are not declared, each with a file that has it. Raises TG504, TG513."""
    undeclared = {}
    for file, look in zip(files, look_at(spark, project, relation, files), strict=True):
        if (problem := problem_of(relation, look)) is not None:
            raise problem
        undeclared |= dict.fromkeys(look.undeclared, file.path)
    return undeclared


def paths_of(project: Project, uris: list[str]) -> tuple[pafs.FileSystem, list[str]]:
    """The file system of a source's files, and their paths in it."""
    # All are of one source, so of one file system: one client for all of them.
    filesystem, first = project.storage.filesystem(uris[0])
    cut = len(uris[0]) - len(first)
    return filesystem, [uri[cut:] for uri in uris]


def over_files(
    spark: SparkSession, find: Callable[[Iterable[S]], Iterator[T]], files: Sequence[S], few: int = _FEW_FILES
) -> list[T]:
    """What `find` has to say of files; in tasks, unless they are few."""
    if len(files) <= few:
        with ThreadPoolExecutor(16) as threads:
            return [p for found in threads.map(lambda file: list(find([file])), files) for p in found]
    # Bounded: little for each file. Thousands of footers would keep the driver busy for minutes.
    tasks = min(len(files) // _FEW_FILES + 1, 4 * spark.sparkContext.defaultParallelism)
    return spark.sparkContext.parallelize(files, tasks).mapPartitions(find).collect()


def changed(relation: Relation, before: ConsumedFile, now: InputFile) -> TidegateError:
    """The error for a file that is another one since it was read."""
    name = relation.name
    what = f"had {before.size:,} bytes when it was read, now it has {now.size:,}"
    if before.size == now.size:
        what = (
            f"was written again since it was read; it still has {now.size:,} bytes, but may hold other rows"
        )
    return TidegateError(
        "TG505",
        f'source "{name}": {now.path} {what}',
        hint="a file is read once, and all other files are read. There are three ways to go on: put the file back "
        "as it was, with its time; or take it away, and write its new rows into a file with another name (rename "
        f"it into place); or DROP SOURCE {name} and run again, which reads all files anew",
        location=relation.location,
    )


def moved(relation: Relation, before: str, now: InputFile) -> TidegateError:
    """The error for a file that was read under another name."""
    return TidegateError(
        "TG517",
        f'source "{relation.name}": the file {now.path} holds what {before} held, which was read and is '
        "gone: it was moved, and is not read again",
        hint="move it back to its first name, or out of the source's folder; if these are other rows that look the "
        "same, write them into a file that differs from the first one",
        location=relation.location,
    )


def _require_columns(relation: Relation, wanted: list[str], present: list[str], uri: str) -> None:
    folded = {name.casefold() for name in present}
    for name in wanted:
        if name.casefold() not in folded:
            raise TidegateError(
                "TG504",
                f'source "{relation.name}": the file {uri.rpartition("/")[2]} has no column "{name}"',
                hint=did_you_mean(name, present) or f"its columns: {', '.join(present[:20])}",
                location=relation.location,
            )
