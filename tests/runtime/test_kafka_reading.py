"""What `explain` says of the client that reads a Kafka source: which one it is here, and why."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidegate.cli.main import app
from tidegate.plan.explain import explain
from tidegate.plan.stages import SourceStage
from tidegate.runtime import kafka_reading
from tidegate.runtime.kafka_reading import read_by
from tidegate.sql import load_catalog
from tidegate.sql.catalog.objects import Relation

HERE, CLUSTER = "local[2]", "spark://host:7077"
BY_TASKS = (
    "the tasks that judge, since they decode these messages and Spark runs on this machine (master: local[2])"
)
NOT_DECODED = "Spark's connector, since the tasks that judge do not decode these messages: "


def source(columns: str = "n BIGINT", encode: str = "JSON", options: str = "") -> str:
    return (
        f"CREATE SOURCE s ({columns}) WITH (connector = 'kafka', topic = 't', "
        f"properties.bootstrap.server = 'localhost:1'{options}) FORMAT PLAIN ENCODE {encode};"
    )


def found(sql: str) -> Relation:
    relation = load_catalog([("s.sql", sql)]).get("s")
    assert isinstance(relation, Relation)
    return relation


@pytest.mark.parametrize(
    ("sql", "master", "text"),
    [
        (source(), HERE, BY_TASKS),
        (
            source(),
            CLUSTER,
            f"Spark's connector, since Spark does not run on this machine (master: {CLUSTER})",
        ),
        (
            source(),
            "local-cluster[2,1,1024]",
            "Spark's connector, since Spark does not run on this machine (master: local-cluster[2,1,1024])",
        ),
        (source(encode="CSV"), HERE, f"{NOT_DECODED}they are not JSON"),
        (
            source("ts TIMESTAMP", "JSON (timestamp_format = 'yyyy')"),
            HERE,
            f"{NOT_DECODED}they have a timestamp_format",
        ),
        (
            source("n BIGINT, tags VARCHAR[]"),
            HERE,
            f"{NOT_DECODED}tags is VARCHAR[], which Spark converts",
        ),
        (
            source("n BIGINT, m BIGINT AS n + 1"),
            HERE,
            f"{NOT_DECODED}Spark computes a generated column, or the expression of the watermark",
        ),
        (source(options=", reader = 'java'"), HERE, "Spark's connector, since reader = 'java'"),
    ],
)
def test_one_sentence_says_who_reads_here_and_why(sql: str, master: str, text: str) -> None:
    assert read_by(found(sql), master) == text


def test_without_checksums_the_tasks_do_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_reading, "find_spec", lambda name: None)
    assert "without the package google-crc32c" in read_by(found(source()), HERE)


def test_a_plan_says_it_of_its_kafka_sources_also_of_a_definition_that_the_catalog_does_not_have() -> None:
    view = "CREATE MATERIALIZED VIEW v AS SELECT n FROM s; CREATE TABLE t (n INT) APPEND ONLY;"
    catalog = load_catalog([("s.sql", source() + view)])

    def told(name: str | Relation) -> list[str]:
        stages = explain(catalog, name, reading=lambda relation: f"{relation.name} here").stages
        return [dict(one.options).get("read by", "") for one in stages if isinstance(one, SourceStage)]

    assert (told("s"), told("v"), told("t")) == (["s here"], ["s here"], [""])
    assert told(found(source("other VARCHAR"))) == ["s here"]
    catalog = load_catalog([("t.sql", "CREATE TABLE t (n INT) APPEND ONLY;")])
    assert told(found(source())) == ["s here"]


def test_explain_goes_by_the_master_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "resources").mkdir()
    (tmp_path / "assets" / "s.sql").write_text(source())
    (tmp_path / "resources" / "local.yaml").write_text("spark: {master: 'local[3]'}\n")
    (tmp_path / "resources" / "far.yaml").write_text("spark: {master: yarn}\n")
    monkeypatch.chdir(tmp_path)
    here, far = (CliRunner().invoke(app, ["explain", "s", *more]).output for more in ([], ["--env", "far"]))
    assert "read by              the tasks that judge, since they decode" in here
    assert "(master: local[3])" in here
    assert (
        "read by              Spark's connector, since Spark does not run on this machine (master: yarn)"
        in far
    )
