"""Statements whose every name and type is resolved: what the engine runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.errors import Location
from tidegate.sql.catalog.objects import Relation, Sink, View


@dataclass(frozen=True)
class CreateRelation:
    """CREATE SOURCE or CREATE TABLE. The caller adds `relation` to its catalog; with `exists` (and IF NOT
    EXISTS) an object of that name is there already and nothing is to be done."""

    relation: Relation
    if_not_exists: bool = False
    exists: bool = False


@dataclass(frozen=True)
class CreateView:
    """CREATE MATERIALIZED VIEW; `exists` as for `CreateRelation`."""

    view: View
    if_not_exists: bool = False
    exists: bool = False


@dataclass(frozen=True)
class CreateSink:
    """CREATE SINK; `exists` as for `CreateRelation`."""

    sink: Sink
    if_not_exists: bool = False
    exists: bool = False


@dataclass(frozen=True)
class AlterWatermark:
    """W13: `relation` is the altered definition, which the caller puts in the place of the one that the catalog has.
    `before` is the old strategy as written."""

    relation: Relation
    before: str
    location: Location | None = field(default=None, compare=False)


@dataclass(frozen=True)
class AlterColumn:
    """E1: `relation` is the definition with the changed column, which the caller puts in the place of the one that the
    catalog has. `clause`: what to do in a file that defines it."""

    relation: Relation
    clause: str
    location: Location | None = field(default=None, compare=False)


@dataclass(frozen=True)
class ResetWatermark:
    """W9: the watermark of `name` is to be `value`, in the unit of its time column."""

    name: str
    value: int
    location: Location | None = field(default=None, compare=False)


@dataclass(frozen=True)
class InsertValues:
    """`spark_sql` yields one column per column in `columns` (the table's, in its order, without generated
    ones), with the original values, NULL for those not given: nothing is cast."""

    table: str
    columns: tuple[str, ...]
    spark_sql: str
    location: Location | None = field(default=None, compare=False)


@dataclass(frozen=True)
class InsertSelect:
    """Like `InsertValues`, from a query that reads `relations`."""

    table: str
    columns: tuple[str, ...]
    spark_sql: str
    relations: tuple[str, ...] = ()
    location: Location | None = field(default=None, compare=False)
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True)
class Change:
    """UPDATE or DELETE of a table with a PRIMARY KEY: an `op` ('upsert' or 'delete') for each row of `spark_sql`, a
    query over the table as it is now (and maybe other `relations`) that yields its columns without the generated
    ones, not cast. `what`: "updated" or "deleted"."""

    table: str
    op: str
    what: str
    spark_sql: str
    relations: tuple[str, ...] = ()
    location: Location | None = field(default=None, compare=False)
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True)
class Flush:
    """Wait until everything inserted so far is in every view."""


@dataclass(frozen=True)
class SetSetting:
    """SET; RESET has no `value`, RESET ALL no `name` either."""

    name: str | None
    value: str | None


@dataclass(frozen=True)
class ShowSettings:
    """SHOW of a setting by its own name; None is all of them."""

    name: str | None


@dataclass(frozen=True)
class Drop:
    """`kind` is source, table, materialized view or sink. `exists` is False with IF EXISTS and no such object."""

    kind: str
    name: str
    if_exists: bool = False
    exists: bool = True
    location: Location | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Show:
    """`what`: sources, tables, materialized views, sinks, columns (of `name`), create (the definition of `name`)."""

    what: str
    name: str | None = None


@dataclass(frozen=True)
class Describe:
    name: str
    extended: bool = False


@dataclass(frozen=True)
class Select:
    """Any query. `relations` are the names it reads, as in the catalog; `spark_sql` has them in backticks. `hidden`:
    names that it reads with hidden columns; `hidden_name` of them in `spark_sql`."""

    spark_sql: str
    relations: tuple[str, ...]
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True)
class Explain:
    """Of an object in the catalog, or of a definition that is not (`definition`)."""

    name: str
    definition: Relation | View | Sink | None = None


Statement = (
    CreateRelation
    | CreateView
    | CreateSink
    | AlterWatermark
    | AlterColumn
    | ResetWatermark
    | InsertValues
    | InsertSelect
    | Change
    | Flush
    | SetSetting
    | ShowSettings
    | Drop
    | Show
    | Describe
    | Select
    | Explain
)

#: Statements that change the rows of a table: with `implicit_flush`, each of them flushes.
CHANGES = (InsertValues, InsertSelect, Change)
