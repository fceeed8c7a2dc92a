"""A catalog to resolve against, and statements as text for golden files."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tidegate.sql import Catalog, CreateRelation, CreateView, Statement, analyse
from tidegate.sql.statements.statements import CreateSink

HERE = Path(__file__).parent


@cache
def _objects() -> tuple:
    return tuple(load(Catalog(), (HERE / "prelude.sql").read_text("utf-8"), "prelude.sql").order())


def prelude() -> Catalog:
    """A new catalog with everything of prelude.sql."""
    catalog = Catalog()
    for obj in _objects():
        catalog.add(obj)
    return catalog


def load(catalog: Catalog, text: str, file: str = "<sql>") -> Catalog:
    """Run the CREATE statements of a text against a catalog."""
    for statement in analyse(text, catalog, file):
        add(catalog, statement)
    return catalog


def add(catalog: Catalog, statement: Statement) -> None:
    if isinstance(statement, CreateRelation):
        catalog.add(statement.relation)
    elif isinstance(statement, CreateView):
        catalog.add(statement.view)
    elif isinstance(statement, CreateSink):
        catalog.add_sink(statement.sink)
