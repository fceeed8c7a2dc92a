"""Every view of the golden cases is one that Spark understands, with the types that the analysis knew beforehand."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Workbench
from tidegate.sql.dialect.types import UNKNOWN
from tidegate.views.resolve import resolve_columns

SQL = Path(__file__).parent.parent / "sql"
FILES = {"prelude": "prelude.sql", "language": "cases/language.sql"}


def test_every_kind_of_view_is_understood_by_spark_as_by_the_analysis(workbench: Workbench) -> None:
    workbench.assets(**{name: (SQL / path).read_text("utf-8") for name, path in FILES.items()})
    known = 0
    with workbench.session() as session:
        for view in session.catalog.views:
            for said, found in zip(view.columns, resolve_columns(session, view), strict=True):
                if said.type != UNKNOWN:
                    assert (view.name, said.name, found.type) == (view.name, said.name, said.type)
                    known += 1
    assert known > 70
