"""The few statements of Spark that change stored tables by hand in tests (`tests/support/by_hand.py`)."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa

from tests.inprocess.stored.tables import InProcessTable, InProcessTables
from tidegate.iceberg.layout import quote

#: `catalog.namespace.`name``
_TABLE = r"(?:\w+\.)+(?:`[^`]+`|\w+)"


def execute(tables: InProcessTables, statement: str) -> None:
    for pattern, run in _STATEMENTS.items():
        found = re.fullmatch(pattern, statement.strip(), re.DOTALL | re.IGNORECASE)
        if found:
            run(tables, tables.open(found["table"]), found)
            return
    raise AssertionError(f"no statement for stored tables: {statement}")


def _delete(tables: InProcessTables, table: InProcessTable, found: re.Match[str]) -> None:
    kept = f"SELECT * FROM {found['table']} WHERE NOT COALESCE({found['where'] or 'TRUE'}, FALSE)"
    table.replace([_rows(tables, kept)], {}, table.current())


def _update(tables: InProcessTables, table: InProcessTable, found: re.Match[str]) -> None:
    where = found["where"] or "TRUE"
    assigned = re.split(r",\s*(?=`?\w+`?\s*=[^=])", found["set"])
    changed = dict(re.split(r"\s*=\s*", one.strip(), maxsplit=1) for one in assigned)
    columns = [
        f"CASE WHEN {where} THEN {changed[name]} ELSE {quote(name)} END AS {quote(name)}"
        if name in changed
        else quote(name)
        for name in tables.rows(table.identifier).columns
    ]
    rows = _rows(tables, f"SELECT {', '.join(columns)} FROM {found['table']}")
    table.replace([rows], {}, table.current())


def _insert(tables: InProcessTables, table: InProcessTable, found: re.Match[str]) -> None:
    table.add([_rows(tables, found["query"])], {}, table.current())


def _rows(tables: InProcessTables, query: str) -> pa.Table:
    """A query over stored tables by their identifiers."""
    for number, identifier in enumerate(sorted(set(re.findall(rf"(?<=FROM )({_TABLE})", query)))):
        name = f"_by_hand_{number}"
        tables.rows(identifier).createOrReplaceTempView(name)
        query = query.replace(identifier, name)
    return tables.spark.sql(query).toArrow()


def _properties(tables: InProcessTables, table: InProcessTable, found: re.Match[str]) -> None:
    table.set_properties(dict(re.findall(r"'([^']*)'\s*=\s*'([^']*)'", found["properties"])))


_STATEMENTS: dict[str, Callable[[InProcessTables, InProcessTable, re.Match[str]], None]] = {
    rf"DELETE FROM (?P<table>{_TABLE})(?: WHERE (?P<where>.*))?": _delete,
    rf"UPDATE (?P<table>{_TABLE}) SET (?P<set>.*?)(?: WHERE (?P<where>.*))?": _update,
    rf"INSERT INTO (?P<table>{_TABLE}) (?P<query>SELECT .*)": _insert,
    rf"ALTER TABLE (?P<table>{_TABLE}) SET TBLPROPERTIES \((?P<properties>.*)\)": _properties,
}
