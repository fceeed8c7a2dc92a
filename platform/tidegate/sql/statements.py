"""Statements whose every name and type is resolved: what the engine runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.errors import Location
from tidegate.sql.catalog import Relation, View


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


@dataclass(frozen=True)
class Flush:
    """Wait until everything inserted so far is in every view."""


@dataclass(frozen=True)
class Drop:
    """`kind` is source, table or materialized view. `exists` is False with IF EXISTS and no such object."""

    kind: str
    name: str
    if_exists: bool = False
    exists: bool = True


@dataclass(frozen=True)
class Show:
    """`what`: sources, tables, materialized views, columns (of `name`), create (the definition of `name`)."""

    what: str
    name: str | None = None


@dataclass(frozen=True)
class Describe:
    name: str
    extended: bool = False


@dataclass(frozen=True)
class Select:
    """Any query. `relations` are the names it reads, as in the catalog; `spark_sql` has them in backticks."""

    spark_sql: str
    relations: tuple[str, ...]


@dataclass(frozen=True)
class Explain:
    """Of an object in the catalog, or of a definition that is not (`definition`)."""

    name: str
    definition: Relation | View | None = None


Statement = (
    CreateRelation
    | CreateView
    | InsertValues
    | InsertSelect
    | Flush
    | Drop
    | Show
    | Describe
    | Select
    | Explain
)
