"""Whose something is (X3) is asked for once in a statement, and what a branch borrows is read once in a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidegate.errors import TidegateError
from tidegate.ingest.ingest import Log
from tidegate.project import Project
from tidegate.runtime.owners import Owners
from tidegate.runtime.runner import spark_runner
from tidegate.session.session import Session

SQL = """CREATE TABLE orders (id BIGINT, at TIMESTAMP, WATERMARK FOR at AS at) APPEND ONLY;
CREATE MATERIALIZED VIEW hourly AS SELECT window_end, count(*) AS n FROM TUMBLE(orders, at, INTERVAL '1 hour')
GROUP BY window_end EMIT ON WINDOW CLOSE;
CREATE SINK kept FROM hourly WITH (connector = 'filesystem', path = '{}') FORMAT PLAIN ENCODE JSON;
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    for folder in ("assets", "resources"):
        (tmp_path / "shop" / folder).mkdir(parents=True)
    (tmp_path / "shop" / "assets" / "a.sql").write_text(SQL.format("out"))
    (tmp_path / "shop" / "resources" / "dev.yaml").write_text("reads: local\nwarehouse: {namespace: dev}\n")
    return tmp_path / "shop"


def test_X3_a_statement_asks_once_whose_a_table_is(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(Owners, "require", lambda _, name: asked.append(name))
    monkeypatch.setattr(Log, "__init__", lambda *_: None)
    no_spark: Any = None
    opened = Session(Project.load(shop), spark_runner(no_spark))
    orders = opened.relation("orders")
    with opened.lease("orders", ".upkeep"), opened.lease("orders"), opened.lease("orders"):
        assert isinstance(Log.of(opened, orders), Log)
        with opened.lease("hourly"):
            assert asked == ["orders", "hourly"]
    # The next one asks anew: `tidegate adopt` may have moved it meanwhile. So does whoever has no lease.
    Log.of(opened, orders)
    with opened.lease("orders"):
        assert asked == ["orders", "hourly", "orders", "orders"]


def test_X3_what_a_branch_borrows_is_read_once(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_spark: Any = None
    project = Project.load(shop, "dev")
    project.catalog()
    dev = Session(project, spark_runner(no_spark))
    [own] = Project.load(shop).catalog().sinks
    loaded: list[str] = []
    load = Project.load

    def counted(root: Path | str, env: str = "local") -> Project:
        loaded.append(env)
        return load(root, env)

    monkeypatch.setattr(Project, "load", counted)
    for _ in range(3):
        with pytest.raises(TidegateError, match='the place of sink "kept"') as caught:
            dev.borrowed.refuse(own)
        assert caught.value.code == "TG515"
    assert loaded == ["local"]
