"""The rows of one stored table at one snapshot, file by file, by pyiceberg and Arrow: no JVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from tidegate.project.storage import Storage
from tidegate.store.metadata import CommittedTable
from tidegate.watermark import Operand, RowCondition, Value

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.fs import FileSystem
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.io import FileIO

_NAMES = {"long": "bigint", "timestamp": "timestamp_ntz", "timestamptz": "timestamp"}
#: Of these types Iceberg's order of values is Spark's, and a constant needs no conversion.
_PUSHED = ("string", "boolean", "int", "bigint", "date", "timestamp", "timestamp_ntz")


def s3_reading(properties: dict[str, str]) -> FileIO:
    """pyiceberg's access to files, by the client of S3 that asks again where an answer breaks off: it is told of this
    in `Storage.pyiceberg_properties`, and looks for it by its name."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    from tidegate.s3_files import S3Files

    class S3Reading(PyArrowFileIO):
        def _initialize_s3_fs(self, netloc: str | None) -> FileSystem:
            return S3Files.like(super()._initialize_s3_fs(netloc))

    return S3Reading(properties)


@dataclass(frozen=True)
class StoredFile:
    """`rows`: how many it holds; `whole`: none of them is marked as deleted; `greatest`: the upper bound of the column
    that was asked for, as an integer, None if it is not known."""

    rows: int
    whole: bool
    greatest: int | None
    task: Any


class StoredRows:
    """Raises FileNotFoundError wherever the snapshot has been removed meanwhile."""

    def __init__(self, storage: Storage, table: CommittedTable) -> None:
        from pyiceberg.table import StaticTable

        self._table = StaticTable.from_metadata(table.metadata_location, storage.pyiceberg_properties())
        self._snapshot = table.current_snapshot_id
        self._schema = self._table.schema()
        then = None if self._snapshot is None else self._table.snapshot_by_id(self._snapshot)
        if then is not None and then.schema_id is not None and then != self._table.current_snapshot():
            # Of an earlier snapshot, the columns of that time.
            self._schema = self._table.schemas()[then.schema_id]
        #: Columns by name: their Spark types, "struct", "list" and "map" for nested ones.
        self.types = {
            f.name: _NAMES.get(str(f.field_type), str(f.field_type).replace(", ", ","))
            if f.field_type.is_primitive
            else str(f.field_type).partition("<")[0]
            for f in self._schema.fields
        }

    def files(self, condition: RowCondition | None, column: str) -> list[StoredFile]:
        """The files that may hold rows for which `condition` is true, by its columns' bounds."""
        from pyiceberg.conversions import from_bytes
        from pyiceberg.types import PrimitiveType

        if self._snapshot is None:
            return []
        field = self._schema.find_field(column)
        kind = field.field_type
        assert isinstance(kind, PrimitiveType)
        scan = self._table.scan(row_filter=self._pushed(condition), snapshot_id=self._snapshot)
        found = []
        # Bounded: a line for each data file.
        for task in scan.plan_files():
            bound = (task.file.upper_bounds or {}).get(field.field_id)
            greatest = None if bound is None else _ticks(from_bytes(kind, bound))
            found.append(StoredFile(task.file.record_count, not task.delete_files, greatest, task))
        return found

    def batches(
        self, file: StoredFile, columns: Sequence[str], condition: RowCondition | None
    ) -> Iterator[pa.RecordBatch]:
        """Rows of a file, a batch at a time; some for which `condition` is not true may be among them."""
        from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files

        schema, table = self._schema.select(*columns), self._table
        scan = ArrowScan(table.metadata, table.io, schema, self._pushed(condition))
        deleted = _read_all_delete_files(table.io, [file.task])
        # Its public method reads the whole file before it gives the first row.
        yield from scan._record_batches_from_scan_tasks_and_deletes([file.task], deleted)

    def _pushed(self, condition: RowCondition | None) -> BooleanExpression:
        from pyiceberg.expressions import AlwaysTrue

        return AlwaysTrue() if condition is None else _expression(condition)


def _ticks(value: Any) -> int:
    if isinstance(value, datetime | date):
        raise TypeError("pyiceberg gives bounds of times as integers")
    return int(value)


def _expression(condition: Operand) -> BooleanExpression:
    """What is true wherever the condition is, and as often false as Iceberg can tell from bounds."""
    from pyiceberg.expressions import AlwaysTrue, And, In, IsNull, NotNull, Or, Reference
    from pyiceberg.expressions.literals import literal

    if not isinstance(condition, RowCondition):
        return AlwaysTrue()
    operator, operands = condition.operator, condition.operands
    if operator in ("and", "or"):
        return (And if operator == "and" else Or)(*map(_expression, operands))
    if operator == "not" and isinstance(inner := operands[0], RowCondition) and inner.operator == "is null":
        value, operator = inner.operands[0], "is not null"
        operands = (value,)
    value, *constants = operands
    if not isinstance(value, Value) and len(operands) == 2:
        value, constants, operator = operands[1], [operands[0]], _TURNED.get(operator, operator)
    if not isinstance(value, Value) or value.type not in _PUSHED:
        return AlwaysTrue()
    if any(isinstance(one, Value | RowCondition) for one in constants):
        return AlwaysTrue()
    if operator in ("is null", "is not null"):
        return (IsNull if operator == "is null" else NotNull)(term=Reference(value.name))
    literals = {literal(_text(one)) for one in constants}
    if operator == "in":
        return In(term=Reference(value.name), literals=literals)
    kind = _comparisons().get(operator)
    return AlwaysTrue() if kind is None else kind(term=Reference(value.name), value=next(iter(literals)))


_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _comparisons() -> dict[str, Any]:
    from pyiceberg import expressions as e

    return {
        "=": e.EqualTo,
        "<>": e.NotEqualTo,
        "<": e.LessThan,
        "<=": e.LessThanOrEqual,
        ">": e.GreaterThan,
        ">=": e.GreaterThanOrEqual,
    }


def _text(constant: Operand) -> Any:
    """Times as pyiceberg reads them."""
    return constant.isoformat() if isinstance(constant, date) else constant
