"""Files with rows that go are written again without them, by tasks, and replace them in one commit (E9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidegate.iceberg.layout import quote
from tidegate.iceberg.table_change import TableChange
from tidegate.sql.dialect.inner_names import inner
from tidegate.tasks.writer import WriteTask, run_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.iceberg.protocol import Snapshot
    from tidegate.iceberg.tables import StoredTable
    from tidegate.runtime.context import Context
    from tidegate.tasks.writer import WriteTarget

#: Inside, beside the columns of a table: whether a row goes.
GOES = inner("goes")


def write_without(
    context: Context,
    table: StoredTable,
    base: Snapshot,
    rows: DataFrame,
    files: Sequence[str],
    gone: int,
    target: WriteTarget,
    properties: Mapping[str, str],
    beside: Sequence[dict[str, Any]] = (),
    facts: Mapping[str, str] | None = None,
) -> tuple[int, Snapshot]:
    """Replace these files; how many there were, and the commit that does it. `rows`: of the table as of `base`, with
    `_file` and `GOES`; `gone` of those in the files go. `properties`: of the table, set in the same commit. `beside`:
    new files that come with it. The commit says what the one before it said, and `facts`. Raises TG502 if another
    process has committed to the table since."""
    from pyspark.sql import functions as F

    assert base.id is not None
    chosen = context.spark.createDataFrame([(path,) for path in files], "_file string")
    staying = rows.join(F.broadcast(chosen), "_file", "left_semi").where(~F.col(GOES))
    # The first amendment of a view adds its column before it commits: in `base` there may be none yet.
    held = set(rows.columns)
    names = [name for name in target.schema.names if name in held or name != "_revision"]
    kept = staying.select(*map(quote, names))
    written = [file for task in run_task(kept, WriteTask(target)) for file in task]
    removed = table.files_at(set(files), base.id)
    before, after = sum(file.recordCount() for file in removed), sum(file["rows"] for file in written)
    if len(removed) != len(files) or before - after != gone:
        # No other row goes, and none stays that should go.
        raise AssertionError(
            f"{table.identifier}: {before} rows of {len(removed)} files became {after}, and {gone} of {len(files)} "
            "were to be erased"
        )
    change = TableChange(properties=dict(properties)) if properties else None
    said = base.facts | dict(facts or {})
    own = table.append([*written, *beside], target, said, base, removed=removed, change=change)
    return len(removed), table.at(own)
