"""E8: nothing of a later release's table is read or changed, whatever is asked of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Workbench
from tidegate.amend.run import amend
from tidegate.audit.view import audit_view
from tidegate.errors import TidegateError
from tidegate.maintenance import upkeep
from tidegate.project.jobs.maintenance import Policy
from tidegate.store.version import NEWEST, STORAGE_VERSION
from tidegate.views.amend.rebuild import rebuild

pytestmark = pytest.mark.spark

SQL = """
CREATE TABLE t (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE TABLE k (id INT PRIMARY KEY, n INT);
CREATE MATERIALIZED VIEW v AS SELECT ts, id FROM t EMIT ON WINDOW CLOSE;
CREATE SINK lake FROM v WITH (connector = 'iceberg');
"""


def test_E8_a_table_of_a_later_release_is_left_alone(workbench: Workbench) -> None:
    workbench.assets(a=SQL)
    session = workbench.session()
    session.execute("INSERT INTO t VALUES (1, '2026-01-01 10:00:00'), (2, '2026-01-01 11:00:00')")
    session.execute("INSERT INTO k VALUES (1, 1)")
    session.run()
    warehouse = workbench.root / ".tidegate" / "warehouse"
    asked = {
        "t": [
            lambda: session.execute("INSERT INTO t VALUES (3, '2026-01-01 12:00:00')"),
            lambda: session.execute('SELECT * FROM "t$late"'),
            lambda: session.run(["v"], upstream=False, fail_fast=True),
            lambda: upkeep.maintain(session, "t", Policy()),
        ],
        "k": [lambda: session.execute("DROP TABLE k", yes=True)],
        "k$state": [
            lambda: session.execute("SELECT * FROM k").rows(),
            lambda: session.execute("DELETE FROM k"),
            lambda: session.execute("DROP TABLE k", yes=True),
        ],
        "v": [
            lambda: session.run(fail_fast=True),
            lambda: session.table("v"),
            lambda: amend(session),
            lambda: audit_view(session, "v"),
            lambda: rebuild(session),
        ],
        "lake": [lambda: session.run(["lake"], fail_fast=True)],
    }
    for name, questions in asked.items():
        table = f"tidegate.main.`{name}`"
        made = {
            row["key"]: row["value"] for row in session.spark.sql(f"SHOW TBLPROPERTIES {table}").collect()
        }
        assert made[STORAGE_VERSION] == str(NEWEST)
        session.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{STORAGE_VERSION}' = '{NEWEST + 1}')")
        before = files(warehouse)
        for ask in questions:
            with pytest.raises(TidegateError) as caught:
                ask()
            assert caught.value.code == "TG622", name
        assert files(warehouse) == before
        session.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{STORAGE_VERSION}' = '{NEWEST}')")
    session.execute("INSERT INTO t VALUES (3, '2026-01-01 12:00:00')")
    session.run()
    assert sorted(row[0] for row in session.execute("SELECT id FROM v").rows()) == [1, 2]


def files(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if path.is_file()}
