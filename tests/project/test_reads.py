"""`reads:` of an environment: sources of another one's warehouse, views in a namespace of its own."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tidegate.errors import TidegateError
from tidegate.plan.explain import explain
from tidegate.project import Project

PRODUCTION = "warehouse: {path: lake, namespace: prod}\n"
SQL = """\
CREATE TABLE notes (at TIMESTAMP, id BIGINT, PRIMARY KEY (id), WATERMARK FOR at AS at WITH TTL);
CREATE MATERIALIZED VIEW daily AS SELECT window_end, count(*) AS n FROM TUMBLE(notes, at, INTERVAL '1 day')
GROUP BY window_end EMIT ON WINDOW CLOSE;
"""


def load(root: Path, dev: str, production: str = PRODUCTION) -> Project:
    for folder in ("assets", "resources"):
        (root / folder).mkdir(exist_ok=True)
    (root / "assets" / "a.sql").write_text(SQL)
    (root / "resources" / "production.yaml").write_text(production)
    (root / "resources" / "dev.yaml").write_text(dev)
    return Project.load(root, "dev", {"WHO": "ada"})


def test_sources_and_their_state_are_where_production_has_them_and_views_in_a_namespace_of_their_own(
    tmp_path: Path,
) -> None:
    project = load(tmp_path, "reads: production\nwarehouse: {namespace: 'dev_${WHO}'}\n")
    storage = project.storage
    assert storage.warehouse == f"file://{tmp_path}/lake"
    names = ("notes", "notes$state", "daily")
    assert [storage.namespace_of(name) for name in names] == ["prod", "prod", "dev_ada"]
    assert storage.table_uri("notes").endswith("/lake/prod/notes")
    assert storage.work_folder("notes").endswith("/_streams/dev_ada/notes")
    assert pickle.loads(pickle.dumps(storage)) == storage


def test_what_a_statement_has_made_is_ones_own(tmp_path: Path) -> None:
    project = load(tmp_path, "reads: production\nwarehouse: {namespace: dev}\n")
    project.save_definition("mine", "CREATE TABLE mine (at TIMESTAMP) APPEND ONLY")
    again = Project.load(tmp_path, "dev")
    assert [again.storage.namespace_of(name) for name in ("notes", "mine")] == ["prod", "dev"]


@pytest.mark.parametrize(
    ("dev", "code", "message"),
    [
        ("reads: productoin\nwarehouse: {namespace: dev}", "TG602", 'no environment "productoin"'),
        ("reads: production", "TG605", "needs a namespace of its own"),
        ("reads: production\nwarehouse: {namespace: prod}", "TG605", "uses the same namespace, prod"),
        ("reads: production\nwarehouse: {namespace: dev, path: x}", "TG605", "path can't be set here"),
        ("reads: dev\nwarehouse: {namespace: dev2}", "TG605", "must not have reads: itself"),
    ],
)
def test_what_is_refused(tmp_path: Path, dev: str, code: str, message: str) -> None:
    with pytest.raises(TidegateError) as caught:
        load(tmp_path, dev)
    assert (caught.value.code, message in caught.value.message) == (code, True)
    assert caught.value.location is not None
    assert caught.value.location.file == "resources/dev.yaml"


def test_explain_says_where_each_table_is(tmp_path: Path) -> None:
    project = load(tmp_path, "reads: production\nwarehouse: {namespace: dev}\n")
    text = str(explain(project.catalog(), "daily", namespace=project.storage.namespace_of))
    assert "prod.notes" in text
    assert "dev.daily" in text
