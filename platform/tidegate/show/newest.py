"""The newest rows of a stored table, by Iceberg's bounds and Arrow: no more is held than what is shown, and a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import TidegateError, did_you_mean
from tidegate.evolve.kept_versions import stored_version, with_versions
from tidegate.project.disk import trouble
from tidegate.show.tables import MARK, Shown, ShownColumn, at, shown_of
from tidegate.show.values import values_of
from tidegate.sql.catalog.objects import CatalogColumn, SystemTable
from tidegate.sql.catalog.system_tables import version_in
from tidegate.sql.statements.row_filter import row_filter
from tidegate.store.metadata import load_table
from tidegate.store.rows import StoredFile, StoredRows
from tidegate.tasks.conditions import fulfilled
from tidegate.watermark import RowCondition, Value

if TYPE_CHECKING:
    from tidegate.project import Project
    from tidegate.sql.catalog.objects import Relation, View

    Condition = RowCondition | Value

#: Rows of files that hold none of the newest are counted up to so many; beyond, it is only said that there are more.
MOST_COUNTED = 2_000_000
#: Rows of a table whose keys are spread over several partitions: which of them counts takes all keys in memory (T4).
MOST_KEYS = 2_000_000
#: Rows that are held until they are sorted, and the newest of them kept.
_SORTED_AT_ONCE = 20_000


class OnlySparkTells(Exception):
    """What is asked for can't be told without Spark. `hint`: who tells it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True)
class Newest:
    """`types`: as `console.port.Table`. `total`: how many rows there are, None: more than are shown. `exists`: whether
    anything was ever stored."""

    columns: list[str]
    types: list[str | None]
    rows: list[tuple[Any, ...]]
    total: int | None
    exists: bool = True


def newest_rows(project: Project, name: str, where: str | None = None, limit: int = 20) -> Newest:
    """The newest rows of a source, table, view or system table for which `where` is true.

    Raises TG201 for an unknown name, TG101, TG102 and TG202 for a condition that is none, OnlySparkTells for what only
    Spark can tell, TG620 if tables can't be read.
    """
    found = with_versions(project, project.catalog()).get(name)
    for _ in range(3):
        try:
            return _TableReader(project, found, where).newest(limit)
        except FileNotFoundError:
            continue  # compacted and expired while it was read: the newest snapshot is another one now
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            raise trouble(error) or TidegateError("TG620", f"can't read {name}: {error}") from None
    raise TidegateError("TG620", f"{name} changes faster than it can be read", hint="try again")


class _TableReader:
    """One table at one snapshot."""

    def __init__(self, project: Project, found: Relation | View | SystemTable, where: str | None) -> None:
        self._name, self._shown = found.name, shown_of(found)
        number = version_in(found.suffix) if isinstance(found, SystemTable) else None
        storage = project.storage
        table = (
            load_table(storage, self._shown.table)
            if number is None
            else stored_version(storage, self._shown.table, number)
        )
        self._stored = None if table is None else StoredRows(project.storage, table)
        if table is not None:
            self._shown = at(found, self._shown, table)
        declared = {column.name: column.type for column in found.columns}
        known = (*self._shown.columns, *self._shown.hidden)
        typed = [CatalogColumn(c.name, self._type(c, declared.get(c.name))) for c in known]
        self._types = [column.type for column in typed[: len(self._shown.columns)]]
        self._where = None if where is None else self._condition(where, typed)
        self._known = {column.name: column for column in known}

    def _type(self, column: ShownColumn, declared: str | None) -> str:
        """The Spark type of a column, as far as comparisons need it."""
        if column.type is None and column.made is None and self._stored is not None:
            return self._stored.types.get(column.stored[0], "unknown")
        return column.type or declared or "unknown"

    def _condition(self, where: str, columns: Sequence[CatalogColumn]) -> Condition:
        found = row_filter(where, columns, "--where")
        if found is None:
            raise OnlySparkTells(
                "--where takes comparisons of columns with constants, IN, BETWEEN, IS NULL, AND, OR and NOT",
                hint=f"""tidegate sql -c 'SELECT * FROM "{self._name}" WHERE …' takes every condition""",
            )
        return found

    def newest(self, limit: int) -> Newest:
        """The rows, newest first."""
        names = [column.name for column in self._shown.columns]
        types: list[str | None] = [*self._types]
        if self._stored is None:
            return Newest(names, types, [], 0, exists=False)
        self._require(self._stored)
        condition = self._pushed()
        files = self._stored.files(condition, self._shown.order[0][0].stored[0])
        # What nobody knows the bound of may hold the newest rows.
        files.sort(key=lambda file: (file.greatest is not None, -(file.greatest or 0)))
        winners = self._winners(files)
        held, total = _Held(self._shown, limit), 0
        for number, file in enumerate(files):
            if held.is_older(file):
                more = self._count(files[number:], winners)
                total = -1 if more is None else total + more
                break
            for batch in self._batches(file, self._needed(), condition, winners):
                total += batch.num_rows
                held.add(batch)
        shown = held.rows()
        columns = [values_of(shown.column(f"c{i}")) for i in range(len(names))]
        return Newest(names, types, list(zip(*columns, strict=True)), None if total < 0 else total)

    def _require(self, stored: StoredRows) -> None:
        """Raise OnlySparkTells for a column that what is stored does not have: it is of another definition (R4)."""
        missing = sorted(self._needed() - {MARK} - stored.types.keys())
        if missing:
            raise OnlySparkTells(
                f'what is stored of "{self._name}" has no column "{missing[0]}": its definition has changed',
                hint=did_you_mean(missing[0], [*stored.types])
                or f"tidegate status {self._name} says what to do",
            )

    def _needed(self) -> set[str]:
        """The stored columns that rows are made, chosen and ordered by."""
        shown = self._shown
        columns = {name for c in shown.columns for name in c.stored} | self._deciding()
        return columns | {name for column, _ in shown.order for name in column.stored}

    def _deciding(self) -> set[str]:
        """The stored columns that say which rows there are."""
        found = {value.name for value in _values(self._shown.condition)}
        found |= {name for v in _values(self._where) for name in self._known[v.name].stored}
        found |= set(self._shown.keep[1]) if self._shown.keep is not None else set()
        return found | ({"_source_partition", "_offset"} if self._shown.largest is not None else set())

    def _pushed(self) -> RowCondition | None:
        """What Iceberg can skip files and parts of files by."""
        if self._shown.largest is not None:
            return None  # a row that is skipped may be the one that counts
        asked = self._where and _stored(self._where, self._known)
        found = [c for c in (self._shown.condition, asked) if isinstance(c, RowCondition)]
        return RowCondition("and", tuple(found)) if len(found) == 2 else next(iter(found), None)

    def _batches(
        self, file: StoredFile, columns: set[str], condition: RowCondition | None, winners: pa.Array | None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a file that are shown, with their stored columns."""
        assert self._stored is not None
        names = [name for name in self._stored.types if name in columns]
        for found in self._stored.batches(file, names, condition):
            batch = found
            if self._shown.condition is not None:
                batch = batch.filter(fulfilled(self._shown.condition, batch))
            if self._shown.keep is not None:
                batch = batch.filter(pc.fill_null(self._shown.keep[0](batch), False))
            if winners is not None:
                batch = batch.filter(pc.is_in(_places(batch), value_set=winners))
            if self._where is not None:
                batch = batch.filter(fulfilled(self._where, self._seen(batch)))
            yield batch

    def _seen(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """What the condition names."""
        names = list(dict.fromkeys(value.name for value in _values(self._where)))
        return pa.RecordBatch.from_arrays([self._known[name].of(batch) for name in names], names=names)

    def _count(self, files: Sequence[StoredFile], winners: pa.Array | None) -> int | None:
        """How many rows these files have that are shown; None if that would take too long."""
        if self._where is None and self._shown.by_file and all(file.whole for file in files):
            return sum(file.rows for file in files)
        if sum(file.rows for file in files) > MOST_COUNTED:
            return None
        needed, condition = self._deciding(), self._pushed()
        read = (self._batches(file, needed, condition, winners) for file in files)
        return sum(int(batch.num_rows) for batches in read for batch in batches)

    def _winners(self, files: Sequence[StoredFile]) -> pa.Array | None:
        """The places of the rows that count, where one key may have a row in several partitions (T4)."""
        if self._shown.largest is None:
            return None
        if sum(file.rows for file in files) > MOST_KEYS:
            raise OnlySparkTells(
                f'"{self._name}" has too many keys to find, in memory, the row of each that counts',
                hint=f"""tidegate sql -c 'SELECT * FROM "{self._name}" LIMIT 20'""",
            )
        assert self._stored is not None
        keys, largest = self._shown.largest
        keep, needed = self._shown.keep, {*keys, *largest}
        names = [name for name in self._stored.types if name in needed]
        found = []
        # Bounded: by MOST_KEYS.
        for batch in (b for file in files for b in self._stored.batches(file, names, None)):
            found.append(batch if keep is None else batch.filter(pc.fill_null(keep[0](batch), False)))
        if not found:
            return pa.array([], pa.string())
        rows = pa.concat_tables(map(_table, found), promote_options="permissive")
        rows = rows.take(pc.sort_indices(rows, sort_keys=[(name, "descending") for name in largest]))
        first = rows.group_by(list(keys), use_threads=False).aggregate(
            [("_source_partition", "first"), ("_offset", "first")]
        )
        partition, offset = first.column("_source_partition_first"), first.column("_offset_first")
        return pc.binary_join_element_wise(partition, offset.cast(pa.string()), "\0").combine_chunks()


class _Held:
    """The newest of the rows that have come so far."""

    def __init__(self, shown: Shown, limit: int) -> None:
        self._shown, self._limit = shown, limit
        self._waiting: list[pa.Table] = []
        self._newest: pa.Table | None = None
        self._count = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Rows that are shown if they are new enough."""
        columns = {f"c{i}": column.of(batch) for i, column in enumerate(self._shown.columns)}
        columns |= {f"o{i}": column.of(batch) for i, (column, _) in enumerate(self._shown.order)}
        self._waiting.append(pa.table(columns))
        self._count += batch.num_rows
        if self._count > max(_SORTED_AT_ONCE, 4 * self._limit):
            self.rows()

    def rows(self) -> pa.Table:
        """The newest ones, the newest first."""
        found = [*([self._newest] if self._newest is not None else []), *self._waiting]
        if not found:
            empty = [*(f"c{i}" for i in range(len(self._shown.columns)))]
            return pa.table({name: pa.array([], pa.null()) for name in empty})
        # Iceberg's files come with texts of one kind, and rows that were written anew with another.
        rows = pa.concat_tables(found, promote_options="permissive")
        keys = [(f"o{i}", direction) for i, (_, direction) in enumerate(self._shown.order)]
        first = pc.sort_indices(rows, sort_keys=keys)[: self._limit]
        self._newest, self._waiting = rows.take(first), []
        self._count = self._newest.num_rows
        return self._newest

    def is_older(self, file: StoredFile) -> bool:
        """Whether no row of a file, and of those after it, can be among the newest."""
        if file.greatest is None or self._count < self._limit:
            return False
        if not self._limit:
            return True
        oldest = self.rows().column("o0")[-1]
        if not oldest.is_valid:
            return False
        value = oldest.cast(pa.int32()) if pa.types.is_date(oldest.type) else oldest
        return file.greatest < int(value.cast(pa.int64()).as_py())


def _values(condition: Any) -> Iterator[Value]:
    if isinstance(condition, Value):
        yield condition
    for operand in condition.operands if isinstance(condition, RowCondition) else ():
        yield from _values(operand)


def _stored(condition: Any, known: dict[str, ShownColumn]) -> Any:
    """The same condition over the stored columns; what is made of several is a column of no type, by which nothing is
    skipped."""
    if isinstance(condition, Value):
        column = known[condition.name]
        kind = condition.type if column.made is None else "unknown"
        return Value(column.stored[0], kind)
    if isinstance(condition, RowCondition):
        operands = tuple(_stored(operand, known) for operand in condition.operands)
        return RowCondition(condition.operator, operands)
    return condition


def _table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])


def _places(batch: pa.RecordBatch) -> pa.Array:
    offset = batch.column("_offset").cast(pa.string())
    return pc.binary_join_element_wise(batch.column("_source_partition"), offset, "\0")
