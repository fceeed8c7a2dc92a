"""A table that is read again and again is asked for once (`Context.opened`)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tidegate.errors import TidegateError
from tidegate.project import Project
from tidegate.runtime.runner import spark_runner
from tidegate.session.session import Session


class Catalog:
    """Tables by their identifiers, each with what it is opened as; and what was asked of it."""

    def __init__(self) -> None:
        self.there: dict[str, object] = {}
        self.asked: list[str] = []
        self.spark = None

    def exists(self, identifier: str) -> bool:
        self.asked.append("exists")
        return identifier in self.there

    def open(self, identifier: str) -> object:
        self.asked.append("open")
        found = self.there[identifier]
        if isinstance(found, Exception):
            raise found
        return found

    def taken(self) -> list[str]:
        """What was asked since the last time."""
        asked, self.asked = self.asked, []
        return asked


@pytest.fixture
def catalog() -> Catalog:
    return Catalog()


@pytest.fixture
def session(tmp_path: Path, catalog: Catalog) -> Session:
    for folder in ("assets", "resources"):
        (tmp_path / folder).mkdir()
    no_spark: Any = None
    tables: Any = catalog
    return Session(Project.load(tmp_path), replace(spark_runner(no_spark), tables=tables))


def test_only_the_first_time_it_is_asked_whether_it_is_there(session: Session, catalog: Catalog) -> None:
    catalog.there[session.identifier("orders")] = "a table"
    assert [session.opened("orders") for _ in range(3)] == ["a table"] * 3
    assert catalog.taken() == ["exists", "open", "open", "open"]


def test_one_that_comes_goes_and_comes_again(session: Session, catalog: Catalog) -> None:
    identifier = session.identifier("orders")
    assert session.opened("orders") is None
    assert session.opened("orders") is None
    assert catalog.taken() == ["exists", "exists"]
    for life in ("first", "second"):
        catalog.there[identifier] = life
        assert session.opened("orders") == life
        assert session.opened("orders") == life
        del catalog.there[identifier]
        assert session.opened("orders") is None


def test_what_can_not_be_opened_says_why(session: Session, catalog: Catalog) -> None:
    identifier = session.identifier("orders")
    catalog.there[identifier] = "a table"
    session.opened("orders")
    catalog.there[identifier] = TidegateError("TG622", "it is of a later release")
    with pytest.raises(TidegateError, match="later release"):
        session.opened("orders")
