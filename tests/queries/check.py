"""One `Case` in every way that there is for it: by the tasks of the fast path, by frames tick by tick, by Spark SQL."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from tests.queries.case import Case
from tests.sql.support import load
from tests.tasks.pane_tasks import report_of
from tidegate.errors import TidegateError
from tidegate.sql import Catalog
from tidegate.sql.catalog.objects import Relation, View
from tidegate.sql.dialect.inner_names import LOST
from tidegate.tasks.panes import UNREAD, LogFile, PaneTask, WindowTask
from tidegate.tasks.writer import WriteTarget
from tidegate.views.pane_slices import dealt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ARROW = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "smallint": pa.int16(),
    "tinyint": pa.int8(),
    "float": pa.float32(),
    "binary": pa.binary(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "decimal(10,2)": pa.decimal128(10, 2),
    "decimal(38,4)": pa.decimal128(38, 4),
}
HIDDEN = {
    "_source_partition": pa.string(),
    "_offset": pa.int64(),
    "_arrival": pa.timestamp("us", "UTC"),
}
SYSTEM = ("_window_start", "_window_end", "_rows")


def defined(case: Case, hard: bool = True) -> tuple[Relation, View] | str:
    """The table and the view, or the code of the error that refuses them."""
    try:
        catalog = load(Catalog(), case.sql(hard))
    except TidegateError as error:
        return error.code
    relation, view = catalog.get("t"), catalog.get("w")
    assert isinstance(relation, Relation)
    assert isinstance(view, View)
    return relation, view


def stored(case: Case, relation: Relation) -> pa.Table:
    """The rows as the log has them."""
    columns = {}
    for i, c in enumerate(relation.columns):
        values, kind = [row[i] for row in case.rows], ARROW[c.type]
        whole = pa.types.is_timestamp(kind)
        columns[c.name] = pa.array(values, pa.int64()).cast(kind) if whole else pa.array(values, kind)
    n = len(case.rows)
    beside = {
        "_source_partition": ["0"] * n,
        "_offset": [*range(n)],
        "_arrival": pa.array([0] * n, pa.int64()).cast(HIDDEN["_arrival"]),
    }
    arrays = [*columns.values(), *(pa.array(beside[name], kind) for name, kind in HIDDEN.items())]
    return pa.Table.from_arrays(arrays, names=[*columns, *HIDDEN])


def by_tasks(case: Case, view: View, rows: pa.Table, types: list[pa.DataType], folder: Path) -> Any:
    """The result's rows (`normal`) by the tasks of the fast path; UNREAD if they leave it to SQL. `types`: of
    the view's columns."""
    assert view.pane_windows is not None
    (folder / "out").mkdir(parents=True)
    bound = rows.schema.field(0).type
    names = [c.name for c in view.columns]
    kinds = [*types, bound, bound, pa.int64(), pa.bool_(), pa.int64()]
    fields = [
        pa.field(name, kind, metadata={"PARQUET:field_id": str(i)})
        for i, (name, kind) in enumerate(
            zip([*names, *SYSTEM, "_open", "_tick"], kinds, strict=True), start=1
        )
    ]
    out = str(folder / "out")
    target = WriteTarget(
        pafs.LocalFileSystem(), out, out, pa.schema(fields), "_open", "_window_end", ("_window_end",)
    )
    numbered = (f.with_metadata({"PARQUET:field_id": str(i)}) for i, f in enumerate(rows.schema, start=1))
    rows = rows.cast(pa.schema(numbered))
    size, files = max(1, -(-rows.num_rows // case.tasks)), []
    for begin in range(0, rows.num_rows, size):
        path = str(folder / f"{begin}.parquet")
        pq.write_table(rows.slice(begin, size), path)
        files.append(LogFile(path, size))
    tasks = dealt(files, case.tasks) if files else ()
    panes = PaneTask(pafs.LocalFileSystem(), rows.schema, view.pane_windows, tasks, None, None)
    windows = WindowTask(view.pane_windows, target, case.frontier, case.reached, True, 1)

    report = report_of(panes, windows, case.tasks)
    if report == UNREAD:
        return UNREAD
    found = [pq.read_table(file["uri"]).select([*names, *SYSTEM]) for file in report["files"]]
    schema = pa.schema([(f.name, f.type) for f in fields][:-2])
    return normal(pa.concat_tables([t.cast(schema) for t in found])) if found else []


def by_sql(
    spark: SparkSession, case: Case, view: View, rows: pa.Table
) -> tuple[list[tuple], list[pa.DataType]]:
    """The same by Spark, and the types of the view's columns."""
    from tidegate.views.slices import evaluate

    found = evaluate(spark, view, [frame_of(spark, rows)], case.reached)
    names = [c.name for c in view.columns]
    every = [*names, *SYSTEM, *view.order]
    table = found.toArrow()
    assert [*dict.fromkeys(table.column_names)] == table.column_names
    assert set(table.column_names) - {"_open", LOST} == set(every), (table.column_names, every)
    table = table.select([*names, *SYSTEM])
    return within(case, normal(table), len(names)), [f.type for f in table.schema][: len(names)]


def by_frames(spark: SparkSession, case: Case, view: View, rows: pa.Table) -> list[tuple]:
    """The same of a view with OVER in event time, in two ticks: up to the frontier, and from there on with what the
    first has carried."""
    from tidegate.views.over import evaluate
    from tidegate.views.slices import run_sql, with_bounds

    assert view.over is not None
    arrived = run_sql(spark, view, view.over.rows_sql, [frame_of(spark, rows)])
    names, found, carried, frontier = [c.name for c in view.columns], pa.table({}), None, None
    for reached in (case.frontier, case.reached):
        if reached is None:
            continue
        tick = evaluate(spark, view, arrived, carried, frontier, reached)
        found = with_bounds(tick.result, view).toArrow().select([*names, *SYSTEM])
        assert tick.carried is not None
        carried, frontier = spark.createDataFrame(tick.carried.toArrow(), tick.carried.schema), reached
        tick.close()
    return within(case, normal(found), len(names))


def frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """The rows of the log as Spark has them."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return spark.createDataFrame(rows, from_arrow_schema(rows.schema, prefer_timestamp_ntz=True))


def within(case: Case, rows: list[tuple], columns: int) -> list[tuple]:
    """frontier < window_end <= reached."""
    ends = columns + 1
    return [
        row
        for row in rows
        if row[ends] is not None
        and row[ends] <= (case.reached if case.reached is not None else 0)
        and (case.frontier is None or row[ends] > case.frontier)
    ]


def normal(table: pa.Table) -> list[tuple]:
    """Rows of plain Python values: times as integers, whatever their year."""
    columns = []
    for column in table.columns:
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        if pa.types.is_date(column.type):
            column = column.cast(pa.int32())
        columns.append(column.to_pylist())
    return [*zip(*columns, strict=True)] if columns else []


def same(left: list[tuple], right: list[tuple]) -> bool:
    """Whether these are the same rows, in whatever order, and floating-point numbers within 1e-9 (C7)."""
    if len(left) != len(right):
        return False
    if Counter(map(repr, left)) == Counter(map(repr, right)):
        return True
    return all(map(_same_row, sorted(left, key=_by), sorted(right, key=_by)))


def _by(row: tuple) -> str:
    return repr([f"{v:.6g}" if isinstance(v, float) else v for v in row])


def _same_row(left: tuple, right: tuple) -> bool:
    return all(map(_same_value, left, right))


def _same_value(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or math.isclose(
            left, right, rel_tol=1e-9, abs_tol=1e-9
        )
    return left == right and type(left) is type(right)
