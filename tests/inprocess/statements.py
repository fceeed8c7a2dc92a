"""The few statements of Spark that change stored tables by hand in tests (`tests/by_hand.py`)."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.inprocess.tables import InProcessTable, InProcessTables
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
    table.delete_rows(found["where"] or "TRUE", {})


def _update(tables: InProcessTables, table: InProcessTable, found: re.Match[str]) -> None:
    where = found["where"] or "TRUE"
    changed = dict(
        re.split(r"\s*=\s*", one, maxsplit=1) for one in re.split(r",(?![^(]*\))\s*", found["set"])
    )
    rows = tables.rows(table.identifier)
    columns = [
        f"CASE WHEN {where} THEN {changed[name]} ELSE {quote(name)} END AS {quote(name)}"
        if name in changed
        else quote(name)
        for name in rows.columns
    ]
    table.replace([rows.selectExpr(*columns).toArrow()], {}, table.current().id)


def _insert(tables: InProcessTables, table: InProcessTable, found: re.Match[str]) -> None:
    query = found["query"]
    for number, identifier in enumerate(sorted(set(re.findall(rf"(?<=FROM )({_TABLE})", query)))):
        name = f"_by_hand_{number}"
        tables.rows(identifier).createOrReplaceTempView(name)
        query = query.replace(identifier, name)
    table.add([tables.spark.sql(query).toArrow()], {}, table.current().id)


def _properties(tables: InProcessTables, table: InProcessTable, found: re.Match[str]) -> None:
    table.set_properties(dict(re.findall(r"'([^']*)'\s*=\s*'([^']*)'", found["properties"])))


_STATEMENTS: dict[str, Callable[[InProcessTables, InProcessTable, re.Match[str]], None]] = {
    rf"DELETE FROM (?P<table>{_TABLE})(?: WHERE (?P<where>.*))?": _delete,
    rf"UPDATE (?P<table>{_TABLE}) SET (?P<set>.*?)(?: WHERE (?P<where>.*))?": _update,
    rf"INSERT INTO (?P<table>{_TABLE}) (?P<query>SELECT .*)": _insert,
    rf"ALTER TABLE (?P<table>{_TABLE}) SET TBLPROPERTIES \((?P<properties>.*)\)": _properties,
}
